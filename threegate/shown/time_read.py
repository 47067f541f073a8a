"""How an operator read what they decided on: measured on the screen, kept with the decision.

Invariant: it says what the screen did, never that somebody understood. A decision without one was made with nobody asked.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from threegate.shown.escaped_lines import Cut


@dataclass(frozen=True, slots=True)
class Reading:
    """`seconds` from the first line shown to the decision. `whole`: every line was put on the screen and none was cut."""

    seconds: int
    whole: bool


class Reader:
    """Begins with the first lines that are shown."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._cut = True

    def shows(self, lines: Iterable[str]) -> None:
        """These lines are on the screen now, instead of any before."""
        self._began = self._began or time.monotonic()
        self._cut = any(isinstance(line, Cut) for line in lines)

    def read(self, *, unseen: int = 0) -> Reading:
        """What is known at the decision; `unseen` lines were never on the screen, where the screen can tell."""
        began = self._began or time.monotonic()
        return Reading(round(time.monotonic() - began), not self._cut and not unseen)
