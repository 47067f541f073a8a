"""The parts of a Job that a grant may leave open, and how they are removed from it.

Invariant: whatever is not named stays the same byte for byte: a Job without its open values equals the
grant's pattern, or the grant does not apply. Code, programs, options, hosts, projects and the names of inputs
can never be open; a word of a command only if the whole command is transparent, and content only if inputs
are data. Every leaf of a tool's arguments can be; names, lengths of lists and everything that is not a leaf
are fixed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from json.decoder import JSONDecodeError, JSONDecoder
from typing import Any, Final

from threegate.approval.ssh_wire import MalformedError
from threegate.core import canonical, limits
from threegate.core.errors import Refused
from threegate.plugins.grants.constraint import Constraint, kind_of
from threegate.request.backend import BACKENDS
from threegate.request.command.data_tools import tool_of
from threegate.request.command.pinned_script import script_word
from threegate.request.exposure import Exposure
from threegate.request.job import Job

_LIMITS: Final = ("time_sec", "memory_mb")
_WORD: Final = re.compile(r"[A-Za-z0-9._,:=@+/-]+")
"""An argument that may be open: a name, path, number or date, which no data tool interprets as a program."""
_PART: Final = re.compile(r"[A-Za-z0-9._-]+")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
"""A name or an index in a part."""
IMAGE: Final = "image"
"""The part that leaves open which image or root a command runs on; by what it runs stays the same."""
ARGUMENTS: Final = "arguments."
"""The prefix of the parts of a tool's arguments."""
_EXPRESSIONS: Final = ("jq", "tar")
"""Data tools that interpret a plain word as a program or as options."""
_DECODER: Final = JSONDecoder()
_BLANK: Final = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class Widened:
    """One part of a Job and its constraint."""

    part: str
    constraint: Constraint

    @classmethod
    def parse(cls, value: object) -> Widened:
        """Read one of a grant's terms. Raises MalformedError."""
        if not isinstance(value, dict) or not isinstance(part := value.get("part"), str):
            raise MalformedError("has a widened part of a wrong form")
        operators = {name: item for name, item in value.items() if name not in ("part", "type")}
        return cls.of(part, Constraint.of(value.get("type"), operators))

    @classmethod
    def of(cls, part: str, constraint: Constraint) -> Widened:
        """Only a tool's argument may have any value of its type. Raises MalformedError."""
        if not constraint.operators and not part.startswith(ARGUMENTS):
            raise MalformedError(f"leaves {part} open to anything; say what it may be")
        return cls(part, constraint)

    def to_json(self) -> dict[str, Any]:
        """In the form of a grant's terms."""
        return {"part": self.part, "type": self.constraint.kind, **self.constraint.operators}

    def takes(self, value: object) -> bool:
        """Whether a value of the part is allowed."""
        if self.constraint.kind == "number" and type(value) is int and self.part.startswith(ARGUMENTS):
            # The canonical rendering of the number 5.0 is 5, which is parsed as an integer.
            return abs(value) <= canonical.INTEGER_MAX and self.constraint.takes(float(value))
        return self.constraint.takes(value)

    def __str__(self) -> str:
        return f"{self.part} {self.constraint}"


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A Job with its open values removed: the rest, and the values by part name."""

    pattern: dict[str, Any]
    values: Mapping[str, Any]


def read_widened(job: Job, texts: Sequence[str]) -> tuple[Widened, ...]:
    """Read ``PART OPERATOR OPERAND``, by the types that the job's own values have. Raises Refused."""
    named = split_written(texts)
    values = open_job(job, tuple(named)).values
    try:
        return tuple(
            Widened.of(part, Constraint.read(text, [kind for kind in (kind_of(values[part]),) if kind]))
            for part, text in sorted(named.items())
        )
    except MalformedError as error:
        raise _mismatch(f"what you widen {error}") from None


def split_written(texts: Sequence[str]) -> dict[str, str]:
    """What was written for each part. Raises Refused for one that is named twice."""
    named: dict[str, str] = {}
    for text in texts:
        part, _, rest = text.strip().partition(" ")
        if part in named:
            raise _mismatch(f"{part}: widened twice; write one constraint")
        named[part] = rest
    return named


def open_job(job: Job, parts: Sequence[str]) -> OpenJob:
    """Remove the values of the parts from a Job. Raises Refused (grant_mismatch) for what no grant may leave
    open.
    """
    if len(parts) > limits.GRANT_PARTS:
        raise _mismatch(f"at most {limits.GRANT_PARTS} parts can be widened")
    return _without(job, parts)


def open_values(job: Job) -> OpenJob:
    """A Job without every value that could be open but limits, image, true and false; two Jobs of one pattern differ in
    these values only. More than SUGGESTION_PARTS of them stay in the pattern.
    """
    parts = []
    for part in islice(_leaf_parts(job), limits.SUGGESTION_PARTS):
        with suppress(Refused):
            if kind_of(_without(job, [part]).values[part]) != "boolean":
                parts.append(part)
    return _without(job, parts)


def _leaf_parts(job: Job) -> Iterator[str]:
    """The parts that may have a value to open."""
    if BACKENDS[job.backend].data_inputs:
        yield from (f"inputs.{item.name}" for item in job.inputs)
    if job.action.words and not _exposure(job).opaque:
        yield from (f"argv.{number}" for number in range(1, len(job.action.words)))
    yield from (f"outputs.{number}" for number in range(len(job.outputs)))
    if job.action.variables:
        yield from _leaves(json.loads(job.action.variables), "vars")
    yield from _leaves(job.action.arguments(), ARGUMENTS.removesuffix("."))


def _leaves(value: Any, part: str) -> Iterator[str]:
    """The parts of plain values in a value, where names can be written as parts."""
    if isinstance(value, (dict, list)):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            if _NAME.fullmatch(str(name)):
                yield from _leaves(item, f"{part}.{name}")
    elif kind_of(value) is not None:
        yield part


def _without(job: Job, parts: Sequence[str]) -> OpenJob:
    meaning = job.action.without_state(job.meaning())
    values: dict[str, Any] = {}
    for part in parts:
        kind, _, name = part.partition(".")
        if kind == "inputs":
            values[part] = _take_input(job, meaning, name)
        elif kind == "argv":
            values[part] = _take_argument(job, meaning, name)
        elif kind == "outputs":
            values[part] = job.outputs[at := _index(name, job.outputs, part)]
            meaning["outputs"][at] = None
        elif kind == "limits" and name in _LIMITS:
            values[part] = meaning["limits"][name]
            meaning["limits"][name] = None
        elif part == IMAGE and job.image:
            values[part], meaning["image"] = job.image, None
        elif kind == job.action.open_part == "arguments" and name:
            pass  # all together below
        elif kind != "vars" or not name:
            raise _mismatch(f"{part}: no such part; {_parts_there_are(job)}")
    variables = {part: part.split(".")[1:] for part in parts if part.startswith("vars.")}
    if variables:
        around, found = _take_variables(job, variables)
        values.update(found)
        meaning["vars_sha256"], meaning["vars_around_sha256"] = None, canonical.digest(around)
    paths = {part: part.split(".")[1:] for part in parts if part.startswith(ARGUMENTS)}
    if paths:
        arguments = job.action.arguments()
        for part, path in paths.items():
            values[part] = _take_leaf(arguments, part, path)
        del meaning["call"]["arguments_sha256"]
        meaning["call"]["arguments"] = arguments
    return OpenJob(meaning, values)


def with_value(job: Job, part: str, value: Any) -> Job:
    """The same job with another value in a part that `open_job` accepts; for display."""
    kind, _, name = part.partition(".")
    if kind == "inputs":
        return replace(
            job,
            inputs=tuple(
                replace(item, size=value, sha256="0" * 64) if item.name == name else item for item in job.inputs
            ),
        )
    if part == IMAGE:
        return replace(job, image=value)
    if kind == "limits":
        return replace(job, limits=replace(job.limits, **{name: value}))
    if kind == "vars":
        text = job.action.variables
        start, end = next(_spans(text, {part: part.split(".")[1:]}))[1:]
        text = text[:start] + json.dumps(value, ensure_ascii=False) + text[end:]
        return replace(job, action=job.action.changed(vars_json=text))
    if kind == "arguments":
        arguments = job.action.arguments()
        holder, key = _holder(arguments, part, name.split("."))
        holder[key] = value
        return with_arguments(job, arguments)
    words = list(job.action.words if kind == "argv" else job.outputs)
    words[int(name)] = value
    if kind == "argv":
        return replace(job, action=job.action.changed(argv=tuple(words)))
    return replace(job, outputs=tuple(words))


def with_arguments(job: Job, arguments: Mapping[str, Any]) -> Job:
    """The same tool call with other arguments; for display."""
    text = canonical.canonical_bytes(dict(arguments)).decode()
    return replace(job, action=job.action.changed(arguments_json=text))


def _take_leaf(arguments: dict[str, Any], part: str, path: Sequence[str]) -> Any:
    """The value at a path, which is replaced by null."""
    holder, key = _holder(arguments, part, path)
    value = holder[key]
    if kind_of(value) is None:
        raise _mismatch(f"{part}: not a text, a number, true or false; name what is below it")
    holder[key] = None
    return value


def _holder(arguments: dict[str, Any], part: str, path: Sequence[str]) -> tuple[Any, Any]:
    """The object or list that contains a leaf, and its name or index there."""
    holder: Any = arguments
    for name in path[:-1]:
        holder = holder[_key(holder, part, name)]
    return holder, _key(holder, part, path[-1])


def _key(holder: Any, part: str, name: str) -> str | int:
    if isinstance(holder, list):
        return _index(name, holder, part)
    if isinstance(holder, dict) and name in holder:
        return name
    raise _mismatch(f"{part}: the call has no such argument")


def _take_input(job: Job, meaning: dict[str, Any], name: str) -> int:
    """The size of an input; its content is open then."""
    if not BACKENDS[job.backend].data_inputs:
        raise _mismatch(f"code in an {job.backend} input is code: no input of it can be left open")
    for item in meaning["inputs"]:
        if item["name"] == name:
            size: int = item["size"]
            item["sha256"] = item["size"] = None
            return size
    raise _mismatch(f"{name}: the request has no such input; {_parts_there_are(job)}")


def _take_argument(job: Job, meaning: dict[str, Any], name: str) -> str:
    argv = job.action.words
    at = _index(name, argv, f"argv.{name}")
    exposure = _exposure(job)
    if exposure.opaque:
        raise _mismatch(f"argv.{name}: not all code of the command is on the screen: {exposure.why}")
    script = script_word(argv)
    first = 1 if script is None else argv.index(script) + 1
    word = argv[at]
    if (
        at < first
        or word.startswith("-")
        or not _WORD.fullmatch(word)
        or (script is None and tool_of(argv[0]) in _EXPRESSIONS)
    ):
        raise _mismatch(f"argv.{name}: a program, script, option or expression is never left open")
    meaning["argv"][at] = None
    return word


def _exposure(job: Job) -> Exposure:
    return job.action.exposure(job.workdir, job.inputs).with_unread(job.unread)


def _take_variables(job: Job, parts: Mapping[str, Sequence[str]]) -> tuple[list[str], dict[str, Any]]:
    """The text around the named variables, and their values."""
    text = job.action.variables
    try:
        spans = list(_spans(text, parts))
    except (JSONDecodeError, RecursionError, IndexError):
        raise _mismatch("the inputs (JSON) cannot be read") from None
    for part in parts.keys() - {part for part, _, _ in spans}:
        raise _mismatch(f"{part}: the request has no such value; {_parts_there_are(job)}")
    around, values, last = [], {}, 0
    for part, start, end in spans:
        raw = text[start:end]
        value = values[part] = json.loads(raw)
        # The constraint judges the value, but the code gets the
        # text: in the usual spelling one is as good as the other.
        if kind_of(value) in (None, "boolean") or json.dumps(value, ensure_ascii=False) != raw:
            raise _mismatch(f"{part}: not a plain text or number, or not in its usual spelling")
        around.append(text[last:start])
        last = end
    return [*around, text[last:]], values


def _spans(text: str, parts: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, int, int]]:
    """Part, start and end of each named value, in the order of the text. Raises what `json` raises."""
    wanted = {tuple(path): part for part, path in parts.items()}
    waiting: list[tuple[int, tuple[str, ...]]] = [(_skip(text, 0), ())]
    while waiting:
        at, path = waiting.pop()
        if path in wanted:
            yield wanted[path], at, _DECODER.raw_decode(text, at)[1]
        elif text[at] in "{[" and any(other[: len(path)] == path for other in wanted):
            waiting += reversed(list(_members(text, at, path)))


def _members(text: str, at: int, path: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Where each value of an object or a list begins, and its path."""
    end, named, number = "}" if text[at] == "{" else "]", text[at] == "{", 0
    at = _skip(text, at + 1)
    while text[at] != end:
        key = str(number)
        if named:
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)  # past the colon
        yield at, (*path, key)
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        at = _skip(text, at + 1) if text[at] == "," else at
        number += 1


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _index(name: str, items: Sequence[Any], part: str) -> int:
    # One name for each place: `1` and `01` would be two parts, with a constraint each.
    if not re.fullmatch(r"0|[1-9][0-9]{0,3}", name) or int(name) >= len(items):
        raise _mismatch(f"{part}: the request has no such word; they count from 0")
    return int(name)


def _parts_there_are(job: Job) -> str:
    """What can be named, for a message."""
    names = [*([IMAGE] if job.image else ()), *(f"limits.{name}" for name in _LIMITS)]
    names += [f"inputs.{item.name}" for item in job.inputs if BACKENDS[job.backend].data_inputs]
    names += [f"outputs.{number}" for number, _ in enumerate(job.outputs)]
    names += [f"argv.{number}" for number, _ in enumerate(job.action.words) if number]
    names += [f"vars.{name}" for name in json.loads(job.action.variables or "{}") if _PART.fullmatch(str(name))]
    names += [f"arguments.{name}" for name in job.action.arguments()]
    return f"there are {', '.join(names)}"


def _mismatch(message: str) -> Refused:
    return Refused("grant_mismatch", message)
