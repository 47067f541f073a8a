"""From bytes to text with lines: everything that is decided before the first parser sees the file.

Invariant: a `Source` is UTF-8 without a byte order mark, at most REQUEST_BYTES and REQUEST_LINES, its line
ends are all ``\\n``, and the position of its front matter block is known. Source:
docs/spec/1-tool-request.md, "The file".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from threegate.core import limits
from threegate.request.problem import Problem

FENCE = "---"
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


def find_front_matter(source: Source) -> int:
    """Index in `lines` of the line that closes the front matter (its first line has index 1). Raises SourceRefused."""
    lines = source.lines
    if lines[0] != FENCE:
        raise _refused("TG108", 1, 1, "line 1 must be exactly --- (no blanks, no further dashes)")
    try:
        end = lines.index(FENCE, 1)
    except ValueError:
        raise _refused("TG108", 1, 1, "no line that is exactly --- closes the front matter") from None
    size = len("\n".join(lines[1:end]).encode())
    if size > limits.FRONT_MATTER_BYTES:
        raise _refused("TG109", 1, 1, f"{size} bytes of front matter; at most {limits.FRONT_MATTER_BYTES} are read")
    return end


def _refused(rule: str, line: int, column: int, message: str) -> SourceRefused:
    return SourceRefused(Problem(rule, line, column, message))
