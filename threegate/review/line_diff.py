"""The difference of two texts, line by line, as short as it can be, at any size.

Invariant: what is kept is equal in both texts and in the same order, so that the diff turns the old text into
the new one whatever the search found. Two diffs are made, and the one with fewer lines on the screen is taken:
one is split at runs of lines that occur once in each text, the longest runs first (it keeps what was moved in
one piece); the other has the fewest removed and added lines where the lines that differ make at most DIFF_CELLS
pairs, and is minimal piece by piece in a larger text. Memory is linear, and time is bounded by the lines and
DIFF_CELLS. Source: B. Cohen's patience diff (`_anchors`); H. Hyyrö, "Bit-parallel LCS-length computation
revisited", 2004 (`_exact`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from math import isqrt
from typing import Final

from threegate.core import limits
from threegate.core.file_diff import CONTEXT, Piece

# Anchors are runs of up to 2**5 lines.
_DOUBLINGS: Final = 5

# Places of two equal lines, the first one's text first.
_Pair = tuple[int, int]


def differing(old: Sequence[str], new: Sequence[str]) -> list[Piece]:
    """What differs, in order; between two pieces is at least one line that is equal."""
    numbers: dict[str, int] = {}
    one = array("l", (numbers.setdefault(line, len(numbers)) for line in old))
    other = array("l", (numbers.setdefault(line, len(numbers)) for line in new))
    return min((_pieces(one, other, pairs) for pairs in _candidates(one, other)), key=_shown_lines)


def _candidates(one: Sequence[int], other: Sequence[int]) -> Iterator[list[_Pair]]:
    """The lines that may be kept, in order, each time found in another way. Lines that one text alone has can match
    nothing and are left out first.
    """
    start, end, partner_end = _trimmed(one, 0, len(one), other, 0, len(other))
    begin = [(place, place) for place in range(start)]
    rest = list(zip(range(end, len(one)), range(partner_end, len(other)), strict=True))
    both = set(one[start:end]) & set(other[start:partner_end])
    if not both:
        yield [*begin, *rest]
        return
    places = [place for place in range(start, end) if one[place] in both]
    partners = [place for place in range(start, partner_end) if other[place] in both]
    left, right = (array("l", map(text.__getitem__, where)) for text, where in ((one, places), (other, partners)))
    found = sorted(_split_at_anchors(left, right))
    yield [*begin, *((places[at], partners[to]) for at, to in found), *rest]
    # In a large text the second search is worth its time only if the first one kept little.
    if len(left) * len(right) <= limits.DIFF_CELLS or 4 * len(found) < 3 * min(len(left), len(right)):
        yield [*begin, *((places[at], partners[to]) for at, to in _step_by_step(left, right)), *rest]


def _pieces(one: Sequence[int], other: Sequence[int], pairs: Sequence[_Pair]) -> list[Piece]:
    """What is not kept, gathered in as few places as equal lines allow."""
    gone = _gaps((at for at, _ in pairs), len(one))
    come = _gaps((to for _, to in pairs), len(other))
    _gather(one, gone, come)
    _gather(other, come, gone)
    pieces = []
    at = to = 0
    for left, right in zip(gone, come, strict=True):
        if left or right:
            pieces.append(Piece(at, at + left, to, to + right))
        at, to = at + left + 1, to + right + 1
    return pieces


def _shown_lines(pieces: Sequence[Piece]) -> int:
    """The lines of the diff, to compare it with another one of the same texts."""
    lines = sum(piece.old_end - piece.old_start + piece.new_end - piece.new_start for piece in pieces)
    between = (here.old_start - before.old_end for before, here in pairwise(pieces))
    return lines + sum(kept if kept <= 2 * CONTEXT else 2 * CONTEXT + 1 for kept in between)


def _trimmed(
    one: Sequence[int], low: int, high: int, other: Sequence[int], below: int, above: int
) -> tuple[int, int, int]:
    """How many lines both begin with, and where the lines that both end with begin in each."""
    start = 0
    while low + start < high and below + start < above and one[low + start] == other[below + start]:
        start += 1
    while low + start < high and below + start < above and one[high - 1] == other[above - 1]:
        high -= 1
        above -= 1
    return start, high, above


def _split_at_anchors(one: Sequence[int], other: Sequence[int]) -> Iterator[_Pair]:
    """Matches in any order. What has no anchors is compared exactly."""
    regions = [(0, len(one), 0, len(other), 0)]
    while regions:
        low, high, below, above, depth = regions.pop()
        start, end, partner_end = _trimmed(one, low, high, other, below, above)
        yield from ((low + place, below + place) for place in range(start))
        yield from zip(range(end, high), range(partner_end, above), strict=True)
        low, high, below, above = low + start, end, below + start, partner_end
        piece, partner = one[low:high], other[below:above]
        anchors = _anchors(piece, partner) if depth < limits.DIFF_DEPTH else []
        if not anchors:
            yield from ((low + at, below + to) for at, to in _step_by_step(piece, partner))
            continue
        yield from ((low + at, below + to) for at, to in anchors)
        for (at, to), (next_at, next_to) in pairwise(((-1, -1), *anchors, (len(piece), len(partner)))):
            if next_at > at + 1 and next_to > to + 1:
                regions.append((low + at + 1, low + next_at, below + to + 1, below + next_to, depth + 1))


def _anchors(one: Sequence[int], other: Sequence[int]) -> list[_Pair]:
    """Where the longest runs of lines begin that each text has once, as far as their order is the same."""
    numbers: dict[int, int] = {}
    texts = [array("l", (numbers.setdefault(line, len(numbers)) for line in text)) for text in (one, other)]
    levels = [(texts, len(numbers))]
    """Numbers of the runs of 1, 2, 4 … lines that begin at each place, from 0; equal runs have the same number."""
    for doubling in range(_DOUBLINGS):
        shift, count = 1 << doubling, len(numbers)
        numbers = {}
        texts = [_doubled(text, shift, count, numbers) for text in texts]
        levels.append((texts, len(numbers)))
    for (text, partner), count in reversed(levels):
        places, partners = _only_places(text, count), _only_places(partner, count)
        pairs = [(at, to) for at, to in zip(places, partners, strict=True) if at >= 0 and to >= 0]
        if pairs:
            return _longest_rising(sorted(pairs))
    return []


def _doubled(runs: Sequence[int], shift: int, count: int, numbers: dict[int, int]) -> array[int]:
    """The numbers of the runs that are twice as long; `count` is how many numbers there are so far."""
    pairs = zip(runs, islice(runs, shift, None), strict=False)
    return array("l", (numbers.setdefault(run * count + next_run, len(numbers)) for run, next_run in pairs))


def _only_places(runs: Sequence[int], count: int) -> array[int]:
    """For each number the place where it is, negative where that is none or several."""
    places = array("l", [-1]) * count
    for place, run in enumerate(runs):
        places[run] = place if places[run] == -1 else -2
    return places


def _longest_rising(pairs: Sequence[_Pair]) -> list[_Pair]:
    """The most pairs whose second places rise too. The first places rise already."""
    ends: list[int] = []
    last: list[int] = []
    """For each length, the smallest second place that a chain of it ends with, and which pair that is."""
    before = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [number]
    longest = []
    number = last[-1]
    while number >= 0:
        longest.append(pairs[number])
        number = before[number]
    return longest[::-1]


def _step_by_step(one: Sequence[int], other: Sequence[int]) -> Iterator[_Pair]:
    """The most matches if there are at most DIFF_CELLS pairs of lines, in order. Of more, what both begin with is
    compared, and the first half of what is found is kept.
    """
    side = isqrt(limits.DIFF_CELLS)
    low = below = 0
    while low < len(one) and below < len(other):
        start, _, _ = _trimmed(one, low, len(one), other, below, len(other))
        yield from ((low + place, below + place) for place in range(start))
        low, below = low + start, below + start
        if low == len(one) or below == len(other):
            return
        rows = min(len(one) - low, max(side, limits.DIFF_CELLS // (len(other) - below)))
        columns = min(len(other) - below, 1 + limits.DIFF_CELLS // rows)
        until = rows if low + rows == len(one) else (rows + 1) // 2
        partner_until = columns if below + columns == len(other) else (columns + 1) // 2
        kept = [
            (low + at, below + to)
            for at, to in _exact(one[low : low + rows], other[below : below + columns])
            if at < until and to < partner_until
        ]
        yield from kept
        low, below = (kept[-1][0] + 1, kept[-1][1] + 1) if kept else (low + until, below + partner_until)


def _exact(one: Sequence[int], other: Sequence[int]) -> list[_Pair]:
    """A longest common subsequence, in order. Each row of the table is one number, in which a bit is 0 where the
    length grows; it costs an eighth of a byte for each pair of lines.
    """
    if len(one) > len(other):
        return [(at, to) for to, at in _exact(other, one)]
    width = len(other) // 8 + 1
    wanted = {line: bytearray(width) for line in one}
    for place, line in enumerate(other):
        if line in wanted:
            wanted[line][place >> 3] |= 1 << (place & 7)
    masks = {line: int.from_bytes(bits, "little") for line, bits in wanted.items()}
    row = (1 << len(other)) - 1
    rows = [row]
    for line in one:
        equal = row & masks[line]
        row = (row + equal) | (row - equal)
        rows.append(row)
    pairs = []
    column = len(other)
    bits, above = b"", _bits(rows.pop(), width)
    for place in range(len(one) - 1, -1, -1):
        bits, above = above, _bits(rows.pop(), width)
        while column and bits[(column - 1) >> 3] >> ((column - 1) & 7) & 1:
            column -= 1
        if column and above[(column - 1) >> 3] >> ((column - 1) & 7) & 1:
            column -= 1
            pairs.append((place, column))
    return pairs[::-1]


def _bits(row: int, width: int) -> bytes:
    """The bits of a row; carries beyond its last column are cut off."""
    return (row & ((1 << 8 * width) - 1)).to_bytes(width, "little")


def _gaps(kept: Iterable[int], lines: int) -> list[int]:
    """How many lines are not kept before each kept one, and behind the last."""
    return [here - before - 1 for before, here in pairwise((-1, *kept, lines))]


def _gather(text: Sequence[int], gaps: list[int], partner: Sequence[int]) -> None:
    """Shift what differs over equal lines, so that neighbours become one piece: where the line before a piece is its
    own last one, the piece may as well begin there. It ends where the other text differs too, or as far down as
    it goes.
    """
    start = 0
    for number in range(len(gaps)):
        place, first, size = number, start, 0
        beside = -1
        while size != gaps[place]:
            while place and text[first - 1] == text[first + gaps[place] - 1]:
                first -= 1 + gaps[place - 1]
                gaps[place - 1 : place + 1] = [gaps[place - 1] + gaps[place], 0]
                place -= 1
            size = gaps[place]
            beside = place if partner[place] else -1
            while place + 1 < len(gaps) and text[first] == text[first + gaps[place]]:
                first += 1
                gaps[place : place + 2] = [0, gaps[place] + gaps[place + 1]]
                place += 1
                beside = place if partner[place] else beside
        if size and beside >= 0:
            first -= place - beside
            gaps[place], gaps[beside] = 0, size
            place = beside
        behind = first + size + number - place if place <= number else first - place + number
        start = behind + 1
