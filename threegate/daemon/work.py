"""What plugins do in the daemon, beside the requests: between two scans of the drafts and the next launches.

Invariant: a plugin that is off does nothing, and one that is turned on again begins anew.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Final

from threegate.core.plugins import Place
from threegate.daemon.log import Log
from threegate.launch.context import Context


class Work(ABC):
    """The work of one plugin, from when it is taken up until it is turned off."""

    @abstractmethod
    def __init__(self, log: Log) -> None: ...

    @abstractmethod
    def draft_seen(self, path: Path) -> None:
        """A valid draft was checked, that was new or had changed."""

    @abstractmethod
    def turn(self, context: Context, drafts: Collection[Path]) -> int:
        """Do a little of what there is to do, and return how much that was. `drafts`: all valid drafts that were not
        made from proposals. Raises TrailError, DiskFull, Unavailable, OSError.
        """


WORK: Final = Place[type[Work]]("work")


class PluginWork:
    """The work of all plugins that are on."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._works: dict[str, Work] = {}

    def draft_seen(self, path: Path) -> None:
        """Tell each of them of a valid draft."""
        for work in self._works.values():
            work.draft_seen(path)

    def turns(self, context: Context, drafts: Collection[Path]) -> list[Callable[[], int]]:
        """One turn of each (`Work.turn`), to be done part by part."""
        given = WORK.given(context.policy.settings.plugins.off)
        self._works = {name: self._works.get(name) or work(self._log) for name, work in given.items()}
        return [partial(work.turn, context, drafts) for work in self._works.values()]
