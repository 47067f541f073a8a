"""What the trail says about one request, and the compact form for one that has ended.

Invariant: a history is a pure function of the events of its request, in order; storing and loading it changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from threegate.core.errors import Refused
from threegate.trail.event import Event, event_of_line
from threegate.trail.payloads.payload import Owner

UNKNOWN_EVENT: Final = "unknown_event"
"""The reason code of a request that waits, or is not approved, for the sake of `RequestHistory.unknown`."""


@dataclass(slots=True)
class RequestHistory:
    """What the trail says about one request, by the events that decide. None: no such event (any more).

    What an event changes here, its payload says (`Payload.change`). `end` is the last event after which the request
    never runs (again).
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
    owner: Owner | None = None
    """Whose the first file with this id was: who asks. Later files with the same id do not change it."""
    proposal_sha256: str | None = None
    """Digest of the proposal that the draft was made of."""
    unknown: str | None = None
    """The first kind of event of this request that nothing here knows: it can be rejected, and never be approved,
    claimed or run, since nobody here knows what the event means for it.
    """

    @property
    def interrupted(self) -> bool:
        """Claimed or started, and nothing says how it ended."""
        return self.claimed is not None and self.end is None

    def snapshot(self) -> RequestHistory:
        """This history as it is now; events that come later do not change it."""
        return replace(self, countersigned=list(self.countersigned))

    def add(self, event: Event) -> None:
        """Take the next event of this request: its payload knows what it changes."""
        self.last = event
        event.payload.change(self, event)


def refuse_unknown_event(history: RequestHistory | None) -> None:
    """Raises Refused (unknown_event) for a request whose history has an event that nothing here can read."""
    if history is not None and history.unknown is not None:
        raise Refused(UNKNOWN_EVENT, unknown_event_text(history.unknown))


def unknown_event_text(kind: str) -> str:
    """What that means, in one line."""
    return (
        f"its history has an event of the kind {kind}, which is not known here: it can be rejected; to go on with it, "
        "install the plugin or the version that wrote the event"
    )


_EVENTS: Final = (
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
"""The fields that hold one event or none."""


class Settled:
    """The history of an ended request in little memory: the lines of its events instead of the events."""

    __slots__ = ("countersigned", "facts", "last", "lines")

    def __init__(self, history: RequestHistory) -> None:
        events: list[Event | None] = [getattr(history, name) for name in _EVENTS]
        self.last = history.last.line
        self.lines = tuple(None if event is None else event.line for event in events)
        self.countersigned = tuple(event.line for event in history.countersigned)
        self.facts = _facts(history)

    def history(self, request_id: str) -> RequestHistory:
        """The history again, as it was."""
        known = {line: event_of_line(line) for line in {self.last, *self.lines} if line is not None}
        events: dict[str, Any] = {
            name: None if line is None else known[line] for name, line in zip(_EVENTS, self.lines, strict=True)
        }
        signed = [event_of_line(line) for line in self.countersigned]
        facts = dict(zip(_FACTS, self.facts, strict=True))
        return RequestHistory(request_id, known[self.last], countersigned=signed, **facts, **events)


class Record:
    """A history as it is kept outside of memory: the numbers of its events, and what is not in them."""

    __slots__ = ("_value", "request_id")

    def __init__(self, request_id: str, data: bytes) -> None:
        self.request_id = request_id
        self._value = orjson.loads(data)

    @staticmethod
    def of(history: RequestHistory) -> bytes:
        """The record of a history, as bytes."""
        events: list[Event | None] = [getattr(history, name) for name in _EVENTS]
        return orjson.dumps(
            [
                [history.last.seq, *(event and event.seq for event in events)],
                [event.seq for event in history.countersigned],
                _facts(history),
            ]
        )

    @property
    def taken(self) -> bool:
        """Whether the id is taken: approved and not abandoned, claimed, or ended."""
        seqs = dict(zip(_EVENTS, self._value[0][1:], strict=True))
        return bool(seqs["approved"] or seqs["claimed"] or seqs["end"])

    def history(self, event_at: Callable[[int], Event]) -> RequestHistory:
        """The history, its events fetched by their numbers."""
        (last, *seqs), countersigned, facts = self._value
        known = {seq: event_at(seq) for seq in {last, *filter(None, seqs), *countersigned}}
        events: dict[str, Any] = {name: known[seq] if seq else None for name, seq in zip(_EVENTS, seqs, strict=True)}
        return RequestHistory(
            self.request_id,
            known[last],
            countersigned=[known[seq] for seq in countersigned],
            **dict(zip(_FACTS, facts, strict=True)),
            **events,
        )


_FACTS: Final = ("abandoned", "state", "file", "owner", "proposal_sha256", "unknown")
"""The fields that hold no event."""


def _facts(history: RequestHistory) -> tuple[Any, ...]:
    return tuple(getattr(history, name) for name in _FACTS)
