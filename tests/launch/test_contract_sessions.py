"""Contracts and sessions asked about a request: nothing here changes a session, and what cannot be known is a block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.acts.bench_workspace import Bench
from tests.contracts.material import folder
from tests.launch.launching import CountingRunner, daemons, history_of, launched, waiting
from threegate.contracts.state import Decision
from threegate.core.errors import Refused
from threegate.launch.approved_file import Approved
from threegate.launch.context import Context
from threegate.trail.payloads import Claimed

TOOL = "threegate.monty"


@dataclass
class Asked:
    """A waiting request, and the contracts that were laid after it was approved."""

    context: Context
    approved: Approved

    def decide(self) -> Decision:
        context, approved = self.context, self.approved
        with context.trail.locked() as held:
            return context.contracts.decide(held, context.policy, approved.request, approved.job, held.now)[0]

    def reserve(self) -> Any:
        context, approved = self.context, self.approved
        with context.trail.locked() as held:
            return context.contracts.reserve(held, context.policy, approved.request, approved.job)

    def blocked(self, code: str) -> Any:
        context, approved = self.context, self.approved
        with context.trail.locked() as held:
            return context.contracts.blocked(held, context.policy, approved.request, approved.job, code)

    def sessions(self) -> dict[str, Any]:
        with self.context.trail.locked() as held:
            return self.context.contracts.view(held, self.context.policy).to_json()


def asked(bench: Bench, spec: dict[str, Any], **settings: str) -> Asked:
    """`spec` is laid, and the settings set, before the request is approved."""
    for name, data in folder(spec).items():
        (bench.workspace.contracts / name).write_bytes(data)
    if settings:
        bench.settings(**settings)
    (context,) = daemons(bench, CountingRunner(), 1)
    return Asked(context, waiting(bench, context))


def codes(decision: Decision) -> tuple[str, list[str]]:
    return decision.verdict, [item.code for item in decision.reasons]


def test_an_empty_folder_is_no_gate(bench: Bench) -> None:
    found = asked(bench, {})
    context, approved = found.context, found.approved
    contracts, policy = context.contracts, context.policy
    assert codes(found.decide()) == ("allow", ["no_contracts"])
    assert found.reserve() is None and found.blocked("session_limit_exceeded") is None
    assert not contracts.write_class(policy, approved.request)
    assert contracts.time_cap_sec(policy, approved.request) is None
    assert not contracts.may_retry(policy, approved.request, "unavailable", 1)
    with context.trail.locked() as held:
        assert contracts.demand(held, policy, approved.request, approved.job) is None
    launched(context, approved)
    finished = history_of(context).finished
    assert finished is not None and "contract" not in finished.data


def test_contracts_that_do_not_compile_block_everything(bench: Bench) -> None:
    (context,) = daemons(bench, CountingRunner(), 1)
    approved = waiting(bench, context)
    (bench.workspace.contracts / "broken.yaml").write_bytes(b"tool: [")
    (broken,) = daemons(bench, CountingRunner(), 1)
    found = Asked(broken, approved)
    assert codes(found.decide()) == ("block", ["contracts_do_not_compile"])
    refused = found.reserve()
    assert isinstance(refused, Refused) and refused.code == "contracts_do_not_compile"
    assert found.blocked("contracts_do_not_compile") is None
    assert not broken.contracts.may_retry(broken.policy, approved.request, "unavailable", 1)


def test_asking_and_reserving_change_no_session(bench: Bench) -> None:
    found = asked(bench, {TOOL: {}, "session": {"session_limits": {"max_steps": 1}}})
    assert found.decide().verdict == "allow", "the requester's default session is there when it is asked for"
    before = found.sessions()
    for _ in range(3):
        assert found.decide().verdict == "allow"
        reserved = found.reserve()
        assert reserved.tool == TOOL and reserved.session.startswith("default:")
        assert found.blocked("session_limit_exceeded") is not None
    assert found.sessions() == before, "only an event moves a session"
    launched(found.context, found.approved)
    [session] = found.sessions()["sessions"].values()
    assert session["state"]["tally"]["steps"] == 1 and session["pending"] == {}


def test_only_what_this_gate_refused_moves_a_session(bench: Bench) -> None:
    found = asked(bench, {TOOL: {}})
    assert found.blocked("signature_invalid") is None and found.blocked("policy_changed") is None
    assert found.blocked("input_invariant").tool == TOOL


@pytest.mark.parametrize(("total_ms", "seconds"), [(1, 1), (1000, 1), (1001, 2), (60000, 60)])
def test_a_contracts_time_is_rounded_up_to_seconds(bench: Bench, total_ms: int, seconds: int) -> None:
    found = asked(bench, {TOOL: {"timeouts": {"total_ms": total_ms}}})
    context = found.context
    assert context.contracts.time_cap_sec(context.policy, found.approved.request) == seconds
    assert found.approved.job.limits.time_sec == min(seconds, 10)


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
def test_in_shadow_mode_it_says_what_it_would_do(bench: Bench, mode: str) -> None:
    invariant = {"path": "$.limits.memory_mb", "lte": 1}
    (context,) = daemons(bench, CountingRunner(), 1)
    approved = waiting(bench, context)
    spec = {TOOL: {"assertions": {"input_invariants": [invariant], "output_invariants": []}}}
    for name, data in folder(spec).items():
        (bench.workspace.contracts / name).write_bytes(data)
    bench.settings(contracts__mode=mode)
    found = Asked(daemons(bench, CountingRunner(), 1)[0], approved)
    assert codes(found.decide()) == ("block", ["input_invariant"])
    reserved = found.reserve()
    if mode == "shadow":
        assert reserved.would_block == "input_invariant"
    else:
        assert isinstance(reserved, Refused) and reserved.code == "input_invariant"


def test_a_lost_call_gives_its_reservation_back(bench: Bench) -> None:
    found = asked(bench, {TOOL: {}})
    launched(found.context, found.approved)
    history = history_of(found.context)
    claimed = Claimed.of(history.claimed)
    assert claimed is not None and claimed.contract is not None
    lost = found.context.contracts.lost(claimed)
    assert lost is not None and set(lost.to_data()) == {"session", "requester"}
    assert lost.session == claimed.contract.session
    assert found.context.contracts.lost(replace(claimed, contract=None)) is None
