"""A project that was removed is not changed."""

from __future__ import annotations

from pathlib import Path

from tests.plugins.changes.applying import own, picture
from tests.plugins.changes.end_to_end.test_change_sets import Proposed
from tests.plugins.changes.trees_on_disk import build


def test_a_removed_project_is_not_changed(tmp_path: Path) -> None:
    """It was approved while the project was registered; then the project is removed."""
    change = Proposed(tmp_path, {"a": "1"}, {"a": "2"})
    other = own(build(tmp_path / "other", {"a": "1"}))
    change.place.run("project", "add", "other", str(other), expect=0)
    text = change.draft.read_text().replace("project: default", "project: other")
    change.draft.unlink()
    before = picture(other)
    change.place.approve(change.place.drop(text, change.draft.name))
    change.place.run("project", "remove", "other", expect=0)
    change.place.once()
    assert [event["data"]["reason"] for event in change.place.events("refused")] == ["project_unknown"]
    assert picture(other) == before and not change.place.events("claimed")
