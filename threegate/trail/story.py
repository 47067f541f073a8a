"""The trail as a story: which events, and how a line of it looks. The sentences are the payloads'
(`trail.payloads`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from threegate.core.printable import is_plain, stands_alone
from threegate.trail.event import Event, format_time

_ESCAPE = re.compile(r"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4})|U(00(?:0[0-9a-f]|10)[0-9a-f]{4}))")


def sentence(event: Event) -> str:
    """One sentence about an event, its payload's own, for people."""
    return readable(event.payload.sentence())


def readable(text: str) -> str:
    """A text of the trail, which is ASCII, with its visible characters as they are; whatever hides, joins or reverses
    stays an escape, and a backslash stays doubled, so that no escape is taken for another.
    """
    return _ESCAPE.sub(_as_it_is, text) if "\\" in text else text


def _as_it_is(found: re.Match[str]) -> str:
    digits = found[1] or found[2] or found[3]
    char = chr(int(digits, 16)) if digits else "\\"
    return char if digits and is_plain(char) and stands_alone(char) else found[0]


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
