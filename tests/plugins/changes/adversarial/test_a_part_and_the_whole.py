"""A part of a change and the whole are never both there to be approved, and nobody approves what they asked for."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from tests.plugins.agents.agent_runs import drop, make_run
from tests.plugins.changes.end_to_end.test_change_sets import Proposed
from tests.support import Done, Place
from threegate.acts.signed_acts import OperatorDecision
from threegate.core import durable
from threegate.core.errors import InvalidInput, Refused
from threegate.core.workspace import AgentRun, Workspace
from threegate.launch.context import open_context
from threegate.plugins.changes import take_part as take_part_module
from threegate.plugins.changes.take_part import Taken, take_part
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft

BEFORE = {"a": "1", "b": "1", "c": "1"}
AFTER = {"a": "2", "b": "2", "c": "2"}


class Parted:
    """A change of three files that a run proposed."""

    def __init__(self, folder: Path, requester: str | None = None) -> None:
        change = Proposed(folder, BEFORE, AFTER)
        self.change, self.place = change, change.place
        self.run: AgentRun = make_run(self.place, requester=requester)
        data = (self.place.root / "inbox/files/changes.tar").read_bytes()
        (self.run.files / hashlib.sha256(data).hexdigest()).write_bytes(data)
        self.draft = drop(self.run.inbox, change.draft.read_text(), change.draft.name)
        change.draft.unlink()

    def take(self, *words: str, expect: int = 0, draft: Path | None = None) -> Done:
        return self.place.run("project", "take", str(draft or self.draft), *words, expect=expect)

    def parts(self) -> list[Path]:
        return sorted(self.run.inbox.glob("TR-*-part.md"))

    def id_of(self, draft: Path) -> str:
        return next(line.split(": ")[1] for line in draft.read_text().splitlines() if line.startswith("request_id"))


@pytest.fixture
def parted(tmp_path: Path) -> Parted:
    return Parted(tmp_path)


def taken(place: Place, draft: Path, *only: str) -> Taken:
    context = open_context(Workspace(place.root))
    with open_reviewed_draft(context, read_draft(context.workspace, draft), compared=False) as reviewed:
        return take_part(context, reviewed, only=only, decided=lambda kind, about: OperatorDecision("account:test"))


def test_two_people_decide_on_one_draft_at_once(parted: Parted) -> None:
    """Both have read it; one takes a part, the other signs the whole. Whoever is second is refused."""
    context = open_context(Workspace(parted.place.root))
    with open_reviewed_draft(context, read_draft(context.workspace, parted.draft), compared=False) as reviewed:

        def signed_meanwhile(kind: str, about: object) -> OperatorDecision:
            parted.place.approve(parted.draft)
            return OperatorDecision("account:test")

        with pytest.raises(Refused) as error:
            take_part(context, reviewed, only=["a"], decided=signed_meanwhile)
    assert error.value.code == "replayed" and parted.parts() == []
    parted.place.once()
    assert parted.change.content() == {"a": b"2", "b": b"2", "c": b"2"}


def test_two_people_take_parts_of_one_draft_at_once(parted: Parted) -> None:
    gate = threading.Barrier(2)
    outcomes: list[str] = []

    def one(path: str) -> None:
        context = open_context(Workspace(parted.place.root))
        with open_reviewed_draft(context, read_draft(context.workspace, parted.draft), compared=False) as reviewed:

            def together(kind: str, about: object) -> OperatorDecision:
                gate.wait(30)
                return OperatorDecision("account:test")

            try:
                outcomes.append(take_part(context, reviewed, only=[path], decided=together).taken[0])
            except Refused as error:
                outcomes.append(error.code)

    threads = [threading.Thread(target=one, args=(path,)) for path in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert outcomes.count("superseded") == 1
    (path,) = [outcome for outcome in outcomes if outcome != "superseded"]
    (part,) = parted.parts()
    said = parted.place.approve(parted.draft, expect=2).err
    assert "was decided on already" in said
    parted.place.approve(part)
    parted.place.once()
    assert parted.change.content() == {**dict.fromkeys(BEFORE, b"1"), path: b"2"}


def test_the_old_draft_that_comes_back_is_not_approved(parted: Parted) -> None:
    text = parted.draft.read_text()
    parted.take("a")
    (part,) = parted.parts()
    back = drop(parted.run.inbox, text, parted.draft.name)
    said = parted.place.approve(back, expect=2).err
    assert f"threegate approve {parted.id_of(part)}" in said
    parted.place.once()
    assert parted.change.content() == dict.fromkeys(BEFORE, b"1")


def test_a_part_is_not_approved_before_the_whole_has_ended(parted: Parted, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a crash leaves it that comes after the new draft and before the event."""

    def stopped(context: object, draft: object, ended: object, *, prepare: object, **more: object) -> None:
        with open_context(Workspace(parted.place.root)).trail.locked() as now:
            prepare(now, None)  # type: ignore[operator]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(take_part_module, "end_draft", stopped)
        with pytest.raises(KeyboardInterrupt):
            taken(parted.place, parted.draft, "a")
    (left,) = parted.parts()
    said = parted.place.approve(left, expect=2).err
    assert "the trail does not say that this part" in said
    parted.place.once()
    verdict = (parted.run.verdicts / f"{left.name}.json").read_text()
    assert '"state": "invalid"' in verdict and "TG915" in verdict
    parted.take("b")
    (part,) = set(parted.parts()) - {left}
    assert "the trail does not say" in parted.place.approve(left, expect=2).err
    parted.place.approve(part)
    parted.place.once()
    assert parted.change.content() == {"a": b"1", "b": b"2", "c": b"1"}


def test_a_full_disk_leaves_the_whole_as_it_was(parted: Parted) -> None:
    def full(moment: str, operation: str, path: str) -> None:
        if moment == "before" and operation == "create" and "/refused/" in path:
            raise OSError(28, "No space left on device")

    forget = durable.observe(full)
    try:
        with pytest.raises(OSError):
            taken(parted.place, parted.draft, "a")
    finally:
        forget()
    assert parted.parts() == [] and parted.draft.exists()
    assert taken(parted.place, parted.draft, "a").taken == ("a",)


def test_the_requester_does_not_approve_a_part_of_its_own_change(tmp_path: Path) -> None:
    parted = Parted(tmp_path, requester="operator")
    parted.take("a", "--as", "operator", "--key", str(parted.place.key))
    (part,) = parted.parts()
    said = parted.place.approve(part, expect=2).err
    assert "whoever asks cannot approve" in said
    parted.place.once()
    assert parted.change.content() == dict.fromkeys(BEFORE, b"1")


def test_a_draft_that_says_it_is_a_part_is_believed_only_if_the_trail_says_so(parted: Parted) -> None:
    parted.take("a")
    (part,) = parted.parts()
    text = part.read_text()
    whole = parted.id_of(part).rpartition(".p")[0]
    run = make_run(parted.place)
    for item in parted.run.files.iterdir():
        (run.files / item.name).write_bytes(item.read_bytes())
    forged = {
        "another run": (run.inbox, text.replace(parted.id_of(part), "TR-20260101-000000Z-mine")),
        "another id": (parted.run.inbox, text.replace(parted.id_of(part), "TR-20260101-000000Z-mine")),
        "another request": (parted.run.inbox, text.replace(f"derived_from: {whole}", "derived_from: TR-20260101-x")),
    }
    for number, (folder, claimed) in enumerate(forged.values()):
        assert claimed != text
        path = drop(folder, claimed, f"TR-20260101-00000{number}Z-mine.md")
        said = parted.place.approve(path, expect=2).err
        assert "derived_from: " in said, said
        path.unlink()
    parted.place.approve(part)


def test_a_file_of_the_project_that_moved_on_matters_if_it_is_taken(parted: Parted) -> None:
    theirs = parted.change.project / "b"
    theirs.write_text("theirs")
    said = parted.take("a", "b", expect=2).err
    assert "b: the project moved on" in said and parted.parts() == [] and parted.draft.exists()
    parted.take("a", "c")
    parted.place.approve(parted.parts()[0])
    parted.place.once()
    assert parted.change.content() == {"a": b"2", "b": b"theirs", "c": b"2"}


@pytest.mark.slow
def test_a_part_is_drafted_again_as_a_part_and_merged_as_what_it_is(parted: Parted) -> None:
    parted.take("a", "b")
    (part,) = parted.parts()
    of_part = parted.id_of(part)
    whole = of_part.rpartition(".p")[0]
    parted.place.approve(part)
    (parted.change.project / "b").write_text("theirs")
    parted.place.once()
    parted.place.run("draft", "--again", of_part, expect=0)
    (fresh,) = parted.run.inbox.glob("TR-*.md")
    assert f"derived_from: {whole}\n" in fresh.read_text()
    assert "moved on" in parted.place.approve(fresh, expect=2).err
    parted.place.run("project", "redraft", str(fresh), expect=0)
    (merged,) = parted.run.inbox.glob("TR-*-merged.md")
    text = merged.read_text()
    assert "derived_from:" not in text and f"part: 2 of 3 paths of {whole} were taken" in text
    (parted.change.project / "b").write_text("1")
    assert "2 of 3 paths" in parted.place.approve(fresh).out
    parted.place.once()
    assert parted.change.content() == {"a": b"2", "b": b"2", "c": b"1"}


def test_a_draft_outside_of_a_run_keeps_the_account_that_asked(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root for a draft of another account")
    change = Proposed(tmp_path, BEFORE, AFTER)
    os.chown(change.draft, 4242, 4242)
    done = taken(change.place, change.draft, "a")
    assert done.path.stat().st_uid == 4242 and not list(done.path.parent.glob(".TR-*"))
    change.place.approve(done.path)
    (event,) = change.place.events("approved")
    assert event["data"]["owner_uid"] == 4242


def test_another_account_drafts_nothing_in_the_name_of_the_one_that_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = Proposed(tmp_path, BEFORE, AFTER)
    monkeypatch.setattr(take_part_module.os, "geteuid", lambda: 4243)
    with pytest.raises(InvalidInput, match="only that account or root"):
        taken(change.place, change.draft, "a")
    assert change.draft.exists()
