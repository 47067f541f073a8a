"""Which part of a proposed change a draft is, by what the trail says of the request that it names.

Invariant: a draft says only which request it is derived from. How much of it that is, and what was left out, is in the
event by which that request ended, so nobody who drafts can say otherwise; and a draft that names another request has no
Job before that event, so a part and the whole are never both there to be approved.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from threegate.core.errors import Refused
from threegate.plugins.changes.action import JobPart, ProjectChange
from threegate.review.reviewed_draft import SUPERSEDED
from threegate.trail.index import TrailIndex
from threegate.trail.payloads import Rejected
from threegate.trail.payloads.payload import Owner
from threegate.trail.payloads.run_events import TakenPart

PART_UNKNOWN = "part_unknown"
_RULE = "TG915"
_PLAIN: Final = "".join(map(chr, range(32, 127))).translate({ord("%"): None, ord("\\"): None})


def taken_part(index: TrailIndex, derived_from: str) -> TakenPart | None:
    """The part that was taken of a request; None if it did not end that way."""
    history = index.history(derived_from)
    ended = Rejected.of(history.end) if history is not None else None
    return ended.part if ended is not None and ended.reason == SUPERSEDED else None


def job_part(index: TrailIndex, request_id: str, derived_from: str, sha256: str, owner: Owner | None) -> JobPart:
    """What the Job has of the part with this digest. `request_id` is that of the draft that was made of it, or once
    that has ended of one that was drafted again. Raises Refused (part_unknown).
    """
    part, whole = taken_part(index, derived_from), index.history(derived_from)
    if part is None or part.sha256 != sha256 or whole is None or whole.owner != owner:
        raise Refused(PART_UNKNOWN, _words(derived_from))
    if request_id != part.request_id:
        first = index.history(part.request_id or "")
        if first is None or first.end is None:
            raise Refused(PART_UNKNOWN, f"derived_from: this part of {derived_from} is the draft {part.request_id}")
    named = tuple(unquote(path) for path in part.left_out or ())
    return JobPart(part.root or derived_from, part.paths or 0, part.of or 0, named)


def as_recorded(path: str) -> str:
    """A path as the trail has it: what is not printable ASCII as %XX, so that it is read again as it was."""
    return quote(path, safe=_PLAIN)


def part_problem(index: TrailIndex, action: ProjectChange) -> tuple[str, str] | None:
    """Rule and words about a draft that says it is a part of what nobody took a part of."""
    if not action.derived_from:
        return None
    part = taken_part(index, action.derived_from)
    return None if part is not None and part.sha256 == action.changes.sha256 else (_RULE, _words(action.derived_from))


def _words(derived_from: str) -> str:
    return f"derived_from: the trail does not say that this part of {derived_from} was taken"
