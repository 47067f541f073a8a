"""Strict YAML: an event stream becomes nodes that know their place, or is refused.

Invariant: what is read has exactly one meaning: no anchors, aliases, tags, merge keys, duplicate keys,
directives or second documents; a plain scalar is a number, true, false or null only if it is exactly that in
JSON, and a string otherwise; every number is finite and exact. Depth is bounded while the events stream, so
hostile nesting costs nothing. Source: docs/spec/1-tool-request.md, "Front matter"; YAML 1.2.2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from yaml import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    MarkedYAMLError,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    YAMLError,
)
from yaml._yaml import CParser

from threegate.core.canonical import INTEGER_MAX
from threegate.request.problem import Problem

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


class YAMLRefused(Exception):
    """The text is no YAML of the strict kind; carries the one problem that ended the reading."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(slots=True)
class Node:
    """A value with its place (`line` and `column` count from 1). `value` is a str, int, float, bool, None, a
    list of nodes, or a dict from key to (key node, value node). `text` is a scalar as written, without quotes."""

    value: Any
    text: str
    line: int
    column: int
    style: str = ""
    """How a scalar is written: empty for plain, else the quote or the block indicator."""
    lines: int = 1
    """How many lines a scalar takes; a block scalar always more than one."""


def plain_value(node: Node) -> Any:
    """The JSON value of a node, without places."""
    if isinstance(node.value, list):
        return [plain_value(item) for item in node.value]
    if isinstance(node.value, dict):
        return {key: plain_value(item) for key, (_, item) in node.value.items()}
    return node.value


def scalars(node: Node) -> Iterator[Node]:
    """Every scalar below a node, keys included, in no particular order."""
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item.value, list):
            stack.extend(item.value)
        elif isinstance(item.value, dict):
            for pair in item.value.values():
                stack.extend(pair)
        else:
            yield item


def read_mapping(text: str, *, first_line: int, max_depth: int) -> Node:
    """Read a block mapping at column 0. `first_line` is the line of the file that `text` starts on.

    `text` has no hidden characters' worth of trust: libyaml refuses most, the caller refuses the rest.
    Raises YAMLRefused.
    """
    builder = _Builder(first_line, max_depth)
    parser = CParser(text)
    try:
        while (event := parser.get_event()) is not None:
            builder.take(event)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line, mark.column) if mark is not None else (0, 0)
        message = f"this is no YAML: {error.problem or 'it cannot be read'}"
        raise YAMLRefused(Problem("TG110", first_line + line, column + 1, message)) from None
    except YAMLError:
        message = "this is no YAML: it has a character that YAML does not allow"
        raise YAMLRefused(Problem("TG110", first_line, 1, message)) from None
    finally:
        parser.dispose()
    if builder.root is None:
        raise YAMLRefused(Problem("TG115", first_line, 1, "the front matter is empty; write one key a line"))
    return builder.root


class _Builder:
    """Takes events in order and builds the tree; holds the open collections on a stack."""

    def __init__(self, first_line: int, max_depth: int) -> None:
        self.root: Node | None = None
        self._first_line = first_line
        self._max_depth = max_depth
        self._stack: list[Node] = []
        self._keys: list[Node | None] = []
        """For each open collection the key that waits for its value."""

    def take(self, event: Any) -> None:
        """Add one event. Raises YAMLRefused. Scalars come first: they are most of the events."""
        kind = type(event)
        if kind is ScalarEvent:
            if event.anchor is not None or event.tag is not None:
                self._refuse_marks(event)
            self._add(self._scalar(event))
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            self._refuse_marks(event)
            self._open(event, {} if kind is MappingStartEvent else [])
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            self._stack.pop()
            self._keys.pop()
        elif kind is AliasEvent:
            raise self._refused("TG112", event, "aliases (*name) are not allowed; write the value out")
        elif kind is DocumentStartEvent:
            self._document(event)
        elif kind is DocumentEndEvent and event.explicit:
            raise self._refused("TG115", event, "'...' ends a YAML document early; take the line out")

    def _document(self, event: Any) -> None:
        if event.explicit or event.version or event.tags:
            raise self._refused(
                "TG115", event, "the front matter is one document without YAML directives or further '---'"
            )

    def _refuse_marks(self, event: Any) -> None:
        if event.anchor is not None:
            raise self._refused("TG112", event, "anchors (&name) are not allowed; write the value out")
        if event.tag is not None:
            raise self._refused("TG113", event, "tags (!name) are not allowed; write a plain value")

    def _open(self, event: Any, value: dict[str, Any] | list[Any]) -> None:
        node = Node(value, "", self._line(event), event.start_mark.column + 1)
        if len(self._stack) >= self._max_depth:
            raise self._refused(
                "TG111", event, f"nested deeper than {self._max_depth} levels; make it flatter"
            )
        if not self._stack and (event.flow_style or node.column != 1 or isinstance(value, list)):
            raise self._refused(
                "TG115",
                event,
                "the front matter is a mapping in block style: one 'key: value' a line at column 1",
            )
        self._add(node)
        self._stack.append(node)
        self._keys.append(None)

    def _add(self, node: Node) -> None:
        if not self._stack:
            if not isinstance(node.value, dict):
                raise YAMLRefused(
                    Problem(
                        "TG115",
                        node.line,
                        node.column,
                        "the front matter is a mapping: one 'key: value' a line",
                    )
                )
            self.root = node
            return
        parent = self._stack[-1]
        if isinstance(parent.value, list):
            parent.value.append(node)
        elif (key := self._keys[-1]) is None:
            self._keys[-1] = self._key(node, parent.value)
        else:
            parent.value[key.text] = (key, node)
            self._keys[-1] = None

    def _key(self, node: Node, mapping: dict[str, Any]) -> Node:
        """Check a key: a string that stands once, at column 1 in the outermost mapping."""
        if isinstance(node.value, dict | list):
            raise YAMLRefused(
                Problem("TG115", node.line, node.column, "a key is a plain word, not a collection")
            )
        if node.text == "<<":
            raise YAMLRefused(
                Problem(
                    "TG112", node.line, node.column, "merge keys (<<) are not allowed; write the keys out"
                )
            )
        if node.text in mapping:
            message = f"this key stands twice; the first is on line {mapping[node.text][0].line}"
            raise YAMLRefused(Problem("TG114", node.line, node.column, message))
        if len(self._stack) == 1 and node.column != 1:
            raise YAMLRefused(
                Problem("TG115", node.line, node.column, "keys of the front matter start at column 1")
            )
        return node

    def _scalar(self, event: Any) -> Node:
        text: str = event.value
        mark = event.start_mark
        style = event.style or ""
        node = Node(text, text, self._first_line + mark.line, mark.column + 1, style)
        node.lines = event.end_mark.line - mark.line + 1
        if not style and text:
            if text in _WORDS:
                node.value = _WORDS[text]
            elif text[0] in "-0123456789" and _NUMBER.fullmatch(text):
                node.value = self._number(text, event)
        return node

    def _number(self, text: str, event: Any) -> int | float:
        if _INTEGER.fullmatch(text):
            if len(text) > 17 or abs(int(text)) > INTEGER_MAX:
                raise self._refused(
                    "TG116", event, "the integer lies beyond 2**53 - 1; quote it or make it smaller"
                )
            return int(text)
        number = float(text)
        if not math.isfinite(number):
            raise self._refused(
                "TG116", event, "the number is too large to be exact; quote it or make it smaller"
            )
        return number

    def _line(self, event: Any) -> int:
        return self._first_line + int(event.start_mark.line)

    def _refused(self, rule: str, event: Any, message: str) -> YAMLRefused:
        return YAMLRefused(Problem(rule, self._line(event), event.start_mark.column + 1, message))
