"""The parts of a screen: what is ours and what is foreign, not yet escaped or wrapped.

Invariant: foreign words are in `Field`, `Listing` and `Quote` only, as their `value` or `text`, never in a label or a
head; everything else is ours. The terminal, the terminal application and the operator's page are made from these alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LIMIT: Final = 60
"""Lines of a long text that the short screen shows."""
_FEW: Final = 12


@dataclass(frozen=True, slots=True)
class Field:
    """A label of ours and a foreign value; the short screen shows at most `most` lines of it."""

    label: str
    value: str
    most: int = _FEW


@dataclass(frozen=True, slots=True)
class Fact:
    """A label and a value of ours."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Listing:
    """A line of ours and a foreign text with numbered lines: code, or the words of a command. `label` names it elsewhere.

    `most`: as many lines the short screen shows; None for all.
    """

    head: str
    text: str
    label: str
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Quote:
    """Foreign text, below a line of ours where there is one."""

    text: str
    head: str = ""
    most: int | None = LIMIT
    label: str = "a text"


@dataclass(frozen=True, slots=True)
class Note:
    """A line of ours."""

    text: str


Item = Field | Fact | Listing | Quote | Note


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of ours and what stands below it. `folded`: the one line that the short screen shows instead, if any."""

    title: str
    items: tuple[Item, ...]
    folded: str = ""
