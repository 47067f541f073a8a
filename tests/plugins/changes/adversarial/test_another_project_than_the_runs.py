"""An agent writes a request of its own for another registered project than the one that its run has a copy of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.agents.agent_runs import drop, make_run
from tests.plugins.changes.applying import own, picture
from tests.plugins.changes.end_to_end.test_change_sets import Proposed
from tests.plugins.changes.trees_on_disk import build
from threegate import cli
from threegate.review import reviewed_draft


class Crossed:
    """A run on the project `default`, and another project."""

    def __init__(self, folder: Path) -> None:
        self.change = Proposed(folder, {"a": "1"}, {"a": "2"})
        self.place = self.change.place
        self.other = own(build(folder / "other", {"a": "1"}))
        self.place.run("project", "add", "other", str(self.other), expect=0)
        self.before = picture(self.other)
        self.run = make_run(self.place)
        archive = self.place.root / "inbox/files/changes.tar"
        (self.run.files / archive.name).write_bytes(archive.read_bytes())
        self.text = self.change.draft.read_text()
        self.change.draft.unlink()

    def drop(self, project: str) -> Path:
        text = self.text.replace("project: default", f"project: {project}")
        return drop(self.run.inbox, text, self.change.draft.name)


def test_it_is_refused_before_anybody_can_sign_it(tmp_path: Path) -> None:
    crossed = Crossed(tmp_path)
    theirs = crossed.drop("other")
    said = crossed.place.approve(theirs, expect=2).err
    assert "may change default and nothing else" in said and "agent run codex --project" in said
    theirs.unlink()
    crossed.place.approve(crossed.drop("default"))
    crossed.place.once()
    assert crossed.change.content() == {"a": b"2"} and picture(crossed.other) == crossed.before


def test_it_is_refused_at_the_launch_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever signs without our command can still not make a run reach another project."""
    crossed = Crossed(tmp_path)
    theirs, key = crossed.drop("other"), str(crossed.place.key)
    monkeypatch.setattr(reviewed_draft, "refuse_other_project", lambda request, run: None)
    words = ["--workspace", str(crossed.place.root), "approve", str(theirs)]
    assert cli.execute([*words, "--as", "operator", "--key", key, "--yes"]) == 0
    crossed.place.once()
    refused = crossed.place.events("refused")
    assert [event["data"]["reason"] for event in refused] == ["project_unknown"]
    assert picture(crossed.other) == crossed.before
