"""An agent makes the diff that is signed too long to be read, or takes it away with one odd character."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.changes.trees_on_disk import build, made
from threegate.approval.shown.escaped_lines import DiffRow, render_sections
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.screen_parts import Item, Section
from threegate.plugins.changes.action import ProjectChange, ProjectPlace, change_facts
from threegate.plugins.changes.change_draft import said_changes
from threegate.plugins.changes.change_facts import changed_paths, job_change
from threegate.plugins.changes.change_screen import change_items
from threegate.plugins.changes.change_tar import read_change_set
from threegate.plugins.changes.requested_change import RequestedChange
from threegate.plugins.changes.trees import HeldTree
from threegate.review.compare import Comparison, RequestDifference
from threegate.review.input_copies import InputCopy
from threegate.review.screen import render_comparison


class Screen:
    """What is on the screen of a change set, and on its card."""

    def __init__(self, folder: Path, before: dict[str, Any], after: dict[str, Any]) -> None:
        project = build(folder / "project", before)
        data = made(project, build(folder / "work", after)).data
        archive = folder / "changes.tar"
        archive.write_bytes(data)
        facts = project.stat()
        place = ProjectPlace("web", str(project), facts.st_dev, facts.st_ino, facts.st_uid)
        change = read_change_set(data)
        with archive.open("rb") as stream:
            paths = tuple(changed_paths(change, stream))
        self.job = job_change(paths, change, place)
        asked = ProjectChange("web", said_changes(change.rows, change.sha256))
        self._requested = RequestedChange(action=asked.bound(self.job), change=change, paths=paths)
        self._copy = InputCopy("changes.tar", sha256_hex(data), len(data), archive)

    def items(self) -> tuple[Item, ...]:
        """What all screens are made from."""
        return change_items(self._requested, self._copy)

    def lines(self) -> list[str]:
        """As `approve --full` prints them."""
        return render_sections([Section("change", self.items())], full=True)

    def differing(self) -> list[str]:
        """The lines of the diff that are removed or added."""
        rows = [line for line in self.lines() if isinstance(line, DiffRow) and line.mark != " "]
        return [f"{line.mark}{line[line.start :]}" for line in rows]

    def card(self) -> str:
        """The count of what has to be looked at."""
        return " ".join("".join(render_sections([Section("card", tuple(change_facts(self.job)))])).split())


def test_two_edits_far_apart_and_a_third_that_hides_between_them(tmp_path: Path) -> None:
    old = [f"    value_{number % 40} = {number % 7}" if number % 3 else "" for number in range(3_000)]
    new = list(old)
    new[400] = "first"
    new[1_300] = "os.system(evil)"
    new[2_600] = "last"
    screen = Screen(tmp_path, {"a.py": "\n".join(old)}, {"a.py": "\n".join(new)})
    assert len(screen.lines()) < 40
    assert [line for line in screen.differing() if line[0] == "+"] == ["+first", "+os.system(evil)", "+last"]


def test_an_edit_in_a_file_of_thirty_thousand_lines(tmp_path: Path) -> None:
    chance = random.Random(3)
    old = [chance.choice(["{", "}", "", "return 1"]) for _ in range(30_000)]
    new = list(old)
    for place in (27_000, 18_000, 9_000, 10):
        new.insert(place, "evil()")
        del new[place - 7]
    screen = Screen(tmp_path, {"a.c": "\n".join(old)}, {"a.c": "\n".join(new)})
    assert len(screen.lines()) < 100 and screen.differing().count("+evil()") == 4


@pytest.mark.parametrize(
    "odd", [b"\xef\xbb\xbf", b"\xe2\x80\xae", b"\xe9", b"\0", b"\x1b[8m", b"\r"], ids=lambda odd: odd.hex()
)
def test_one_odd_character_in_an_old_line(odd: bytes, tmp_path: Path) -> None:
    """It stays where it is: only what was changed is in the diff."""
    lines = [b"line %d" % number for number in range(500)]
    old = b"\n".join([*lines[:250], odd + b"old", *lines[250:]])
    screen = Screen(tmp_path, {"a.sh": old}, {"a.sh": old.replace(b"line 7\n", b"evil\n")})
    assert screen.differing() == ["-line 7", "+evil"]
    assert not screen.job.unseen and screen.job.hidden and "1 with hidden characters" in screen.card()


@pytest.mark.parametrize(
    ("odd", "seen"),
    [("\ufeff", "\\ufeff"), ("\u202e", "\\u202e"), ("\0", "\\x00"), ("\r", "\\x0d"), ("\u2028", "\\u2028")],
)
def test_one_odd_character_in_a_new_line(odd: str, seen: str, tmp_path: Path) -> None:
    screen = Screen(tmp_path, {"a.py": "one\ntwo\n" * 50}, {"a.py": "one\ntwo\n" * 49 + f"one\ntw{odd}o\n"})
    assert screen.differing() == ["-two", f"+tw{seen}o"]
    assert any("LOOK CLOSELY: it holds hidden characters (U+" in line for line in screen.lines())
    assert "1 with hidden characters" in screen.card()


def test_a_byte_that_is_not_utf_8_and_another_encoding(tmp_path: Path) -> None:
    after = {"a.txt": b"caf\xe9 au lait\n", "b.py": "# coding: utf-7\n+AG8AcwAt\n", "c.py": "x = 1\n"}
    screen = Screen(tmp_path, {}, after)
    assert {"+caf\\xe9 au lait", "+# coding: utf-7", "++AG8AcwAt", "+x = 1"} == set(screen.differing())
    text = "\n".join(screen.lines())
    assert "its byte 3 is not UTF-8" in text and "another encoding than UTF-8" in text
    assert screen.job.hidden == 2 and text.index("c.py") > text.index("b.py"), "what hides is shown first"


def test_what_has_no_diff_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = bytes(range(256)) * 4
    screen = Screen(tmp_path / "1", {"was": binary, "a": "1\n"}, {"was": "text\n", "a": binary})
    text = " ".join(" ".join(screen.lines()).split())
    assert "only the new one: it is not text" in text and "not shown: it is not text" in text
    assert screen.job.unseen == 1 and "1 shown by size and digest only" in screen.card()
    screen = Screen(tmp_path / "2", {"a": "1\n" * 50}, {"a": "2\n"})
    monkeypatch.setattr(limits, "CHANGE_SHOWN_BYTES", 99)
    assert "it has 100 bytes, and at most 99 are shown" in " ".join(" ".join(screen.lines()).split())


def test_a_file_that_cannot_be_read_takes_no_other_diff_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(tmp_path, {"a": "1\n", "b": "1\n", "gone": "1\n"}, {"a": "2\n", "b": "2\n"})
    look = HeldTree.look

    def refused(tree: HeldTree, path: str) -> Any:
        if path in ("a", "gone"):
            raise PermissionError(13, "Permission denied")
        return look(tree, path)

    monkeypatch.setattr(HeldTree, "look", refused)
    text = " ".join(" ".join(screen.lines()).split())
    assert "it cannot be read (Permission denied)" in text and "cannot be read (Permission denied), sha256" in text
    assert screen.differing() == ["+2", "-1", "+2"]


def test_a_removed_line_that_looks_like_the_head_of_a_diff() -> None:
    """Between two requests: the mark is ours, before the bar; behind it is the field's own text."""
    item = RequestDifference("purpose", "-- drop the table\nsame", "same\n++ x")
    lines = render_comparison(Comparison(Path("a/b"), Path("a/c"), (item,)))
    assert [line for line in lines if isinstance(line, DiffRow)] == [
        "  1   - | -- drop the table",
        "  2 1   | same",
        "    2 + | ++ x",
    ]


def test_one_line_of_two_megabytes(tmp_path: Path) -> None:
    """What changed of a minified file is shown, with its surroundings; the rest is counted, character by character."""
    old = "".join(f"function f{number}(a,b){{return a+{number % 9}}};" for number in range(62_000))
    new = old.replace("f30000(a,b){return a", "f30000(a,b){evil();return a").replace("f59990(", "g59990(")
    assert len(old) > 2_000_000 and len(new) == len(old) + len("evil();")
    screen = Screen(tmp_path, {"a.min.js": old}, {"a.min.js": new})
    lines = screen.lines()
    assert len(lines) < 60
    for mark, text in (("-", old), ("+", new)):
        rows = [line for line in lines if isinstance(line, DiffRow) and line.mark == mark]
        seen = "".join(line[line.start :] for line in rows)
        assert ("evil();" in seen) == (mark == "+") and ("g59990(" in seen) == (mark == "+")
        assert all(part in text for part in (seen[:300], seen[-300:]))
    counted = [int(line.split()[1]) for line in lines if line.endswith("equal characters of this line")]
    shown = sum(len(line) - line.start for line in lines if isinstance(line, DiffRow))
    assert sum(counted) + shown == len(old) + len(new)


def test_a_long_line_that_is_new_is_shown_whole(tmp_path: Path) -> None:
    line = "x" * 30_000 + "evil()" + "y" * 30_000
    screen = Screen(tmp_path, {"a.js": "1\n"}, {"a.js": f"1\n{line}\n"})
    assert "".join(row[1:] for row in screen.differing()) == line


def test_a_long_line_that_did_not_change_is_shown_from_its_start(tmp_path: Path) -> None:
    line = "x" * 3_000
    screen = Screen(tmp_path, {"a.js": f"{line}\n1\n"}, {"a.js": f"{line}\n2\n"})
    assert "  > 2800 equal characters of this line" in screen.lines()
