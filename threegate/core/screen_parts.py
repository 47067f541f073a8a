"""The parts of a screen: which words are ours and which are foreign, before escaping and wrapping.

Invariant: foreign words are only in `Field`, `Listing` and `Quote`, as their `value` or `text`, and in a `FileDiff`, as
its `path` and the lines of its text, never in a label or a head; everything else is ours. The command line, the
terminal application and the operator's page are rendered from these alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from threegate.core.file_diff import TextChange

LIMIT: Final = 60
"""Lines of a long text that the short screen shows."""
_FEW: Final = 12


@dataclass(frozen=True, slots=True)
class Field:
    """Our label and a foreign value; the short screen shows at most `most` lines of it."""

    label: str
    value: str
    most: int = _FEW


@dataclass(frozen=True, slots=True)
class Fact:
    """Our label and our value."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Our line and a foreign text with numbered lines: code, or the words of a command. `label` names
    it in other places.

    The short screen shows at most `most` lines; None for all.
    """

    head: str
    text: str
    label: str
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Quote:
    """Foreign text, below our line if there is one."""

    text: str
    head: str = ""
    most: int | None = LIMIT
    label: str = "a text"


@dataclass(frozen=True, slots=True)
class Note:
    """One of our lines."""

    text: str


@dataclass(frozen=True, slots=True)
class FileDiff:
    """What happens to one file; its lines are never cut."""

    label: str
    """Ours: what is done with it."""
    path: str
    about: tuple[Field | Fact | Quote | Note, ...] = ()
    """What is to be known of it, above its lines."""
    text: TextChange | None = None
    """None where nothing of it is shown as lines."""


Item = Field | Fact | Listing | Quote | FileDiff | Note


@dataclass(frozen=True, slots=True)
class Section:
    """Our heading and the items below it. `folded` is the line that the short screen shows in place of
    the items, if any.
    """

    title: str
    items: tuple[Item, ...]
    folded: str = ""
