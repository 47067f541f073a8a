"""Linear regular expressions (google-re2) over text, with places that are character places.

RE2 works on bytes. Text is therefore handed to it with one byte for each character: what Latin-1 cannot say
becomes DEL, which no pattern asks for. Any string has such a form, lone surrogates included.
"""

from __future__ import annotations

import codecs
import functools
import re
from collections.abc import Iterable, Iterator, Sequence
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
_SMALL: Final = 8 << 10
_BEGINNING: Final = re.compile(r"(?:\\b)?[A-Za-z0-9_-]{3,}[\[(]", re.ASCII)
"""A pattern that begins with letters of its own."""


class PatternSet:
    """Several patterns, asked in one pass. Compiled when first asked.

    One automaton for all patterns takes 5 ns a byte for prose and code, but 500 ns for base64, in which nearly each
    byte may begin several of them: it makes a new state for each byte. There only the patterns that begin with letters
    of their own share an automaton. Of the others, the literals that they cannot do without are looked for first (RE2's
    FilteredRE2), and then each pattern whose literals are there is looked for alone. Both ways give the same answer.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = tuple(patterns)
        begun = [_BEGINNING.match(pattern) is not None for pattern in patterns]
        self._begun = [number for number, has in enumerate(begun) if has]
        self._others = [number for number, has in enumerate(begun) if not has]

    def _compiled(self, made: Any, numbers: Iterable[int]) -> Any:
        for number in numbers:
            made.Add(self._patterns[number].encode("ascii"), *(() if isinstance(made, re2.Set) else (options(),)))
        made.Compile()
        return made

    @functools.cached_property
    def _long_run(self) -> Any:
        """A set of one: to ask it takes a tenth of what a search does, which would give the place too."""
        made = re2.Set.SearchSet(options())
        made.Add(_LONG_RUN.encode("ascii"))
        made.Compile()
        return made

    def _has_long_run(self, data: bytes) -> bool:
        if len(data) <= _SMALL:
            return bool(self._long_run.Match(data))
        return compiled(_LONG_RUN).search(data) is not None  # a set goes on to the end, a search stops at the first

    @functools.cached_property
    def _set(self) -> Any:
        return self._compiled(re2.Set.SearchSet(options()), range(len(self._patterns)))

    @functools.cached_property
    def _begun_set(self) -> Any:
        return self._compiled(re2.Set.SearchSet(options()), self._begun)

    @functools.cached_property
    def _filter(self) -> Any:
        return self._compiled(re2.Filter(), self._others)

    def which(self, data: bytes) -> list[int]:
        """Numbers of the patterns that occur in `data`, in order."""
        if not self._has_long_run(data):
            return sorted(self._set.Match(data) or [])
        found = [self._begun[place] for place in self._begun_set.Match(data) or []] if self._begun else []
        for place in self._filter.Match(data, potential=True) or [] if self._others else []:
            number = self._others[place]
            if compiled(self._patterns[number]).search(data) is not None:
                found.append(number)
        return sorted(found)


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
