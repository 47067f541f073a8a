"""Which drafts have the same shape, and what differs between them; pure functions of what gate 1 read.

Invariant: two requests have the same shape only if they are equal in everything except what a person can
judge from a short value in a table: id and file name, time, purpose and justification, the paths of declared
outputs, plain values among Monty's inputs, among the arguments of a tool's call and among those of code that
is on the screen, and the content of Monty's input files. Hosts, limits, tools, servers, projects, options,
code, the names and structure of a call's arguments, and every argument of an opaque program must be
identical, as must every word that could be a path or a host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.request.backend import BACKENDS
from threegate.request.command.pinned_script import script_word
from threegate.request.job import Job
from threegate.request.model import Request, exposure_of
from threegate.trail.payloads.payload import Owner

# Fields of a request that do not affect its shape, or that are handled separately.
_SAME: Final[dict[str, Any]] = {
    "file_name": "",
    "data": b"",
    "sha256": "",
    "request_id": "",
    "created_utc": None,
    "purpose": "",
    "justification": "",
}
_NUMBER: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
# Text that is not a path, host, address or markup: ASCII, and a dot only in a number or at the end of a word.
_TEXT: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ,_+%-]|\.(?![A-Za-z0-9])|(?<=[0-9])\.(?=[0-9]))*")
# A name that cannot be read as a name and a value; Inputs have no other ones.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_ADDRESS: Final = re.compile(r"[0-9]+(\.[0-9]+){2,}")
# A value stands out if its deviation from the median is at least this many median deviations.
_FAR: Final = 3.5


@dataclass(frozen=True, slots=True)
class VaryingValue:
    """Something that may differ between drafts of a shape: our label, and the foreign value in full."""

    label: str
    text: str
    number: float | None = None
    """The value as a number, if it is one."""


def shape_of(request: Request, owner: Owner | None) -> str | None:
    """The shape of a draft of this owner, in 64 hex digits; None for a draft that can be in no group."""
    if not request.action.grouped:
        return None
    template = [*_argument_kinds(request), *((path, kind) for path, _, kind in _variables(request))]
    same = replace(
        request,
        **_SAME,
        outputs=tuple(replace(item, path="") for item in request.outputs),
        inputs=tuple(replace(item, sha256="") for item in request.inputs)
        if BACKENDS[request.backend].data_inputs
        else request.inputs,
        action=request.action.without_open(),
    )
    return sha256_hex(repr((owner, template, same)).encode())


def job_shape(job: Job) -> Job:
    """A job without the parts that may differ between drafts of a shape; it is the same for the whole group."""
    inputs = job.inputs
    if BACKENDS[job.backend].data_inputs:
        inputs = tuple(replace(item, sha256="", size=0) for item in inputs)
    return replace(job, outputs=(), inputs=inputs, action=job.action.without_open())


def values_of(request: Request) -> list[VaryingValue]:
    """Everything that may differ from another draft of the shape, but id, name, time and input files, in order."""
    found = [
        VaryingValue("purpose", request.purpose),
        # Tools that write drafts for an agent repeat the purpose here, and it is never empty.
        VaryingValue("because", "" if request.justification == request.purpose else request.justification),
    ]
    for number, (word, kind) in enumerate(zip(request.action.words, _argument_kinds(request), strict=True)):
        if kind[0] in ("number", "date", "word"):
            found.append(VaryingValue(f"word {number + 1}", word, float(word) if kind[0] == "number" else None))
    for number, (path, value, kind) in enumerate(_variables(request), start=1):
        if kind[0] in ("number", "boolean", "text"):
            plain = float(value) if kind[0] == "number" else None
            name = ".".join(map(str, path))
            found.append(VaryingValue(f"value {number}", f"{name} = {json.dumps(value)}", plain))
    found += [VaryingValue(f"output {number}", item.path) for number, item in enumerate(request.outputs, start=1)]
    return found


def differing(rows: Sequence[Sequence[VaryingValue]]) -> list[int]:
    """The columns that differ between rows."""
    return [at for at, column in enumerate(zip(*rows, strict=True)) if len({value.text for value in column}) > 1]


def outliers_first(rows: Sequence[Sequence[VaryingValue]]) -> list[tuple[int, tuple[str, ...]]]:
    """The indexes of the rows, outliers first, each with the labels of the values that stand out.

    A number stands out by its distance from the median; a text by its length, or because more than half of
    the rows share another one.
    """
    from statistics import median  # imported late: a list needs only shapes

    far: list[dict[str, float]] = [{} for _ in rows]
    for column in zip(*rows, strict=True):
        for feature in _features(column):
            middle = median(feature)
            spread = median(abs(value - middle) for value in feature)
            for at, value in enumerate(feature):
                if value != middle:
                    away = abs(value - middle) / spread if spread else float("inf")
                    far[at][column[at].label] = max(away, far[at].get(column[at].label, 0.0))
    order = sorted(range(len(rows)), key=lambda at: (-max(far[at].values(), default=0.0), at))
    return [(at, tuple(label for label, away in far[at].items() if away > _FAR)) for at in order]


def _features(column: Sequence[VaryingValue]) -> Iterator[list[float]]:
    if all(value.number is not None for value in column):
        yield [value.number or 0.0 for value in column]
        return
    texts = [value.text for value in column]
    yield [float(len(text)) for text in texts]
    usual = max(set(texts), key=lambda text: (texts.count(text), text))
    if texts.count(usual) * 2 > len(texts):
        yield [float(text != usual) for text in texts]


_Kind = tuple[str, object]
_Path = tuple[str | int, ...]


def _argument_kinds(request: Request) -> list[_Kind]:
    """What each word of the command is: a literal, a declared output, or a plain value of some kind."""
    argv = request.action.words
    kinds: list[_Kind] = [("same", word) for word in argv]
    exposure = exposure_of(request)
    if exposure.opaque:
        return kinds
    script = script_word(argv) if argv else None
    behind = argv.index(script) if script is not None else len(argv)
    # With a host in reach, or an archive unpacked beside it, even a number can be the name of what is fetched or read.
    plain = not exposure.reach and not any(item.unpack for item in request.inputs)
    outputs = [item.path for item in request.outputs]
    for at, word in enumerate(argv):
        # What looks harmless beside an option (`grep -f 5`) may
        # be a file name to the program, so both stay as they are.
        if at == 0 or word.startswith("-"):
            continue
        if word in outputs:
            kinds[at] = ("output", outputs.index(word))
        elif plain and not argv[at - 1].startswith("-") and not _names_input(request, word):
            if _NUMBER.fullmatch(word):
                kinds[at] = ("number", "")
            elif _DATE.fullmatch(word):
                kinds[at] = ("date", "")
            # Only behind a script, whose code is on the screen: to `tar` or `jq` a bare word is an instruction.
            elif at > behind and _WORD.fullmatch(word):
                kinds[at] = ("word", "")
    return kinds


def _variables(request: Request) -> Iterator[tuple[_Path, Any, _Kind]]:
    """Each entry of Inputs (JSON), or each leaf of a call's arguments, and what it is: a literal, a declared output, or
    a plain value of some kind. The paths of all leaves are the structure: an empty object or list is a leaf.
    """
    outputs = [item.path for item in request.outputs]
    for path, item in request.action.values():
        if not all(isinstance(name, int) or _NAME.fullmatch(name) for name in path):
            yield path, item, ("same", json.dumps(item))
        elif isinstance(item, bool):
            yield path, item, ("boolean", "")
        elif isinstance(item, (int, float)):
            yield path, item, ("number", "")
        elif isinstance(item, str) and item in outputs:
            yield path, item, ("output", outputs.index(item))
        elif isinstance(item, str) and _is_plain(item) and not _names_input(request, item):
            yield path, item, ("text", "")
        else:
            yield path, item, ("same", json.dumps(item))


def _is_plain(text: str) -> bool:
    return len(text) <= limits.GROUP_VALUE_CHARS and bool(_TEXT.fullmatch(text)) and not _ADDRESS.search(text)


def _names_input(request: Request, word: str) -> bool:
    return any(word == item.name for item in request.inputs)
