"""Limits, aggregates and envelopes over totals, computed as if the call were committed.

Invariant: a pending call counts where it could tighten a bound and never where it could loosen one, so that
parallel runs cannot race past a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import orjson

from threegate.contracts.calls import Asked, plans_of
from threegate.contracts.decimals import EXACT, exact
from threegate.contracts.state import Call, PendingCall, Reason, Session, Tally, Total
from threegate.contracts.tool_names import resolve
from threegate.core import canonical
from threegate.core.json_operators import is_number

if TYPE_CHECKING:
    from threegate.contracts.model_session import Aggregate, Envelope, Stage
    from threegate.contracts.tool_rules import ToolRules


def canonical_text(value: Any) -> str:
    """A value as canonical JSON text: the identity of resources and distinct values. Raises ValueError."""
    if isinstance(value, str):
        return orjson.dumps(value).decode()
    return canonical.canonical_bytes(value).decode()


def value_digest(value: Any) -> str | None:
    """sha256 of a value's canonical JSON, in hex; None if it has none, such as an integer above 2^53."""
    try:
        return canonical.digest(value)
    except ValueError:
        return None


def _around(session: Session, others: Sequence[Total]) -> list[tuple[str, Tally, Sequence[PendingCall]]]:
    """Every tally that a bound applies to, with the calls pending under it."""
    own = tuple(session.pending.values()) if session.pending else ()
    found: list[tuple[str, Tally, Sequence[PendingCall]]] = [("session", session.tally, own)]
    for total in others:
        found.append((total.name, total.tally, (*own, *total.pending)))
    return found


def limit_reasons(reasons: list[Reason], session: Session, call: Call, asked: Asked, others: Sequence[Total]) -> None:
    """Append a reason for every session limit that this call would exceed."""
    rules, bounds = session.rules, session.rules.contract.session_limits
    for scope, tally, pending in _around(session, others):
        # A call whose state moved at launch is in the tally already.
        waiting = [item for item in pending if not item.moved] if pending else pending
        steps = tally.steps + len(waiting)
        found: list[tuple[str, int | str, int | str]] = []
        if bounds.max_steps is not None and steps >= bounds.max_steps:
            found.append(("max_steps", bounds.max_steps, steps))
        if bounds.max_tool_calls is not None and steps >= bounds.max_tool_calls:
            found.append(("max_tool_calls", bounds.max_tool_calls, steps))
        if bounds.max_cost is not None:
            cost = tally.cost
            for item in waiting:
                cost = EXACT.add(cost, exact(item.call.cost))
            after = EXACT.add(cost, exact(call.cost))
            if cost >= bounds.max_cost or after > bounds.max_cost:
                found.append(("max_cost_per_session", str(bounds.max_cost), str(after)))
        for plan, _ in asked:
            if plan.call_limit is not None:
                calls = tally.calls.get(plan.name, 0)
                if waiting:
                    # A call by a tool's name is a call of its backend too, and uses up the limits of both.
                    calls += sum(
                        plan.name == item.call.backend or resolve(rules.plans, item.call.tool) is plan
                        for item in waiting
                    )
                if calls >= plan.call_limit:
                    found.append((f"max_calls_per_tool.{plan.name}", plan.call_limit, calls))
        for name, limit, used in found:
            message = f"{name} is used up ({scope})"
            reasons.append(Reason(0, "session_limit_exceeded", f"session_limits.{name}", message, limit, used))


def measure(aggregate: Aggregate, plan: ToolRules, arguments: Any) -> list[Any] | Literal["unmeasurable", "outside"]:
    """The values that one call adds to an aggregate. A call is outside of an aggregate over all tools if it has no such
    value and its tool knows none.
    """
    path = aggregate.at
    if path is None:
        return [1]
    values = path.selected(arguments)
    if values == []:
        absence = path.absence(arguments)
        if absence == "no such key" and aggregate.name in plan.lacking:
            return "outside"
        return [] if absence == "empty list" and aggregate.metric == "sum" else "unmeasurable"
    if values is None:
        return "unmeasurable"
    if aggregate.metric in ("sum", "max", "min"):
        for value in values:
            if not is_number(value) or value - value != 0:  # infinities and NaN
                return "unmeasurable"
    return values


def measured(asked: Asked) -> list[tuple[Aggregate, list[Any]]]:
    """What a call adds to each aggregate; the named tool comes last. What adds nothing is left out."""
    by_name: dict[str, tuple[Aggregate, list[Any]]] = {}
    for plan, arguments in asked:
        for aggregate in plan.aggregates:
            values = measure(aggregate, plan, arguments)
            if values and isinstance(values, list):
                by_name[aggregate.name] = (aggregate, values)
    return list(by_name.values())


def add(aggregate: Aggregate, current: Any, values: Iterable[Any]) -> Any:
    """The total after `values`. A distinct set is changed in place."""
    metric = aggregate.metric
    if metric == "count":
        return (current or 0) + len(list(values))
    if metric == "count_distinct":
        kept: set[str] = set() if current is None else current
        kept.update(canonical_text(value) for value in values)
        return kept
    for value in values:
        number = exact(value)
        if current is None:
            current = number
        elif metric == "sum":
            current = EXACT.add(current, number)
        else:
            current = max(current, number) if metric == "max" else min(current, number)
    return current


def effective_bounds(aggregate: Aggregate, session: Session) -> tuple[Decimal | None, Decimal | None]:
    """(gte, lte) after the first override that matches."""
    for override in aggregate.when:
        if override.binding in session.binds and override.entry.failure(session.binds[override.binding]) is None:
            return override.bounds(aggregate)
    return aggregate.bounds


def aggregate_reasons(reasons: list[Reason], session: Session, asked: Asked, others: Sequence[Total]) -> None:
    """Append a reason for every aggregate that this call could take beyond a bound, or that cannot be measured."""
    seen: dict[str, tuple[Aggregate, list[Any] | str]] = {}
    for plan, arguments in asked:
        for aggregate in plan.aggregates:
            values = measure(aggregate, plan, arguments)
            if values != "outside":
                seen[aggregate.name] = (aggregate, values)
    for aggregate, found in seen.values():
        if isinstance(found, str):
            path = aggregate.path or ""
            message = f"{aggregate.name}: there is no number at {path}"
            reasons.append(Reason(3, "aggregate_unmeasurable", path, message))
            continue
        lower, upper = effective_bounds(aggregate, session)
        for scope, tally, pending in _around(session, others):
            waiting: list[Any] = []
            for item in pending:
                planned = plans_of(session.rules, item.call)
                if not item.moved and isinstance(planned, list):
                    for other, amount in measured(planned):
                        if other.name == aggregate.name:
                            waiting.extend(amount)
            current = tally.aggregates.get(aggregate.name)
            # Of the totals around a session, only a sum can be below the session's own.
            low = lower if scope == "session" or aggregate.metric == "sum" else None
            if low is not None and (least := _least(aggregate, current, found, waiting)) < low:
                reasons.append(_beyond("aggregate_below", aggregate, scope, low, least))
            if upper is not None and (most := _most(aggregate, current, found, waiting)) > upper:
                reasons.append(_beyond("aggregate_exceeded", aggregate, scope, upper, most))


def _beyond(code: str, aggregate: Aggregate, scope: str, bound: Decimal, after: Any) -> Reason:
    return Reason(3, code, aggregate.name, f"{aggregate.reason} ({scope})", str(bound), str(after))


def _most(aggregate: Aggregate, current: Any, values: list[Any], waiting: list[Any]) -> Any:
    """The highest total that can result from this call, whatever the outcome of the pending ones."""
    if aggregate.metric == "sum":
        waiting = [value for value in waiting if value > 0]
    elif aggregate.metric == "min":
        waiting = []
    return _total(aggregate, current, [*values, *waiting])


def _least(aggregate: Aggregate, current: Any, values: list[Any], waiting: list[Any]) -> Any:
    """The lowest total that can result from this call, whatever the outcome of the pending ones."""
    if aggregate.metric == "sum":
        waiting = [value for value in waiting if value < 0]
    elif aggregate.metric != "min":
        waiting = []
    return _total(aggregate, current, [*values, *waiting])


def _total(aggregate: Aggregate, current: Any, values: list[Any]) -> Any:
    """The number that a total is after `values`; `current` stays as it is."""
    if aggregate.metric == "count_distinct":
        known: set[str] = current or set()
        return len(known) + len({canonical_text(value) for value in values} - known)
    after = add(aggregate, current, values)
    return 0 if after is None else after


def captured(envelope: Envelope, stage: Stage, arguments: Any, references: Mapping[str, Any]) -> dict[str, Any]:
    """The reference that a call of this stage sets, beside those that are set: {} if it sets none, or the value is not
    one number.
    """
    key = envelope.captures(stage)
    values = stage.at.selected(arguments) or []
    if key is None or len(values) != 1 or not is_number(values[0]):
        return {}
    if key in references:
        # A tool that bounds itself does so once. Of calls that end in another order than they began, the strictest
        # value stays the last one.
        constrained = stage.role == "constrained"
        later = constrained and _inside(envelope, "last", exact(values[0]), exact(references[key]))
        again = not constrained and stage.tool not in envelope.own
        return {key: values[0]} if later or again else {}
    return {key: values[0]}


def envelope_reasons(reasons: list[Reason], session: Session, envelope: Envelope, stage: Stage, value: Any) -> None:
    """Append a reason if a constrained value is outside its envelope."""
    candidates = {key: [session.references[key]] for key in envelope.needs if key in session.references}
    if stage.tool not in envelope.own and len(candidates) < len(envelope.needs):
        message = f"{envelope.name}: what bounds the value did not happen yet"
        reasons.append(Reason(3, "envelope_unset", stage.path, message))
        return
    for item in session.pending.values():
        planned = plans_of(session.rules, item.call)
        for plan, arguments in planned if isinstance(planned, list) and not item.moved else ():
            for other in plan.envelopes:
                for key, reference in captured(*other, arguments, session.references).items():
                    if key in envelope.needs:
                        candidates.setdefault(key, []).append(reference)
    number = exact(value)
    for key, bounds in candidates.items():
        for reference in bounds:
            # Which pending call ends first is open, so the value must
            # be within whatever reference any of them would set.
            if not _inside(envelope, key.rpartition("/")[2], number, exact(reference)):
                reasons.append(Reason(3, "envelope_violated", stage.path, envelope.reason, reference, value))
                return


def _inside(envelope: Envelope, role: str, value: Decimal, reference: Decimal) -> bool:
    """Whether a value is within one reference."""
    if role == "ceiling":
        return value <= reference
    if role == "floor":
        return value >= reference
    if role == "anchor":
        return abs(EXACT.subtract(value, reference)) <= EXACT.multiply(envelope.exact_band, abs(reference))
    return value <= reference if envelope.constraint == "monotonic_decrease" else value >= reference
