"""The moment of the claim: what is on the disk before anything runs."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.launch.launching import CountingRunner, daemons
from threegate.core import durable
from threegate.core.errors import Unavailable
from threegate.core.user_state import UserState
from threegate.judgement.judge import Clearance
from threegate.launch.approved_file import read_approved
from threegate.launch.pipeline import launch
from threegate.request.job import Job
from threegate.runners.interface import Control, Outcome

DERIVED = ("/results", "/decisions.jsonl")
"""The name of the space that is reserved for the result, and the log of AANA's decisions: nothing hangs on their
sync.
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def approved(bench: Bench) -> Path:
    bench.operator("bob")
    return bench.approve(bench.draft(), "bob").path


def control(bench: Bench) -> Control:
    return Control(bench.workspace.run_folder("req-1"), bench.workspace.inputs, "", "")


def test_before_it_runs_all_of_the_claim_is_on_the_disk(bench: Bench) -> None:
    path = approved(bench)
    unsynced: set[str] = set()
    at_run: dict[str, object] = {}

    def seen(moment: str, operation: str, place: str) -> None:
        if moment != "after":
            return
        if operation in ("rename", "exchange", "create"):
            unsynced.add(str(Path(place).parent))
        elif operation == "write":
            unsynced.add(place)
        elif operation == "sync_folder" or operation == "sync":
            unsynced.discard(place)

    class Looking(CountingRunner):
        def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
            lines = bench.workspace.trail_file.read_text().splitlines()
            at_run["types"] = [json.loads(line)["type"] for line in lines][-3:]
            at_run["last"] = json.loads(lines[-1])["seq"]
            at_run["file"] = (bench.workspace.running / path.name).exists() and not path.exists()
            at_run["unsynced"] = {place for place in unsynced if not place.endswith(DERIVED)}
            return super().run(clearance, job, control)

    runner = Looking()
    (context,) = daemons(bench, runner, 1)
    stop = durable.observe(seen)
    try:
        ended = launch(context, read_approved(context, path), control(bench))
    finally:
        stop()
    assert ended.code == "succeeded" and at_run["types"] == ["cleared", "claimed", "started"]
    assert at_run["file"] and at_run["unsynced"] == set()
    kept = UserState.of(context.workspace_id).read_head()
    assert kept is not None and kept["seq"] == at_run["last"]


def test_a_head_that_cannot_be_kept_lets_nothing_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    path = approved(bench)
    runner = CountingRunner()
    (context,) = daemons(bench, runner, 1)

    def full(self: UserState, value: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(UserState, "advance_head", full)
    with pytest.raises(Unavailable, match="outside head"):
        launch(context, read_approved(context, path), control(bench))
    assert not runner.runs and (bench.workspace.running / path.name).exists()
