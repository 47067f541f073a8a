"""Links in notices: each leads to one waiting draft on the page that takes passkeys (`notify.link`).

Invariant: a link has a random handle and nothing of the draft, and its address is `approval.passkey_origin`. A file in
tool-exec/control/ (0700, closed to agents) has the handle's digest in its name, never the handle, and in it which
bytes the link is about. A draft has one link at most. The link ends when those bytes are no longer a draft that waits,
or when the setting is turned off. Whoever has a link has to log in like everybody else.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from threegate.core import canonical, durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput
from threegate.core.file_names import is_request_name
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.page.section import NotifySettings
from threegate.request.model import Request
from threegate.review.draft_sources import place_of, placed_at
from threegate.review.reviewed_draft import read_draft
from threegate.review.status import RequestEntry, folder_place, is_draft_folder
from threegate.trail.index import KnownRun

_NAME: Final = "draft-link"
_HANDLE: Final = re.compile("[0-9a-f]{32}")
_KEYS: Final = {"draft_sha256", "file", "folder"}


class DraftLinks:
    """The links that a daemon makes. One thread uses it."""

    def __init__(self, workspace: Workspace) -> None:
        """Nothing is read yet."""
        self._workspace = workspace
        self._made: dict[tuple[str, str], Path] | None = None
        """The file of each draft's link, by the draft's folder and name."""

    def new(self, origin: str, request: Request, run: KnownRun | None) -> str:
        """The link to a draft that a run made, or a requester without one. It replaces an earlier link to a draft of
        this name. Raises OSError.
        """
        draft = ("inbox" if run is None else run.run, request.file_name)
        handle = secrets.token_hex(16)
        place = _place(self._workspace, handle)
        record = {"draft_sha256": request.sha256, "file": draft[1], "folder": draft[0]}
        made = self._known()
        durable.deliver(place, canonical.canonical_bytes(record))
        if (old := made.get(draft)) is not None:
            old.unlink(missing_ok=True)
        made[draft] = place
        return f"{origin}/page/draft/{handle}"

    def end_old(self, *, keep: bool) -> None:
        """End the links to drafts that are gone; without `keep` all links. Raises OSError."""
        made = self._known()
        for draft, place in list(made.items()):
            if not (keep and any(_is_there(self._workspace, path) for _, path in _paths(self._workspace, *draft))):
                place.unlink(missing_ok=True)
                del made[draft]

    def _known(self) -> dict[tuple[str, str], Path]:
        """The links, with those of previous runs of the daemon. What cannot be read is removed."""
        if self._made is None:
            self._made = {}
            for place in self._workspace.control.glob(f"{_NAME}-*"):
                record = _read(place)
                if record is None or (draft := (record["folder"], record["file"])) in self._made:
                    place.unlink(missing_ok=True)
                else:
                    self._made[draft] = place
        return self._made


def linked_draft(workspace: Workspace, settings: Settings, handle: str) -> RequestEntry | None:
    """The draft that a handle leads to; None if it was never made, or the link has ended. Changes nothing."""
    if not settings.section(NotifySettings).link or not _HANDLE.fullmatch(handle):
        return None
    if (record := _read(_place(workspace, handle))) is None:
        return None
    ttl = settings.approval.draft_ttl
    for folder, path in _paths(workspace, record["folder"], record["file"]):
        try:
            draft = read_draft(workspace, path)
            entry = RequestEntry.of(folder, path, place_of(workspace, path).lstat())
        except (InvalidInput, OSError):
            continue
        expired = ttl and draft.expires_utc(ttl) <= datetime.now(UTC)
        if not expired and sha256_hex(draft.data) == record["draft_sha256"]:
            return entry
    return None


def _paths(workspace: Workspace, folder: str, file: str) -> list[tuple[str, Path]]:
    """Where a draft of this requester may be: a proposal's draft is not in the folder of who proposed it."""
    return [(name, folder_place(workspace, name) / file) for name in (folder, "drafts")]


def _is_there(workspace: Workspace, path: Path) -> bool:
    return os.path.lexists(path) or placed_at(workspace, path) is not None


def _place(workspace: Workspace, handle: str) -> Path:
    return workspace.control / f"{_NAME}-{hashlib.sha256(handle.encode()).hexdigest()}"


def _read(place: Path) -> dict[str, str] | None:
    """What a link is about; None if there is no such file, or it is not one of ours."""
    try:
        data = durable.read_regular(place, max_bytes=limits.DRAFT_LINK_BYTES)
        value = canonical.loads_strict(data, max_bytes=limits.DRAFT_LINK_BYTES, max_depth=2)
    except (OSError, canonical.StrictJSONError):
        return None
    if (
        not isinstance(value, dict)
        or value.keys() != _KEYS
        or not all(isinstance(item, str) for item in value.values())
    ):
        return None
    return value if is_request_name(value["file"]) and is_draft_folder(value["folder"]) else None
