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
        (None, ""),
        ("drafted_before", ""),
        ("verdict_only", ""),
        ("no_draft", "operator: threegate proposal explain"),
    ],
)
def test_a_proposal_asks_for_no_approval(bench: Bench, reason: str | None, whom: str) -> None:
    (bench.workspace.inbox / "AP-1.json").write_text("{}")
    assert line(bench).for_whom == "daemon", "nobody looked at it yet"
    write_verdict(bench.workspace, Verdict("AP-1.json", "0" * 64, "proposal-1", "draft", True, "draft", reason))
    assert line(bench).for_whom == whom


@pytest.mark.parametrize(
    ("reason", "whom"),
    [
        ("quorum_missing", "another operator: threegate countersign"),
        ("no_backend", "operator: threegate doctor"),
        ("checkpoint_required", "operator: threegate checkpoint list"),
        ("resource_busy", "daemon"),
    ],
)
def test_who_ends_a_wait(bench: Bench, reason: str, whom: str) -> None:
    done = bench.approve(bench.draft())
    assert line(bench).for_whom == "daemon"
    verdict = Verdict(done.path.name, "0" * 64, "req-1", "approved", True, "waiting", reason)
    write_verdict(bench.workspace, verdict)
    assert line(bench).for_whom == whom
