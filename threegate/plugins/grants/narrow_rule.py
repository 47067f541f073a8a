"""The narrowest rule for one open value that past requests had: a list of what was seen, the range of it, or the
deepest folder that all of it is in.

Invariant: pure; a rule takes nothing beyond the values seen, the numbers between two of them, and the paths below their
deepest common folder, and never any value. Where none of these is narrow, there is no rule but a reason.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from threegate.core import limits
from threegate.plugins.grants.constraint import is_plain_word
from threegate.request.strict_texts import path_parts
from threegate.review.group_shape import VaryingValue, outliers_first


class NothingNarrowError(Exception):
    """No narrow rule can be given; the text says why, in our words."""


def narrow_rule(values: Sequence[Any], *, sends_out: bool, why_wide: Callable[[str], str | None]) -> str:
    """The operator and its operand, as `Constraint.read` reads them, for the values of one type that a part had.

    `sends_out`: what is in a text may leave the machine, so it is never a path that can be chosen. `why_wide` says why
    a folder is too wide. Raises NothingNarrowError.
    """
    distinct = set(values)
    texts = [value for value in distinct if isinstance(value, str)]
    _refuse_unclear(texts)
    if len(distinct) < limits.SUGGESTION_CHOICES:
        return f"one_of {json.dumps(sorted(distinct))}"
    if not texts:
        if _far(values):
            raise NothingNarrowError("its numbers are too far from each other for a range")
        return f"gte {json.dumps(min(distinct))} lte {json.dumps(max(distinct))}"
    folder = _folder(texts)
    if folder is None:
        raise NothingNarrowError(f"it had {len(distinct)} different texts, which share no folder")
    if (why := why_wide(folder)) is not None:
        raise NothingNarrowError(f"its texts share no folder but {folder}, which is {why}")
    if sends_out:
        raise NothingNarrowError("the server has network, and the name of a path could carry anything out")
    return f"under {json.dumps([folder]) if folder.startswith('[') else folder}"


def apart(values: Sequence[Any], most: int) -> set[int]:
    """The indexes of the values that stand apart from all others, so that a rule without them is narrower; none if
    those are more than `most`.

    A number does by its distance from the median, a text or one of few values by being rare, a path by being alone
    outside of the folder that the others are in.
    """
    counts = Counter(values)
    found = {at for at, value in enumerate(values) if counts[value] <= most}
    if len(found) <= most and len(counts) - len({values[at] for at in found}) < limits.SUGGESTION_CHOICES:
        return found
    if not isinstance(values[0], str):
        found = _far(values)
    else:
        found = _outside(values, most)
    return found if len(found) <= most else set()


def _refuse_unclear(texts: Sequence[str]) -> None:
    """Raises NothingNarrowError for texts of which a person could take one for another."""
    for text in texts:
        if not is_plain_word(text):
            raise NothingNarrowError("it had a text that no rule takes: one with blanks, .., //, %, \\ or the like")
        if not text.isascii():
            raise NothingNarrowError("it had a text with letters beyond ASCII, which may look like others")
    folded = {unicodedata.normalize("NFKC", text).casefold() for text in texts}
    if len(folded) < len(texts):
        raise NothingNarrowError("it had texts that differ in upper and lower case only")


def _far(values: Sequence[Any]) -> set[int]:
    """The indexes of the numbers that stand out."""
    rows = [[VaryingValue("number", "", float(value))] for value in values]
    return {at for at, labels in outliers_first(rows) if labels}


def _folder(texts: Sequence[str]) -> str | None:
    """The deepest folder that all of these paths are in; None where one is no path, or no folder is all theirs."""
    folders = [_above(text) for text in texts]
    common = folders[0]
    for other in folders:
        same = 0
        for one, two in zip(common, other, strict=False):
            if one != two:
                break
            same += 1
        common = common[:same]
    if not common:
        return None
    return "/".join(common) or "/"


def _outside(texts: Sequence[str], most: int) -> set[int]:
    """The indexes of the few paths that are not in the folder that all others are in."""
    folders = [_above(text) for text in texts]
    outside: set[int] = set()
    depth = 0
    while True:
        names = Counter(folder[depth] for at, folder in enumerate(folders) if at not in outside and depth < len(folder))
        if not names:
            return outside
        name = names.most_common(1)[0][0]
        others = {at for at, folder in enumerate(folders) if folder[depth : depth + 1] != (name,)}
        if len(others | outside) > most:
            return outside
        outside |= others
        depth += 1


def _above(text: str) -> tuple[str, ...]:
    """The names of the folders that a path is in, the first empty for an absolute one; none of a text without a slash,
    or of a spelling that is read differently.
    """
    parts = path_parts(text)
    return parts[:-1] if parts else ()
