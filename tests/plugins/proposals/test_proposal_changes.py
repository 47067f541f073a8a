"""Proposals that write, from AP-*.json in the inbox to the changed project: one decision, and nothing of it by
itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.changes.applying import own, picture
from tests.plugins.changes.trees_on_disk import build
from tests.support import Place, make_place

BEFORE = {
    "a.txt": "old\n",
    "run.sh": ("x", "old\n"),
    "src/b.txt": "b\n",
    ".env": "PASSWORD=x\n",
    "dist/x.js": "1\n",
    "dist/deep/y.js": "2\n",
    "build/x.db": "1\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project of the account that owns projects in tests."""
    return own(build(tmp_path / "project", BEFORE))


@pytest.fixture
def place(tmp_path: Path, project: Path) -> Place:
    """A workspace whose default project it is."""
    return make_place(tmp_path, settings={"project.root": str(project)})


def propose(place: Place, name: str, tool: str, **args: Any) -> dict[str, Any]:
    """Drop a proposal, let the daemon judge it; its verdict file."""
    path = place.root / "inbox" / f"AP-{name}.json"
    path.write_text(json.dumps({"tool": tool, "args": args, "risk": "high"}))
    place.once()
    return place.verdict(path.name)


def drafted(place: Place, verdict: dict[str, Any]) -> Path:
    """Where its draft is."""
    assert verdict["judgement"]["problem"] is None, verdict
    return place.root / "tool-exec" / "drafts" / str(verdict["judgement"]["draft"])


def test_a_write_is_one_decision_and_can_be_undone(place: Place, project: Path) -> None:
    before = picture(project)
    verdict = propose(place, "write", "file.write_safe", path="run.sh", content="new\n")
    assert verdict["judgement"]["becomes"] == "apply draft"
    shown = place.approve(drafted(place, verdict)).out
    assert "- | old" in shown and "+ | new" in shown
    assert picture(project) == before
    place.once()
    assert "status: succeeded" in place.result(verdict["request_id"])
    assert (project / "run.sh").read_text() == "new\n"
    assert (project / "run.sh").stat().st_mode == before["run.sh"][0]
    [approved] = place.events("approved")
    [proposed] = place.events("proposed")
    assert approved["data"]["proposal_sha256"] == proposed["data"]["proposal_sha256"]
    assert sorted(path.name for path in project.iterdir()) == sorted({path.split("/")[0] for path in BEFORE})
    place.run("project", "undo", verdict["request_id"], "--as", "operator", "--key", str(place.key), "--yes", expect=0)
    assert picture(project) == before
    place.run("audit", "verify", expect=0)


@pytest.mark.slow
def test_a_new_file(place: Place, project: Path) -> None:
    verdict = propose(place, "new", "file.write_safe", path="src/new.txt", content="new\n")
    place.approve(drafted(place, verdict))
    place.once()
    assert (project / "src/new.txt").read_text() == "new\n"
    assert (project / "src/new.txt").stat().st_uid == project.stat().st_uid


@pytest.mark.slow
def test_a_cleanup_takes_away_what_it_names_and_says_what_stays(place: Place, project: Path) -> None:
    verdict = propose(place, "cleanup", "project.cleanup_safe")
    assert "build stays: has something protected in it" in verdict["judgement"]["reasons"]
    shown = place.approve(drafted(place, verdict)).out
    assert "dist/deep/y.js" in shown and "DELETED" in shown
    assert (project / "dist/x.js").exists()
    place.once()
    assert "status: succeeded" in place.result(verdict["request_id"])
    assert not (project / "dist").exists()
    assert (project / "build/x.db").exists()
    place.run("audit", "verify", expect=0)


@pytest.mark.slow
def test_a_project_that_moved_on(place: Place, project: Path) -> None:
    """Before the signature, and between it and the change: nothing is written, and what differs is named."""
    first = propose(place, "one", "file.write_safe", path="a.txt", content="new\n")
    second = propose(place, "two", "file.write_safe", path="src/b.txt", content="new\n")
    (project / "a.txt").write_text("somebody else\n")
    assert "a.txt: the project moved on" in place.approve(drafted(place, first), expect=2).err
    place.approve(drafted(place, second))
    (project / "src/b.txt").unlink()
    (project / "src/b.txt").symlink_to("../a.txt")
    place.once()
    assert "status: project_changed" in place.result(second["request_id"])
    assert (project / "a.txt").read_text() == "somebody else\n"
    assert (project / "src/b.txt").is_symlink()


@pytest.mark.slow
def test_changes_of_one_project_are_made_one_after_the_other(place: Place, project: Path) -> None:
    """All in one pass of the daemon, none fails for the other's sake, and none is used up without being made."""
    names = ("a.txt", "src/b.txt", "run.sh")
    for number, path in enumerate(names):
        (place.root / "inbox" / f"AP-{number}.json").write_text(
            json.dumps({"tool": "file.write_safe", "args": {"path": path, "content": "new\n"}, "risk": "high"})
        )
    place.once()
    ids = []
    for number in range(len(names)):
        verdict = place.verdict(f"AP-{number}.json")
        ids.append(verdict["request_id"])
        place.approve(drafted(place, verdict))
    place.once()
    for request_id in ids:
        assert "status: succeeded" in place.result(request_id)
    assert {(project / path).read_text() for path in names} == {"new\n"}
    assert not place.events("waiting")


def test_what_is_protected_is_not_drafted(place: Place) -> None:
    verdict = propose(place, "env", "file.write_safe", path=".env", content="PASSWORD=y\n")
    assert verdict["judgement"]["draft"] is None
    assert "protected" in verdict["judgement"]["problem"]
    assert propose(place, "data", "project.cleanup_safe", include=[".env"])["judgement"]["draft"] is None


def test_another_archive_beside_the_draft_is_not_signed(place: Place, project: Path, tmp_path: Path) -> None:
    """Whoever puts another change set, with its digests, where the daemon's was."""
    honest = propose(place, "good", "file.write_safe", path="a.txt", content="good\n")
    other = propose(place, "evil", "file.write_safe", path="a.txt", content="evil\n")
    draft, evil = drafted(place, honest), drafted(place, other)
    text = evil.read_text().replace(other["request_id"], honest["request_id"])
    mine = draft.read_text()
    for line in ("proposal ", "created_utc: "):
        old, new = (next(row for row in body.splitlines() if line in row) for body in (text, mine))
        text = text.replace(old, new)
    draft.write_text(text)
    assert "is not what its proposal makes" in place.approve(draft, expect=2).err
    draft.write_text(mine)
    place.approve(draft)
    place.once()
    assert (project / "a.txt").read_text() == "good\n"


def test_apply_is_no_command_any_more(place: Place) -> None:
    assert "No such command 'apply'" in place.run("apply", "TR-1", expect=64).err
