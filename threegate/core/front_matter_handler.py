"""Front matter: what is between two lines of exactly ``---``, the first of which is line 1 of the file.

python-frontmatter drives the reading, with our handler. By itself it strips a text before it looks for the fence
and again behind it, and it knows no lines: files of different bytes would be one document, and bytes that nobody saw
would be signed. So the handler keeps the text as it was given, cuts that one, and keeps what is read from it, with its
places. What the library returns is not used.

Invariant: every byte of the text is in the front matter, in a fence, or behind the line `end`. Source:
docs/spec/1-tool-request.md, "The file".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import frontmatter
from frontmatter.default_handlers import BaseHandler

FENCE = "---"
Read = TypeVar("Read")


class FrontMatterRefused(Exception):
    """The text has no front matter, or too much of it (`too_long`)."""

    def __init__(self, message: str, *, too_long: bool = False) -> None:
        super().__init__(message)
        self.too_long = too_long


@dataclass(frozen=True, slots=True)
class FrontMatter(Generic[Read]):
    """The text between the fences, what was read from it, and the index (from 0) of the line that closes it."""

    text: str
    read: Read
    end: int


class _Handler(BaseHandler, Generic[Read]):
    """What the library calls: `split` with what it left of the text, then `load` with what `split` returned."""

    FM_BOUNDARY = re.compile(r"\A---\n")  # the library wants one; `split` does not use it
    START_DELIMITER = END_DELIMITER = FENCE

    def __init__(self, text: str, load: Callable[[str], Read], max_bytes: int) -> None:
        super().__init__()
        self._lines = text.split("\n")
        self._load = load
        self._max_bytes = max_bytes
        self._end = 0
        self.found: FrontMatter[Read] | None = None

    def split(self, text: str) -> tuple[str, str]:
        """The front matter and the rest of the untouched text. Raises FrontMatterRefused, never ValueError, which the
        library takes for a text without front matter."""
        if self._lines[0] != FENCE:
            raise FrontMatterRefused("line 1 must be exactly --- (no blanks, no further dashes)")
        try:
            self._end = self._lines.index(FENCE, 1)
        except ValueError:
            raise FrontMatterRefused("no line that is exactly --- closes the front matter") from None
        front = "\n".join(self._lines[1 : self._end])
        if (size := len(front.encode())) > self._max_bytes:
            message = f"{size} bytes of front matter; at most {self._max_bytes} are read"
            raise FrontMatterRefused(message, too_long=True)
        return front, "\n".join(self._lines[self._end + 1 :])

    def load(self, fm: str) -> dict[str, Any]:
        """Read the front matter; what was read is kept here, as the library's mapping has no places."""
        self.found = FrontMatter(fm, self._load(fm), self._end)
        return {}


def read_front_matter(text: str, load: Callable[[str], Read], *, max_bytes: int) -> FrontMatter[Read]:
    """The front matter of a text with ``\\n`` line ends, read by `load`. Raises FrontMatterRefused, and what `load`
    raises."""
    handler = _Handler(text, load, max_bytes)
    frontmatter.parse(text, handler=handler)
    if handler.found is None:
        raise FrontMatterRefused("the front matter was not read")
    return handler.found
