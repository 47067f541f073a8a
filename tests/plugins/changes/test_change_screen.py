"""What each kind of change looks like on a screen: nothing that is replaced, removed or renamed is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.plugins.changes.adversarial.test_a_diff_that_hides import Screen
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.screen_parts import Field, FileDiff, Note
from threegate.plugins.changes.marks import PROCESS
from threegate.plugins.changes.trees import HeldTree


def files(screen: Screen) -> dict[str, FileDiff]:
    return {item.path: item for item in screen.items() if isinstance(item, FileDiff)}


def words(item: FileDiff) -> list[str]:
    """Its marks of the whole file and its notes."""
    notes = [
        part.text if isinstance(part, Note) else f"{part.label} {part.value}"
        for part in item.about
        if isinstance(part, Note | Field)
    ]
    return [*(mark.what for mark in item.marks if not mark.line), *notes]


def test_a_deleted_file_has_its_text(tmp_path: Path) -> None:
    screen = Screen(tmp_path, {"gone.md": "one\ntwo", "empty.md": ""}, {})
    found = files(screen)
    assert screen.differing() == ["-one", "-two"] and found["gone.md"].removed == 2
    assert words(found["gone.md"]) == [f"is deleted: 7 bytes, sha256 {sha256_hex(b'one' + bytes([10]) + b'two')}"]
    assert found["empty.md"].text is None and words(found["empty.md"])[0].startswith("is deleted: 0 bytes, sha256 e3b0")
    assert found["gone.md"].after == "" and found["gone.md"].kind == "file"


def test_of_many_deleted_files_the_first_are_shown_and_the_others_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CHANGE_SHOWN_BYTES", 30)
    screen = Screen(tmp_path, {f"{name}.md": "line\n" * 4 for name in "abc"}, {})
    assert screen.differing() == ["-line"] * 4
    assert [any("together 30 are shown" in word for word in words(item)) for item in files(screen).values()] == [
        False, True, True,
    ]  # fmt: skip


def test_links_before_and_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before: dict[str, Any] = {"a": "1", "b": "2", "moved": ("link", "a"), "gone": ("link", "b"), "kind": ("link", "a")}
    screen = Screen(
        tmp_path, before, {"a": "1", "b": "2", "moved": ("link", "b"), "kind": "text\n", "new": ("link", "a")}
    )
    found = files(screen)
    assert {"led to a", "leads to b"} < set(words(found["moved"])) and found["moved"].kind == "symlink"
    assert words(found["gone"]) == ["is deleted", "led to b"]
    assert words(found["kind"])[:1] == ["was: symlink; becomes: file"] and "led to a" in words(found["kind"])
    assert screen.differing() == ["+text"]
    assert "is: symlink" in words(found["new"]) and not any("led to" in word for word in words(found["new"]))

    def refused(tree: HeldTree, path: str) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(HeldTree, "target", refused)
    assert "where it led to cannot be read (Permission denied)" in words(files(screen)["gone"])


def test_a_file_that_becomes_a_link_has_its_text(tmp_path: Path) -> None:
    screen = Screen(tmp_path, {"a.md": "old text\n", "b.md": "2"}, {"a.md": ("link", "b.md"), "b.md": "2"})
    assert screen.differing() == ["-old text"]
    assert words(files(screen)["a.md"]) == ["was: file; becomes: symlink", "leads to b.md"]


def test_binary_files_by_size_and_digest_of_both_sides(tmp_path: Path) -> None:
    old, new = bytes(range(256)), bytes(range(256)) * 2
    screen = Screen(
        tmp_path, {"a.png": old, "b.png": old, "c.md": old}, {"a.png": new, "d.png": new[::-1], "c.md": "text\n"}
    )
    found = files(screen)
    both = [f"before: 256 bytes, sha256 {sha256_hex(old)}", f"after: 512 bytes, sha256 {sha256_hex(new)}"]
    assert words(found["a.png"])[-2:] == both and words(found["a.png"])[0].startswith("not shown: it is not text")
    assert words(found["b.png"])[0] == f"is deleted: 256 bytes, sha256 {sha256_hex(old)}"
    assert words(found["b.png"])[1].startswith("the project's file is not shown: it is not text")
    assert words(found["d.png"])[-1] == f"512 bytes, sha256 {sha256_hex(new[::-1])}"
    assert words(found["c.md"])[-1] == both[0] and screen.differing() == ["+text"]


def test_what_only_becomes_executable(tmp_path: Path) -> None:
    screen = Screen(tmp_path, {"a.py": "print()\n"}, {"a.py": ("x", "print()\n")})
    [item] = files(screen).values()
    assert (item.label, item.text, item.kind) == ("MODE", None, "executable file")
    assert words(item) == ["was: file; becomes: executable file", "RUNS LATER: it is executable", "same bytes"]


def test_a_renamed_file_is_one_line_that_both_say(tmp_path: Path) -> None:
    screen = Screen(
        tmp_path,
        {"src/a.py": "x = 1\n", "b.md": "text\n", "l": ("link", "b.md"), "same/b.md": "text\n"},
        {"lib/a.py": "x = 1\n", "c/b.md": "text\n", "m": ("link", "b.md"), "d.md": "text\n", "b.txt": "near\n"},
    )
    found = files(screen)
    assert {path: item.old_path for path, item in found.items() if item.label == "RENAMED"} == {
        "lib/a.py": "src/a.py",
        "c/b.md": "b.md",
        "d.md": "same/b.md",
        "m": "l",
    }
    item = found["lib/a.py"]
    assert words(item) == [f"same bytes: 6 bytes, sha256 {sha256_hex(b'x = 1' + bytes([10]))}"] and item.text is None
    assert item.before == item.after and words(found["m"])[-1] == "leads to b.md"
    assert not {"src/a.py", "b.md", "same/b.md", "l"} & found.keys()
    lines = screen.lines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  RENAMED") and line.endswith("lib/a.py"))
    assert lines[at + 1].endswith("| src/a.py") and lines[at + 2].strip().startswith("same bytes")
    assert screen.differing() == ["+near"], "each pair once"
    assert screen.job.deletions == 6, "the card counts as the table does, with the two folders"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("a.txt", "conftest.py", "import os\nos.system(x)\n"),
        ("a.txt", "a.py", "import os\nos.system(x)\n"),
        ("a.md", "Makefile", "all:\n\tsubprocess.run(x)\n"),
        ("a.md", "b.md", "hidden \u202e os.system(x)\n"),
    ],
)
def test_what_runs_by_its_new_name_or_hides_is_shown_whole(old: str, new: str, text: str, tmp_path: Path) -> None:
    """Same bytes as before, but nobody read them as a program."""
    screen = Screen(tmp_path, {old: text}, {new: text})
    found = files(screen)
    assert found.keys() == {old, new} and len(screen.differing()) == 2 * len(text.splitlines())
    runs = [mark.what for mark in found[new].marks if mark.line]
    assert runs == ([] if new.endswith(".md") else [PROCESS])


def test_what_is_nearly_the_same_stays_a_deletion_and_an_addition(tmp_path: Path) -> None:
    screen = Screen(tmp_path, {"a.py": "x = 1\n", "b.py": "y\n"}, {"c.py": "x = 2\n", "d.py": ("x", "y\n")})
    assert {item.label for item in files(screen).values()} == {"ADDED", "DELETED"}
    assert sorted(screen.differing()) == ["+x = 2", "+y", "-x = 1", "-y"]


def test_the_marks_are_on_the_screen(tmp_path: Path) -> None:
    screen = Screen(tmp_path, {"a.py": "x = 1\n"}, {"a.py": 'x = 1\nsubprocess.run(["sh", "-c", url])\n'})
    lines = screen.lines()
    assert "  line 2: starts a process" in lines and "  line 2: starts a shell" in lines
    assert '!   2 + | subprocess.run(["sh", "-c", url])' in lines
