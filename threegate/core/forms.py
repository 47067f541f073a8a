"""Kinds of documents that plugins judge for whoever asks, besides those of the core: the HTTP gate has a path for each.

Invariant: a judgement runs nothing and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from threegate.core.plugins import Place
from threegate.core.record import Record
from threegate.core.settings import Settings


@dataclass(frozen=True, slots=True)
class JudgedDocument:
    """The verdict on a document, and what the log of decisions keeps of both."""

    answer: dict[str, Any]
    verdict: str
    codes: Sequence[str]
    value: Mapping[str, Any] | None
    """What it asks for; None if it cannot be read."""
    names: Mapping[str, str | None]
    """Its names, by the log's own: ``request_id``, ``tool_name``."""


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of document."""

    log_type: Literal["proposal_verdict/1"]
    """What its verdicts are called in the log of decisions."""
    path: str
    """Its path in the HTTP gate."""
    operation: str
    asks: str
    """The question that a caller has, in one line."""
    says: str
    """What the answer means."""
    schema: str
    """The name of its schema in schemas/."""
    answer: type[Record]
    judge: Callable[[bytes, Settings], JudgedDocument]
    """Never raises because of the document."""


FORMS: Final = Place[Form]("form")
