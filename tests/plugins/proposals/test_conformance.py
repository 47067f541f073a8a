"""Every line of the conformance file: never laxer than the peer, and what is stricter is told in docs/proposals.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from threegate.core.settings import Settings
from threegate.plugins.proposals.rules import judge_proposal

ROOT = Path(__file__).parents[3]
CASES = [json.loads(line) for line in (ROOT / "tests/data/clawguard_cases.jsonl").read_text().splitlines()]
ORDER = {"auto": 0, "approval": 1, "block": 2, "reject": 2}


def verdict_of(proposal: Any) -> Any:
    """Our verdict on a case."""
    return judge_proposal(json.dumps(proposal).encode(), settings=Settings())


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_ours_is_the_peers_verdict_or_a_stricter_one(case: dict[str, Any]) -> None:
    verdict = verdict_of(case["proposal"])
    assert ORDER[verdict.verdict] >= ORDER[case["peer"]["final"]], verdict
    assert verdict.schema_valid == case["peer"]["schema_valid"]
    if not verdict.schema_valid:
        assert verdict.verdict == "reject"
    if verdict.verdict in ("reject", "block"):
        assert verdict.errors
        assert verdict.becomes == "nothing"
    else:
        assert not verdict.errors
        assert verdict.reasons
