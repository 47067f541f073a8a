"""From bytes to text with lines: everything that is decided before the first parser sees the file.

Invariant: a `Source` is UTF-8 without a byte order mark, at most REQUEST_BYTES and REQUEST_LINES, its line
ends are all ``\\n``, and the position of its front matter block is known. Source:
docs/spec/1-tool-request.md, "The file".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from threegate.core import limits
from threegate.core.front_matter_handler import FrontMatter, FrontMatterRefused, read_front_matter
from threegate.core.strict_yaml import YamlNode
from threegate.request.problem import Problem
from threegate.request.yaml_nodes import read_mapping

_LONE_CR = re.compile(r"\r(?!\n)")


class SourceRefused(Exception):
    """The bytes are not a text that can be processed further; carries the problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a request, with ``\\n`` line ends. `lines[0]` is line 1."""

    text: str
    lines: tuple[str, ...]


def read_source(data: bytes) -> Source:
    """Decode the bytes of a file. Raises SourceRefused."""
    if len(data) > limits.REQUEST_BYTES:
        raise _refused("TG103", 1, 1, f"{len(data)} bytes; at most {limits.REQUEST_BYTES} are read")
    if data.startswith(b"\xef\xbb\xbf"):
        raise _refused("TG105", 1, 1, "starts with a byte order mark; save it as UTF-8 without one")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode("utf-8")) + 1
        raise _refused("TG105", line, column, f"byte {error.start} is not UTF-8; save the file as UTF-8") from None
    if "\r" in text:
        if (lone := _LONE_CR.search(text)) is not None:
            line = text.count("\n", 0, lone.start()) + 1
            column = lone.start() - text.rfind("\n", 0, lone.start())
            raise _refused("TG106", line, column, "a carriage return without a newline; end lines with LF or CRLF")
        text = text.replace("\r\n", "\n")
    if (count := text.count("\n")) > limits.REQUEST_LINES:
        raise _refused("TG104", limits.REQUEST_LINES + 1, 1, f"{count} lines; at most {limits.REQUEST_LINES} are read")
    return Source(text, tuple(text.split("\n")))


def read_front(source: Source) -> FrontMatter[YamlNode]:
    """The front matter as a tree of nodes. Raises SourceRefused, YAMLRefused."""
    try:
        return read_front_matter(source.text, _tree, max_bytes=limits.FRONT_MATTER_BYTES)
    except FrontMatterRefused as error:
        raise _refused("TG109" if error.too_long else "TG108", 1, 1, str(error)) from None


def _tree(front: str) -> YamlNode:
    return read_mapping(front, first_line=2, max_depth=limits.FRONT_MATTER_DEPTH)


def _refused(rule: str, line: int, column: int, message: str) -> SourceRefused:
    return SourceRefused(Problem(rule, line, column, message))
