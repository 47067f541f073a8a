"""Grants that could be given for what an operator signs again and again, each the narrowest that covers it.

Invariant: pure, and it grants nothing: a suggestion is the words of `threegate grant new`, which shows and signs a
grant as any other. It covers the requests that it is made from, and each request in it is of one owner and the same in
everything but plain values; what differs is under a rule of `narrow_rule`. Where no rule is narrow, it is a reason
instead.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from threegate.core import canonical, limits
from threegate.core.errors import Refused
from threegate.plugins.grants.constraint import kind_of
from threegate.plugins.grants.grant import Grant, covers, matches, opened, refuse_write
from threegate.plugins.grants.narrow_rule import NothingNarrowError, apart, narrow_rule
from threegate.plugins.grants.near_misses import near_jobs, newly_covered
from threegate.plugins.grants.past_requests import PastRequest
from threegate.plugins.grants.widened import ARGUMENTS, OpenJob, Widened, open_values, read_widened
from threegate.request.job import Job
from threegate.trail.payloads.payload import Owner

_HOUR: Final = 3600
_DAY: Final = 24 * _HOUR


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a suggestion has to keep to, apart from the past."""

    now: datetime
    quorum: Callable[[Job], int]
    """How many operators must sign a request for a job."""
    why_wide: Callable[[str], str | None]
    """What a folder is that is too wide for a rule; None for one that is not."""
    why_over: Callable[[Owner], str | None]
    """Why an owner will never ask again."""
    allow_write: bool = False
    live: Sequence[Grant] = ()
    """Grants that can be used."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A grant that could be given."""

    owner: Owner
    job: Job
    """One of the jobs that ran."""
    from_request: str
    """Its request."""
    rules: tuple[str, ...]
    """As `--widen` takes them."""
    widened: tuple[Widened, ...]
    past: tuple[PastRequest, ...]
    """What it would have covered, in order."""
    left_out: tuple[PastRequest, ...]
    """What stands apart from those, and is not covered."""
    max_uses: int
    expires: str
    worst: str
    """The most harmful job that was found among those newly covered, in words; empty if there is none."""
    near: tuple[str, ...]
    """Jobs that it does not cover, in words."""

    @property
    def words(self) -> list[str]:
        """The command that gives it."""
        widened = [word for rule in self.rules for word in ("--widen", rule)]
        uses = ["--max-uses", str(self.max_uses), "--expires", self.expires]
        return ["threegate", "grant", "new", self.from_request, *widened, *uses]

    def covers(self, owner: Owner, job: Job) -> bool:
        """Whether a request would run under it."""
        return owner == self.owner and matches(job, self.widened, opened(self.job, self.widened).pattern)


@dataclass(frozen=True, slots=True)
class NotSuggested:
    """Requests of one shape for which no grant is suggested, and why, in one line."""

    past: tuple[PastRequest, ...]
    why: str


def suggest(past: Sequence[PastRequest], bounds: Bounds) -> list[Suggestion | NotSuggested]:
    """One for each shape that at least SUGGESTION_LEAST requests had, those of most requests first. `past` is in
    order.
    """
    shapes: dict[tuple[object, ...], list[_Row]] = {}
    for request in past:
        rest = open_values(request.job)
        kinds = tuple((part, _kind(part, value)) for part, value in sorted(rest.values.items()))
        key = (type(request.owner), request.owner, canonical.digest(rest.pattern), kinds)
        shapes.setdefault(key, []).append(_Row(request, rest))
    found = [_of_shape(rows, bounds) for rows in shapes.values() if len(rows) >= limits.SUGGESTION_LEAST]
    return sorted(found, key=lambda item: -len(item.past))


def _kind(part: str, value: Any) -> str:
    """The type of a value; the number 5.0 of a call is written 5."""
    kind = str(kind_of(value))
    return "number" if part.startswith(ARGUMENTS) and kind == "integer" else kind


@dataclass(frozen=True, slots=True)
class _Row:
    """A request, and its values that may differ."""

    request: PastRequest
    rest: OpenJob

    def identity(self, part: str) -> Any:
        """What tells the value of a part from another: of an input its bytes."""
        kind, _, name = part.partition(".")
        if kind == "inputs":
            return next(item.sha256 for item in self.request.job.inputs if item.name == name)
        return self.rest.values[part]


def _of_shape(rows: Sequence[_Row], bounds: Bounds) -> Suggestion | NotSuggested:
    job = rows[-1].request.job
    try:
        _refuse(rows[-1].request, bounds)
        return _narrowest(rows, bounds)
    except (NothingNarrowError, Refused) as error:
        return NotSuggested(tuple(row.request for row in rows), f"{_does(job)}: {error}")


def _does(job: Job) -> str:
    """What a job does, for a line."""
    return job.action.does or shlex.join(job.action.words[:4]) or "the same code"


def _refuse(last: PastRequest, bounds: Bounds) -> None:
    """Raises Refused, NothingNarrowError for a job that no grant may cover, and where one would be of no use."""
    job = last.job
    opened(job, ())
    refuse_write(job, allowed=bounds.allow_write)
    if job.action.stateful:
        raise NothingNarrowError("its server keeps state; you may write a grant with: threegate grant tool SERVER TOOL")
    if bounds.quorum(job) > 1:
        raise NothingNarrowError("more than one operator must sign it, and a grant has one")
    if (why := bounds.why_over(last.owner)) is not None:
        raise NothingNarrowError(why)
    if bounds.now - last.ended_utc > timedelta(seconds=limits.SUGGESTION_SECONDS):
        raise NothingNarrowError(f"it ran last on {last.ended_utc:%Y-%m-%d}")
    for grant in bounds.live:
        if grant.owner == last.owner and covers(grant, job):
            raise NothingNarrowError(f"the grant {grant.id[:16]} covers it")


def _narrowest(rows: Sequence[_Row], bounds: Bounds) -> Suggestion:
    """Raises NothingNarrowError, Refused."""
    kept, left_out = _without_apart(rows)
    parts = _differing(kept)
    if len(parts) > limits.GRANT_PARTS:
        raise NothingNarrowError(f"{len(parts)} parts differ, and a grant can widen {limits.GRANT_PARTS}")
    rules = []
    for part in parts:
        values = [row.rest.values[part] for row in kept]
        try:
            rule = narrow_rule(
                values,
                sends_out=kept[-1].request.job.action.sends_out,
                why_wide=bounds.why_wide,
            )
        except NothingNarrowError as error:
            raise NothingNarrowError(f"{part}: {error}") from None
        rules.append(f"{part} {rule}")
    source, widened = _read(kept, rules)
    past = tuple(row.request for row in kept)
    max_uses, expires = _life(past)
    return Suggestion(
        owner=source.owner,
        job=source.job,
        from_request=source.request_id,
        rules=tuple(rules),
        widened=widened,
        past=past,
        left_out=tuple(row.request for row in left_out),
        max_uses=max_uses,
        expires=expires,
        worst=newly_covered(source.job, widened, [request.job for request in past]),
        near=tuple(near_jobs(source.job, widened)),
    )


def _differing(rows: Sequence[_Row]) -> list[str]:
    """The parts that are not the same in all."""
    return [part for part in sorted(rows[0].rest.values) if len({row.identity(part) for row in rows}) > 1]


def _without_apart(rows: Sequence[_Row]) -> tuple[list[_Row], list[_Row]]:
    """The requests that belong together, and the few that stand apart: at most one in SUGGESTION_APART. If there are
    more, none is left out, and what they make wide is refused or seen.
    """
    most, kept = len(rows) // limits.SUGGESTION_APART, list(rows)
    left_out: list[_Row] = []
    while True:
        found: set[int] = set()
        for part in _differing(kept):
            found |= apart([row.rest.values[part] for row in kept], most)
        if not found:
            return kept, left_out
        left_out += [row for at, row in enumerate(kept) if at in found]
        if len(left_out) > most:
            return list(rows), []
        kept = [row for at, row in enumerate(kept) if at not in found]


def _read(kept: Sequence[_Row], rules: Sequence[str]) -> tuple[PastRequest, tuple[Widened, ...]]:
    """The newest request in whose types the rules can be read, and the rules as read; they cover all of `kept`.

    What is written is what is signed, so the rules are read as `grant new` reads them. Raises NothingNarrowError,
    Refused.
    """
    problem: Exception = NothingNarrowError("no rule covers all of these requests")
    for row in reversed(kept):
        source = row.request
        try:
            widened = read_widened(source.job, rules)
            pattern = opened(source.job, widened).pattern
        except Refused as error:
            problem = error
            continue
        if all(matches(other.request.job, widened, pattern) for other in kept):
            return source, widened
    raise problem


def _life(past: Sequence[PastRequest]) -> tuple[int, str]:
    """How often and how long: as long as the requests were seen, and as often as in so long a time up to the last."""
    seconds = math.ceil((past[-1].ended_utc - past[0].ended_utc).total_seconds())
    seconds = min(max(seconds, limits.SUGGESTION_LEAST_SECONDS), limits.SUGGESTION_SECONDS)
    unit, name = (_DAY, "d") if seconds >= _DAY else (_HOUR, "h")
    count = min(math.ceil(seconds / unit), limits.SUGGESTION_SECONDS // unit)
    first = past[-1].ended_utc - timedelta(seconds=count * unit)
    uses = sum(request.ended_utc >= first for request in past)
    return min(uses, limits.GRANT_USES), f"{count}{name}"


def count_waiting(suggestion: Suggestion, waiting: Iterable[tuple[Owner, Job]]) -> int:
    """How many drafts that wait would run under it. They are no reason for it."""
    return sum(suggestion.covers(owner, job) for owner, job in waiting)
