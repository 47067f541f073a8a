"""From bytes to text with lines, and to the front matter as YAML: what is decided before the first rule sees the file.

Invariant: a `Source` is UTF-8 without a byte order mark, at most REQUEST_BYTES and REQUEST_LINES, and its line ends are
all ``\\n``. Every byte of its text is in the front matter, in a fence, or behind the line `end`. In the front matter a
plain scalar is a number, true, false or null only if it is exactly that in JSON, and a string otherwise; every number
is finite and exact. Source: docs/spec/1-tool-request.md, "The file", "Front matter".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import frontmatter
from frontmatter.default_handlers import BaseHandler

from threegate.core import limits
from threegate.core.strict_yaml import Kind, StrictYAMLRefused, YamlNode, json_scalar, read_yaml
from threegate.request.problem import Problem, placed

FENCE: Final = "---"
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_LONE_CR: Final = re.compile(r"\r(?!\n)")
_ONE_DOCUMENT: Final = ("TG115", "the front matter is one document without YAML directives or further '---'")
_REFUSED: Final[dict[Kind, tuple[str, str]]] = {
    "syntax": ("TG110", "this is not YAML: {0.detail}"),
    "character": ("TG110", "this is not YAML: {0.detail}"),
    "depth": ("TG111", "nested deeper than {0.detail} levels; make it flatter"),
    "nodes": ("TG111", "more than {0.detail} values; make it shorter"),
    "anchor": ("TG112", "anchors (&name) are not allowed; write the value out"),
    "alias": ("TG112", "aliases (*name) are not allowed; write the value out"),
    "merge_key": ("TG112", "merge keys (<<) are not allowed; write the keys out"),
    "tag": ("TG113", "tags (!name) are not allowed; write a plain value"),
    "duplicate_key": ("TG114", "this key occurs twice; the first is on line {0.first_line}"),
    "bad_key": ("TG115", "a key is a plain word, not a collection"),
    "document": _ONE_DOCUMENT,
    "directive": _ONE_DOCUMENT,
    "document_end": ("TG115", "'...' ends a YAML document early; take the line out"),
    "scalar": ("TG116", "{0.detail}; quote it or make it smaller"),
}


class SourceRefused(Exception):
    """The bytes are not a text with front matter of the strict kind; carries the one problem that ended the reading."""

    def __init__(self, rule: str, line: int, column: int, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(rule, line, column, message)


class Source(NamedTuple):
    """The text of a request, with ``\\n`` line ends. `lines[0]` is line 1."""

    text: str
    lines: tuple[str, ...]


def read_source(data: bytes) -> Source:
    """Decode the bytes of a file. Raises SourceRefused."""
    if len(data) > limits.REQUEST_BYTES:
        raise SourceRefused("TG103", 1, 1, f"{len(data)} bytes; at most {limits.REQUEST_BYTES} are read")
    if data.startswith(BYTE_ORDER_MARK):
        raise SourceRefused("TG105", 1, 1, "starts with a byte order mark; save it as UTF-8 without one")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode("utf-8")) + 1
        raise SourceRefused("TG105", line, column, f"byte {error.start} is not UTF-8; save the file as UTF-8") from None
    if "\r" in text:
        if (lone := _LONE_CR.search(text)) is not None:
            message = "a carriage return without a newline; end lines with LF or CRLF"
            raise SourceRefused(*placed("TG106", text, lone.start(), message))
        text = text.replace("\r\n", "\n")
    if (count := text.count("\n")) > limits.REQUEST_LINES:
        message = f"{count} lines; at most {limits.REQUEST_LINES} are read"
        raise SourceRefused("TG104", limits.REQUEST_LINES + 1, 1, message)
    return Source(text, tuple(text.split("\n")))


class FrontMatter(BaseHandler):
    """What python-frontmatter finds between two lines of exactly ``---``, the first of which is line 1: its text, and
    the index (from 0) of the line that closes it. Raises SourceRefused.
    """

    FM_BOUNDARY = re.compile(r"\A---\n")  # the library wants one; `split` does not use it
    START_DELIMITER = END_DELIMITER = FENCE

    def __init__(self, text: str, *, max_bytes: int) -> None:
        """Read a text with ``\\n`` line ends."""
        super().__init__()
        # The library strips a text before it looks for the fence, and again behind it, and knows no lines. Files of
        # different bytes would be one document, and bytes that nobody saw would be signed. So the untouched text is
        # cut here, and nothing that the library returns is used.
        self._lines = text.split("\n")
        self._max_bytes = max_bytes
        self.text, self.end = "", 0
        frontmatter.parse(text, handler=self)

    def split(self, text: str) -> tuple[str, str]:
        """For the library: the front matter, and what follows it."""
        # Never ValueError, which the library takes for a text without front matter.
        if self._lines[0] != FENCE:
            raise SourceRefused("TG108", 1, 1, "line 1 must be exactly --- (no blanks, no further dashes)")
        if FENCE not in self._lines[1:]:
            raise SourceRefused("TG108", 1, 1, "no line that is exactly --- closes the front matter")
        self.end = self._lines.index(FENCE, 1)
        self.text = "\n".join(self._lines[1 : self.end])
        if (size := len(self.text.encode())) > self._max_bytes:
            message = f"{size} bytes of front matter; at most {self._max_bytes} are read"
            raise SourceRefused("TG109", 1, 1, message)
        return self.text, "\n".join(self._lines[self.end + 1 :])

    def load(self, fm: str) -> dict[str, Any]:
        """For the library: nothing. `read_mapping` reads what was found, with its places."""
        return {}


def read_mapping(text: str, *, max_nodes: int = limits.FRONT_MATTER_BYTES, first_line: int = 2) -> YamlNode:
    """Read the block mapping at column 0 that is between the fences: `text` starts on line `first_line` of the file.

    The YAML reader refuses most hidden characters, the caller the others. Raises SourceRefused.
    """
    try:
        root = read_yaml(
            text,
            plain=json_scalar,
            max_depth=limits.FRONT_MATTER_DEPTH,
            max_nodes=max_nodes,
            first_line=first_line,
            bare=True,
        )
    except StrictYAMLRefused as error:
        rule, message = _REFUSED[error.kind]
        raise SourceRefused(rule, error.line, error.column, message.format(error)) from None
    if root is None:
        raise SourceRefused("TG115", first_line, 1, "the front matter is empty; write one key a line")
    if not isinstance(root.value, dict) or root.style:
        message = "the front matter is a mapping in block style: one 'key: value' a line at column 1"
        raise SourceRefused("TG115", root.line, root.column, message)
    for key, _ in root.value.values():
        if key.column != 1:
            raise SourceRefused("TG115", key.line, key.column, "keys of the front matter start at column 1")
    return root


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
