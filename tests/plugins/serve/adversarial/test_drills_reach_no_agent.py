"""An agent that asks for a drill hears of no such request, before and after it is answered."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.drills.practice import answer_drill
from threegate.acts.signing_key import Acting
from threegate.core.errors import InvalidInput
from threegate.daemon import run_daemon
from threegate.daemon.log import Log
from threegate.plugins.drills.drills import place_drill, set_drills
from threegate.plugins.drills.placed_drill import Drill
from threegate.plugins.serve.requests import RequesterAccess
from threegate.review.reviewed_draft import read_draft


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A workspace in which one request ran and drills are on."""
    bench = make_bench(tmp_path)
    bench.approve(bench.draft("req-20260101-101010-abcdef"))
    assert run_daemon(bench.workspace, once=True, log=Log()) == 0
    set_drills(bench.context, Acting("alice", bench.keys["alice"]), on=True)
    return bench


@pytest.fixture
def drill(bench: Bench) -> Drill:
    found = place_drill(bench.context, chance=Random(7))
    assert found is not None
    return found


def test_a_drill_is_no_request_of_an_agent(bench: Bench, drill: Drill) -> None:
    agent = RequesterAccess(bench.workspace)
    for over in (False, True):
        for asked in ({"file_name": drill.name}, {"request_id": drill.request_id}):
            with pytest.raises(InvalidInput):
                agent.request_status(asked)
        assert not agent.id_used(drill.request_id)
        assert run_daemon(bench.workspace, once=True, log=Log()) == 0
        if not over:
            listed = read_draft(bench.workspace, drill.listed(bench.workspace))
            answer_drill(bench.context, listed, yes=True, actor="operator:alice")
