"""What plugins do in the daemon, beside the requests.

Invariant: nothing of it happens while launches are stopped. Of a plugin that is off only what it left half done is
finished.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.core.plugins import Place
from threegate.daemon.log import Log
from threegate.launch.context import Context
from threegate.request.exposure import Exposure
from threegate.request.model import Request
from threegate.trail.index import KnownRun
from threegate.trail.payloads.payload import Owner

OnDraft = Callable[[str, Request, Exposure, Owner | None, KnownRun | None, int], None]
"""Notifies the operators of a valid draft: its file, what was read, the requester, and the file's change time in
nanoseconds.
"""


@dataclass(frozen=True, slots=True)
class DaemonParts:
    """What the daemon has for plugins."""

    log: Log
    on_draft: OnDraft
    drafts: Callable[[], Collection[Path]] = tuple
    """All valid drafts that were not made from proposals, as of the last scan."""


class Work(ABC):
    """A plugin's part of each turn."""

    def draft_seen(self, path: Path) -> None:  # noqa: B027 - most plugins do not care
        """One of `DaemonParts.drafts` was checked, which is new or has changed."""

    @abstractmethod
    def turn(self, context: Context, *, off: bool) -> int:
        """Do what is due, a little at a time; return how much was done. `off`: only finish what was left half done.

        Raises TrailError, Unavailable, OSError.
        """


WORK: Final = Place[Callable[[DaemonParts], Work]]("work")
