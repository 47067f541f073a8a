"""What an allowed call is bound to, as one table: by a signature of its own and by a grant, each change of the tuple
refuses.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.acts.tool_bench import ToolBench
from threegate.acts.grants import use_grants
from threegate.approval import launch_checks
from threegate.judgement.judge import Cleared
from threegate.launch.approved_file import Unrunnable, read_approved
from threegate.launch.pipeline import judge_now
from threegate.review.countersign import facts_now, read_waiting
from threegate.tools.action import EarlierCall, ServerState
from threegate.tools.process_states import write_states

ME = pwd.getpwuid(os.getuid()).pw_name


def outcome(tools: ToolBench, path: Path) -> str:
    """What the daemon would do with it now: ``made``, or the reason why not."""
    context = tools.bench.context
    found = read_approved(context, path)
    if isinstance(found, Unrunnable):
        return found.code
    judgement, _ = judge_now(context, found)
    return "made" if isinstance(judgement, Cleared) else judgement.code


def nothing(tools: ToolBench, path: Path) -> None:
    """The same tuple, with fresh eyes: a restart is no change."""


def argument(tools: ToolBench, path: Path) -> None:
    path.write_text(path.read_text().replace('"number":7', '"number":8'))


def another_file(tools: ToolBench, path: Path) -> None:
    path.write_text(path.read_text().replace("acme/site", "else/site"))


def requester(tools: ToolBench, path: Path) -> None:
    path.write_text(path.read_text().replace("requested_by: core", "requested_by: else"))


def description(tools: ToolBench, path: Path) -> None:
    first, *others = tools.manifest.tools
    tools.manifest = replace(tools.manifest, tools=(replace(first, description="Read it well."), *others))
    tools.pin()


def program(tools: ToolBench, path: Path) -> None:
    tools.manifest = replace(tools.manifest, program={"/usr/bin/hub": "f" * 64})
    tools.pin()


def policy(tools: ToolBench, path: Path) -> None:
    tools.bench.settings(request__max_memory_mb=2048)


def contract(tools: ToolBench, path: Path) -> None:
    tools.contract("issue", "write")


BOUND: list[tuple[Callable[[ToolBench, Path], None], str, str]] = [
    (nothing, "made", "made"),
    (
        argument,
        "request_changed",
        "made",
    ),  # it is a call that the grant covers as well
    (another_file, "request_changed", "grant_mismatch"),
    (requester, "request_changed", "grant_mismatch"),
    (description, "tools_changed", "tools_changed"),
    (program, "tools_changed", "tools_changed"),
    (policy, "policy_changed", "policy_changed"),
    (contract, "policy_changed", "policy_changed"),
]


@pytest.mark.parametrize(("change", "signed", "granted"), BOUND, ids=lambda value: getattr(value, "__name__", value))
def test_each_change_refuses(
    tmp_path: Path, change: Callable[[ToolBench, Path], None], signed: str, granted: str
) -> None:
    tools = ToolBench(tmp_path)
    one = tools.bench.approve(tools.draft()).path
    tools.give(by=ME)
    (other,) = use_grants(tools.bench.context, [tools.draft()])
    assert [outcome(tools, path) for path in (one, other.path)] == ["made", "made"]
    for path in (one, other.path):
        change(tools, path)
    assert [outcome(tools, path) for path in (one, other.path)] == [signed, granted]


def test_time_and_another_owner_refuse(tmp_path: Path) -> None:
    tools = ToolBench(tmp_path)
    tools.give(by=ME, seconds=60)
    (granted,) = use_grants(tools.bench.context, [tools.draft()])
    signed = tools.bench.approve(tools.draft()).path
    context = tools.bench.context
    for path, other in ((signed, "shown_changed"), (granted.path, "grant_mismatch")):
        facts = facts_now(context, read_waiting(context, path))
        assert all(check.ok for check in launch_checks(facts))
        late = replace(facts, now=facts.now + timedelta(days=2))
        assert [check.code for check in launch_checks(late) if check.ok is False] == ["expired"]
        elses = replace(facts, owner="AG-else", shown_sha256=lambda: "0" * 64)
        assert other in [check.code for check in launch_checks(elses) if check.ok is False]


def test_a_signed_call_is_bound_to_what_its_server_did_and_a_granted_one_is_not(tmp_path: Path) -> None:
    tools = ToolBench(tmp_path, stateful=True)
    one = tools.bench.approve(tools.draft()).path
    tools.give(by=ME)
    (other,) = use_grants(tools.bench.context, [tools.draft()])
    assert [outcome(tools, path) for path in (one, other.path)] == ["made", "made"]
    called = ServerState("p", 1, (EarlierCall("TR-other", "issue", "{}", "succeeded"),))
    with tools.workspace.daemon_lock():
        write_states(tools.workspace, [("AG-else", tools.manifest.digest, called), (os.getuid(), "0" * 64, called)])
        assert outcome(tools, one) == "made", "another run's process, or another server's"
        write_states(tools.workspace, [(os.getuid(), tools.manifest.digest, called)])
        assert [outcome(tools, path) for path in (one, other.path)] == ["state_changed", "made"]
        write_states(tools.workspace, [])
        assert outcome(tools, one) == "made", "a fresh process is what was shown"
