"""How a session moves: reserved at the claim, committed at the end, counted when blocked.

Invariant: state moves here and nowhere else. Under commit_requirement acknowledged only labels and the
breaker move unless the call succeeded, its evidence is present and its output_invariants are met; totals are
exact, so that the order of calls and the way of counting (one by one, or again from the history) make no
difference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from threegate.contracts.calls import Asked, loop_key, plans_of
from threegate.contracts.decimals import EXACT, exact
from threegate.contracts.json_paths import MISSING
from threegate.contracts.state import Call, CallOutcome, Decision, OutputValues, PendingCall, Reason, Session, Tally
from threegate.contracts.totals import add, canonical_text, captured, effective_bounds, measured, value_digest
from threegate.core import limits
from threegate.request.strict_texts import all_clear

if TYPE_CHECKING:
    from threegate.contracts.model_tool import ToolContract
    from threegate.contracts.tool_rules import Rules, ToolRules


@dataclass(frozen=True, slots=True)
class Effect:
    """The result of a commit: `contract_violated` if a success lacks its proof."""

    status: Literal["committed", "failed", "contract_violated"]
    reasons: tuple[Reason, ...] = ()


def open_session(rules: Rules, session_id: str = "default", requester: str = "") -> Session:
    """A new session under `rules`, in the initial phase."""
    return Session(
        rules=rules,
        session_id=session_id,
        requester=requester,
        phase=rules.contract.initial,
        window=deque(maxlen=rules.contract.window_size),
    )


def note_block(session: Session, key: bytes) -> None:
    """Count a blocked call, of which the trail knows only the `seen_key`: only the loop window and the breaker move."""
    contract = session.rules.contract
    if contract.loop_threshold:
        session.window.append(key)
    session.blocks += 1
    limit = contract.breaker.consecutive_blocks
    if limit is not None and session.blocks >= limit and session.killed is None:
        session.killed = "circuit_open"


def seen_key(call: Call) -> bytes:
    """The key of a call for the loop window; empty for what is not JSON: such a call was blocked, and equals
    no other.
    """
    try:
        return loop_key(call)
    except (TypeError, RecursionError):
        return b""


def _see(session: Session, call: Call) -> None:
    """Put a call into the loop window."""
    if session.rules.contract.loop_threshold:
        session.window.append(seen_key(call))


def reserve(session: Session, call: Call, *, others: Iterable[Tally] = ()) -> None:
    """Claim an allowed call before it runs. Raises ValueError if its id is already pending."""
    if call.call_id in session.pending:
        raise ValueError(f"{call.call_id} is claimed already")
    asked = _asked(session, call)
    _see(session, call)
    early = any(plan.early for plan, _ in asked)
    if early:
        _count(session, asked, None, call, others)
        _advance(session, [pair for pair in asked if pair[0].early])
    session.pending[call.call_id] = PendingCall(call, early)


def release(session: Session, call_id: str) -> None:
    """Release a claim that never started. State that moved at launch is not moved back."""
    pending = session.pending.pop(call_id, None)
    if pending is not None:
        _unobserved(session, _asked(session, pending.call))


def commit(
    session: Session, call: Call, outcome: CallOutcome, *, others: Iterable[Tally] = (), now: datetime | None = None
) -> Effect:
    """Apply the outcome of a call that was allowed. Changes `session` and `others`; `now` is the start of a
    429's delay.
    """
    asked = _asked(session, call)
    if outcome.retry_after is not None and now is not None:
        _delay(session, asked, outcome.retry_after, now)
    pending = session.pending.pop(call.call_id, None)
    if pending is None:
        _see(session, call)
    # Also after a failure: a call that failed may still have read what the label marks.
    session.labels.update(call.labels, *(plan.contract.adds_labels for plan, _ in asked))
    succeeded = outcome.status == "succeeded"
    violations = _violations(asked, outcome) if succeeded else []
    good = succeeded and not violations
    # A claim with commit_requirement none was counted at launch; counting it again would use up a limit twice.
    early = any(plan.early for plan, _ in asked)
    counted = pending is not None and pending.moved
    if good or early:
        if not counted:
            _count(session, asked, outcome, call, others)
        late = [pair for pair in asked if good and not (pair[0].early and counted)]
        first = [pair for pair in asked if not good and pair[0].early and not counted]
        _advance(session, late + first)
    if good:
        _succeed(session, asked, outcome)
        return Effect("committed")
    if outcome.status != "unavailable":
        _unobserved(session, asked)
    if outcome.status != "unavailable" and (violations or not _expected(asked, outcome)):
        session.errors += 1
        limit = session.rules.contract.breaker.consecutive_errors
        if limit is not None and session.errors >= limit and session.killed is None:
            session.killed = "circuit_open"
    return Effect("contract_violated" if violations else "failed", tuple(violations))


def _delay(session: Session, asked: Asked, retry_after: float, now: datetime) -> None:
    """Delay a tool's next call according to its rate_limits."""
    for plan, _ in asked:
        rule = plan.contract.rate_limits.on_429
        # The service chooses Retry-After, and must not be able to block its tool for as long as it likes.
        longest = min(float(rule.max_sleep_seconds), float(limits.RETRY_UNKNOWN_SECONDS))
        seconds = min(max(retry_after, 0.0), longest) if rule.respect_retry_after else longest
        session.delayed[plan.name] = (now.astimezone(UTC) + timedelta(seconds=seconds)).isoformat()


def may_retry(contract: ToolContract, status: str, attempts: int) -> bool:
    """Whether an attempt that never started may be made again under the same approval (reads only)."""
    retries = contract.retries
    return (
        status == "unavailable"
        and contract.side_effect == "read"
        and status in retries.retry_on
        and attempts < retries.max_attempts
    )


def _asked(session: Session, call: Call) -> Asked:
    asked = plans_of(session.rules, call)
    if isinstance(asked, Decision):
        raise ValueError(f"{call.tool}: {asked.code}; only an allowed call can be claimed or committed")
    return asked


def _violations(asked: Asked, outcome: CallOutcome) -> list[Reason]:
    """What a success failed to prove."""
    reasons = []
    for plan, _ in asked:
        if plan.contract.evidence_class == "local_transaction" and outcome.output is MISSING:
            reasons.append(Reason(1, "evidence_missing", "output", f"{plan.name} left no /out/result.json"))
        reasons.extend(output_reasons(plan, outcome.output))
    return reasons


def output_reasons(plan: ToolRules, output: Any) -> list[Reason]:
    """The output_invariants that an output violates."""
    reasons = []
    for item in plan.contract.assertions.output_invariants:
        failure = item.entry.failure(output)
        if failure is not None:
            operator, expected, found = failure
            message = f"the output's {item.path} does not satisfy {operator}"
            reasons.append(Reason(1, "output_invariant", item.path, message, expected, found))
    return reasons


def _count(session: Session, asked: Asked, outcome: CallOutcome | None, call: Call, others: Iterable[Tally]) -> None:
    """Add a call to the tallies and the envelopes."""
    cost = call.cost if outcome is None or outcome.cost is None else outcome.cost
    values = measured(asked)
    for tally in (session.tally, *others):
        tally.steps += 1
        tally.cost = EXACT.add(tally.cost, exact(cost))
        for plan, _ in asked:
            tally.calls[plan.name] = tally.calls.get(plan.name, 0) + 1
        for aggregate, found in values:
            tally.aggregates[aggregate.name] = add(aggregate, tally.aggregates.get(aggregate.name), found)
    for plan, arguments in asked:
        for stage in plan.envelopes:
            session.references.update(captured(*stage, arguments, session.references))


def _advance(session: Session, asked: Asked) -> None:
    """Move the phase, the slots from arguments and the forbidden tools."""
    # A call that was claimed in one phase may end in another: the session moves along declared edges only.
    following = session.rules.contract.transitions.get(session.phase or "", ())
    for plan, arguments in asked:
        if plan.advances_to in following:
            session.phase = plan.advances_to
        for name in plan.contract.forbids_after:
            session.forbidden.setdefault(name, plan.name)
        _bind(session, plan, "arguments", arguments)


def _bind(session: Session, plan: ToolRules, source: str, root: Any) -> None:
    for bind in plan.contract.binds:
        if bind.source == source:
            values = bind.at.selected(root)
            if values is None:
                session.binds.pop(bind.name, None)  # too wide to be a value: anything that refers to it is blocked
            elif values:
                session.binds[bind.name] = values[0] if len(values) == 1 else values


def _succeed(session: Session, asked: Asked, outcome: CallOutcome) -> None:
    """Only for a proven success: outputs are bound, preconditions fulfilled, the breaker is reset."""
    session.blocks = 0
    session.errors = 0
    for plan, arguments in asked:
        # C3: an output that nobody can verify must not open the way for the calls that wait for this success.
        observed = plan.contract.evidence_class != "unverifiable"
        if observed and outcome.output is not MISSING:
            _bind(session, plan, "output", outcome.output)
        _remember(session, plan, outcome.output)
        for key, condition in plan.fulfils:
            wanted = condition.with_output
            if wanted and not (observed and all(item.entry.failure(outcome.output) is None for item in wanted)):
                continue
            if condition.resource is None:
                session.fulfilled.setdefault(key, set()).add("")
                continue
            if condition.resource.bind_from == "output" and not observed:
                continue
            root = arguments if condition.resource.bind_from == "arguments" else outcome.output
            values = condition.resource.at.selected(root) or []
            session.fulfilled.setdefault(key, set()).update(canonical_text(value) for value in values)


def _remember(session: Session, plan: ToolRules, output: Any) -> None:
    """Store digests of the values that some tool's `from_output` refers to."""
    for source in plan.remembered:
        kept = session.outputs.setdefault(source.key, OutputValues())
        values = None if output is MISSING else source.at.selected(output)
        digests = [value_digest(value) for value in values or ()]
        if values is None or None in digests or not all(map(all_clear, values)):
            kept.complete = False  # another value may be, or resemble, one that is not remembered
        kept.take(item for item in digests if item is not None)


def _unobserved(session: Session, asked: Asked) -> None:
    """A call ended without success: what it returned to its caller is unknown."""
    for plan, _ in asked:
        for source in plan.remembered:
            session.outputs.setdefault(source.key, OutputValues()).complete = False


def _expected(asked: Asked, outcome: CallOutcome) -> bool:
    """Whether a contract expects this failure."""
    return any(
        failure.expects(outcome.status, outcome.exit_code, outcome.stderr)
        for plan, _ in asked
        for failure in plan.contract.allowed_errors
    )


def close(session: Session) -> tuple[Reason, ...]:
    """Close a session: check the lower bounds, and allow no further call."""
    reasons = []
    for aggregate in session.rules.contract.aggregates:
        lower, _ = effective_bounds(aggregate, session)
        if lower is None:
            continue
        value = session.tally.aggregates.get(aggregate.name)
        if value is None and aggregate.metric in ("sum", "count", "count_distinct"):
            value = 0
        number = len(value) if isinstance(value, set) else value
        if number is None or number < lower:
            found = None if number is None else str(number)
            reasons.append(Reason(3, "aggregate_below", aggregate.name, aggregate.reason, str(lower), found))
    if session.killed is None:
        session.killed = "session_closed"
    return tuple(reasons)
