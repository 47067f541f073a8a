"""What plugins do in the daemon, beside the requests.

Invariant: nothing of it happens while launches are stopped. Of a plugin that is off only what it left half done is
finished. What a plugin could have left half done is always preceded by an event: of one of its kinds, or of a run in
its backend. So a plugin of which neither the trail nor threegate.toml has anything has nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from threegate.core.plugins import Place
from threegate.core.settings import SECTIONS, Settings
from threegate.core.workspace import Workspace
from threegate.daemon.log import Log
from threegate.launch.context import Context
from threegate.request.backend import plugin_of
from threegate.request.exposure import Exposure
from threegate.request.model import Request
from threegate.trail.event import KINDS
from threegate.trail.index import KnownRun, TrailIndex
from threegate.trail.payloads import PAYLOADS
from threegate.trail.payloads.payload import Owner
from threegate.trail.trail import Trail

WaitingDraft = tuple[str, Request, Exposure, Owner | None, KnownRun | None, int]
"""Its file, what was read, the requester, and the file's change time in nanoseconds."""

OnDraft = Callable[[*WaitingDraft], None]
"""Says that a valid draft waits for an operator, as `Work.draft_waits` takes it."""


@dataclass(frozen=True, slots=True)
class DaemonParts:
    """What the daemon has for plugins."""

    workspace: Workspace
    trail: Trail
    log: Log
    settings: Callable[[], Settings]
    """The settings as they are now."""
    on_draft: OnDraft
    drafts: Callable[[], Collection[Path]] = tuple
    """All valid drafts that were not made from proposals, as of the last scan."""


@dataclass(slots=True)
class Recovered:
    """What a plugin settled of its own when the daemon starts."""

    taken_back: dict[str, str] = field(default_factory=dict)
    """request id → how a request ended that was claimed when the daemon ended, in one line for the trail."""
    stuck: dict[str, str] = field(default_factory=dict)
    """request id → why a request cannot be settled now: it stays unchanged until the next start."""
    said: list[tuple[str, str]] = field(default_factory=list)
    """Request ids, and what else was done about them."""


class Work:
    """A plugin's part of the start and of each turn."""

    def __init__(self, daemon: DaemonParts) -> None:
        """Begin nothing yet: launches may be stopped, or the plugin off."""
        self._daemon = daemon

    def recover(self, context: Context) -> Recovered:
        """Settle what was cut off, also while the plugin is off; twice changes nothing. Raises TrailError, Unavailable,
        OSError.
        """
        return Recovered()

    def draft_seen(self, path: Path) -> None:
        """One of `DaemonParts.drafts` was checked, which is new or has changed."""

    def draft_waits(self, *draft: *WaitingDraft) -> None:
        """A valid draft was checked and waits for an operator. Not called while the plugin is off."""

    def request_ended(self, request_id: str, status: str) -> None:
        """A request has ended, in whatever thread it ran. Not called while the plugin is off."""

    def look(self) -> None:
        """The folders are looked through, also while launches are stopped or the plugin is off."""

    def checkpoint_signed(self) -> None:
        """The daemon signed a trail checkpoint."""

    def turn(self, context: Context, *, off: bool) -> int:
        """Do what is due, a little at a time; return how much was done. `off`: only finish what was left half done.

        Raises TrailError, Unavailable, OSError.
        """
        return 0

    def close(self, *, wait: bool) -> None:
        """The daemon ends. `wait`: nobody asked it to stop, so an answer that is on its way may be waited for."""


WORK: Final = Place[Callable[[DaemonParts], Work]]("work")


def plugins_in_use(settings: Settings, index: TrailIndex) -> set[str]:
    """The plugins that may have work to do, on or off: those with a section in threegate.toml, an event of their own in
    the trail, or a backend in which a request ran. Of any other plugin nothing is imported.
    """
    used = {SECTIONS.listed()[name].name for name in settings.sections}
    used |= {plugin.name for backend in index.backends if (plugin := plugin_of(backend)) is not None}
    if not index.counts.keys() <= PAYLOADS.keys():
        used |= {name for name, classes in KINDS.given().items() if any(cls.kind in index.counts for cls in classes)}
    return used
