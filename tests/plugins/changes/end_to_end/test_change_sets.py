"""A change set from a work copy to the project and back: drafted, shown, signed, applied by a real daemon."""

from __future__ import annotations

import hashlib
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests import support
from tests.plugins.changes.applying import OWNER, own, picture
from tests.plugins.changes.trees_on_disk import Spec, build, made
from tests.support import wait_until
from threegate.core.settings import RequestSettings
from threegate.plugins.changes.apply.apply_journal import STAGE
from threegate.plugins.changes.change_draft import draft_change_set
from threegate.setup.settings_file import set_values

BEFORE = {"src/a.py": "x = 1\n", "gone.txt": "bye\n", "Makefile": "all:\n", "keep": "1"}
AFTER = {"src/a.py": "x = 2\n", "new/b.py": "y = 1\n", "Makefile": "all:\n\techo hi\n", "keep": "1"}


class Proposed:
    """A workspace with a project, and the request that a work copy became."""

    def __init__(self, folder: Path, before: Spec = BEFORE, after: Spec = AFTER) -> None:
        self.project = own(build(folder / "project", before))
        self.place = support.make_place(folder, settings={"project.root": str(self.project)})
        self.work = build(folder / "work", after)
        self.request_id = support.request_id("change")
        found = made(self.project, self.work)
        draft = draft_change_set(
            found,
            project="default",
            request_id=self.request_id,
            requested_by="codex",
            purpose="Change the number.",
            justification="The number was wrong.",
            now=datetime.now(UTC).replace(microsecond=0),
            settings=RequestSettings(),
        )
        self.place.input("changes.tar", found.data)
        self.draft = self.place.drop(draft.data.decode(), draft.name)
        self.before = picture(self.project)

    def content(self) -> dict[str, Any]:
        return {path: facts[-1] for path, facts in picture(self.project).items() if facts[0] != "link"}


def test_applied_by_the_daemon(tmp_path: Path) -> None:
    change = Proposed(tmp_path)
    shown = change.place.approve(change.draft).out
    for text in (
        "- | x = 1",
        "+ | x = 2",
        "DELETED",
        "RUNS LATER",
        "high, declared medium",
        "ADDED",
    ):
        assert text in shown, text
    assert str(change.project) in "".join(shown.split())  # wrapped at the screen's width
    assert shown.index("| gone.txt") < shown.index("| Makefile") < shown.index("| src/a.py")
    assert change.before == picture(change.project)
    change.place.once()
    result = change.place.result(change.request_id)
    assert "status: succeeded" in result and 'backend: "apply"' in result
    assert change.content() == {path: facts[-1] for path, facts in picture(change.work).items()}
    assert {facts[1] for facts in picture(change.project).values()} == {OWNER}
    assert not (change.project / STAGE).exists()
    change.place.run("audit", "verify", expect=0)


@pytest.mark.root
def test_a_group_that_the_owner_is_not_in_is_said_before_the_signature(tmp_path: Path) -> None:
    """Its owner could not give the new file this group, so a signed change could only fail."""
    change = Proposed(tmp_path)
    os.chown(change.project / "src/a.py", OWNER, 12345)
    refused = change.place.approve(change.draft, expect=2)
    assert "src/a.py: its owner is not a member of its group (12345)" in refused.err
    os.chown(change.project / "src/a.py", OWNER, OWNER)
    change.place.approve(change.draft)
    change.place.once()
    assert "status: succeeded" in change.place.result(change.request_id)


@pytest.mark.slow
def test_a_project_that_moved_on(tmp_path: Path) -> None:
    change = Proposed(tmp_path)
    (change.project / "src/a.py").write_text("x = 3\n")
    done = change.place.approve(change.draft, expect=2)
    assert "src/a.py: the project moved on" in done.err
    (change.project / "src/a.py").write_text("x = 1\n")
    change.place.approve(change.draft)
    (change.project / "src/a.py").write_text("x = 3\n")
    before = picture(change.project)
    change.place.once()
    assert "status: project_changed" in change.place.result(change.request_id)
    assert picture(change.project) == before
    change.place.run("audit", "verify", expect=0)


def test_another_archive_than_the_request_says(tmp_path: Path) -> None:
    change = Proposed(tmp_path)
    text = change.draft.read_text()
    change.draft.write_text(text.replace("- add: 2", "- add: 1"))
    assert "changes.tar has 2" in change.place.approve(change.draft, expect=2).err
    change.draft.write_text(text.replace("project: default", "project: other"))
    assert "not a registered project" in change.place.approve(change.draft, expect=2).err


def test_a_promotion_by_hand_needs_a_signature_all_the_same(tmp_path: Path) -> None:
    change = Proposed(tmp_path, {"a": "1"}, {"a": "2"})
    set_values(change.place.root / "threegate.toml", {"approval.signature": "optional"})
    text = change.draft.read_text().replace("Data sensitivity: internal", "Data sensitivity: public")
    text = text.replace("Risk level: medium", "Risk level: low")
    now = support.now_text()
    text = text.replace("purpose:", f"approved_by: operator\napproved_utc: {now}\npurpose:", 1)
    (change.place.root / "tool-exec/approved" / change.draft.name).write_text(text)
    archive = (change.place.root / "inbox/files/changes.tar").read_bytes()
    (change.place.root / "tool-exec/inputs" / hashlib.sha256(archive).hexdigest()).write_bytes(archive)
    change.place.once()
    assert "signature_missing" in change.place.result(change.request_id)
    assert picture(change.project) == change.before


@pytest.mark.slow
def test_a_project_that_cannot_be_written_waits(tmp_path: Path) -> None:
    change = Proposed(tmp_path, {"a": "1"}, {"a": "2"})
    change.place.approve(change.draft)
    (change.project / STAGE).mkdir()
    (change.project / STAGE / "somebody").touch()
    change.place.once()
    waiting = json.loads(change.place.run("status", "--json", expect=0).out)
    assert "project_not_writable" in json.dumps(waiting)
    (change.project / STAGE / "somebody").unlink()
    (change.project / STAGE).rmdir()
    change.place.once()
    assert (change.project / "a").read_text() == "2"


def undo(change: Proposed, expect: int = 0) -> support.Done:
    return change.place.run(
        "project", "undo", change.request_id, "--as", "operator", "--key", str(change.place.key), "--yes", expect=expect
    )


def applied(change: Proposed) -> Proposed:
    change.place.approve(change.draft)
    change.place.once()
    assert "status: succeeded" in change.place.result(change.request_id)
    return change


def test_undone_to_the_last_byte(tmp_path: Path) -> None:
    change = applied(Proposed(tmp_path))
    shown = undo(change).out
    for text in ("- | x = 2", "+ | x = 1", "ADDED", "gone.txt", "RUNS LATER", "undone"):
        assert text in shown, text
    assert picture(change.project) == change.before
    assert [event["data"]["status"] for event in change.place.events("undone")] == ["succeeded"]
    assert not list((change.place.root / "tool-exec/control").glob("open-*"))
    change.place.run("audit", "verify", expect=0)
    assert "moved on" in undo(change, expect=2).err
    assert picture(change.project) == change.before


@pytest.mark.slow
def test_an_undo_changes_nothing_where_somebody_went_on(tmp_path: Path) -> None:
    change = applied(Proposed(tmp_path))
    (change.project / "src/a.py").write_text("x = 4\n")
    before = picture(change.project)
    assert "src/a.py: the project moved on" in undo(change, expect=2).err
    assert picture(change.project) == before and not change.place.events("undo_started")


@pytest.mark.slow
def test_an_undo_leaves_folders_that_somebody_else_put_files_in(tmp_path: Path) -> None:
    """Tests ran in a new package: its `__pycache__` stays, with the folders that it is in, and nothing else does."""
    after = {"a": "2", "new/n.py": "1", "new/sub/m.py": "1", "other/o.py": "1"}
    change = applied(Proposed(tmp_path, {"a": "1"}, after))
    (change.project / "new/sub/__pycache__").mkdir()
    (change.project / "new/sub/__pycache__/m.pyc").write_text("x")
    own(change.project)
    said = undo(change)
    shown = said.out + said.err
    assert "new/sub/ stays, because __pycache__ in it" in shown and "new/ stays, because sub in it" in shown
    assert "undone" in said.out and "new/n.py" in shown
    left = sorted(str(path.relative_to(change.project)) for path in change.project.rglob("*"))
    assert left == ["a", "new", "new/sub", "new/sub/__pycache__", "new/sub/__pycache__/m.pyc"]
    assert (change.project / "a").read_text() == "1"
    change.place.run("audit", "verify", expect=0)


@pytest.mark.slow
def test_an_undo_that_needs_the_place_of_such_a_folder_names_it(tmp_path: Path) -> None:
    change = applied(Proposed(tmp_path, {"x": "1", "a": "1"}, {"x/in": "1", "a": "2"}))
    (change.project / "x/theirs").write_text("1")
    own(change.project)
    before = picture(change.project)
    assert "x: has 'theirs' in it, which stays; move it elsewhere first" in undo(change, expect=2).err
    assert picture(change.project) == before


@pytest.mark.slow
def test_originals_that_were_changed_are_not_written(tmp_path: Path) -> None:
    change = applied(Proposed(tmp_path))
    before = picture(change.project)
    originals = change.place.root / "tool-exec/runs" / change.request_id / "originals.tar"
    originals.write_bytes(originals.read_bytes().replace(b"bye", b"BYE"))
    assert "differs from what the trail recorded" in undo(change, expect=2).err
    originals.unlink()
    assert "is needed to undo" in undo(change, expect=3).err
    assert picture(change.project) == before


def test_only_a_change_that_was_made_can_be_undone(tmp_path: Path) -> None:
    change = Proposed(tmp_path)
    assert "not a change that was made" in undo(change, expect=2).err
    code = change.place.drop(support.monty_draft(support.request_id("sum"), "print(1)"))
    change.place.approve(code)
    change.place.once()
    change.request_id = code.stem
    assert "changed no project" in undo(change, expect=2).err


@pytest.mark.slow
def test_what_was_replaced_is_kept_for_a_while(tmp_path: Path) -> None:
    change = applied(Proposed(tmp_path))
    folder = change.place.root / "tool-exec/runs" / change.request_id
    ended = time.time()
    wait_until(lambda: time.time() > ended + 1, "a run that is older than a second")
    for name in ("originals.tar", "apply.json"):
        assert (folder / name).stat().st_mode & 0o077 == 0
    change.place.run("audit", "prune", "--older-than", "1s", expect=0)
    assert folder.is_dir()
    set_values(change.place.root / "threegate.toml", {"apply.keep": "1s"})
    change.place.run("audit", "prune", "--older-than", "1s", expect=0)
    assert not folder.exists()
    change.place.run("audit", "verify", expect=0)


@pytest.mark.slow
def test_projects_by_name(tmp_path: Path) -> None:
    change = Proposed(tmp_path, {"a": "1"}, {"a": "2"})
    place = change.place
    place.run("project", "add", "web", str(change.project), expect=0)
    assert "already registered" in place.run("project", "add", "web", str(change.project), expect=2).err
    for path in (place.root, tmp_path, place.root / "inbox", Path("/nowhere"), Path.home()):
        assert place.run("project", "add", "other", str(path)).code == 2, path
    listed = json.loads(place.run("project", "list", "--json", expect=0).out)["projects"]
    assert [(item["name"], item["problem"]) for item in listed] == [("default", None), ("web", None)]
    place.run("audit", "verify", expect=0)
    text = change.draft.read_text()
    change.draft.write_text(text.replace("project: default", "project: web"))
    change.project.rename(tmp_path / "elsewhere")
    own(build(change.project, {"a": "1"}))
    assert "another folder" in place.approve(change.draft, expect=2).err
    place.run("project", "remove", "web", expect=0)
    place.run("project", "add", "web", str(change.project), expect=0)
    place.approve(change.draft)
    place.once()
    assert (change.project / "a").read_text() == "2"
    assert [event["data"]["project"] for event in place.events("project_added")] == ["web", "web"]
    place.run("audit", "verify", expect=0)
    projects = place.root / "tool-exec/projects.json"
    projects.write_text(projects.read_text().replace('"web"', '"wob"'))
    assert "projects.json" in place.run("audit", "verify", expect=2).out


@pytest.mark.slow
def test_what_commands_say_of_a_change(tmp_path: Path) -> None:
    change = applied(Proposed(tmp_path))
    shown = change.place.run("show", change.request_id, expect=0).out
    assert "changes the project default" in shown and "MiB" not in shown
    change.place.run(
        "audit", "replay", change.request_id, "--as", "operator", "--key", str(change.place.key), "--yes", expect=2
    )
    grant = ("grant", "new", change.request_id, "--as", "operator", "--key", str(change.place.key), "--yes")
    change.place.run(*grant, expect=64)
    undo(change)
    change.place.run("draft", "--again", change.request_id, expect=0)
    [again] = (change.place.root / "inbox").glob("TR-*.md")
    change.place.approve(again)
    change.place.once()
    assert change.content() == {path: facts[-1] for path, facts in picture(change.work).items()}


@pytest.mark.root
def test_a_project_of_root_waits_for_ever(tmp_path: Path) -> None:
    change = Proposed(tmp_path, {"a": "1"}, {"a": "2"})
    for path in (change.project, change.project / "a"):
        os.chown(path, 0, 0)
    change.place.approve(change.draft)
    change.place.once()
    assert (change.project / "a").read_text() == "1"
    assert "project_not_writable" in change.place.run("status", expect=0).out
