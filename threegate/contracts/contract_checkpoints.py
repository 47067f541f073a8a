"""Layer 4: what a person must decide, and how long their answer is valid.

Invariant: a person is asked only about what all other layers would allow; an answer is valid only for this
very call and for as long as the checkpoint allows; without an answer `on_timeout` applies, which is a block
unless the operator's settings permit otherwise.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from threegate.contracts.state import ALLOW, Call, CheckpointDemand, Decision, Reason
from threegate.core import canonical

if TYPE_CHECKING:
    from threegate.contracts.calls import Asked


def call_sha256(call: Call) -> str:
    """What a checkpoint answer is bound to: the call, its session and its request."""
    return canonical.digest(
        {
            "tool": call.tool,
            "backend": call.backend or "",
            "arguments": dict(call.arguments),
            "session_id": call.session_id,
            "call_id": call.call_id,
        }
    )


def demands_of(asked: Asked) -> list[CheckpointDemand]:
    """The checkpoints that this call triggers, in the order of the contracts, each once."""
    demands: dict[str, CheckpointDemand] = {}
    for plan, arguments in asked:
        for name, checkpoint in plan.checkpoints:
            if checkpoint.triggered(plan.contract.side_effect, arguments):
                demands[name] = CheckpointDemand(
                    name,
                    float(checkpoint.timeout_seconds),
                    checkpoint.on_timeout,
                    tuple((item.label, _shown(item.at, arguments)) for item in checkpoint.context),
                )
    return list(demands.values())


def _shown(path: Any, arguments: Any) -> Any:
    values = path.selected(arguments)
    if values is None:
        return "(too many values)"
    return None if not values else values[0] if len(values) == 1 else values


def ask(asked: Asked, call: Call, now: datetime) -> Decision:
    """The decision of layer 4."""
    demands = demands_of(asked)
    if not demands:
        return ALLOW
    answer = call.answer
    # A yes to one call must not let another one through that has the same id.
    if answer is not None and answer.call_sha256 != call_sha256(call):
        answer = None
    # A no has no age: only a yes must be given in time.
    if answer is not None and not answer.approve:
        denied = Reason(4, "checkpoint_denied", "checkpoint", f"{answer.by} denied it")
        return Decision("block", (denied,), tuple(demands))
    waiting, late = [], []
    for demand in demands:
        if answer is not None and _in_time(demand, answer.answered, call.asked, now):
            continue
        if _over(demand, answer is not None, call.asked, now):
            if demand.on_timeout == "deny":
                late.append(demand)
        else:
            waiting.append(demand)
    if late:
        why = "nobody approved in time"
        reasons = [Reason(4, "checkpoint_timed_out", item.name, why, item.timeout_seconds) for item in late]
        return Decision("block", tuple(reasons), tuple(late))
    if waiting:
        why = "a person must approve this call"
        reasons = [Reason(4, "checkpoint_required", item.name, why) for item in waiting]
        return Decision("checkpoint", tuple(reasons), tuple(waiting))
    return ALLOW


def _in_time(demand: CheckpointDemand, answered: datetime, asked: datetime | None, now: datetime) -> bool:
    """Whether an answer came within the timeout and is still valid."""
    # An answer from the future was given before the clock was set back, so its age is unknown.
    if answered > now or (now - answered).total_seconds() > demand.timeout_seconds:
        return False
    return asked is None or 0 <= (answered - asked).total_seconds() <= demand.timeout_seconds


def _over(demand: CheckpointDemand, answered: bool, asked: datetime | None, now: datetime) -> bool:
    """Whether the time for an answer is over; a late or stale answer ends it too."""
    if answered:
        return True
    return asked is not None and (now - asked).total_seconds() > demand.timeout_seconds
