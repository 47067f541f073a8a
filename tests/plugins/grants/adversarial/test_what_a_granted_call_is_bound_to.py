"""What a call under a grant is bound to, beside a signed one: each change of the tuple refuses, but for what the grant
covers as well.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugins.grants.granting_bench import GrantingBench
from tests.plugins.tools.adversarial import test_what_a_call_is_bound_to as signed
from tests.plugins.tools.adversarial.test_what_a_call_is_bound_to import ME, outcome
from tests.plugins.tools.tool_bench import ToolBench
from threegate.plugins.grants.promotion import use_grants

BOUND: list[tuple[Callable[[ToolBench, Path], None], str]] = [
    (signed.nothing, "made"),
    (signed.argument, "made"),  # it is a call that the grant covers as well
    (signed.another_file, "grant_mismatch"),
    (signed.requester, "grant_mismatch"),
    (signed.description, "tools_changed"),
    (signed.program, "tools_changed"),
    (signed.policy, "policy_changed"),
    (signed.contract, "policy_changed"),
]


def promoted(tools: GrantingBench) -> Path:
    """A draft that was promoted under a grant."""
    (found,) = use_grants(tools.bench.context, [tools.draft()])
    return found.path


@pytest.mark.parametrize(("change", "code"), BOUND, ids=lambda value: getattr(value, "__name__", value))
def test_each_change_refuses(tmp_path: Path, change: Callable[[ToolBench, Path], None], code: str) -> None:
    tools = GrantingBench(tmp_path)
    one = tools.bench.approve(tools.draft()).path
    tools.give(by=ME)
    other = promoted(tools)
    assert [outcome(tools, path) for path in (one, other)] == ["made", "made"]
    for path in (one, other):
        change(tools, path)
    assert [outcome(tools, path) for path in (one, other)] == [dict(signed.BOUND)[change], code]


def test_time_and_another_owner_refuse(tmp_path: Path) -> None:
    tools = GrantingBench(tmp_path)
    tools.give(by=ME, seconds=60)
    signed.refuses_later_and_to_others(tools, promoted(tools), "grant_mismatch")


def test_it_is_not_bound_to_what_its_server_did(tmp_path: Path) -> None:
    tools = GrantingBench(tmp_path, stateful=True)
    tools.give(by=ME)
    signed.outcomes_by_state(tools, promoted(tools), "made")
