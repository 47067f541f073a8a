"""From bytes to text with lines, and to the front matter as YAML: what is decided before the first rule sees the file.

Invariant: a `Source` is UTF-8 without a byte order mark, at most REQUEST_BYTES and REQUEST_LINES, and its line ends are
all ``\\n``. Every byte of its text is in the front matter, in a fence, or behind the line `end`. In the front matter a
plain scalar is a number, true, false or null only if it is exactly that in JSON, and a string otherwise; every number
is finite and exact. Source: docs/spec/1-tool-request.md, "The file", "Front matter".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import frontmatter
from frontmatter.default_handlers import BaseHandler

from threegate.core import limits
from threegate.core.strict_yaml import Kind, StrictYAMLRefused, YamlNode, json_scalar, read_yaml
from threegate.request.problem import Problem

FENCE = "---"


class FrontMatterRefused(Exception):
    """The text has no front matter, or too much of it (`too_long`)."""

    def __init__(self, message: str, *, too_long: bool = False) -> None:
        super().__init__(message)
        self.too_long = too_long


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The text between the fences, and the index (from 0) of the line that closes it."""

    text: str
    end: int


class _Handler(BaseHandler):
    """What python-frontmatter calls: `split` with what it left of the text, then `load` with what `split` returned.

    By itself the library strips a text before it looks for the fence and again behind it, and it knows no lines: files
    of different bytes would be one document, and bytes that nobody saw would be signed. So the handler keeps the text
    as it was given, and cuts that one. What the library returns is not used.
    """

    FM_BOUNDARY = re.compile(r"\A---\n")  # the library wants one; `split` does not use it
    START_DELIMITER = END_DELIMITER = FENCE
    found: FrontMatter | None = None

    def __init__(self, text: str, max_bytes: int) -> None:
        super().__init__()
        self._lines = text.split("\n")
        self._max_bytes = max_bytes

    def split(self, text: str) -> tuple[str, str]:
        """The front matter and the rest of the untouched text. Raises FrontMatterRefused, never ValueError, which the
        library takes for a text without front matter."""
        if self._lines[0] != FENCE:
            raise FrontMatterRefused("line 1 must be exactly --- (no blanks, no further dashes)")
        try:
            end = self._lines.index(FENCE, 1)
        except ValueError:
            raise FrontMatterRefused("no line that is exactly --- closes the front matter") from None
        front = "\n".join(self._lines[1:end])
        if (size := len(front.encode())) > self._max_bytes:
            message = f"{size} bytes of front matter; at most {self._max_bytes} are read"
            raise FrontMatterRefused(message, too_long=True)
        self.found = FrontMatter(front, end)
        return front, "\n".join(self._lines[end + 1 :])

    def load(self, fm: str) -> dict[str, Any]:
        """Nothing: what was found is read by `read_mapping`, with its places."""
        return {}


def read_front_matter(text: str, *, max_bytes: int) -> FrontMatter:
    """What is between two lines of exactly ``---``, the first of which is line 1, in a text with ``\\n`` line ends.
    Raises FrontMatterRefused.
    """
    handler = _Handler(text, max_bytes)
    frontmatter.parse(text, handler=handler)
    assert handler.found is not None  # the library called `split`
    return handler.found


_LONE_CR = re.compile(r"\r(?!\n)")
_ONE_DOCUMENT = "the front matter is one document without YAML directives or further '---'"
_REFUSED: dict[Kind, tuple[str, str]] = {
    "syntax": ("TG110", "this is no YAML: {0.detail}"),
    "character": ("TG110", "this is no YAML: {0.detail}"),
    "depth": ("TG111", "nested deeper than {0.detail} levels; make it flatter"),
    "nodes": ("TG111", "more than {0.detail} values; make it shorter"),
    "anchor": ("TG112", "anchors (&name) are not allowed; write the value out"),
    "alias": ("TG112", "aliases (*name) are not allowed; write the value out"),
    "merge_key": ("TG112", "merge keys (<<) are not allowed; write the keys out"),
    "tag": ("TG113", "tags (!name) are not allowed; write a plain value"),
    "duplicate_key": ("TG114", "this key stands twice; the first is on line {0.first_line}"),
    "bad_key": ("TG115", "a key is a plain word, not a collection"),
    "document": ("TG115", _ONE_DOCUMENT),
    "directive": ("TG115", _ONE_DOCUMENT),
    "document_end": ("TG115", "'...' ends a YAML document early; take the line out"),
    "scalar": ("TG116", "{0.detail}; quote it or make it smaller"),
}


class SourceRefused(Exception):
    """The bytes are not a text with front matter of the strict kind; carries the one problem that ended the reading."""

    def __init__(self, rule: str, line: int, column: int, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(rule, line, column, message)


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a request, with ``\\n`` line ends. `lines[0]` is line 1."""

    text: str
    lines: tuple[str, ...]


def read_source(data: bytes) -> Source:
    """Decode the bytes of a file. Raises SourceRefused."""
    if len(data) > limits.REQUEST_BYTES:
        raise SourceRefused("TG103", 1, 1, f"{len(data)} bytes; at most {limits.REQUEST_BYTES} are read")
    if data.startswith(b"\xef\xbb\xbf"):
        raise SourceRefused("TG105", 1, 1, "starts with a byte order mark; save it as UTF-8 without one")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode("utf-8")) + 1
        raise SourceRefused("TG105", line, column, f"byte {error.start} is not UTF-8; save the file as UTF-8") from None
    if "\r" in text:
        if (lone := _LONE_CR.search(text)) is not None:
            line = text.count("\n", 0, lone.start()) + 1
            column = lone.start() - text.rfind("\n", 0, lone.start())
            raise SourceRefused("TG106", line, column, "a carriage return without a newline; end lines with LF or CRLF")
        text = text.replace("\r\n", "\n")
    if (count := text.count("\n")) > limits.REQUEST_LINES:
        raise SourceRefused(
            "TG104", limits.REQUEST_LINES + 1, 1, f"{count} lines; at most {limits.REQUEST_LINES} are read"
        )
    return Source(text, tuple(text.split("\n")))


def read_front(source: Source) -> FrontMatter:
    """The front matter of a request. Raises SourceRefused."""
    try:
        return read_front_matter(source.text, max_bytes=limits.FRONT_MATTER_BYTES)
    except FrontMatterRefused as error:
        raise SourceRefused("TG109" if error.too_long else "TG108", 1, 1, str(error)) from None


def plain_value(node: YamlNode) -> Any:
    """The JSON value of a node, without places."""
    if isinstance(node.value, list):
        return [plain_value(item) for item in node.value]
    if isinstance(node.value, dict):
        return {key: plain_value(item) for key, (_, item) in node.value.items()}
    return node.value


def scalars(node: YamlNode) -> Iterator[YamlNode]:
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


def read_mapping(text: str, *, max_nodes: int = limits.FRONT_MATTER_BYTES) -> YamlNode:
    """Read the block mapping at column 0 that is between the fences: `text` starts on line 2 of the file.

    `text` has no hidden characters' worth of trust: the reader refuses most, the caller refuses the rest.
    Raises SourceRefused.
    """
    try:
        root = read_yaml(
            text,
            plain=json_scalar,
            max_depth=limits.FRONT_MATTER_DEPTH,
            max_nodes=max_nodes,
            first_line=2,
            bare=True,
        )
    except StrictYAMLRefused as error:
        rule, message = _REFUSED[error.kind]
        raise SourceRefused(rule, error.line, error.column, message.format(error)) from None
    if root is None:
        raise SourceRefused("TG115", 2, 1, "the front matter is empty; write one key a line")
    if not isinstance(root.value, dict) or root.style:
        message = "the front matter is a mapping in block style: one 'key: value' a line at column 1"
        raise SourceRefused("TG115", root.line, root.column, message)
    for key, _ in root.value.values():
        if key.column != 1:
            message = "keys of the front matter start at column 1"
            raise SourceRefused("TG115", key.line, key.column, message)
    return root
