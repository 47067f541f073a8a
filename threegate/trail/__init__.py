"""The trail: an append-only chain of events that can be proven unaltered.

What others use: `Trail` (create, locked, events), the `LockedTrail` that `locked` gives, `TrailIndex` and
`RequestHistory` (what the trail says so far), `Event`; from `trail.payloads` what an event says, typed.
"""

from threegate.trail.event import Event, format_time, parse_time, trail_text
from threegate.trail.history import RequestHistory
from threegate.trail.index import Head, KnownRun, TrailIndex
from threegate.trail.locked_trail import LockedTrail
from threegate.trail.on_disk import Clock, system_clock
from threegate.trail.payloads.placed import Owner
from threegate.trail.trail import Trail

__all__ = [
    "Clock",
    "Event",
    "Head",
    "KnownRun",
    "LockedTrail",
    "Owner",
    "RequestHistory",
    "Trail",
    "TrailIndex",
    "format_time",
    "parse_time",
    "system_clock",
    "trail_text",
]
