"""What a change set means: counted from its bytes, shown as a real diff, held against what the request says."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.changes.trees_on_disk import build, held, made
from threegate.approval.shown.escaped_lines import diff_lines
from threegate.core import limits
from threegate.plugins.changes.action import Changes, ProjectPlace
from threegate.plugins.changes.change_facts import ChangedPath, changed_paths, check_said, job_change, path_diff
from threegate.plugins.changes.change_tar import ChangeSet, read_change_set
from threegate.plugins.changes.table import ChangeSetError
from threegate.plugins.changes.trees import HeldTree

PLACE = ProjectPlace("web", "/srv/web", 1, 2, 3)


class Seen:
    def __init__(self, folder: Path, before: dict[str, Any], after: dict[str, Any]) -> None:
        self.project = build(folder / "p", before)
        self.data = made(self.project, build(folder / "w", after)).data
        self.change: ChangeSet = read_change_set(self.data)
        self.paths = changed_paths(self.change, io.BytesIO(self.data))

    def of(self, path: str) -> ChangedPath:
        return next(item for item in self.paths if item.row.path == path)

    def diff(self, path: str) -> list[str]:
        with held(self.project) as folder:
            text = path_diff(HeldTree(folder), self.change, io.BytesIO(self.data), self.of(path)).text
        return diff_lines(text) if text is not None else []


def test_the_order_of_the_screen_and_the_counts(tmp_path: Path) -> None:
    seen = Seen(
        tmp_path,
        {"a.md": "1", "gone": "1", "x": "1", "kind": "1"},
        {
            "a.md": "2",
            "x": ("x", "1"),
            "l.md": ("link", "a.md"),
            "AGENTS.md": ("link", "a.md"),
            "Makefile": "a:",
            "bin.png": b"\0\xff",
            "kind/x.py": "1",
        },
    )
    order = [item.row.path for item in seen.paths]
    assert set(order[:5]) == {"AGENTS.md", "gone", "kind", "l.md", "x"}
    assert set(order[5:7]) == {"Makefile", "a.md"}, "which is AGENTS.md by a link"
    assert order[7:] == ["kind/x.py", "bin.png"]
    facts = job_change(seen.paths, seen.change, PLACE)
    assert (facts.paths, facts.deletions, facts.run_later, facts.unseen) == (9, 2, 4, 1)
    assert facts.sha256 == seen.change.sha256 and facts.project == PLACE


def test_diffs(tmp_path: Path) -> None:
    long = [f"line {number}" for number in range(30)]
    changed = [*long[:15], "new", *long[15:]]
    seen = Seen(
        tmp_path,
        {
            "long": "\n".join(long) + "\n",
            "end": "a",
            "was_binary": b"\0",
            "x": "1",
            "link": ("link", "x"),
            "b": "1",
        },
        {
            "long": "\n".join(changed) + "\n",
            "end": "a\n",
            "was_binary": "text\n",
            "x": ("x", "1"),
            "link": "file\n",
            "b": b"\xff",
            "empty": "",
        },
    )
    assert seen.diff("long") == [
        "  > 12 equal lines",
        "  13 13   | line 12",
        "  14 14   | line 13",
        "  15 15   | line 14",
        "     16 + | new",
        "  16 17   | line 15",
        "  17 18   | line 16",
        "  18 19   | line 17",
        "  > 12 equal lines",
    ]
    assert seen.diff("end") == ["  1   - | a", "  > the file ends here, without a line end", "    1 + | a"]
    assert seen.diff("was_binary") == ["    1 + | text"] == [line.replace("file", "text") for line in seen.diff("link")]
    assert seen.diff("x") == seen.diff("b") == seen.diff("empty") == []


def test_what_does_not_fit_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHANGE_SHOWN_BYTES", 5)
    seen = Seen(tmp_path, {}, {"a": "1234", "b": "#!/bin/sh", "c": "1"})
    assert [bool(seen.of(path).unseen) for path in "abc"] == [False, True, False]
    assert seen.of("b").later and seen.diff("b") == []


def test_what_the_request_says_must_be_so(tmp_path: Path) -> None:
    seen = Seen(tmp_path, {"a": "1", "b": "1"}, {"a": "2", "c": "1"})
    good = Changes(seen.change.sha256, 1, 1, 1, 0, 0, (("add", "c"), ("delete", "b")))
    check_said(good, seen.change)
    for wrong in (
        replace(good, sha256="0" * 64),
        replace(good, add=0),
        replace(good, delete=2),
        replace(good, type=1),
        replace(good, rows=(("modify", "c"),)),
        replace(good, rows=(("add", "other"),)),
    ):
        with pytest.raises(ChangeSetError):
            check_said(wrong, seen.change)
