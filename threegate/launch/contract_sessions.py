"""Gate 3b for the daemon and the commands: requests become calls, and the trail's events move the sessions.

Without contracts every answer is "no contracts, pass"; if the contracts do not compile or a session's state is unknown,
every answer is a block. Everything that takes `held` is called under the trail's lock.

Invariant: nothing here changes a session; every method reads the fold of the trail (`SessionStore.view`) and returns
data for the event that its caller writes, and that event is what moves the session. So a crash between the two loses
nothing, and parallel runs cannot race past a limit: the next claim has already folded this one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threegate.approval.shown.request_sections import requesters
from threegate.contracts.contract_checkpoints import call_sha256
from threegate.contracts.reasons import REASONS
from threegate.contracts.session import SessionStore
from threegate.contracts.session_table import SessionTable
from threegate.contracts.state import Call, Decision, Reason, block
from threegate.contracts.transitions import may_retry, seen_key
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.launch.past_calls import PastCalls, call_of, outcome_of
from threegate.launch.results.result_facts import read_record
from threegate.runners.interface import without_exited
from threegate.trail.payloads import Claimed, ContractMove

if TYPE_CHECKING:
    from threegate.contracts.model_tool import ToolContract
    from threegate.core.workspace import Workspace
    from threegate.judgement.policy import Policy
    from threegate.request.job import Job
    from threegate.request.model import Request
    from threegate.trail.payloads.payload import Owner
    from threegate.trail.trail import LockedTrail

_NO_CONTRACTS = Decision("allow", (Reason(0, "no_contracts", "", "the contracts folder is empty"),))

_GIVEN_BACK = frozenset({"cancelled", "interrupted", "unavailable"})
"""Statuses whose event is not `finished`: the claim is released, and the circuit breaker does not move."""


class ContractSessions:
    """Queries the contracts and the sessions of a workspace about requests."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @cached_property
    def store(self) -> SessionStore:
        """The sessions, for a workspace that has contracts."""
        return SessionStore(self.workspace)

    def write_class(self, policy: Policy, request: Request) -> bool:
        """Whether an applicable contract declares a side effect above read, or none declares the tool's side effect."""
        found = _contracts(policy, request)
        return any(contract.side_effect != "read" for contract in found) or (request.action.own_tool and not found)

    def time_cap_sec(self, policy: Policy, request: Request) -> int | None:
        """The lowest `timeouts.total_ms` of the applicable contracts, in whole seconds (rounded up)."""
        caps = [contract.timeouts.total_ms for contract in _contracts(policy, request)]
        return max(1, math.ceil(min(caps) / 1000)) if caps else None

    def may_retry(self, policy: Policy, request: Request, status: str, attempts: int) -> bool:
        """Whether every applicable contract allows repeating an attempt that never started (in enforce mode)."""
        return (
            policy.contracts.ok
            and policy.settings.contracts.mode == "enforce"
            # Where a tool has no contract, nobody said that it may be repeated.
            and all(policy.contracts.contracts_of(name) for name in _tools(request))
            and all(may_retry(contract, status, attempts) for contract in _contracts(policy, request))
        )

    def decide(
        self,
        held: LockedTrail,
        policy: Policy,
        request: Request,
        job: Job,
        now: datetime,
        *,
        owner: Owner | None = None,
    ) -> tuple[Decision, Call | None]:
        """The decision of contracts and session on this call now, and the call, where there are contracts. Changes no
        session.

        `owner` is the draft's owner, if the trail does not know it yet (during approval).
        """
        compiled = policy.contracts
        if not compiled.ok:
            return block(0, "contracts_do_not_compile", "run threegate contracts check"), None
        if compiled.empty:
            return _NO_CONTRACTS, None
        try:
            table = self.view(held, policy)
        except Unavailable as error:
            return block(0, "session_state_lost", str(error)), None
        call = self._call(held, policy, table, request, job, owner)
        # A session of someone else would have that one's limits, and its place in a workflow.
        wrong = _place(table, call, job)
        return (wrong, call) if wrong is not None else (table.decide(call, now), call)

    def view(self, held: LockedTrail, policy: Policy) -> SessionTable:
        """All current sessions according to the trail, under contracts that compile and are not empty.

        Raises Unavailable if an event of the trail cannot be applied: then nothing is allowed.
        """
        try:
            return self.store.view(held, policy.contracts, PastCalls(self.workspace, policy, self.time_cap_sec))
        except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
            raise Unavailable(
                f"the sessions cannot be read from the trail ({type(error).__name__}); nothing is allowed"
            ) from error

    def _call(
        self,
        held: LockedTrail,
        policy: Policy,
        table: SessionTable,
        request: Request,
        job: Job,
        owner: Owner | None,
    ) -> Call:
        """The call that a request makes. The session is the named one, or the requester's default.

        The requester is derived from the draft's owner, never from `requested_by`: otherwise an agent could
        take a new session, with new limits, by writing another name.
        """
        history = held.index.history(request.request_id)
        owner = history.owner if history is not None and history.owner is not None else owner
        run = held.index.run(owner)
        mapped = requesters(policy.settings, run).get(str(owner)) if owner is not None else None
        requester = mapped or (f"uid-{owner}" if owner is not None else "unknown")
        attributes: Mapping[str, Any] = policy.settings.principals.get(mapped, {}) if mapped else {}
        session_id = job.session_id
        if session_id is None:
            session_id = table.default_session(run.run if run else requester).session_id
        call = call_of(policy, request, job, session_id)
        return replace(
            call,
            principal={
                **attributes,
                **({"run": run.run} if run else {}),
                "name": requester,
                "approved_by": request.approved_by or "",
                "backend": job.backend,
                "risk": job.effective_risk,
                "data_sensitivity": job.data_sensitivity,
            },
            asked=table.asked.get(request.request_id),
            answer=table.answers.get(request.request_id),
        )

    def reserve(
        self,
        held: LockedTrail,
        policy: Policy,
        request: Request,
        job: Job,
    ) -> ContractMove | Refused | None:
        """Decide once more, under the lock of the claim; return the call's data for `claimed`. A Refused
        means: judge again.
        """
        decision, call = self.decide(held, policy, request, job, held.now)
        allowed = decision.verdict == "allow"
        # In shadow mode a block is only recorded.
        if not allowed and policy.settings.contracts.mode != "shadow":
            return Refused(decision.code or "contract_blocked", "the contract gate does not allow it now")
        would_block = None if allowed else decision.code or ""
        # In shadow mode the request may name a session that nobody opened.
        if call is None or call.session_id not in self.view(held, policy).sessions:
            return None if allowed else ContractMove(would_block=would_block)
        return replace(_named(self.view(held, policy), call), would_block=would_block)

    def commit(
        self, held: LockedTrail, policy: Policy, request: Request, status: str, run_folder: Path
    ) -> ContractMove | None:
        """The call's data for the event of the end: what the outcome means under the contract."""
        if policy.contracts.empty or not policy.contracts.ok:
            return None
        try:
            table = self.view(held, policy)
        except Unavailable:
            return ContractMove(status="session_state_lost")
        session = next((item for item in table.sessions.values() if request.request_id in item.pending), None)
        if session is None:  # nothing was reserved for it
            return None
        lost = ContractMove(session=session.session_id, requester=session.requester, status="session_state_lost")
        call = session.pending[request.request_id].call
        try:
            # No event names the record's digest yet: the one that this is for will.
            facts = read_record(run_folder, created_utc=held.now, trail_seq=0, sha256=None)
        except InvalidInput:
            return lost
        outcome = outcome_of(facts, run_folder, policy.settings.contracts.cost_per_second)
        if outcome is None:
            return lost
        # On a copy: the event that this returns is what moves the session.
        trial = SessionTable.from_json(policy.contracts, table.to_json())
        effect = trial.commit(call, replace(outcome, status=without_exited(status)), held.now)
        return replace(
            lost,
            status=effect.status,
            codes=tuple(sorted({item.code for item in effect.reasons})),
            ends=None if status in _GIVEN_BACK else _ends(policy, table, trial),
        )

    def blocked(self, held: LockedTrail, policy: Policy, request: Request, job: Job, code: str) -> ContractMove | None:
        """The call's data for the event of a refusal: only a refusal by the contract gate moves a session."""
        compiled = policy.contracts
        if code not in REASONS or compiled.empty or not compiled.ok:
            return None
        try:
            table = self.view(held, policy)
        except Unavailable:
            return None
        call = self._call(held, policy, table, request, job, None)
        if call.session_id not in table.sessions:
            return None
        named = _named(table, call)
        if call.session_id in table.members:
            trial = SessionTable.from_json(compiled, table.to_json())
            trial.note_block(call)
            named = replace(named, ends=_ends(policy, table, trial))
        return named

    def lost(self, claimed: Claimed) -> ContractMove | None:
        """The call's data for the event of an interruption: its reservation is released."""
        contract = claimed.contract
        return contract and ContractMove(session=contract.session, requester=contract.requester)

    def demand(
        self, held: LockedTrail, policy: Policy, request: Request, job: Job
    ) -> tuple[Decision, str, Call] | None:
        """For `contracts checkpoints`: the current decision, the call's digest, the call; None without contracts."""
        decision, call = self.decide(held, policy, request, job, held.now)
        return None if call is None else (decision, call_sha256(call), call)


def _contracts(policy: Policy, request: Request) -> list[ToolContract]:
    """Every contract that may apply to a request: whatever role it has, no rule is looser than its strictest one."""
    return [contract for name in _tools(request) for contract in policy.contracts.contracts_of(name)]


def _tools(request: Request) -> tuple[str, ...]:
    if request.action.own_tool:
        return (str(request.tool),)
    backend = f"threegate.{request.backend.lower()}"
    return (backend,) if request.tool in (None, backend) else (backend, str(request.tool))


def _place(table: SessionTable, call: Call, job: Job) -> Decision | None:
    """The block for a request that names a session, role or workflow that is not its own."""
    session = table.sessions.get(call.session_id)
    principal = call.principal or {}
    if session is None or session.requester not in ("", principal.get("name"), principal.get("run")):
        return block(0, "unknown_session", "the operator has not opened that session", "session_id")
    member = table.members.get(call.session_id)
    if job.workflow is not None and (member is None or member.workflow != job.workflow):
        return block(0, "unknown_workflow", "the session is not in that workflow", "workflow")
    if job.role is not None and (member is None or member.role != job.role):
        return block(0, "unknown_role", "the session does not have that role", "role")
    return None


def _named(table: SessionTable, call: Call) -> ContractMove:
    """An event's data about a call: names and digests, never a value."""
    session = table.sessions[call.session_id]
    requester = session.requester or str((call.principal or {}).get("name"))
    return ContractMove(session=call.session_id, requester=requester, tool=call.tool, loop=seen_key(call).hex())


def _ends(policy: Policy, before: SessionTable, after: SessionTable) -> tuple[str, ...] | None:
    """The running requests of sessions that an event kills with their parent; its writer stops them."""
    if policy.settings.contracts.mode == "shadow":
        return None
    found = sorted(
        request_id
        for key, session in after.sessions.items()
        if session.killed == "session_killed" and before.sessions[key].killed is None
        for request_id in before.sessions[key].pending
    )
    return tuple(found) or None
