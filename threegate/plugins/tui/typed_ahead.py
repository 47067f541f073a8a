"""Keys that were typed before the request that they would decide on was on the screen.

Invariant: after a request opened by itself, no key decides on it until its lines were painted and then no key was
pressed for a while; what waited at the terminal until then is thrown away.
"""

from __future__ import annotations

import sys
import termios
from contextlib import suppress
from typing import Final

QUIET_SECONDS: Final = 0.3
"""A key that comes sooner after another one was meant for what was there before, or is held down."""


class TypedAhead:
    """Whether keys that decide have an effect."""

    def __init__(self) -> None:
        self._waits = False
        self._quiet_since: float | None = None

    @property
    def waits(self) -> bool:
        """Whether no key decides yet."""
        return self._waits

    def opened(self, *, itself: bool) -> None:
        """Another request is open: in the place of one that was decided on, or because somebody chose it. A key that
        chooses may have been typed ahead as well, so that alone does not end the waiting.
        """
        self._waits = self._waits or itself
        self._quiet_since = None

    def painted(self, now: float) -> bool:
        """Lines of the open request were put on the screen; whether these are the first, and `now` begins the quiet."""
        first = self._waits and self._quiet_since is None
        if first:
            self._quiet_since = now
        return first

    def key(self, when: float) -> None:
        """A key was pressed."""
        if self._waits and self._quiet_since is not None:
            self._waits = when - self._quiet_since < QUIET_SECONDS
            self._quiet_since = max(self._quiet_since, when)


def drop_pending() -> None:
    """Throw away what was typed and not read yet; nothing, off a terminal."""
    with suppress(OSError, ValueError, termios.error, AttributeError):
        termios.tcflush(sys.__stdin__.fileno(), termios.TCIFLUSH)  # type: ignore[union-attr]
