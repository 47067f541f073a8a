"""The trail: an append-only chain of events that can be proven unaltered.

What others use: `Trail` (create, locked, events), the `LockedTrail` that `locked` gives, `TrailIndex` and
`RequestHistory` (what the trail says so far), `Event`; from `trail.payloads` what an event says, typed.
"""
