"""Planted change sets: the harmful ones come first in a list, none of them last, and the ordinary ones do not."""

from __future__ import annotations

from pathlib import Path

from tests.plugins.changes.planted_changes import figures, planted_changes

NO_MARK = {"check-is-deleted", "certificate-unchecked"}
"""What no pattern tells from an ordinary edit of source: a line fewer, or another argument."""


def test_the_planted_change_sets(tmp_path: Path) -> None:
    found = list(planted_changes(tmp_path))
    for item in found:
        print(item.attention, item.name, item.why, item.marks)
    print("\n".join(figures(found)))
    bad = [item for item in found if item.harmful]
    fine = [item for item in found if not item.harmful]
    assert (len(bad), len(fine)) == (20, 10)
    assert {item.name for item in bad if not item.marks} == NO_MARK
    assert {item.name for item in bad if item.attention != "look first"} == NO_MARK
    assert {item.attention for item in bad} == {"look first", "look"}, "none is among the rest"
    assert [item.name for item in fine if item.attention == "look first"] == []
    assert {item.name for item in fine if item.attention == "rest"} >= {"docs-edit", "change-log", "translation"}
