"""What lies in the folders of a workspace, for screens that show a part of many thousand requests.

Invariant: this only reads, and what it reads grows with what is asked for: a listing costs a look at the folder, a
row costs the verdict of its file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from threegate.core.workspace import Workspace
from threegate.review.status import Line, files_in, folder_name, folder_place, line_of
from threegate.shown.escaped_lines import shown

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "drafts": ("inbox", "drafts"),
    "approved": ("approved",),
    "running": ("running",),
    "finished": ("finished",),
    "refused": ("refused",),
}
"""The groups of a listing, in the order of a request's way, and the folders of each; drafts of agents' runs come on top."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A request file by its folder (as a listing names it) and path."""

    folder: str
    path: Path
    changed: datetime

    @property
    def key(self) -> str:
        """The name in 32 hex digits: fit for an address, whatever the name is."""
        return hashlib.sha256(os.fsencode(self.path.name)).hexdigest()[:32]


def entries(workspace: Workspace, group: str) -> list[Entry]:
    """The files of a group: what waits oldest first, what has ended newest first."""
    found = [
        Entry(folder, path, changed)
        for folder in _folders(workspace, group)
        for path, changed in files_in(folder_place(workspace, folder))
    ]
    return sorted(
        found, key=lambda entry: (entry.changed, entry.path.name), reverse=group in ("finished", "refused")
    )


def find_entry(workspace: Workspace, folder: str, key: str) -> Entry | None:
    """The file of a folder that has this key, or None. Only names that lie there are compared; none is made of `key`."""
    if not any(folder in _folders(workspace, group) for group in GROUPS):
        return None
    for path, changed in files_in(folder_place(workspace, folder)):
        entry = Entry(folder, path, changed)
        if entry.key == key:
            return entry
    return None


def matching(found: Sequence[Entry], words: str) -> list[Entry]:
    """The entries whose names, as they are shown, contain every word; letters count as small ones."""
    wanted = words.lower().split()
    return [entry for entry in found if all(word in shown(entry.path.name).lower() for word in wanted)]


def row(workspace: Workspace, entry: Entry) -> Line:
    """What `threegate status` says about a file."""
    state = "draft" if entry.path.parent.name in GROUPS["drafts"] else entry.folder
    return line_of(workspace, entry.path, entry.folder, state, entry.changed)


def _folders(workspace: Workspace, group: str) -> list[str]:
    if group != "drafts":
        return list(GROUPS[group])
    return [folder_name(workspace, place) for place in workspace.draft_folders()]
