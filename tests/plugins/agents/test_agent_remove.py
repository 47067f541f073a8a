"""`threegate agent remove` and `audit prune` free the space of runs, and touch no run that somebody still needs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.plugins.agents.agent_runs import drop, end_run, make_run
from tests.support import Place, make_place, monty_draft, request_id
from threegate.core.workspace import AgentRun
from threegate.plugins.agents.runs import RunFacts, run_lock
from threegate.trail.payloads import Pruned


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


def ended_run(place: Place, *, days: float = 0) -> AgentRun:
    """A run that ended so long ago."""
    run = make_run(place)
    end_run(place, run)
    RunFacts(profile="codex", started_utc="", root="/p", announced=True, ended=True, exit=0).write(run)
    moment = time.time() - days * 86_400
    os.utime(run.facts, (moment, moment))
    return run


def test_a_run_is_removed_with_everything_in_it(place: Place) -> None:
    run, other = ended_run(place), ended_run(place)
    (run.state / "locked").mkdir()
    (run.state / "locked" / "big").write_bytes(b"x" * (3 << 20))
    (run.state / "locked").chmod(0)
    os.symlink(other.folder, run.work / "link")
    drop(run.inbox, monty_draft(request_id("left"), "1"))
    (value,) = place.run("agent", "remove", run.run_id, "--json", expect=0).json()
    assert value["run"] == run.run_id and value["bytes"] >= 3 << 20 and len(value["drafts"]) == 1
    assert sorted(os.listdir(run.folder.parent)) == [other.run_id]
    (event,) = place.events("pruned")
    assert event["data"]["run"] == run.run_id and event["data"]["what"] == "agent run"
    assert run.run_id not in place.run("agent", "list", expect=0).out
    place.once()
    place.run("audit", "verify", expect=0)
    said = Pruned.from_data(event["data"]).sentence()
    assert said.startswith("removed the folder of the agent run") and run.run_id in said
    done = place.run("agent", "remove", run.run_id, expect=2)
    assert "no such run" in done.err


def test_a_run_that_is_alive_stays(place: Place) -> None:
    run = ended_run(place, days=1)
    with run_lock(run):
        assert "is running; stop it first" in place.run("agent", "remove", run.run_id, expect=2).err
        assert place.run("audit", "prune", "--older-than", "1s", "--json", expect=0).json()["agent_runs"] == []
    assert run.folder.is_dir() and place.events("pruned") == []


def test_a_run_with_an_open_request_stays_until_it_is_over(place: Place) -> None:
    run = ended_run(place, days=40)
    rid = request_id("open")
    draft = drop(run.inbox, monty_draft(rid, "1"))
    assert place.run("audit", "prune", "--older-than", "30d", "--json", expect=0).json()["agent_runs"] == []
    place.approve(draft)
    assert f"threegate cancel {rid}" in place.run("agent", "remove", run.run_id, expect=2).err
    assert place.run("audit", "prune", "--older-than", "30d", "--json", expect=0).json()["agent_runs"] == []
    place.run("cancel", rid, expect=0)
    assert place.run("audit", "prune", "--older-than", "30d", "--json", expect=0).json()["agent_runs"] == []
    place.run("agent", "remove", run.run_id[:-2], expect=0)
    assert not run.folder.exists()
    assert "status: cancelled" in place.result(rid)
    place.once()
    place.run("audit", "verify", expect=0)


def test_prune_removes_runs_that_ended_long_ago(place: Place) -> None:
    old, new = ended_run(place, days=40), ended_run(place, days=20)
    tried = place.run("audit", "prune", "--older-than", "30d", "--dry-run", "--json", expect=0).json()
    assert tried["agent_runs"] == [old.run_id] and old.folder.is_dir()
    assert "1 agent runs" in place.run("audit", "prune", "--older-than", "30d", expect=0).out
    assert not old.folder.exists() and new.folder.is_dir()
    place.run("audit", "verify", expect=0)


def test_what_a_removal_left_goes_with_the_next_one(place: Place) -> None:
    first, second = ended_run(place), ended_run(place)
    first.folder.rename(first.folder.with_name(f".pruned-{first.run_id}"))
    place.run("agent", "remove", second.run_id, expect=0)
    assert os.listdir(first.folder.parent) == []
