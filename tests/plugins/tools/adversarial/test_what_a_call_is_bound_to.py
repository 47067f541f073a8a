"""What a signed call is bound to, as one table: each change of the tuple refuses."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.plugins.tools.tool_bench import ToolBench
from threegate.approval.launch import launch_checks
from threegate.judgement.judge import Cleared
from threegate.launch.approved_file import Unrunnable, read_approved
from threegate.launch.pipeline import judge_now
from threegate.plugins.tools.action import EarlierCall, ServerState
from threegate.plugins.tools.kinds import ToolsAdded
from threegate.plugins.tools.process_states import write_states
from threegate.review.countersign import facts_now, read_waiting

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
    tools.bench.settings(results__release="never")


def contract(tools: ToolBench, path: Path) -> None:
    tools.contract("issue", "write")


BOUND: list[tuple[Callable[[ToolBench, Path], None], str]] = [
    (nothing, "made"),
    (argument, "request_changed"),
    (another_file, "request_changed"),
    (requester, "request_changed"),
    (description, "tools_changed"),
    (program, "tools_changed"),
    (policy, "policy_changed"),
    (contract, "policy_changed"),
]


@pytest.mark.parametrize(("change", "code"), BOUND, ids=lambda value: getattr(value, "__name__", value))
def test_each_change_refuses(tmp_path: Path, change: Callable[[ToolBench, Path], None], code: str) -> None:
    tools = ToolBench(tmp_path)
    path = tools.bench.approve(tools.draft()).path
    assert outcome(tools, path) == "made"
    change(tools, path)
    assert outcome(tools, path) == code


SECRET = {"secrets__HUB__env": "HUB_TOKEN", "secrets__HUB__host": "hub.example.com"}
SECRETS = {
    "another secret": ({"secrets__openai__env": "KEY"}, "made"),
    "another variable": ({"secrets__HUB__env": "ROOT_TOKEN"}, "shown_changed"),
    "a file": ({"secrets__HUB__env": "", "secrets__HUB__file": "/etc/key"}, "shown_changed"),
    "another host": ({"secrets__HUB__host": "else.example.com"}, "shown_changed"),
    "another method": ({"secrets__HUB__method": "PUT"}, "shown_changed"),
    "another path": ({"secrets__HUB__path": "/all"}, "shown_changed"),
}


@pytest.mark.parametrize("name", SECRETS)
def test_it_is_bound_to_where_its_secrets_come_from_and_to_no_others(tmp_path: Path, name: str) -> None:
    """The text that is signed says where they come from, so the policy digest need not have all secrets."""
    values, code = SECRETS[name]
    tools = ToolBench(tmp_path, secrets=("HUB",))
    tools.bench.settings(**SECRET)
    path = tools.bench.approve(tools.draft()).path
    assert outcome(tools, path) == "made"
    tools.bench.settings(**values)
    assert outcome(tools, path) == code


def test_a_server_in_a_container_is_bound_to_the_engine_and_another_is_not(tmp_path: Path) -> None:
    for place, image, code in (("jail", "", "made"), ("era", f"sha256:{'a' * 64}", "shown_changed")):
        for setting in ({"runners__era__engine": "unix:///else.sock"}, {"runners__era__require_readback": True}):
            folder = tmp_path / f"{place}-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            tools = ToolBench(folder, place=place, image=image)
            path = tools.bench.approve(tools.draft()).path
            assert outcome(tools, path) == "made"
            tools.bench.settings(**setting)
            assert outcome(tools, path) == code


def test_a_server_that_is_added_voids_nothing(tmp_path: Path) -> None:
    tools = ToolBench(tmp_path)
    path = tools.bench.approve(tools.draft()).path
    other = replace(tools.manifest, server="wiki")
    (tools.workspace.tools / "wiki.json").write_bytes(other.to_bytes())
    added = ToolsAdded(server="wiki", files={"tools/wiki.json": other.digest})
    tools.bench.context.trail.announce(added, actor="operator:alice")
    assert outcome(tools, path) == "made"


def test_time_and_another_owner_refuse(tmp_path: Path) -> None:
    tools = ToolBench(tmp_path)
    refuses_later_and_to_others(tools, tools.bench.approve(tools.draft()).path, "shown_changed")


def refuses_later_and_to_others(tools: ToolBench, path: Path, code: str) -> None:
    """In two days it has expired, and for another owner it is refused with a code."""
    facts = facts_now(tools.bench.context, read_waiting(tools.bench.context, path))
    assert all(check.ok for check in launch_checks(facts))
    late = replace(facts, now=facts.now + timedelta(days=2))
    assert [check.code for check in launch_checks(late) if check.ok is False] == ["expired"]
    elses = replace(facts, owner="AG-else", shown_sha256=lambda: "0" * 64)
    assert code in [check.code for check in launch_checks(elses) if check.ok is False]


def test_it_is_bound_to_what_its_server_did(tmp_path: Path) -> None:
    tools = ToolBench(tmp_path, stateful=True)
    path = tools.bench.approve(tools.draft()).path
    outcomes_by_state(tools, path, "state_changed")


def outcomes_by_state(tools: ToolBench, path: Path, after_another: str) -> None:
    """What becomes of a call after calls of others, after one of the same owner, and with a fresh process."""
    assert outcome(tools, path) == "made"
    called = ServerState("p", 1, (EarlierCall("TR-other", "issue", "{}", "succeeded"),))
    with tools.workspace.daemon_lock():
        write_states(tools.workspace, [("AG-else", tools.manifest.digest, called), (os.getuid(), "0" * 64, called)])
        assert outcome(tools, path) == "made", "another run's process, or another server's"
        write_states(tools.workspace, [(os.getuid(), tools.manifest.digest, called)])
        assert outcome(tools, path) == after_another
        write_states(tools.workspace, [])
        assert outcome(tools, path) == "made", "a fresh process is what was shown"
