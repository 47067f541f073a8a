"""A change set from a work copy to the project and back: drafted, shown, signed, applied by a real daemon."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests import support
from tests.changes.trees_on_disk import Spec, build, made
from tests.runners.applying import OWNER, own, picture
from threegate.changes.change_draft import draft_change_set
from threegate.request import DefaultSettings
from threegate.runners.apply.apply_journal import STAGE
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
            settings=DefaultSettings(),
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
        "-x = 1",
        "+x = 2",
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
    assert "no registered project" in change.place.approve(change.draft, expect=2).err


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


@pytest.mark.root
def test_a_project_of_root_waits_for_ever(tmp_path: Path) -> None:
    change = Proposed(tmp_path, {"a": "1"}, {"a": "2"})
    for path in (change.project, change.project / "a"):
        os.chown(path, 0, 0)
    change.place.approve(change.draft)
    change.place.once()
    assert (change.project / "a").read_text() == "1"
    assert "project_not_writable" in change.place.run("status", expect=0).out
