"""How an operator read what they decided on: measured on the screen, stored with the decision.

Invariant: it records what the screen did, never that someone understood it. A decision without this record
was made without a prompt.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from threegate.approval.shown.escaped_lines import Cut


@dataclass(frozen=True, slots=True)
class Reading:
    """`seconds` from the first line shown to the decision, without the time in which it was closed. `whole`: every line
    was on the screen and none was cut; equal lines of a file need not be.
    """

    seconds: int
    whole: bool


class Reader:
    """Starts when the first lines are shown."""

    def __init__(self, before: int = 0) -> None:
        """`before`: seconds for which it was open earlier, if it was."""
        self._before = before
        self._began: float | None = None
        self._cut = True

    def shows(self, lines: Iterable[str]) -> None:
        """These lines are on the screen now, and replace those before."""
        self._began = self._began or time.monotonic()
        self._cut = any(isinstance(line, Cut) for line in lines)

    def read(self, *, unseen: int = 0) -> Reading:
        """The record at the time of the decision; `unseen` lines were never on the screen, if the screen can tell."""
        began = self._began or time.monotonic()
        return Reading(self._before + round(time.monotonic() - began), not self._cut and not unseen)
