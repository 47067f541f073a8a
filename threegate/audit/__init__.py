"""The trail: an append-only chain of events that can be proven unaltered.

What others use: `Trail` (create, locked, events), the `LockedTrail` that `locked` gives, `TrailIndex` and
`RequestHistory` (what the trail says so far), `Event`.
"""

from threegate.audit.event import TYPES, Event, format_time, parse_time, trail_text
from threegate.audit.held import LockedTrail
from threegate.audit.history import ENDS, RequestHistory
from threegate.audit.index import Head, TrailIndex
from threegate.audit.on_disk import Clock, system_clock
from threegate.audit.trail import Trail

__all__ = [
    "ENDS",
    "TYPES",
    "Clock",
    "Event",
    "Head",
    "LockedTrail",
    "RequestHistory",
    "Trail",
    "TrailIndex",
    "format_time",
    "parse_time",
    "system_clock",
    "trail_text",
]
