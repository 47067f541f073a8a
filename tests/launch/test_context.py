"""The context: frozen, whole, and the place that says why nothing may be launched."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.acts.bench_workspace import Bench
from tests.launch.launching import waiting
from threegate.core.errors import TrailError, Unavailable
from threegate.judgement.judge import Cleared, NotCleared
from threegate.judgement.policy import Policy
from threegate.launch.context import Context, daemon_context, open_context
from threegate.launch.pipeline import judge_now
from threegate.trail.trail import Trail


def without_id(policy: Policy) -> Policy:
    settings = policy.settings
    workspace = settings.workspace.but(id="")
    return replace(policy, settings=settings.but(workspace=workspace))


def test_a_new_policy_makes_a_new_context_and_leaves_the_old_one(bench: Bench, context: Context) -> None:
    bench.settings(results__release="never")
    new = replace(context, policy=bench.context.policy)
    assert new.policy.digest != context.policy.digest
    shared = ("workspace", "trail", "contracts", "decisions", "runners", "on_end")
    assert all(getattr(new, name) is getattr(context, name) for name in shared)
    with pytest.raises(FrozenInstanceError):
        context.policy = new.policy  # type: ignore[misc]


def test_a_command_has_no_runner_and_reads_everything_now(bench: Bench) -> None:
    first = open_context(bench.workspace)
    assert not first.runners and first.boot_nonce == ""
    assert first.workspace_id == first.policy.settings.workspace.id != ""
    first.on_end("req-1", "succeeded")
    bench.settings(results__release="never")
    later = open_context(bench.workspace, first.contracts, first.trail)
    assert later.policy.digest != first.policy.digest
    assert later.trail is first.trail and later.contracts is first.contracts


def test_a_daemon_needs_an_id_and_a_trail(bench: Bench) -> None:
    policy, trail = bench.context.policy, Trail(bench.workspace)
    with pytest.raises(Unavailable, match=r"workspace\.id is missing"):
        daemon_context(bench.workspace, trail, without_id(policy), boot_nonce="0")
    bench.workspace.trail_file.unlink()
    with pytest.raises(TrailError, match="the trail is missing"):
        daemon_context(bench.workspace, trail, policy, boot_nonce="0")


def test_nothing_runs_on_a_decision_that_is_not_recorded(bench: Bench, context: Context) -> None:
    judgement, now = judge_now(context, waiting(bench, context))
    assert isinstance(judgement, Cleared)
    log = bench.workspace.decisions_file
    context.decided(NotCleared("refuse", "signature_missing", "no"), now)
    assert not log.exists(), "AANA was not asked"
    context.decided(judgement, now)
    assert len(log.read_text().splitlines()) == 1
    log.unlink()
    log.mkdir()
    with pytest.raises(Unavailable, match="nothing is started until it can"):
        context.decided(judgement, now)


def test_all_is_well_until_something_is_not(bench: Bench, context: Context) -> None:
    assert context.begin() is None
    other = without_id(context.policy)
    problem = replace(context, policy=other).begin()
    assert problem is not None and problem[0] == "workspace_mismatch"
    hour = timedelta(hours=1)
    slow = replace(context, trail=Trail(bench.workspace, clock=lambda: datetime.now(UTC) - hour))
    problem = slow.begin()
    assert problem is not None and problem[0] == "clock_went_back"
    operators = bench.workspace.operators_file
    operators.write_bytes(operators.read_bytes() + b"# mine\n")
    problem = context.begin()
    assert problem is not None and problem[0] == "operators_changed"
