"""Strict YAML: a text becomes one tree of nodes that know their place, or is refused.

Invariant: what is read has exactly one meaning, that of YAML 1.2.2. There are no anchors, aliases, tags, merge keys,
duplicate keys or second documents. libyaml reads more than the grammar allows, so everything between its events is
matched against the grammar too. Bounds are checked while the events stream: hostile nesting costs nothing.
Source: YAML 1.2.2, sections 5 to 9.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

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
    StreamEndEvent,
    YAMLError,
)
from yaml._yaml import CParser

from threegate.core.canonical import INTEGER_MAX

Kind = Literal[
    "syntax",
    "character",
    "anchor",
    "alias",
    "tag",
    "duplicate_key",
    "bad_key",
    "merge_key",
    "scalar",
    "depth",
    "nodes",
    "document",
    "document_end",
    "directive",
]

_FOREIGN = re.compile("[\x85\u2028\u2029\ud800-\udfff]")
"""Line breaks to YAML 1.1 and libyaml but not to YAML 1.2, and what cannot be encoded."""

# What may stand between two values. A comment begins a line or follows a blank; an indicator is not part of a word.
# Groups are atomic where `)*+` would say the same: possessive groups give up too early before Python 3.11.5 (Debian 12
# has 3.11.2).
_SPACE = r"[ \t\n]++|(?<![^ \t\n])\#[^\n]*+"
_BLOCK_GAP = re.compile(
    (
        rf"(?>(?:{_SPACE}|[-?:](?![^ \t\n])|^(?:---|\.\.\.|%YAML[ \t]+[0-9]+\.[0-9]+|%TAG[ \t]+\S+[ \t]+\S+)(?![^ "
        r"\t\n]))*)"
    ),
    re.MULTILINE,
)
_FLOW_GAP = re.compile(
    rf"(?>(?:{_SPACE}|,|(?<![^ \t\n,\[{{])\?(?![^ \t\n]|(?>(?:{_SPACE})*),)|:(?![^ \t\n,\[\]{{}}]))*)"
)
_ADJACENT_GAP = re.compile(rf"(?:(?>(?:{_SPACE})*):)?{_FLOW_GAP.pattern}")
"""In brackets, after a quoted text or a closing bracket: ``{"a":1}`` needs no blank."""

_BLOCK_HEADER = re.compile(r"[|>][-+]?([1-9]?)[-+]?(?:[ \t]+(?:\#[^\n]*)?)?(?:\n|\Z)")
_FIRST_LINES = re.compile(r"((?>(?: *+\n)*))( *+)(?=[^\n])")
_FLOW_WORD = re.compile(r"(?![-?:](?:[ \t\n,\[\]{}]|\Z))")
_ESCAPES = re.compile(
    r'(?>(?:[^\\]++|\\[0abt\tnvfre "/\\N_LP]|\\\n(?![ \t]*\n)|\\x..|\\u....|\\U........)*)', re.DOTALL
)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


class StrictYAMLRefused(Exception):
    """The text is not YAML of the strict kind. `line` and `column` count from 1; `detail` is what
    libyaml or the reader of plain scalars says, the bound, or the key; `first_line` is where a duplicate key is first.
    """

    def __init__(self, kind: Kind, line: int, column: int, detail: str = "", first_line: int = 0) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind: Kind = kind
        self.line, self.column, self.detail, self.first_line = line, column, detail, first_line


@dataclass(slots=True)
class YamlNode:
    """A value with its place (`line` and `column` count from 1). `value` is a scalar's value, a list of nodes, or a
    dict from key to (key node, value node). `text` is a scalar without its quotes."""

    value: Any
    text: str
    line: int
    column: int
    style: str = ""
    """Empty for a plain scalar and a block collection, else the quote, block indicator or bracket it begins with."""
    lines: int = 1
    """How many lines a scalar takes; a block scalar always more than one."""


def read_yaml(
    text: str,
    *,
    plain: Callable[[str], Any],
    max_depth: int,
    max_nodes: int,
    first_line: int = 1,
    bare: bool = False,
) -> YamlNode | None:
    """The root node of the document in `text`, None if there is none. Raises StrictYAMLRefused.

    `plain` gives the value of a plain scalar, or raises ValueError with what is wrong with it. The root has depth 0;
    keys count as nodes and are as deep as their mapping. `first_line` is the line of the file that `text` starts on.
    With `bare`, document markers and directives are refused.
    """
    return _Reader(text, plain, max_depth, max_nodes, first_line, bare).read()


def json_scalar(text: str) -> Any:
    """The value of a plain scalar as JSON has it, and a string otherwise. Raises ValueError for a number that is not
    exact.
    """
    if text in _WORDS:
        return _WORDS[text]
    if not text or text[0] not in "-0123456789" or not _NUMBER.fullmatch(text):
        return text
    if _INTEGER.fullmatch(text):
        if len(text) > 17 or abs(int(text)) > INTEGER_MAX:
            raise ValueError("the integer lies beyond 2**53 - 1")
        return int(text)
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("the number is too large to be exact")
    return number


class _Reader:
    """Takes events in order and builds the tree; holds the open collections on a stack."""

    def __init__(
        self,
        text: str,
        plain: Callable[[str], Any],
        max_depth: int,
        max_nodes: int,
        first_line: int,
        bare: bool,
    ) -> None:
        self._text = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        self._plain = plain
        self._max_depth = max_depth
        self._max_nodes = max_nodes
        self._nodes = 0
        self._first_line = first_line
        self._bare = bare
        self._documents = 0
        self._root: YamlNode | None = None
        self._stack: list[YamlNode] = []
        self._keys: list[YamlNode | None] = []
        """For each open collection the key that waits for its value."""
        self._end = 0
        """Index of what is not yet matched against the grammar: the end of the last scalar or bracket."""
        self._json_like = False
        """Whether a quote or a closing bracket ended there."""
        self._flow_start = 0
        """Index of the bracket that opened the outermost flow collection."""

    def read(self) -> YamlNode | None:
        """Read everything."""
        if (found := _FOREIGN.search(self._text)) is not None:
            raise self._refused_at(
                "character",
                found.start(),
                f"U+{ord(found[0]):04X} has no single meaning in YAML; take it out",
            )
        length = len(self._text)
        if not self._text.endswith("\n"):
            self._text += "\n"
        parser = CParser(self._text)
        try:
            while (event := parser.get_event()) is not None:
                self._take(event)
        except MarkedYAMLError as error:
            index = min(error.problem_mark.index, length) if error.problem_mark is not None else 0
            raise self._refused_at("syntax", index, error.problem or "it cannot be read") from None
        except YAMLError:
            detail = "it has a character that YAML does not allow"
            raise StrictYAMLRefused("character", self._first_line, 1, detail) from None
        finally:
            parser.dispose()
        return self._root

    def _take(self, event: Any) -> None:
        """Add one event. Scalars come first: they are most of the events."""
        kind = type(event)
        if kind is ScalarEvent or kind is MappingStartEvent or kind is SequenceStartEvent:
            if event.anchor is not None:
                raise self._refused("anchor", event)
            if event.tag is not None:
                raise self._refused("tag", event)
            if kind is ScalarEvent:
                self._add(event, self._scalar(event))
            else:
                self._open(event, {} if kind is MappingStartEvent else [])
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            self._close(event)
        elif kind is AliasEvent:
            raise self._refused("alias", event)
        elif kind is DocumentStartEvent:
            self._documents += 1
            if self._bare and (event.version or event.tags):
                raise self._refused("directive", event)
            if self._documents > 1 or (self._bare and event.explicit):
                raise self._refused("document", event)
        elif kind is DocumentEndEvent:
            if self._bare and event.explicit:
                raise self._refused("document_end", event)
        elif kind is StreamEndEvent:
            self._pass(len(self._text), len(self._text))

    # ---- the tree

    def _add(self, event: Any, node: YamlNode) -> None:
        """Put a new node in its place, if the bounds allow it."""
        self._nodes += 1
        if self._nodes > self._max_nodes:
            raise self._refused("nodes", event, str(self._max_nodes))
        stack = self._stack
        parent = stack[-1] if stack else None
        key = self._keys[-1] if stack else None
        if parent is not None and isinstance(parent.value, dict) and key is None:
            if isinstance(node.value, dict | list):
                raise self._refused("bad_key", event)
            if node.text == "<<":
                raise self._refused("merge_key", event)
            if node.text in parent.value:
                raise self._refused("duplicate_key", event, node.text, parent.value[node.text][0].line)
            self._keys[-1] = node
            return
        if len(stack) > self._max_depth:
            raise self._refused("depth", event, str(self._max_depth))
        if parent is None:
            self._root = node
        elif key is None:
            parent.value.append(node)
        else:
            parent.value[key.text] = (key, node)
            self._keys[-1] = None

    def _open(self, event: Any, value: dict[str, Any] | list[Any]) -> None:
        start, end = event.start_mark.index, event.end_mark.index
        style = ("{" if isinstance(value, dict) else "[") if event.flow_style else ""
        node = YamlNode(value, "", self._first_line + event.start_mark.line, event.start_mark.column + 1, style)
        self._add(event, node)
        if style and not self._in_flow():
            self._flow_start = start
        if style and self._text[start:end] == style:
            self._pass(start, end)
        self._stack.append(node)
        self._keys.append(None)

    def _close(self, event: Any) -> None:
        start, end = event.start_mark.index, event.end_mark.index
        if self._in_flow() and start < end:
            self._pass(start, end, json_like=True)
        node = self._stack.pop()
        self._keys.pop()
        if node.style and not self._in_flow():
            self._check_indent(self._flow_start, end)

    def _scalar(self, event: Any) -> YamlNode:
        text: str = event.value
        start, end = event.start_mark, event.end_mark
        style = event.style or ""
        node = YamlNode(text, text, self._first_line + start.line, start.column + 1, style)
        node.lines = end.line - start.line + 1
        if start.index < end.index:
            self._pass(start.index, end.index, json_like=style in ("'", '"'))
            self._check_scalar(style, start.index, end.index)
        if not style:
            try:
                node.value = self._plain(text)
            except ValueError as error:
                raise self._refused("scalar", event, str(error)) from None
        return node

    # ---- what libyaml lets pass

    def _pass(self, start: int, end: int, *, json_like: bool = False) -> None:
        """Match what lies between the last scalar or bracket and the next, which is at `start` to `end`."""
        if not self._in_flow():
            gap = _BLOCK_GAP
        elif self._json_like:
            gap = _ADJACENT_GAP
        else:
            gap = _FLOW_GAP
        found = gap.match(self._text, self._end)
        index = found.end() if found else self._end
        if index < start:
            mark = self._text[index]
            detail = "a comment needs a blank before it" if mark == "#" else f"{mark!r} needs a blank around it"
            raise self._refused_at("syntax", index, detail)
        self._end, self._json_like = end, json_like

    def _check_scalar(self, style: str, start: int, end: int) -> None:
        text = self._text
        if style in ("|", ">"):
            if start - text.rfind("\n", 0, start) <= self._indent():
                raise self._refused_at("syntax", start, "the text is indented less than what it belongs to")
            if (header := _BLOCK_HEADER.match(text, start)) is None:
                raise self._refused_at("syntax", start, "a comment needs a blank before it")
            lead = _FIRST_LINES.match(text, header.end())
            blank, first = (max(map(len, lead[1].split("\n"))), len(lead[2])) if lead else (0, 0)
            if not header[1] and self._indent() <= first < blank:
                raise self._refused_at("syntax", start, "a blank line is indented more than the text after it")
            return
        self._check_indent(start, end, comments=False)
        if not style and self._in_flow() and not _FLOW_WORD.match(text, start):
            raise self._refused_at("syntax", start, f"{text[start]!r} is not a word in brackets; put it in quotes")
        if style == '"' and not _ESCAPES.fullmatch(text, start + 1, end - 1):
            raise self._refused_at("syntax", start, "the text has an escape that YAML does not know")

    def _check_indent(self, start: int, end: int, *, comments: bool = True) -> None:
        """Every further line of a scalar or of brackets is indented more than what they belong to, with spaces."""
        indent = " " * self._indent()
        while indent and (start := self._text.find("\n", start, end) + 1):
            line = self._text[start : self._text.find("\n", start)]
            rest = line.lstrip(" \t")
            harmless = not rest or rest.startswith("#") if comments else not line.strip(" ")
            if not harmless and not line.startswith(indent):
                detail = f"the line continues a value; indent it with at least {len(indent)} spaces"
                raise self._refused_at("syntax", start, detail)

    def _in_flow(self) -> bool:
        return bool(self._stack and self._stack[-1].style)

    def _indent(self) -> int:
        """Least number of spaces before a line of a value that takes several lines."""
        return next((node.column for node in reversed(self._stack) if not node.style), 0)

    def _refused(self, kind: Kind, event: Any, detail: str = "", first_line: int = 0) -> StrictYAMLRefused:
        mark = event.start_mark
        return StrictYAMLRefused(kind, self._first_line + mark.line, mark.column + 1, detail, first_line)

    def _refused_at(self, kind: Kind, index: int, detail: str) -> StrictYAMLRefused:
        line = self._first_line + self._text.count("\n", 0, index)
        return StrictYAMLRefused(kind, line, index - self._text.rfind("\n", 0, index), detail)
