"""Answering what a contract asks of a person: listing, approving, denying.

Invariant: an answer is a signed act about one call of one request (its digest), so it counts for no other; the
daemon judges the request again and finds the answer in the trail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from threegate.acts.signed_acts import checked_act
from threegate.contracts import Decision
from threegate.core.errors import InvalidInput, Refused
from threegate.launch.approved_file import Prepared, prepare
from threegate.launch.contract_sessions import SessionGate
from threegate.review.reviewed_draft import Desk, quiet_services
from threegate.trail import moves

ANSWER = "threegate-checkpoint-answer/1"


@dataclass(frozen=True, slots=True)
class OpenCheckpoint:
    """A waiting request, and what is asked about it."""

    request_id: str
    tool: str
    session_id: str
    call_sha256: str
    decision: Decision
    asked: datetime | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, with the context that the person is shown."""
        return {
            "request_id": self.request_id,
            "tool": self.tool,
            "session_id": self.session_id,
            "call_sha256": self.call_sha256,
            "asked": None if self.asked is None else self.asked.isoformat(),
            "checkpoints": [item.to_json() for item in self.decision.checkpoints],
        }


def open_checkpoints(desk: Desk) -> list[OpenCheckpoint]:
    """Every request in approved/ that waits for a person. Raises TrailError, OSError."""
    found = []
    for path in sorted(desk.workspace.approved.glob("*.md")):
        try:
            prepared = prepare(quiet_services(desk), desk.policy, path)
        except FileNotFoundError:
            continue  # it was claimed or cancelled meanwhile
        item = _ask(desk, prepared)
        if item is not None:
            found.append(item)
    return found


def _ask(desk: Desk, prepared: Prepared) -> OpenCheckpoint | None:
    gate = desk.gate
    if prepared.request is None or prepared.job is None or not isinstance(gate, SessionGate):
        return None
    with desk.trail.locked() as held:
        asked = gate.demand(held, desk.policy, prepared.request, prepared.job)
    if asked is None or asked[0].verdict != "checkpoint":
        return None
    decision, digest, call = asked
    return OpenCheckpoint(prepared.request_id, call.tool, call.session_id, digest, decision, call.asked)


def open_checkpoint(desk: Desk, request_id: str) -> OpenCheckpoint:
    """The one of a request. Raises InvalidInput."""
    for item in open_checkpoints(desk):
        if item.request_id == request_id:
            return item
    raise InvalidInput(f"{request_id}: no checkpoint waits for an answer; see: threegate checkpoint list")


def answer_about(item: OpenCheckpoint, *, approve: bool) -> Mapping[str, Any]:
    """What is signed."""
    return {
        "request_id": item.request_id,
        "call_sha256": item.call_sha256,
        "checkpoints": [demand.name for demand in item.decision.checkpoints],
        "approve": approve,
    }


def answer(desk: Desk, item: OpenCheckpoint, signed: bytes, *, approve: bool) -> None:
    """Check the signed answer and put it into the trail. Raises Refused, InvalidInput, TrailError."""
    about = answer_about(item, approve=approve)
    if open_checkpoint(desk, item.request_id).call_sha256 != item.call_sha256:
        raise Refused("request_changed", f"{item.request_id}: is another call now; look at it again")
    with desk.trail.locked() as held:
        data = checked_act(desk, held, signed, ANSWER, about)
        actor = data.pop("actor")
        moves.announce(
            held,
            "checkpoint_answered",
            request_id=item.request_id,
            actor=actor,
            data={
                **data,
                "call_sha256": item.call_sha256,
                "approve": approve,
                "checkpoints": about["checkpoints"],
            },
        )
