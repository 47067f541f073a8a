"""Lines of a play from a caller who wants more than the contracts give: budget back, memory, a claim that never
ends.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.contracts.material import folder
from threegate.contracts.compiler import compile_folder
from threegate.contracts.play import Play
from threegate.core.errors import InvalidInput

CALL: dict[str, Any] = {"tool": "send", "arguments": {}}


def play_of(**spec: Any) -> Play:
    return Play(compile_folder(folder({"send": {}, "session": {}, **spec}), environment={}))


@pytest.mark.parametrize(
    "more", [{"cost": -100, "outcome": "succeeded"}, {"outcome": {"status": "succeeded", "cost": -100}}]
)
def test_a_cost_below_zero_gives_no_budget_back(more: dict[str, Any]) -> None:
    play = play_of(session={"session_limits": {"max_cost_per_session": 10}})
    assert play.line({**CALL, "cost": 9, "outcome": "succeeded"}).to_json()["verdict"] == "allow"
    with pytest.raises(InvalidInput, match="cost"):
        play.line({**CALL, **more})
    assert play.line({**CALL, "cost": 9}).to_json()["verdict"] == "block"


@pytest.mark.parametrize("end", [{"outcome": {"status": 7}}, {"outcome": None}, {"outcome": "succeeded", "at": "soon"}])
def test_an_end_that_says_nothing_leaves_the_claim_as_it_is(end: dict[str, Any]) -> None:
    play = play_of()
    play.line({**CALL, "claim": "mine"})
    with pytest.raises(InvalidInput):
        play.line({"finish": "mine", **end})
    assert list(play.claimed) == list(play.table.sessions["default"].pending) == ["mine"]
    assert play.line({"finish": "mine"}).to_json()["outcome"]["status"] == "committed"
    assert not play.table.sessions["default"].pending


def test_a_workflow_that_was_not_entered_is_not_remembered() -> None:
    play = play_of(workflow={})
    for number in range(5):
        line = {**CALL, "session_id": f"s{number}", "workflow_session": f"w{number}", "role": "nobody"}
        assert play.line(line).to_json()["reasons"][0]["code"] == "unknown_role"
    assert not play.table.workflows and not play.table.sessions


def test_no_child_of_a_session_that_ended_lives_however_long_the_chain_is() -> None:
    rules = {"handoffs": [{"from": "boss", "to": "boss"}], "parent_close_policy": {"default": "terminate"}}
    play = play_of(workflow=rules)
    play.line({**CALL, "session_id": "s0", "role": "boss"})
    for number in range(1, 1100):
        play.line({**CALL, "session_id": f"s{number}", "role": "boss", "parent": f"s{number - 1}"})
    play.line({"close": "s0"})
    assert len(play.table.sessions) == 1100
    assert all(session.killed is not None for session in play.table.sessions.values())
