"""What is in the folders of a workspace, for screens that show a part of many thousand requests.

Invariant: this only reads, and its cost grows with what is requested: a listing reads the folder, a row reads
the verdict of its file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from threegate.approval.shown.escaped_lines import shown
from threegate.core.workspace import STATES, Workspace
from threegate.review.status import RequestEntry, draft_folder_names, files_in, is_draft_folder

DRAFTS: Final = "drafts"
GROUPS: Final = (DRAFTS, *STATES)
"""The groups of a listing, in the order in which a request passes through them: all drafts, wherever they are, and a
group for each other folder.
"""


def group_of(entry: RequestEntry) -> str:
    """The group that a file is in."""
    return DRAFTS if is_draft_folder(entry.folder) else entry.folder


def entries(workspace: Workspace, group: str) -> list[RequestEntry]:
    """The files of a group: waiting ones oldest first, ended ones newest first."""
    found = [entry for folder in _folders(workspace, group) for entry in files_in(workspace, folder)]
    return sorted(found, key=lambda entry: (entry.changed, entry.path.name), reverse=group in ("finished", "refused"))


def find_entry(workspace: Workspace, folder: str, key: str) -> RequestEntry | None:
    """The file of a folder with this key, or None. Keys are compared; no path is made from `key`."""
    if all(folder not in _folders(workspace, group) for group in GROUPS):
        return None
    return next((entry for entry in files_in(workspace, folder) if entry.key == key), None)


def matching(found: Sequence[RequestEntry], words: str) -> list[RequestEntry]:
    """The entries whose names, as shown, contain every word, ignoring case."""
    wanted = words.lower().split()
    return [entry for entry in found if all(word in shown(entry.path.name).lower() for word in wanted)]


def _folders(workspace: Workspace, group: str) -> list[str]:
    return draft_folder_names(workspace) if group == DRAFTS else [group]
