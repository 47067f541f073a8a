"""The contract gate of a workspace with contracts: requests become calls, and the trail's events move the sessions.

Invariant: nothing here changes a session; every method reads the fold of the trail (`SessionStore.view`) and
gives data for the event that its caller writes, and that event is what moves the session. So a crash between
the two loses nothing, and parallel runs cannot race a limit: whoever claims next has folded the claim before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from threegate import canonical, durable, limits
from threegate.audit import Event, LockedTrail, RequestHistory
from threegate.call_event import backend_tool, call_arguments, tool_name
from threegate.contract_gate import NO_CONTRACTS
from threegate.contracts import Call, Decision, Outcome, Session
from threegate.contracts.book import Book
from threegate.contracts.checkpoints import call_sha256
from threegate.contracts.engine import may_retry
from threegate.contracts.movement import seen_key
from threegate.contracts.paths import MISSING
from threegate.contracts.reasons import REASONS
from threegate.contracts.session import SessionStore
from threegate.contracts.state import block
from threegate.errors import InvalidInput, Refused, Unavailable
from threegate.job import Job, Platform, build_job
from threegate.policy import Policy
from threegate.request import read_request
from threegate.request.model import Request
from threegate.results import ResultFacts, read_record
from threegate.settings import RequestSettings
from threegate.workspace import STATES, Workspace

RESULT_FILE = "result.json"
"""The output that a contract calls the call's output."""

_GIVEN_BACK = frozenset({"cancelled", "interrupted", "unavailable"})
"""Statuses whose event is not `finished`: the claim is given back, and the breaker does not move."""

_WIDEST = RequestSettings(max_cpu=1024.0, max_memory_mb=10**9, max_time_sec=10**9)
"""The fold reads requests that ran; which maxima held then was judged then."""


class SessionGate:
    """Asks the contracts about requests."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.store = SessionStore(workspace)

    def write_class(self, policy: Policy, request: Request) -> bool:
        """Whether a contract that applies says that the side effect is above read."""
        contracts = policy.contracts.contracts
        return any(contracts[name].side_effect != "read" for name in _tools(request) if name in contracts)

    def time_cap_sec(self, policy: Policy, request: Request) -> int | None:
        """The lowest `timeouts.total_ms` of the contracts that apply, in whole seconds (rounded up)."""
        contracts = policy.contracts.contracts
        caps = [contracts[name].timeouts.total_ms for name in _tools(request) if name in contracts]
        return max(1, math.ceil(min(caps) / 1000)) if caps else None

    def may_retry(self, policy: Policy, request: Request, status: str, attempts: int) -> bool:
        """Whether every contract that applies lets an attempt that never started be made again (in enforce mode)."""
        contracts = policy.contracts.contracts
        return (
            policy.contracts.ok
            and policy.settings.contracts.mode == "enforce"
            and all(
                name in contracts and may_retry(contracts[name], status, attempts) for name in _tools(request)
            )
        )

    def decide(
        self,
        held: LockedTrail,
        policy: Policy,
        request: Request,
        job: Job,
        now: datetime,
        *,
        owner_uid: int | None = None,
    ) -> Decision:
        """What contracts and session say about this call now. Changes no session.

        `owner_uid` is the draft's owner where the trail does not know it yet (while it is approved).
        """
        decision, _ = self._decide(held, policy, request, job, now, owner_uid)
        return decision

    def _decide(
        self,
        held: LockedTrail,
        policy: Policy,
        request: Request,
        job: Job,
        now: datetime,
        owner_uid: int | None,
    ) -> tuple[Decision, Call | None]:
        compiled = policy.contracts
        if not compiled.ok:
            return block(0, "contracts_do_not_compile", "run threegate contracts check"), None
        if compiled.empty:
            return NO_CONTRACTS, None
        try:
            book = self.view(held, policy)
        except Unavailable as error:
            return block(0, "session_state_lost", str(error)), None
        call = self._call(held, policy, book, request, job, owner_uid)
        wrong = _place(book, call, job)
        return (wrong, call) if wrong is not None else (book.decide(call, now), call)

    def view(self, held: LockedTrail, policy: Policy) -> Book:
        """All sessions as the trail has them now, under contracts that compile and are not empty.

        Raises Unavailable when an event of the trail cannot be taken: then nothing is let through.
        """
        try:
            return self.store.view(held, policy.contracts, _Files(self.workspace, policy, self))
        except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
            raise Unavailable(
                f"the sessions cannot be read from the trail ({type(error).__name__}); nothing is let through"
            ) from error

    def _call(
        self,
        held: LockedTrail,
        policy: Policy,
        book: Book,
        request: Request,
        job: Job,
        owner_uid: int | None,
    ) -> Call:
        """The call that a request is. The session is the named one, or the requester's default.

        Who the requester is comes from the draft's owner, never from `requested_by`: whoever is judged could
        otherwise take a fresh session, with fresh limits, by writing another name.
        """
        history = held.index.history(request.request_id)
        owner = history.owner_uid if history is not None and history.owner_uid is not None else owner_uid
        mapped = policy.settings.requesters.get(str(owner)) if owner is not None else None
        requester = mapped or (f"uid-{owner}" if owner is not None else "unknown")
        attributes: Mapping[str, Any] = policy.settings.principals.get(mapped, {}) if mapped else {}
        session_id = job.session_id
        if session_id is None:
            session_id = book.default_session(requester).session_id
        call = call_of(policy, request, job, session_id)
        return replace(
            call,
            principal={
                **attributes,
                "name": requester,
                "approved_by": request.approved_by or "",
                "backend": job.backend,
                "risk": job.effective_risk,
                "data_sensitivity": job.data_sensitivity,
            },
            asked=book.asked.get(request.request_id),
            answer=book.answers.get(request.request_id),
        )

    def reserve(
        self,
        held: LockedTrail,
        policy: Policy,
        request: Request,
        job: Job | None,
        history: RequestHistory | None,
    ) -> Mapping[str, Any] | Refused:
        """Decide once more, under the lock of the claim; data for the `claimed` event."""
        if job is None:
            return Refused("request_changed", "there is no job to claim")
        decision, call = self._decide(held, policy, request, job, held.now, None)
        allowed = decision.verdict == "allow"
        if not allowed and policy.settings.contracts.mode != "shadow":
            return Refused(
                decision.code or "contract_blocked", "the contract gate does not let it through now"
            )
        would = {} if allowed else {"would_block": decision.code or ""}
        if call is None or call.session_id not in self.view(held, policy).sessions:
            return {"contract": would} if would else {}
        return {"contract": {**_named(self.view(held, policy), call), **would}}

    def commit(
        self, held: LockedTrail, policy: Policy, request: Request, status: str, run_folder: Path
    ) -> Mapping[str, Any]:
        """Data for the event of the end: what the outcome means under the contract."""
        if policy.contracts.empty or not policy.contracts.ok:
            return {}
        try:
            book = self.view(held, policy)
        except Unavailable:
            return {"contract": {"status": "session_state_lost"}}
        session = _holding(book, request.request_id)
        if session is None:
            return {}
        data: dict[str, Any] = {"session": session.session_id, "requester": session.requester}
        call = session.pending[request.request_id].call
        try:
            facts = read_record(run_folder, created_utc=held.now, trail_seq=0, sha256=None)
        except InvalidInput:
            return {"contract": {**data, "status": "session_state_lost"}}
        outcome = _outcome(facts, run_folder, policy.settings.contracts.cost_per_second)
        if outcome is None:
            return {"contract": {**data, "status": "session_state_lost"}}
        trial = Book.from_json(policy.contracts, book.to_json())
        effect = trial.commit(call, replace(outcome, status=status), held.now)
        return {
            "contract": {
                **data,
                "status": effect.status,
                "codes": sorted({item.code for item in effect.reasons}),
                **({} if status in _GIVEN_BACK else _ends(policy, book, trial)),
            }
        }

    def blocked(
        self, held: LockedTrail, policy: Policy, request: Request | None, job: Job | None, code: str
    ) -> Mapping[str, Any]:
        """Data for the event of a refusal: only what the contract gate refused moves a session."""
        compiled = policy.contracts
        if request is None or job is None or code not in REASONS or compiled.empty or not compiled.ok:
            return {}
        try:
            book = self.view(held, policy)
        except Unavailable:
            return {}
        call = self._call(held, policy, book, request, job, None)
        if call.session_id not in book.sessions:
            return {}
        named = _named(book, call)
        if call.session_id in book.members:
            trial = Book.from_json(compiled, book.to_json())
            trial.note_block(call)
            named.update(_ends(policy, book, trial))
        return {"contract": named}

    def lost(self, held: LockedTrail, history: RequestHistory) -> Mapping[str, Any]:
        """Data for the event of an interruption: its reservation is given back."""
        claimed = history.claimed
        contract = claimed.data.get("contract") if claimed is not None else None
        if not isinstance(contract, Mapping):
            return {}
        return {"contract": {key: contract[key] for key in ("session", "requester") if key in contract}}

    def demand(
        self, held: LockedTrail, policy: Policy, request: Request, job: Job
    ) -> tuple[Decision, str, Call] | None:
        """For `checkpoint list`: the decision now, the call's digest, the call; None without contracts."""
        decision, call = self._decide(held, policy, request, job, held.now, None)
        return None if call is None else (decision, call_sha256(call), call)


def _tools(request: Request) -> tuple[str, ...]:
    backend = f"threegate.{request.backend.lower()}"
    return (backend,) if request.tool in (None, backend) else (backend, str(request.tool))


def call_of(policy: Policy, request: Request, job: Job, session_id: str) -> Call:
    """The call of a request, without who asks and what was answered."""
    return Call(
        tool=tool_name(job),
        arguments=call_arguments(job),
        session_id=session_id,
        workflow_session=job.workflow,
        labels=job.labels,
        call_id=request.request_id,
        backend=backend_tool(job),
        code_sha256=None if job.code is None else canonical.sha256_hex(job.code.encode()),
        image=job.image,
        cost=policy.settings.contracts.cost_per_second * job.limits.time_sec,
    )


def _place(book: Book, call: Call, job: Job) -> Decision | None:
    """The block for a request that names a session, role or workflow that is not its own."""
    session = book.sessions.get(call.session_id)
    requester = str((call.principal or {}).get("name"))
    if session is None or session.requester not in ("", requester):
        return block(0, "unknown_session", "the operator has not opened that session", "session_id")
    member = book.members.get(call.session_id)
    if job.workflow is not None and (member is None or member.workflow != job.workflow):
        return block(0, "unknown_workflow", "the session is not in that workflow", "workflow")
    if job.role is not None and (member is None or member.role != job.role):
        return block(0, "unknown_role", "the session does not have that role", "role")
    return None


def _named(book: Book, call: Call) -> dict[str, Any]:
    """What an event says about a call: names and digests, never a value."""
    session = book.sessions[call.session_id]
    requester = session.requester or str((call.principal or {}).get("name"))
    return {
        "session": call.session_id,
        "requester": requester,
        "tool": call.tool,
        "loop": seen_key(call).hex(),
    }


def _ends(policy: Policy, before: Book, after: Book) -> dict[str, list[str]]:
    """The running requests of the sessions that an event kills with their parent; whoever writes it ends them."""
    if policy.settings.contracts.mode == "shadow":
        return {}
    found = sorted(
        request_id
        for key, session in after.sessions.items()
        if session.killed == "session_killed" and before.sessions[key].killed is None
        for request_id in before.sessions[key].pending
    )
    return {"ends": found} if found else {}


def _holding(book: Book, request_id: str) -> Session | None:
    """The session that claimed a request."""
    return next((item for item in book.sessions.values() if request_id in item.pending), None)


def _outcome(facts: ResultFacts, run_folder: Path, cost_per_second: float) -> Outcome | None:
    """The outcome of a recorded run; None when the result that it names is gone or was changed."""
    output: Any = MISSING
    for artifact in facts.artifacts:
        if artifact.path.removeprefix("/out/") == RESULT_FILE:
            try:
                data = durable.read_regular(
                    run_folder / "out" / RESULT_FILE, max_bytes=limits.CONTRACT_VALUE_BYTES
                )
            except OSError:
                return None
            if canonical.sha256_hex(data) != artifact.sha256:
                return None
            try:
                output = canonical.loads_strict(data, max_bytes=limits.CONTRACT_VALUE_BYTES)
            except canonical.StrictJSONError:
                output = MISSING
    stderr = facts.stderr.kept.decode("utf-8", "replace") if facts.stderr is not None else ""
    return Outcome(
        status=facts.status,
        output=output,
        cost=round(cost_per_second * (facts.runtime_ms or 0) / 1000, 9),
        exit_code=facts.exit_code,
        stderr=stderr,
        retry_after=facts.retry_after_sec,
        artifacts=tuple(sorted(f"/out/{item.path.removeprefix('/out/')}" for item in facts.artifacts)),
    )


class _Files:
    """The finished requests and records that events name by digest."""

    def __init__(self, workspace: Workspace, policy: Policy, gate: SessionGate) -> None:
        self.workspace = workspace
        self.policy = policy
        self.gate = gate

    def call(self, event: Event) -> Call | None:
        """The call of a claimed request, read again from its file."""
        contract = event.data["contract"]
        request = self._request(event)
        if request is None:
            return None
        job = build_job(
            request,
            input_sizes={item.sha256: 0 for item in request.inputs},
            platform=Platform(image=self.policy.platform.image),
            time_cap_sec=self.gate.time_cap_sec(self.policy, request),
        )
        return call_of(self.policy, request, job, str(contract["session"]))

    def _request(self, event: Event) -> Request | None:
        """The request file of an event, wherever it lies now, if it has the digest that the event names."""
        wanted = event.data.get("request_sha256")
        names = {str(event.data.get("file")), f"{event.request_id}.md"}
        for state in STATES:
            folder = self.workspace.state_folder(state)
            for name in sorted(names | {path.name for path in folder.glob(f"{event.request_id}.*md")}):
                try:
                    data = durable.read_regular(folder / name, max_bytes=limits.REQUEST_BYTES)
                except OSError:
                    continue
                if canonical.sha256_hex(data) == wanted:
                    moment = event.when + timedelta(days=1)
                    return read_request(
                        data, path=name, settings=_WIDEST, now=moment, stage="approved"
                    ).request
        return None

    def outcome(self, event: Event) -> Outcome | None:
        """The outcome of a finished request, read again from its record."""
        folder = self.workspace.run_folder(str(event.request_id))
        digest = event.data.get("record_sha256")
        try:
            facts = read_record(
                folder,
                created_utc=event.when,
                trail_seq=event.seq,
                sha256=digest if isinstance(digest, str) else "",
            )
        except InvalidInput:
            return None
        return _outcome(facts, folder, self.policy.settings.contracts.cost_per_second)
