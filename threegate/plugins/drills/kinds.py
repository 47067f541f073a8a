"""Kinds of events of drills: drafts that must not be approved, placed to measure whether operators still read.

Invariant: none of them is about a request: they have no request_id, so a drill is in no history, count or
record of one. What `drill_placed` commits to is revealed by `drill_ended`, and `audit verify` compares the
two.
"""

from __future__ import annotations

from typing import Any, Final

from threegate.core.canonical import canonical_bytes, sha256_hex
from threegate.trail.event import Event
from threegate.trail.index import Drills, TrailIndex
from threegate.trail.payloads.payload import Payload, SignedAct, because, frozen_fields, named


@frozen_fields
class DrillSet(SignedAct):
    """An operator consented to drills, or ended them."""

    kind = "drill_set"

    on: bool

    def sentence(self) -> str:
        return "switched drills on" if self.on else "switched drills off"

    def learn(self, index: TrailIndex, event: Event) -> None:
        index.drills = Drills(self.on, index.drills.open, event.time, event.hash)

    def tally(self, practice: Any, event: Event) -> None:
        practice.drills.on, practice.drills.since, practice.drills.by = (
            self.on,
            event.time,
            event.actor.removeprefix("operator:"),
        )


@frozen_fields
class DrillPlaced(Payload):
    """The daemon placed a drill among the drafts; what it is stays hidden until it is over."""

    kind = "drill_placed"

    commitment: str | None = None
    """Salted digest of what `drill_ended` will reveal (`drill_commitment`)."""
    ids_sha256: tuple[str, ...] | None = None
    """Digest of its request id: this id is spent."""

    def sentence(self) -> str:
        return "placed a drill"

    def learn(self, index: TrailIndex, event: Event) -> None:
        index.drills = Drills(index.drills.on, self.commitment, event.time, event.hash)

    def contradicts(self, seen: dict[str, Any]) -> str | None:
        seen["open"] = self.commitment
        return None


@frozen_fields
class DrillEnded(Payload):
    """A drill ended: an operator decided on it, or it was left undecided."""

    kind = "drill_ended"

    commitment: str | None = None
    outcome: str | None = None
    """``caught`` (rejected, or the planted file was left out), ``missed`` (the answer was yes), ``expired`` (or its
    project moved on), ``withdrawn`` (drills were switched off) or ``lost`` (its files are gone or were changed).
    """
    salt: str | None = None
    """None where it is lost."""
    drill_id: str | None = None
    """Its request id."""
    request_sha256: str | None = None
    """Digest of the draft's bytes."""
    source: str | None = None
    """Id of the request that it was made from, or ``project NAME`` for a change set that was made of one."""
    planted: str | None = None
    """The kind of the planted change."""
    line: str | None = None
    """The planted change, as it was shown."""
    reason: str | None = None
    """Of a rejection, in the operator's words."""
    read_seconds: int | None = None
    """From the first line on the screen to the decision."""
    read_whole: bool | None = None

    @property
    def opens(self) -> str:
        """The commitment that its own words make."""
        return drill_commitment(
            salt=self.salt or "",
            drill_id=self.drill_id or "",
            request_sha256=self.request_sha256 or "",
            source=self.source or "",
            planted=self.planted or "",
            line=self.line or "",
        )

    def sentence(self) -> str:
        return f"the drill{named(self.drill_id)} is over{because(self.outcome, self.planted, self.line)}"

    def learn(self, index: TrailIndex, event: Event) -> None:
        if self.commitment == index.drills.open:
            index.drills = Drills(index.drills.on, None, event.time, event.hash)

    def tally(self, practice: Any, event: Event) -> None:
        if event.time >= practice.first:
            practice.drills.take(event.actor.removeprefix("operator:"), self.outcome, self.planted, self.read_seconds)

    def contradicts(self, seen: dict[str, Any]) -> str | None:
        placed, seen["open"] = seen.get("open"), None
        if self.commitment == placed and (self.salt is None or self.opens == placed):
            return None
        return "does not open what was committed to when its drill was placed"


def drill_commitment(**said: str) -> str:
    """sha256 of the canonical JSON of salt, id, digest, source, kind and line of a drill, as the trail writes them."""
    return sha256_hex(canonical_bytes(said))


KINDS: Final = (DrillSet, DrillPlaced, DrillEnded)
