"""What the trail says about one request, and how the history of one that has ended is kept small.

Invariant: a history is a pure function of the events of its request, in order; however it is kept, it comes back as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import orjson

from threegate.trail.event import Event, event_of_line

ENDS: Final = frozenset(("refused", "rejected", "cancelled", "interrupted", "finished"))
"""Event types after which a request never runs (again)."""


@dataclass(slots=True)
class RequestHistory:
    """What the trail says about one request, by the events that decide. None: no such event (any more).

    `end` is the last of `refused rejected cancelled interrupted finished`. A `quarantined` copy of a request
    (reason `replayed`) changes nothing here but `last`.
    """

    request_id: str
    last: Event
    approved: Event | None = None
    countersigned: list[Event] = field(default_factory=list)
    promoted: Event | None = None
    cleared: Event | None = None
    claimed: Event | None = None
    started: Event | None = None
    finished: Event | None = None
    cancel_requested: Event | None = None
    delivered: Event | None = None
    applied: Event | None = None
    end: Event | None = None
    abandoned: bool = False
    """The last approval never reached its folder: the id and the file name are free again."""
    state: str | None = None
    """The state folder that the last announced move led to; None before the first."""
    file: str | None = None
    """The name of the request file in that folder."""
    owner_uid: int | None = None
    """uid of the owner of the draft (`owner_uid` of its events)."""
    proposal_sha256: str | None = None
    """Digest of the proposal that the draft was made of."""

    @property
    def last_type(self) -> str:
        """Type of the last event."""
        return self.last.type

    @property
    def interrupted(self) -> bool:
        """Claimed or started, and nothing says how it ended."""
        return self.claimed is not None and self.end is None

    def snapshot(self) -> RequestHistory:
        """This history as it is now; events that come later do not change it."""
        return replace(self, countersigned=list(self.countersigned))

    def add(self, event: Event) -> None:
        """Take the next event of this request."""
        kind, data = event.type, event.data
        self.last = event
        if kind == "quarantined":
            return
        if kind == "approved":
            self.abandoned = False
            self.approved = event
            self.countersigned.clear()
        elif kind == "countersigned":
            self.countersigned.append(event)
        elif kind == "approval_abandoned":
            self.abandoned = True
            self.approved = None
            self.state = self.file = None
            return
        elif kind in (
            "promoted",
            "cleared",
            "claimed",
            "started",
            "finished",
            "cancel_requested",
            "delivered",
            "applied",
        ):
            setattr(self, kind, event)
        if kind in ENDS:
            self.end = event
        if isinstance(state := data.get("state"), str) and isinstance(name := data.get("file"), str):
            self.state, self.file = state, name
        if type(owner := data.get("owner_uid")) is int:
            self.owner_uid = owner
        if isinstance(proposal := data.get("proposal_sha256"), str):
            self.proposal_sha256 = proposal


_EVENTS: Final = (
    "last",
    "approved",
    "promoted",
    "cleared",
    "claimed",
    "started",
    "finished",
    "cancel_requested",
    "delivered",
    "applied",
    "end",
)


class Settled:
    """The history of an ended request in little memory: the lines of its events instead of the events."""

    __slots__ = ("countersigned", "facts", "lines")

    def __init__(self, history: RequestHistory) -> None:
        events: list[Event | None] = [getattr(history, name) for name in _EVENTS]
        self.lines = tuple(None if event is None else event.line for event in events)
        self.countersigned = tuple(event.line for event in history.countersigned)
        self.facts = (
            history.abandoned,
            history.state,
            history.file,
            history.owner_uid,
            history.proposal_sha256,
        )

    def history(self, request_id: str) -> RequestHistory:
        """The history again, as it was."""
        known = {line: event_of_line(line) for line in self.lines if line is not None}
        events = {
            name: None if line is None else known[line]
            for name, line in zip(_EVENTS, self.lines, strict=True)
        }
        abandoned, state, file, owner_uid, proposal_sha256 = self.facts
        last = events.pop("last")
        assert last is not None
        return RequestHistory(
            request_id,
            last,
            countersigned=[event_of_line(line) for line in self.countersigned],
            abandoned=abandoned,
            state=state,
            file=file,
            owner_uid=owner_uid,
            proposal_sha256=proposal_sha256,
            **events,
        )


class Record:
    """A history as it is kept outside of memory: the numbers of its events, and what is not in them."""

    __slots__ = ("_value", "request_id")

    def __init__(self, request_id: str, data: bytes) -> None:
        self.request_id = request_id
        self._value = orjson.loads(data)

    @staticmethod
    def of(history: RequestHistory) -> bytes:
        """The record of a history, as bytes."""
        events = [getattr(history, name) for name in _EVENTS]
        return orjson.dumps(
            [
                [event and event.seq for event in events],
                [event.seq for event in history.countersigned],
                [history.abandoned, history.state, history.file, history.owner_uid, history.proposal_sha256],
            ]
        )

    @property
    def taken(self) -> bool:
        """Whether the id is taken: approved and not abandoned, claimed, or ended."""
        seqs = dict(zip(_EVENTS, self._value[0], strict=True))
        return bool(seqs["approved"] or seqs["claimed"] or seqs["end"])

    def history(self, event_at: Callable[[int], Event]) -> RequestHistory:
        """The history, its events fetched by their numbers."""
        seqs, countersigned, facts = self._value
        known = {seq: event_at(seq) for seq in {*filter(None, seqs), *countersigned}}
        events = {name: known[seq] if seq else None for name, seq in zip(_EVENTS, seqs, strict=True)}
        last = events.pop("last")
        assert last is not None
        abandoned, state, file, owner_uid, proposal_sha256 = facts
        return RequestHistory(
            self.request_id,
            last,
            countersigned=[known[seq] for seq in countersigned],
            abandoned=abandoned,
            state=state,
            file=file,
            owner_uid=owner_uid,
            proposal_sha256=proposal_sha256,
            **events,
        )
