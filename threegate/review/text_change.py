"""How one text becomes another: the model that every screen shows, of files and of the fields of two requests."""

from __future__ import annotations

from threegate.core.file_diff import TextChange
from threegate.review.line_diff import differing
from threegate.review.word_diff import changed_words


def text_change(old: str, new: str) -> TextChange | None:
    """None if they are the same."""
    before, before_ends = _lines(old)
    after, after_ends = _lines(new)
    if before_ends == after_ends:
        pieces = differing(before, after)
    else:  # the last lines are different ones, whatever is on them
        pieces = differing([*before[:-1], *(f"{line}\n" for line in before[-1:])], after)
    if not pieces:
        return None
    words = changed_words(before, after, pieces)
    return TextChange(tuple(before), tuple(after), tuple(pieces), before_ends, after_ends, *words)


def _lines(text: str) -> tuple[list[str], bool]:
    """Lines without their ends, and whether the last one has an end."""
    lines = text.split("\n")
    if lines[-1]:
        return lines, False
    return lines[:-1], True
