"""A call of a stateful server is signed in the state that was shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.plugins.tools.tool_bench import ToolBench
from threegate.acts.approve import promote, seal, sign
from threegate.core.errors import Refused
from threegate.plugins.tools.action import EarlierCall, ServerState
from threegate.plugins.tools.process_states import write_states
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft

ME = os.getuid()


@pytest.fixture
def tools(tmp_path: Path) -> ToolBench:
    return ToolBench(tmp_path, stateful=True)


def has_done(tools: ToolBench, *statuses: str, count: int = 0) -> None:
    """What a daemon says of the process that the inbox's calls go to."""
    calls = tuple(EarlierCall(f"TR-{number}", "issue", '{"n":1}', text) for number, text in enumerate(statuses))
    rows = [(ME, tools.manifest.digest, ServerState("p", count or len(calls), calls))] if calls else []
    write_states(tools.workspace, rows)


def test_a_call_is_signed_in_the_state_that_was_shown(tools: ToolBench) -> None:
    context, key = tools.bench.context, tools.bench.keys["alice"]
    has_done(tools, "succeeded")
    with (
        tools.workspace.daemon_lock(),
        open_reviewed_draft(context, read_draft(tools.workspace, tools.draft())) as reviewed,
    ):
        sealed = seal(context, reviewed, "alice")
        assert b"what 1 call left in the process p:" in sealed.shown
        assert b'issue {"n":1}' in sealed.shown and b"succeeded, TR-0" in sealed.shown
        for statuses in (("succeeded", "succeeded"), ("tool_error",), ()):
            has_done(tools, *statuses)
            with pytest.raises(Refused, match="meanwhile; review it again") as other:
                promote(context, reviewed, sealed, sign(sealed, key), actor="operator:alice")
            assert other.value.code == "state_changed"
        has_done(tools, "succeeded")
        promote(context, reviewed, sealed, sign(sealed, key), actor="operator:alice")


def test_nothing_is_signed_while_its_server_works_on_another_call(tools: ToolBench) -> None:
    has_done(tools, "succeeded", "running")
    with tools.workspace.daemon_lock(), pytest.raises(Refused, match="is working on another call") as busy:
        tools.bench.approve(tools.draft())
    assert busy.value.code == "state_changed"


def test_the_card_counts_what_it_does_not_list(tools: ToolBench) -> None:
    context = tools.bench.context
    has_done(tools, "succeeded", "tool_error", count=7)
    with (
        tools.workspace.daemon_lock(),
        open_reviewed_draft(context, read_draft(tools.workspace, tools.draft())) as reviewed,
    ):
        shown = seal(context, reviewed, "alice").shown.decode()
    assert "what 7 calls left in the process p, the last 2:" in shown and shown.count("before ") == 2


def test_without_a_daemon_the_call_is_the_first(tools: ToolBench) -> None:
    has_done(tools, "succeeded")
    context = tools.bench.context
    with open_reviewed_draft(context, read_draft(tools.workspace, tools.draft())) as reviewed:
        shown = seal(context, reviewed, "alice").shown
    assert b"none: this call starts a fresh process of the server" in shown
