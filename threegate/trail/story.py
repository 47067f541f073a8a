"""The trail as a story: which events, and how a line of it looks. The sentences are the payloads'
(`trail.payloads`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from threegate.trail.event import Event, format_time


def sentence(event: Event) -> str:
    """One sentence about an event, its payload's own. Trail texts are printable ASCII already."""
    return event.payload.sentence()


def story_line(event: Event) -> str:
    """``2026-11-22 05:06:07  #12  TR-id  operator  sentence``"""
    moment = f"{event.time[:10]} {event.time[11:19]}"
    about = f"{event.request_id}: " if event.request_id else ""
    return f"{moment}  #{event.seq:<5} {event.actor:<18} {about}{sentence(event)}"


def select(
    events: Iterable[Event],
    *,
    request_id: str | None = None,
    since: datetime | None = None,
    types: frozenset[str] = frozenset(),
) -> Iterator[Event]:
    """The events of one request, since a time, of some types; an empty filter accepts all."""
    first = format_time(since.astimezone(UTC)) if since else ""
    for event in events:
        if request_id is not None and event.request_id != request_id:
            continue
        if event.time >= first and (not types or event.type in types):
            yield event
