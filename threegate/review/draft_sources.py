"""Drafts from elsewhere: what a plugin lists among the drafts without a file there, and what it makes of other files
in an inbox.

Invariant: a draft that is listed without a file is read like any other and never signed; its plugin decides what an
operator's yes or no to it means. A draft in tool-exec/drafts/ is signed only after the plugin that made it checked it:
not while that plugin is off or absent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from threegate.core.errors import Refused, ThreeGateError
from threegate.core.plugins import Place
from threegate.core.workspace import Workspace
from threegate.trail.payloads.payload import Owner
from threegate.trail.trail import Trail

if TYPE_CHECKING:
    from threegate.approval.shown.time_read import Reading
    from threegate.core.settings import Settings
    from threegate.launch.context import Context
    from threegate.request.model import Request


@dataclass(frozen=True, slots=True)
class Answer:
    """What an operator reads after they decided on a draft that is never signed."""

    title: str
    says: str
    label: str
    line: str
    """In foreign words, below `label`."""
    told: Mapping[str, object]
    """The same for `--json`."""


class PlacedDraft(Protocol):
    """A draft that is listed at a path where there is no file."""

    @property
    def kind(self) -> str:
        """What it is, in one word: also the code with which it is refused wherever it would be signed."""

    @property
    def name(self) -> str:
        """Its file's name."""

    @property
    def folder(self) -> str:
        """Where it is listed, as a listing names the folder."""

    @property
    def owner(self) -> Owner:
        """The apparent requester."""

    @property
    def request_id(self) -> str:
        """The id in it."""

    def file(self, workspace: Workspace) -> Path:
        """Where its bytes are, in a folder that only the operator can read."""

    def inputs(self, workspace: Workspace) -> Path:
        """The folder with its inputs, each named by its digest."""

    def listed(self, workspace: Workspace) -> Path:
        """The path under which it is listed."""

    def answer(
        self,
        context: Context,
        data: bytes,
        *,
        yes: bool,
        actor: str,
        paths: Collection[str] | None = None,
        reading: Reading | None = None,
        reason: str = "",
    ) -> Answer:
        """End it, because an operator decided on it: `data` is what they read. No key is needed. `paths` are those that
        a yes takes, or that a no is about, where it is not about all of them.

        Raises Refused if it has already ended, TrailError, OSError.
        """


TakeFile = Callable[[Path, bytes, Owner], None]
"""Takes a file that was read, and its owner. Raises TrailError, OSError."""
Say = Callable[[str, str, str], None]
"""Called with (event, file, what) for the daemon's log."""
MakeTaker = Callable[[Workspace, Trail, Say, Callable[[], "Settings"]], TakeFile]
"""Once for each run of a daemon, also of a plugin that is off; gets the settings in force, never those of a file that
is being edited or is broken.
"""


class CheckDraft(Protocol):
    """Whether a draft in tool-exec/drafts/ is what was made."""

    def __call__(
        self,
        workspace: Workspace,
        draft: Path,
        data: bytes,
        request: Request,
        copies: Mapping[str, Path],
        *,
        settings: Settings,
        recorded_sha256: str | None,
    ) -> None:
        """`copies` has the path of our copy of each input; `recorded_sha256` is the digest in the trail's `proposed`
        event of what the draft was made of. Raises Refused.
        """


@dataclass(frozen=True, slots=True)
class DraftSource:
    """Where drafts come from besides the requests in an inbox."""

    placed: Callable[[Workspace], Iterable[PlacedDraft]] = lambda workspace: ()
    """Those that are listed where they have no file."""
    takes: str = ""
    """The names of the files in an inbox that it takes, as a pattern."""
    what: str = ""
    """What such a file is, in one word."""
    explain: tuple[str, ...] = ()
    """The words of the command that explains one."""
    taker: MakeTaker | None = None
    """Makes drafts of such files, in tool-exec/drafts/."""
    check: CheckDraft | None = None
    """The check of these drafts."""


SOURCES: Final = Place[DraftSource]("source")


def placed_drafts(
    workspace: Workspace, wanted: Callable[[PlacedDraft], bool] = lambda draft: True
) -> list[PlacedDraft]:
    """The wanted drafts of plugins that are on. What keeps nothing in this workspace is not imported."""
    found = [
        (plugin.name, draft)
        for plugin in SOURCES.plugins()
        if any((workspace.tool_exec / folder).is_dir() for folder in plugin.folders) and plugin.why_absent() is None
        for draft in SOURCES.of(plugin).placed(workspace)
        if wanted(draft)
    ]
    if not found:  # nearly always: then the settings need not be read
        return []
    off = _off_in(workspace)
    return [draft for plugin, draft in found if plugin not in off]


def _off_in(workspace: Workspace) -> tuple[str, ...]:
    try:
        return workspace.load_settings().plugins.off
    except ThreeGateError:  # what cannot be read turns nothing off
        return ()


def drafts_of(workspace: Workspace, *, placed: bool = False) -> list[Path]:
    """All drafts, sorted by name, oldest first; with `placed`, including those that are never signed, for a caller who
    will ask an operator.
    """
    found = [draft.listed(workspace) for draft in placed_drafts(workspace)] if placed else []
    return sorted(found + workspace.draft_paths(), key=lambda path: path.name)


def placed_at(workspace: Workspace, path: Path) -> PlacedDraft | None:
    """The draft that is listed under this path, which has no file; None for every other path."""
    found = placed_drafts(workspace, lambda draft: draft.name == path.name and not os.path.lexists(path))
    here = os.path.realpath(path) if found else ""
    return next((draft for draft in found if os.path.realpath(draft.listed(workspace)) == here), None)


def place_of(workspace: Workspace, path: Path) -> Path:
    """Where the bytes of a listed file are: at its path, or where its plugin has them."""
    draft = placed_at(workspace, path)
    return path if draft is None else draft.file(workspace)


def source_of(workspace: Workspace, name: str) -> DraftSource | None:
    """What takes a file of this name from an inbox; None if no plugin that is on does."""
    given = SOURCES.given(_off_in(workspace)).values()
    return next((source for source in given if fnmatchcase(name, source.takes)), None)


def check_draft(
    workspace: Workspace,
    draft: Path,
    data: bytes,
    request: Request,
    copies: Mapping[str, Path],
    *,
    settings: Settings,
    recorded_sha256: str | None,
) -> None:
    """Have a draft in tool-exec/drafts/ checked by the plugin that made it (see `CheckDraft`). Those in an inbox need
    no check. Raises Refused for every difference, and if that plugin is off or absent.
    """
    if draft.parent != workspace.drafts:
        if recorded_sha256 is not None:
            raise Refused("proposal_changed", f"{draft.name}: has the id of a proposal and is in the inbox; reject it")
        return
    for source in SOURCES.given(settings.plugins.off).values():
        if source.check is not None:
            source.check(workspace, draft, data, request, copies, settings=settings, recorded_sha256=recorded_sha256)
            return
    raise Refused(
        "source_missing",
        f"{draft.name}: the plugin that made this draft is off or absent, and only it can check the draft; turn it on "
        "(plugins.off in threegate.toml), or reject the draft",
    )
