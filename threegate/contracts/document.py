"""Strict YAML with positions: what a contract file says, and where each thing stands.

Invariant: a file has one meaning or none. Duplicate keys, anchors, aliases, tags, several documents, keys that
are no strings and plain scalars that YAML versions read differently (`no`, `012`, `1_000`) are errors. The
parser's events are streamed, so a bomb ends at the first bound that it breaks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from threegate.contracts.diagnostics import Diagnostic, error
from threegate.core import limits

KeyPath = tuple[str | int, ...]
"""Where a value stands in its file: keys and list indices from the top."""

_NULL = frozenset({"", "~", "null"})
_BOOLEAN = {"true": True, "false": False}
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,15})")
_FLOAT = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30}([eE][-+]?[0-9]{1,3})?|[eE][-+]?[0-9]{1,3})")
_AMBIGUOUS = re.compile(
    r"(?i)(yes|no|on|off|true|false|null|[-+]?\.(inf|nan)|\.nan|[-+]?[0-9][0-9_,]*(:[0-9_.]+)*\.?[0-9_]*(e[-+]?[0-9]*)?"
    r"|0[xob][0-9a-f_]+|[-+]\.?[0-9][0-9_.]*|\.[0-9][0-9_]*|<<|=)"
)


class _Stop(Exception):
    """The first mistake that ends the reading of a file."""

    def __init__(self, code: str, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.code, self.message, self.line, self.column = code, message, line, column


@dataclass(slots=True)
class Document:
    """A file's value and the place (line, column, both from 1) of everything in it."""

    file: str
    value: Any
    places: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)

    def place(self, path: KeyPath) -> tuple[int, int]:
        """Where `path` stands, or the nearest thing around it."""
        while path not in self.places and path:
            path = path[:-1]
        return self.places.get(path, (1, 1))

    def error(self, code: str, path: KeyPath, message: str) -> Diagnostic:
        """An error at `path` of this file."""
        line, column = self.place(path)
        return error(code, self.file, message, line=line, column=column, path=show_path(path))


def show_path(path: KeyPath) -> str:
    """``phases[0].name`` for ("phases", 0, "name")."""
    shown = ""
    for part in path:
        shown += f"[{part}]" if isinstance(part, int) else f".{part}" if shown else part
    return shown


def read_document(file: str, data: bytes) -> Document | Diagnostic:
    """Read one YAML file. Gives the first mistake as a diagnostic, never raises for what the bytes say."""
    if len(data) > limits.CONTRACT_FILE_BYTES:
        return error("FILE_TOO_LARGE", file, f"more than {limits.CONTRACT_FILE_BYTES} bytes; split it")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        return error("NOT_UTF8", file, f"not UTF-8 at byte {problem.start}; save it as UTF-8")
    reader = _Reader(file)
    try:
        return reader.read(text)
    except _Stop as stop:
        return error(stop.code, file, stop.message, line=stop.line, column=stop.column)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        return error("YAML_SYNTAX", file, f"no YAML: {problem.problem}", line=line, column=column)
    except yaml.YAMLError as problem:
        return error("YAML_SYNTAX", file, f"no YAML: {getattr(problem, 'reason', 'unreadable')}")


class _Reader:
    """Builds values from the event stream; one object a file."""

    def __init__(self, file: str) -> None:
        self.document = Document(file, None)
        self.nodes = 0

    def read(self, text: str) -> Document:
        self.events = yaml.parse(text, Loader=yaml.CSafeLoader)
        started = False
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if started:
                    raise _stop("YAML_SYNTAX", "a second document starts here; a file is one document", event)
                started = True
                self.document.value = self._node(next(self.events), (), 0)
        return self.document

    def _node(self, event: Any, path: KeyPath, depth: int) -> Any:
        """The value that starts at `event`."""
        self.nodes += 1
        if self.nodes > limits.CONTRACT_NODES:
            raise _stop("TOO_MANY_VALUES", f"more than {limits.CONTRACT_NODES} values in one file", event)
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _stop("YAML_ANCHOR", "anchors and aliases are not read; write the value out", event)
        if event.tag is not None:
            raise _stop("YAML_TAG", "tags are not read; leave it out", event)
        if depth > limits.CONTRACT_DEPTH:
            raise _stop("TOO_DEEP", f"nested deeper than {limits.CONTRACT_DEPTH}", event)
        self.document.places.setdefault(path, _place(event))
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path, depth)
        return self._mapping(path, depth)

    def _sequence(self, path: KeyPath, depth: int) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self._node(event, (*path, len(items)), depth + 1))
        return items

    def _mapping(self, path: KeyPath, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise _stop("BAD_KEY", "a key is a plain name", event)
            key = self._node(event, (*path, event.value), depth)
            if not isinstance(key, str):
                raise _stop("BAD_KEY", "a key is a plain name; put it in quotes", event)
            if key in result:
                raise _stop("DUPLICATE_KEY", f"{key!r} stands twice; give both in one", event)
            result[key] = self._node(next(self.events), (*path, key), depth + 1)
        return result


def _scalar(event: Any) -> Any:
    """A scalar as JSON value: quoted is text, plain is what every YAML version reads alike."""
    text: str = event.value
    if event.style is not None and event.style != "":
        return text
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if abs(number) < float("inf"):
            return number
    if _AMBIGUOUS.fullmatch(text):
        raise _stop(
            "AMBIGUOUS_SCALAR", f"{text[:40]!r} is read differently by YAML versions; quote it", event
        )
    return text


def _place(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _stop(code: str, message: str, event: Any) -> _Stop:
    line, column = _place(event)
    return _Stop(code, message, line, column)
