"""What differs within the lines that a diff removes and adds.

Invariant: what is outside of the spans is equal in both texts and in the same order, as with the lines themselves
(`line_diff.py` compares the words). So a long line may fold what is equal, and nothing that changed is left out.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from threegate.core import limits
from threegate.core.file_diff import Piece, Span
from threegate.review.line_diff import differing

Changed = dict[int, tuple[Span, ...]]
"""Place of a line, from 0 → what of it changed; an empty span is where the other text has something more."""

_WORDS: Final = re.compile(r"\w+|[^\S\n]+|[\W_]", re.DOTALL)
_CLAUSES: Final = re.compile(r"[^;,{}\n]*[;,{}\n]|[^;,{}\n]+")
"""What a long text is compared by first: up to a comma, a semicolon, a brace or a line end."""


def changed_words(old: Sequence[str], new: Sequence[str], pieces: Sequence[Piece]) -> tuple[Changed, Changed]:
    """The spans of the old and of the new lines that replace each other. A line of which more than half changed has
    none, unless it is a long one: all of it is what changed.
    """
    found: tuple[Changed, Changed] = ({}, {})
    for piece in pieces:
        sides = old[piece.old_start : piece.old_end], new[piece.new_start : piece.new_end]
        if not all(sides):
            continue
        one, other = ("\n".join(lines) for lines in sides)
        spans = list(_differing_text(one, other))
        for side, lines, first in ((0, sides[0], piece.old_start), (1, sides[1], piece.new_start)):
            for place, changed in _by_line(lines, [span[side] for span in spans]).items():
                if _worth(lines[place], changed):
                    found[side][first + place] = changed
    return found


def _differing_text(one: str, other: str) -> Iterator[tuple[Span, Span]]:
    """Characters of one text that become characters of the other, in order."""
    words, others = _WORDS.findall(one), _WORDS.findall(other)
    if len(words) * len(others) <= limits.DIFF_WORD_CELLS:
        yield from _differing_parts(words, others)
        return
    for (start, end), (begin, until) in _differing_parts(_CLAUSES.findall(one), _CLAUSES.findall(other)):
        words, others = _WORDS.findall(one[start:end]), _WORDS.findall(other[begin:until])
        if len(words) * len(others) > limits.DIFF_WORD_CELLS:
            yield (start, end), (begin, until)
            continue
        for (low, high), (below, above) in _differing_parts(words, others):
            yield (start + low, start + high), (begin + below, begin + above)


def _differing_parts(parts: Sequence[str], others: Sequence[str]) -> Iterator[tuple[Span, Span]]:
    """The same of texts in parts: those joined are the text."""
    places, partners = ([0, *accumulate(map(len, side))] for side in (parts, others))
    for piece in differing(parts, others):
        yield (
            (places[piece.old_start], places[piece.old_end]),
            (partners[piece.new_start], partners[piece.new_end]),
        )


def _by_line(lines: Sequence[str], spans: Sequence[Span]) -> Changed:
    """Spans of lines that are joined by line ends, as spans of each line; neighbours become one."""
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    found: dict[int, list[Span]] = {}
    for first, last in spans:
        place = min(bisect_right(starts, first) - 1, len(lines) - 1)
        while place < len(lines) and starts[place] <= last:
            low, high = max(first - starts[place], 0), min(last - starts[place], len(lines[place]))
            if low <= high and (low < high or first == last):
                _add(found.setdefault(place, []), lines[place], (low, high))
            place += 1
    return {place: tuple(changed) for place, changed in found.items()}


def _add(changed: list[Span], line: str, span: Span) -> None:
    """One more span; only blanks between it and the last one belong to it."""
    if changed and line[changed[-1][1] : span[0]].strip() == "":
        span = (changed.pop()[0], span[1])
    changed.append(span)


def _worth(line: str, changed: Sequence[Span]) -> bool:
    """Whether the spans tell more than that the line changed."""
    size = sum(end - start for start, end in changed)
    return size < len(line) if len(line) > limits.DIFF_LINE_CHARS else 2 * size <= len(line.strip())
