"""`status` names who must act on a proposal."""

from __future__ import annotations

import pytest

from tests.acts.bench_workspace import Bench
from tests.acts.test_who_must_act import line
from threegate.launch.results.verdict import Verdict, write_verdict


@pytest.mark.parametrize(
    ("reason", "whom"),
    [
        (None, ""),
        ("drafted_before", ""),
        ("verdict_only", ""),
        ("no_draft", "operator: threegate validate --as proposal"),
    ],
)
def test_a_proposal_asks_for_no_approval(bench: Bench, reason: str | None, whom: str) -> None:
    (bench.workspace.inbox / "AP-1.json").write_text("{}")
    assert line(bench).for_whom == "daemon", "nobody looked at it yet"
    write_verdict(bench.workspace, Verdict("AP-1.json", "0" * 64, "proposal-1", "draft", True, "draft", reason))
    assert line(bench).for_whom == whom
