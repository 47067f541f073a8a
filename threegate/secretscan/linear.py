"""Linear regular expressions (google-re2) over text, with places that are character places.

RE2 works on bytes. Text is therefore handed to it with one byte for each character: what Latin-1 cannot say
becomes DEL, which no pattern asks for. Any string has such a form, lone surrogates included.
"""

from __future__ import annotations

import codecs
import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import re2

_HANDLER: Final = "threegate-one-byte"
_MEMORY: Final = 64 << 20
"""Bytes that the compiled form of a pattern may take. Here and not in core/limits.py: this room imports no other."""


def _as_delete(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "\x7f" * (error.end - error.start), error.end


codecs.register_error(_HANDLER, _as_delete)


def one_byte_each(text: str) -> bytes:
    """The text with exactly one byte for each character."""
    return text.encode("latin-1", _HANDLER)


def options() -> Any:
    """Of every pattern: one byte is one character, and nothing is written to standard error."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = _MEMORY
    options.log_errors = False
    return options


@functools.cache
def compiled(pattern: str) -> Any:
    """A pattern for `one_byte_each` bytes; compiled once."""
    return re2.compile(pattern.encode("ascii"), options())


_LONG_RUN: Final = r"[A-Za-z0-9+/_-]{60}"
"""What pictures in notebooks, keys and hashes have, and lines of prose or code have not."""


class PatternSet:
    """Several patterns, asked in one pass. Compiled when first asked.

    One automaton for all patterns takes 5 ns a byte for prose and code, but 500 ns for base64, in which nearly each
    byte may begin several of them: it makes a new state for each byte. There the literals that the patterns cannot do
    without are looked for first (RE2's FilteredRE2), and then each pattern whose literals are there is looked for
    alone. Both ways give the same answer.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = tuple(patterns)

    @functools.cached_property
    def _set(self) -> Any:
        made = re2.Set.SearchSet(options())
        for pattern in self._patterns:
            made.Add(pattern.encode("ascii"))
        made.Compile()
        return made

    @functools.cached_property
    def _filter(self) -> Any:
        made = re2.Filter()
        for pattern in self._patterns:
            made.Add(pattern.encode("ascii"), options())
        made.Compile()
        return made

    def which(self, data: bytes) -> list[int]:
        """Numbers of the patterns that occur in `data`, in order."""
        if compiled(_LONG_RUN).search(data) is not None:
            possible: list[int] = self._filter.Match(data, potential=True) or []
            return sorted(number for number in possible if compiled(self._patterns[number]).search(data) is not None)
        hits: list[int] | None = self._set.Match(data)
        return sorted(hits) if hits else []


def spans(pattern: str, data: bytes, *, most: int = 1_000_000) -> Iterator[tuple[int, int]]:
    """Places of a pattern's first group (or of all of it), at most `most`. Text after a group may begin the
    next match.
    """
    regexp = compiled(pattern)
    group = 1 if regexp.groups else 0
    position = 0
    for _ in range(most):
        match = regexp.search(data, position)
        if match is None:
            return
        start, end = match.span(group)
        if start < 0:  # another branch of the pattern matched, without the group
            start, end = match.span()
        yield start, end
        position = max(end, position + 1)
