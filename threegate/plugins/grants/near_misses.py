"""Computed examples of what a grant would cover and just would not, for the screen before it is signed.

Invariant: pure; each example is decided by the function that decides at a launch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product, zip_longest
from typing import Any, Final

from threegate.core import limits
from threegate.core.canonical import INTEGER_MAX
from threegate.plugins.grants.grant import matches, opened
from threegate.plugins.grants.widened import ARGUMENTS, Widened, with_arguments, with_value
from threegate.request.job import Job


@dataclass(frozen=True, slots=True)
class Example:
    """A widened part with a value that would run and a close one that would wait for an operator.

    `runs` is the request's own value if no other close one would run.
    """

    widened: Widened
    runs: Any
    waits: Any


def examples(job: Job, widened: Sequence[Widened]) -> list[Example]:
    """One for each widened part of a job that `terms` accepts. Raises Refused like `terms`."""
    found = opened(job, widened)

    def covered(part: str, value: Any) -> bool:
        return matches(with_value(job, part, value), widened, found.pattern)

    made = []
    for item in widened:
        value = found.values[item.part]
        close = list(_close(value, item))
        runs = next((other for other in close if other != value and covered(item.part, other)), value)
        waits = next(other for other in (*close, *_FAR) if not covered(item.part, other))
        made.append(Example(item, runs, waits))
    return made


def near_calls(job: Job, widened: Sequence[Widened], absent: Sequence[str]) -> list[tuple[str, Job]]:
    """NEAR_CALLS tool calls that are close to `job`, which is covered, and would wait: the reason, and the
    call.

    One with another value, one with an extra argument, one with a value of another type, then more of each.
    """
    pattern, arguments = opened(job, widened).pattern, job.action.arguments()
    values = [
        (f"{_name(example.widened)} is another", with_value(job, example.widened.part, example.waits))
        for example in examples(job, widened)
        if example.widened.constraint.operators
    ]
    names = [name for name in absent if "." not in name and name not in arguments]
    more = [(f"{name} is there", with_arguments(job, {**arguments, name: "x"})) for name in (*names, "more")]
    further: tuple[Any, ...] = (1, [])
    more += [("an argument more", with_arguments(job, {**arguments, "more": value})) for value in further]
    types = [
        (f"{_name(item)} is a list", with_value(job, item.part, [opened(job, [item]).values[item.part]]))
        for item in widened
    ]
    near = [found for row in zip_longest(values, more, types) for found in row if found is not None]
    return [found for found in near if not matches(found[1], widened, pattern)][: limits.NEAR_CALLS]


def near_jobs(job: Job, widened: Sequence[Widened]) -> list[str]:
    """In words, NEAR_CALLS jobs that are close to `job`, which is covered, and would wait: calls as `near_calls` has
    them, others with another value, another limit or another requester.
    """
    if job.action.own_tool:
        near = near_calls(job, widened, ())
        return [f"{''.join(item.text for item in other.action.texts())} ({why})" for why, other in near]
    pattern = opened(job, widened).pattern
    values = [(example.widened.part, example.waits) for example in examples(job, widened)]
    more = [(f"limits.{name}", getattr(job.limits, name) + 1) for name in ("time_sec", "memory_mb")]
    found = [(f"{part} is {said_value(part, value)}", with_value(job, part, value)) for part, value in values + more]
    found.append(("another requester", replace(job, requested_by=f"{job.requested_by}-2")))
    return [why for why, other in found if not matches(other, widened, pattern)][: limits.NEAR_CALLS]


def newly_covered(job: Job, widened: Sequence[Widened], seen: Sequence[Job]) -> str:
    """In words, the most harmful job that was found among those that `widened` covers and `seen` does not have: each
    value that may be chosen at its worst, else the next ones. Empty if every covered job was seen.

    Worst is the number that is farthest from zero, the path that is most sensitive below a folder, and the value that
    was asked for least.
    """
    pattern = opened(job, widened).pattern
    parts = [item.part for item in widened]
    past = [opened(other, widened).values for other in seen]
    had = {tuple(values[part] for part in parts) for values in past}
    choices = [list(_worst_first(item, [values[item.part] for values in past])) for item in widened]
    for combination in islice(product(*choices), limits.SUGGESTION_TRIED):
        # Other bytes of a size that an input had are new as well.
        if combination in had and not any(part.startswith("inputs.") for part in parts):
            continue
        other = job
        for part, value in zip(parts, combination, strict=True):
            other = with_value(other, part, value)
        if matches(other, widened, pattern):
            return ", ".join(
                f"{part} is {said_value(part, value)}" for part, value in zip(parts, combination, strict=True)
            )
    return ""


def _worst_first(item: Widened, seen: Sequence[Any]) -> Iterator[Any]:
    """Values that a constraint of `narrow_rule` takes, by the harm that each may do."""
    operators, times = item.constraint.operators, Counter(seen)
    if "under" in operators:
        (folder,) = operators["under"] if isinstance(operators["under"], list) else [operators["under"]]
        yield from (f"{folder}/{name}" for name in _SENSITIVE)
    elif "one_of" in operators:
        yield from sorted(operators["one_of"], key=lambda value: (times[value], -_size(value), str(value)))
    else:
        low, high = operators["gte"], operators["lte"]
        bounds = sorted((low, high), key=_size, reverse=True)
        yield from bounds
        below = max(value for value in times if value < high)  # the second of them, so that what is between is new
        if isinstance(high, int) and isinstance(below, int):
            yield from (value for value in (high - 1, below + 1, low + 1) if low < value < high and value not in times)
        else:
            yield (below + high) / 2


def _size(value: Any) -> float:
    return 0.0 if isinstance(value, str) else abs(value)


_SENSITIVE: Final = (
    ".git/hooks/pre-commit",
    ".ssh/authorized_keys",
    ".env",
    ".github/workflows/ci.yml",
    "Makefile",
    "conftest.py",
    "secret",
)
"""What below a folder runs by itself, lets somebody in, or is a secret; the worst first."""


def said_value(part: str, value: object) -> str:
    """A value of a part, in the form the part has."""
    if part.startswith("inputs."):
        return f"any content of {value} bytes"
    return json.dumps(value, ensure_ascii=False)


def _name(widened: Widened) -> str:
    return widened.part.removeprefix(ARGUMENTS)


_FAR = ("../x", 0)
"""A value that no constraint accepts: the first of any type but a free text, which accepts no number."""


def _close(value: Any, widened: Widened) -> Iterator[Any]:
    """Values close to one, and to the limits of what is allowed: the closest first."""
    operators = widened.constraint.operators
    if isinstance(value, bool):
        yield not value
        return
    yield from map(type(value), operators.get("one_of", ()))
    if not isinstance(value, str):
        step = 1 if isinstance(value, int) else 0.01
        for edge in (operators.get("lte", value), operators.get("gte", value)):
            near = (type(value)(edge), type(value)(edge + step), type(value)(edge - step))
            yield from (other for other in near if abs(other) <= INTEGER_MAX)  # what JSON can say exactly
        return
    for at in reversed(range(len(value))):  # a word differs at its end more often than at its beginning
        for other in _like(value[at]):
            yield value[:at] + other + value[at + 1 :]
    yield from (f"{value}x", value[:-1], f"{value}/x")


def _like(character: str) -> str:
    """Characters of the same kind, then others."""
    for kind in ("0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"):
        if character in kind:
            at = kind.index(character)
            return kind[at + 1 : at + 2] + kind[max(0, at - 1) : at] + kind[0] + kind[-1]
    return "x"
