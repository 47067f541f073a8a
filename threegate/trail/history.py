"""What the trail says about one request, and the form in which the index file has it.

Invariant: a history is a pure function of the events of its request, in order; storing and loading it changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from threegate.core import durable
from threegate.core.errors import Refused
from threegate.core.workspace import Workspace
from threegate.trail.event import Event
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
    cleared: Event | None = None
    claimed: Event | None = None
    started: Event | None = None
    finished: Event | None = None
    cancel_requested: Event | None = None
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


def result_name(moment: datetime, request_id: str) -> str:
    """The file name of the result of a request that ended at `moment`, before a number is added."""
    return f"TS-{moment.astimezone(UTC):%Y%m%d-%H%M%SZ}-{request_id}.md"


def unsettled(workspace: Workspace, history: RequestHistory) -> bool:
    """Whether a request is not where the trail says, or lacks its result. Cheap: it only checks names."""
    if history.abandoned or (history.approved is None and history.end is None):
        return False
    if history.end is None:
        if history.claimed is not None:
            return True
        # Only what is surely gone counts, since it makes the approval void for good: see `is_gone`.
        return history.file is not None and durable.is_gone(workspace.approved / history.file)
    if history.state is None or history.file is None:
        return False
    there = (workspace.state_folder(history.state) / history.file).exists()
    return not there or not (workspace.results / result_name(history.end.when, history.request_id)).exists()


def still_open(workspace: Workspace, history: RequestHistory) -> bool:
    """Whether something still has to happen to a request: it is waiting, running, or `unsettled`."""
    waits = history.end is None and (history.approved or history.claimed)
    return bool(waits) or unsettled(workspace, history)


_EVENTS: Final = (
    "last",
    "approved",
    "cleared",
    "claimed",
    "started",
    "finished",
    "cancel_requested",
    "applied",
    "end",
)
"""The fields that hold one event or none."""
_FACTS: Final = ("abandoned", "state", "file", "owner", "proposal_sha256", "unknown")
"""The fields that hold no event."""


def to_record(history: RequestHistory) -> bytes:
    """A history as it is kept outside of memory: the numbers of its events, and what is not in them."""
    events: list[Event | None] = [getattr(history, name) for name in _EVENTS]
    return orjson.dumps(
        [
            [event and event.seq for event in events],
            [event.seq for event in history.countersigned],
            [getattr(history, name) for name in _FACTS],
        ]
    )


def from_record(request_id: str, record: bytes, event_at: Callable[[int], Event]) -> RequestHistory:
    """The history again, its events fetched by their numbers. Raises what `event_at` does."""
    seqs, countersigned, facts = orjson.loads(record)
    known = {seq: event_at(seq) for seq in {*filter(None, seqs), *countersigned}}
    events: dict[str, Any] = {name: known.get(seq) for name, seq in zip(_EVENTS, seqs, strict=True)}
    return RequestHistory(
        request_id,
        countersigned=[known[seq] for seq in countersigned],
        **dict(zip(_FACTS, facts, strict=True)),
        **events,
    )
