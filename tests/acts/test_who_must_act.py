"""`status` names who must act next, and asks nobody for what is done."""

from __future__ import annotations

import pytest

from tests.acts.bench_workspace import Bench
from threegate.launch.results.verdict import Verdict, write_verdict
from threegate.review.status import Line, status_lines


def line(bench: Bench) -> Line:
    (found,) = status_lines(bench.workspace)
    return found


@pytest.mark.parametrize(
    ("reason", "whom"),
    [
        ("quorum_missing", "another operator: threegate approve FILE"),
        ("no_backend", "operator: threegate doctor"),
        ("checkpoint_required", "operator: threegate contracts checkpoints"),
        ("resource_busy", "daemon"),
    ],
)
def test_who_ends_a_wait(bench: Bench, reason: str, whom: str) -> None:
    done = bench.approve(bench.draft())
    assert line(bench).for_whom == "daemon"
    verdict = Verdict(done.path.name, "0" * 64, "req-1", "approved", True, "waiting", reason)
    write_verdict(bench.workspace, verdict)
    assert line(bench).for_whom == whom
