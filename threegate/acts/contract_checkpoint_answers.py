"""Answer the contract checkpoints of requests: list, approve, deny.

Invariant: an answer is a signed act about one call of one request (its digest), so it is valid for no other;
the daemon judges the request again and finds the answer in the trail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from threegate.acts.signed_acts import checked_act
from threegate.contracts.state import Decision
from threegate.core.errors import InvalidInput, Refused
from threegate.launch.approved_file import Approved, read_approved
from threegate.launch.context import Context
from threegate.trail import moves
from threegate.trail.payloads import ContractCheckpointAnswered

ANSWER = "threegate-checkpoint-answer/1"


@dataclass(frozen=True, slots=True)
class OpenCheckpoint:
    """A waiting request, and the question about it."""

    request_id: str
    tool: str
    session_id: str
    call_sha256: str
    decision: Decision
    asked: datetime | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, with the context shown to the person."""
        return {
            "request_id": self.request_id,
            "tool": self.tool,
            "session_id": self.session_id,
            "call_sha256": self.call_sha256,
            "asked": None if self.asked is None else self.asked.isoformat(),
            "checkpoints": [item.to_json() for item in self.decision.checkpoints],
        }


def open_checkpoints(context: Context) -> list[OpenCheckpoint]:
    """Every request in approved/ that is waiting for a person's answer. Raises TrailError, OSError."""
    found = []
    for path in sorted(context.workspace.approved.glob("*.md")):
        try:
            file = read_approved(context, path)
        except FileNotFoundError:
            continue  # claimed or cancelled meanwhile
        if isinstance(file, Approved) and (item := _ask(context, file)) is not None:
            found.append(item)
    return found


def _ask(context: Context, approved: Approved) -> OpenCheckpoint | None:
    with context.trail.locked() as held:
        asked = context.contracts.demand(held, context.policy, approved.request, approved.job)
    if asked is None or asked[0].verdict != "checkpoint":
        return None
    decision, digest, call = asked
    return OpenCheckpoint(approved.request_id, call.tool, call.session_id, digest, decision, call.asked)


def open_checkpoint(context: Context, request_id: str) -> OpenCheckpoint:
    """The one of a request. Raises InvalidInput."""
    for item in open_checkpoints(context):
        if item.request_id == request_id:
            return item
    raise InvalidInput(f"{request_id}: no checkpoint is waiting for an answer; see: threegate contracts checkpoints")


def answer_about(item: OpenCheckpoint, *, approve: bool) -> Mapping[str, Any]:
    """What is signed."""
    return {
        "request_id": item.request_id,
        "call_sha256": item.call_sha256,
        "checkpoints": [demand.name for demand in item.decision.checkpoints],
        "approve": approve,
    }


def answer(context: Context, item: OpenCheckpoint, signed: bytes, *, approve: bool) -> None:
    """Check the signed answer and put it into the trail. Raises Refused, InvalidInput, TrailError."""
    about = answer_about(item, approve=approve)
    if open_checkpoint(context, item.request_id).call_sha256 != item.call_sha256:
        raise Refused("request_changed", f"{item.request_id}: the call has changed; review it again")
    with context.trail.locked() as held:
        actor, act = checked_act(context, held, signed, ANSWER, about)
        answered = ContractCheckpointAnswered(
            call_sha256=item.call_sha256, approve=approve, checkpoints=tuple(about["checkpoints"]), **act
        )
        moves.announce(held, answered, request_id=item.request_id, actor=actor)
