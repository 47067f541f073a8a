"""Drafts from elsewhere: what a plugin lists among the drafts without a file there.

Invariant: such a draft is read like any other and never signed; its plugin decides what an operator's yes or no to it
means. It is listed as long as its plugin is on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from threegate.core.errors import ThreeGateError
from threegate.core.plugins import Place
from threegate.core.workspace import Workspace
from threegate.trail import Owner

if TYPE_CHECKING:
    from threegate.launch.context import Context
    from threegate.shown.time_read import Reading


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

    def listed(self, workspace: Workspace) -> Path:
        """The path under which it is listed."""

    def answer(
        self, context: Context, data: bytes, *, yes: bool, actor: str, reading: Reading | None = None, reason: str = ""
    ) -> Answer:
        """End it, because an operator decided on it: `data` is what they read. No key is needed.

        Raises Refused if it has already ended, TrailError, OSError.
        """


@dataclass(frozen=True, slots=True)
class DraftSource:
    """Where drafts come from besides the inbox."""

    placed: Callable[[Workspace], Iterable[PlacedDraft]]
    """Those that are listed where they have no file."""


SOURCES: Final = Place[DraftSource]("source")


def placed_drafts(
    workspace: Workspace, wanted: Callable[[PlacedDraft], bool] = lambda draft: True
) -> list[PlacedDraft]:
    """The wanted ones of the plugins that are on. Nothing is imported of a plugin that keeps nothing in this
    workspace.
    """
    found = [
        (plugin.name, draft)
        for plugin in SOURCES.plugins()
        if any((workspace.tool_exec / folder).is_dir() for folder in plugin.folders) and plugin.why_absent() is None
        for draft in SOURCES.of(plugin).placed(workspace)
        if wanted(draft)
    ]
    if not found:  # nearly always: then the settings need not be read
        return []
    try:
        off = workspace.load_settings().plugins.off
    except ThreeGateError:  # what cannot be read turns nothing off
        off = ()
    return [draft for plugin, draft in found if plugin not in off]


def placed_at(workspace: Workspace, path: Path) -> PlacedDraft | None:
    """The draft that is listed under this path, which has no file; None for every other path."""
    found = placed_drafts(workspace, lambda draft: draft.name == path.name and not os.path.lexists(path))
    here = os.path.realpath(path) if found else ""
    return next((draft for draft in found if os.path.realpath(draft.listed(workspace)) == here), None)


def placed_named(workspace: Workspace, which: str) -> PlacedDraft | None:
    """The draft of this id, or of this file name with or without its suffix."""
    found = placed_drafts(
        workspace, lambda draft: which in (draft.name, draft.name.removesuffix(".md"), draft.request_id)
    )
    return next(iter(found), None)


def place_of(workspace: Workspace, path: Path) -> Path:
    """Where the bytes of a listed file are: at its path, or where its plugin has them."""
    draft = placed_at(workspace, path)
    return path if draft is None else draft.file(workspace)
