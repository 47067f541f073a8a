"""Requests of agents' runs: who asks, and who sees the answer, is the run in whose inbox the draft was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.contracts.material import folder
from tests.plugins.agents.agent_runs import drop, end_run, make_run
from tests.support import Place, make_place, monty_draft, request_id


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


def test_a_request_of_a_run_goes_its_whole_way_in_the_runs_folder(place: Place) -> None:
    run, other = make_run(place), make_run(place)
    rid = request_id("sum")
    draft = drop(run.inbox, monty_draft(rid, "1 + 1"))
    place.once()
    verdict = json.loads((run.verdicts / f"{draft.name}.json").read_text())
    assert verdict["state"] == "draft" and verdict["request_id"] == rid
    (line,) = json.loads(place.run("status", "--json", expect=0).out)["requests"]
    assert (line["folder"], line["state"]) == (run.run_id, "draft")
    shown = place.approve(draft).out
    assert f"run {run.run_id} of the agent codex" in shown
    assert json.loads((run.verdicts / f"{draft.name}.json").read_text())["state"] == "approved"
    place.once()
    assert json.loads((run.verdicts / f"{draft.name}.json").read_text())["state"] == "finished"
    (result,) = run.results.glob("TS-*.md")
    assert "status: succeeded" in result.read_text()
    ours = place.root / "tool-exec" / "results" / result.name
    assert ours.read_bytes() == result.read_bytes() and ours.stat().st_mode & 0o777 == 0o400
    assert not list((place.root / "tool-exec" / "verdicts").iterdir())
    assert not list(other.verdicts.iterdir()) and not list(other.results.iterdir())
    for kind in ("validated", "approved"):
        (event,) = place.events(kind)
        assert event["data"]["run"] == run.run_id and "owner_uid" not in event["data"]
    (line,) = json.loads(place.run("status", "--json", expect=0).out)["requests"]
    assert (line["state"], line["reason"]) == ("finished", "succeeded")


def test_the_requester_is_the_runs_not_the_files(place: Place) -> None:
    """The file names somebody else; its owner's uid is the operator's: neither is asked."""
    run = make_run(place, requester="operator")
    rid = request_id("self")
    draft = drop(run.inbox, monty_draft(rid, "1"))
    place.once()
    assert "whoever asks cannot approve" in place.approve(draft, expect=2).err


def test_what_an_ended_run_left_can_still_be_approved(place: Place) -> None:
    run = make_run(place)
    rid = request_id("late")
    draft = drop(run.inbox, monty_draft(rid, "1"))
    end_run(place, run)
    place.once()
    place.approve(draft)
    place.once()
    assert len(list(run.results.glob("TS-*.md"))) == 1


def test_a_folder_that_nobody_registered_is_not_looked_at(place: Place) -> None:
    make_run(place)
    stranger = make_run(place)
    path = place.root / "tool-exec" / "agents" / "ar-20261123-100000z-0123abcd"
    stranger.folder.rename(path)
    drop(path / "inbox", monty_draft(request_id("x"), "1"))
    place.once()
    assert not list((path / "verdicts").iterdir()) and not place.events("validated")


def test_an_id_belongs_to_the_run_that_named_it_first(place: Place) -> None:
    first, second = make_run(place), make_run(place)
    rid = request_id("mine")
    mine = drop(first.inbox, monty_draft(rid, "1"))
    place.once()
    copy = drop(second.inbox, monty_draft(rid, "2"))
    inbox = drop(place.root / "inbox", monty_draft(rid, "3"))
    place.once()
    for place_of in (second.verdicts, place.root / "tool-exec" / "verdicts"):
        (path,) = place_of.iterdir()
        verdict = json.loads(path.read_text())
        assert verdict["reason"] == "TG901"
    assert f"was first used by the agent's run {first.run_id}" in place.approve(copy, expect=2).err
    place.approve(inbox, expect=2)
    place.approve(mine)
    place.once()
    assert len(list(first.results.glob("TS-*"))) == 1 and not list(second.results.iterdir())


def test_a_run_has_a_session_of_its_own_and_no_other(place: Place) -> None:
    spec = {"threegate.monty": {}, "session": {"session_limits": {"max_tool_calls": 9}}}
    for name, data in folder(spec).items():
        (place.root / "tool-exec" / "contracts" / name).write_bytes(data)
    runs = [make_run(place), make_run(place)]
    drafts = [drop(run.inbox, monty_draft(request_id(f"own-{run.run_id[-8:]}"), "1")) for run in runs]
    place.once()
    for draft in drafts:
        place.approve(draft)
    place.once()
    sessions = [event["data"]["contract"]["session"] for event in place.events("claimed")]
    assert sorted(sessions) == sorted(f"default:{run.run_id}" for run in runs)
    text = monty_draft(request_id("hop"), "1")
    other = f'requested_by: {runs[1].run_id}\nsession_id: "default:{runs[1].run_id}"'
    hop = drop(runs[0].inbox, text.replace("requested_by: core-agent", other))
    place.once()
    assert "unknown_session" in place.approve(hop, expect=2).err


def test_inputs_are_the_runs_own(place: Place) -> None:
    first, second = make_run(place), make_run(place)
    (first.files / "data.txt").write_text("one")
    rid = request_id("in")
    draft = drop(second.inbox, monty_draft(rid, "1", inputs={"data.txt": "0" * 64}))
    place.once()
    verdict = json.loads((second.verdicts / f"{draft.name}.json").read_text())
    assert verdict["reason"] == "TG902"


def test_a_run_whose_folder_was_removed_ends_all_the_same(place: Place) -> None:
    import shutil

    run = make_run(place)
    rid = request_id("gone")
    draft = drop(run.inbox, monty_draft(rid, "1"))
    place.once()
    place.approve(draft)
    end_run(place, run)
    shutil.rmtree(run.folder)
    place.once()
    assert "status: succeeded" in place.result(rid)
