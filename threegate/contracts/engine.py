"""The decision: one call in one session, layer by layer, without I/O.

Invariant: `decide` changes nothing. The layers run in the order of docs/spec/4-contracts.md; all failures
inside one layer are reported, and the first layer that fails ends the decision. Whatever cannot be judged is
blocked.

0 state · 1 arguments, policy, preconditions · 2 refs · 3 aggregates and envelopes · 4 checkpoints

`transitions` moves the session afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from threegate.contracts import contract_checkpoints, totals
from threegate.contracts.calls import loop_key, plans_of
from threegate.contracts.decimals import EXACT, exact
from threegate.contracts.json_paths import MISSING, PathTooWide
from threegate.contracts.state import ALLOW, Call, Decision, OutputValues, Reason, Session, Total, block
from threegate.contracts.transitions import output_reasons
from threegate.core.json_operators import is_number, json_equal
from threegate.request.strict_texts import negation

if TYPE_CHECKING:
    from threegate.contracts.comparisons import Entry
    from threegate.contracts.model_tool import ToolContract
    from threegate.contracts.tool_rules import Rules, ToolRules
    from threegate.contracts.workflow import WorkflowGuard


def decide(
    session: Session, call: Call, now: datetime, *, others: Sequence[Total] = (), workflow: WorkflowGuard | None = None
) -> Decision:
    """The decision on `call`. Never raises because of a call's content: a meaningless call is blocked.

    `others` are totals that apply besides the session's own: those of the requester and of the workspace.
    """
    try:
        return _decide(session, call, now, others, workflow)
    except PathTooWide:
        return block(1, "arguments_too_wide", "a path of the contract selects more values than are evaluated")
    except (RecursionError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        # A caller chooses the arguments: nested too deeply, or with a value that an operator cannot read, they must
        # never turn an exception into a pass.
        return block(0, "call_malformed", f"the call cannot be judged ({type(error).__name__})")


def _decide(
    session: Session, call: Call, now: datetime, others: Sequence[Total], workflow: WorkflowGuard | None
) -> Decision:
    rules = session.rules
    contract = rules.contract
    if session.killed is not None:
        return block(0, session.killed, "the session was ended; only the operator opens a new one")
    asked = plans_of(rules, call)
    if isinstance(asked, Decision):
        return asked
    reasons: list[Reason] = []
    for plan, _ in asked:
        if plan.phases is not None and session.phase not in plan.phases:
            message = f"{plan.name} may not run in this phase"
            reasons.append(Reason(0, "wrong_phase", "phase", message, sorted(plan.phases), session.phase))
        if plan.name in session.forbidden:
            message = f"{plan.name} may not run after {session.forbidden[plan.name]}"
            reasons.append(Reason(0, "forbidden_in_state", "tool", message))
        if plan.name in session.delayed and now < datetime.fromisoformat(session.delayed[plan.name]):
            reasons.append(Reason(0, "rate_limited", "rate_limits", f"{plan.name} waits for its service after a 429"))
    if contract.session_limits.counted:
        totals.limit_reasons(reasons, session, call, asked, others)
    if contract.loop_threshold:
        key = loop_key(call)
        if session.window.count(key) + 1 >= contract.loop_threshold:
            message = "the same call was made too often"
            reasons.append(Reason(0, "loop_detected", "arguments", message, contract.loop_threshold))
    if workflow is not None:
        reasons.extend(workflow.reasons(session, call))
    if reasons:
        at_limit = any(reason.path == "session_limits.max_tool_calls" for reason in reasons)
        narrow = at_limit and contract.session_limits.max_tool_calls_mode == "narrow"
        left = allowed_tools(session, others) if narrow else None
        return Decision("block", tuple(reasons), allowed_tools=left)
    for plan, arguments in asked:
        _layer_1(reasons, session, call, plan, arguments)
    if reasons:
        return Decision("block", tuple(reasons))
    for plan, arguments in asked:
        if plan.contract.argument_value_invariants:
            _refs(reasons, session, plan.contract, arguments)
            _output_rules(reasons, session, plan.contract, arguments)
    if reasons:
        return Decision("block", tuple(reasons))
    if contract.aggregates:
        totals.aggregate_reasons(reasons, session, asked, others)
    for plan, arguments in asked:
        if plan.envelopes:
            _envelopes(reasons, session, plan, arguments)
    if reasons:
        return Decision("block", tuple(reasons))
    for plan, _ in asked:
        if plan.checkpoints:
            return contract_checkpoints.ask(asked, call, now)
    return ALLOW


def allowed_tools(session: Session, others: Sequence[Total] = ()) -> tuple[str, ...]:
    """The tools that layer 0 and the risk gate allow in this state, sorted."""
    rules = session.rules
    left = []
    for name, plan in sorted(rules.plans.items()):
        reasons: list[Reason] = []
        totals.limit_reasons(reasons, session, Call(name, {}), [(plan, {})], others)
        open_phase = plan.phases is None or session.phase in plan.phases
        if not reasons and open_phase and plan.risk_allowed and name not in session.forbidden:
            left.append(name)
    return tuple(left)


def _layer_1(reasons: list[Reason], session: Session, call: Call, plan: ToolRules, arguments: Any) -> None:
    """Risk gate, policy, label gates, preconditions, argument rules."""
    if not plan.risk_allowed:
        reasons.append(_risk(plan))
    if plan.policed:
        _policy(reasons, plan, call.principal)
    if plan.label_gates:
        for label, why in plan.label_gates:
            if label in session.labels or label in call.labels:
                reasons.append(Reason(1, "label_gate", "labels", why, None, label))
    if plan.contract.preconditions:
        _preconditions(reasons, session, plan, arguments)
    if plan.checks:
        _checks(reasons, plan, arguments)


def _risk(plan: ToolRules) -> Reason:
    effect = plan.contract.side_effect
    return Reason(1, "risk_blocked", "side_effect", f"{plan.name} is {effect}, which the risk gate does not allow")


def _checks(reasons: list[Reason], plan: ToolRules, arguments: Any) -> None:
    for check in plan.checks:
        failure = check.entry.failure(arguments)
        if failure is not None:
            operator, expected, found = failure
            message = f"{check.entry.path.text} does not satisfy {operator}{check.note}"
            reasons.append(Reason(1, check.code, check.entry.path.text, message, expected, found))


def _policy(reasons: list[Reason], plan: ToolRules, principal: Mapping[str, Any] | None) -> None:
    """Deny takes precedence over allow; without a principal, nothing is allowed."""
    if principal is None:
        reasons.append(Reason(1, "policy_denied", "principal", "a policy applies, and the call names no principal"))
        return
    # A deny that cannot be judged matches (`matches`); an allow that cannot be judged does not (`failure`).
    for entry in plan.deny:
        if entry.matches(principal):
            message = "a deny rule applies to this principal" + _without([entry], principal)
            reasons.append(Reason(1, "policy_denied", entry.path.text, message))
            return
    for allowed in plan.allow_sets:
        if not any(entry.failure(principal) is None for entry in allowed):
            message = "no allow rule applies to this principal" + _without(allowed, principal)
            reasons.append(Reason(1, "policy_not_allowed", "principal", message))
            return


def _without(entries: Sequence[Entry], principal: Mapping[str, Any]) -> str:
    """The attributes that the rules require and the principal lacks, as the end of a message."""
    paths = [entry.path for entry in entries if not entry.absent]
    missing = dict.fromkeys(path.text for path in paths if path.selected(principal) == [])
    return f", which has no {', no '.join(missing)}" if missing else ""


def _preconditions(reasons: list[Reason], session: Session, plan: ToolRules, arguments: Any) -> None:
    for key, condition in plan.contract.keyed:
        if condition.requires_step_count is not None:
            wanted, done = condition.requires_step_count.gte, session.tally.steps
            if done < wanted:
                message = f"{wanted} steps must come first"
                reasons.append(Reason(1, "precondition_not_met", "requires_step_count", message, wanted, done))
            continue
        fulfilled = session.fulfilled.get(key)
        met = bool(fulfilled)
        if fulfilled and condition.resource is not None:
            values = condition.resource.at.select(arguments)
            met = bool(values) and all(totals.canonical_text(value) in fulfilled for value in values)
        if not met:
            first = condition.requires_prior_tool
            same = "" if condition.resource is None else " for the same resource"
            message = f"{first} must have succeeded before{same}"
            reasons.append(Reason(1, "precondition_not_met", "requires_prior_tool", message, first))


def check_alone(
    rules: Rules, tool: str, arguments: Mapping[str, Any], principal: Mapping[str, Any] | None, output: Any
) -> list[Reason]:
    """The decision of the tool's own rules without session state: risk gate, policy, arguments, output.

    Used for golden cases; `output` is MISSING if the case has none.
    """
    plan = rules.plans[tool]
    reasons: list[Reason] = []
    if not plan.risk_allowed:
        reasons.append(_risk(plan))
    if plan.policed:
        _policy(reasons, plan, principal)
    _checks(reasons, plan, arguments)
    if output is not MISSING and not reasons:
        reasons.extend(output_reasons(plan, output))
    return reasons


def _refs(reasons: list[Reason], session: Session, contract: ToolContract, arguments: Any) -> None:
    """Layer 2: arguments that must repeat what was bound."""
    for item in contract.refs:
        bound = session.binds.get(item.ref or "", MISSING)
        if bound is MISSING:
            reasons.append(Reason(2, "ref_unbound", item.path, f"nothing has been bound to {item.ref} yet"))
            continue
        values = item.at.select(arguments)
        found = next((value for value in values if not _near(value, bound, item.near)), MISSING)
        if found is not MISSING or not values:
            message = f"{item.path} is not what was bound to {item.ref}"
            reasons.append(Reason(2, "ref_mismatch", item.path, message, bound, found))


def _output_rules(reasons: list[Reason], session: Session, contract: ToolContract, arguments: Any) -> None:
    """Layer 2: arguments that earlier outputs had, or must not have had. An unknown value satisfies
    neither.
    """
    for item in contract.output_rules:
        for source, denied in item.sources:
            kept = session.outputs.get(source.key)
            if kept is None:
                reasons.append(Reason(2, "ref_unbound", item.path, f"no call of {source.tool} has ended yet"))
                continue
            known = partial(_given, kept)
            test = negation([known]) if denied else known
            values = item.at.select(arguments)
            found = next((value for value in values if not test(value)), MISSING)
            if found is not MISSING or not values:
                message = f"{item.path} does not satisfy {'not ' * denied}from_output of {source.tool}"
                reasons.append(Reason(2, "ref_mismatch", item.path, message, source.key, found))


def _given(kept: OutputValues, value: Any) -> bool | None:
    """Whether an earlier output had a value; unknown if the session does not remember all of them."""
    digest = totals.value_digest(value)
    if digest in kept.digests:
        return True
    return False if kept.complete and digest is not None else None


def _near(value: Any, bound: Any, tolerance: Any) -> bool:
    """Whether a value equals the bound one, or is within its relative tolerance. Only numbers are near each other."""
    if tolerance is None or not is_number(value) or not is_number(bound):
        return json_equal(value, bound)
    reference = exact(bound)
    return bool(abs(EXACT.subtract(exact(value), reference)) <= EXACT.multiply(tolerance, abs(reference)))


def _envelopes(reasons: list[Reason], session: Session, plan: ToolRules, arguments: Any) -> None:
    """Layer 3: values that earlier calls bound, the pending ones included."""
    for envelope, stage in plan.envelopes:
        values = stage.at.select(arguments)
        if len(values) != 1 or not is_number(values[0]) or values[0] - values[0] != 0:
            message = f"{envelope.name}: {stage.path} is not one number"
            reasons.append(Reason(3, "envelope_unmeasurable", stage.path, message))
        elif stage.role == "constrained":
            totals.envelope_reasons(reasons, session, envelope, stage, values[0])
