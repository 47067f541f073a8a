"""Outputs that were returned to a requester.

Invariant: files are opened below the requester's own results folder, by the digest in outputs.json.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from threegate.core import canonical, limits
from threegate.core.errors import InvalidInput
from threegate.core.workspace import RequesterFolders, Workspace
from threegate.launch.results.released import OUTPUTS_FILE


def outputs_of(workspace: Workspace, folders: RequesterFolders, request_id: str) -> list[dict[str, Any]]:
    """The rows of outputs.json; empty if there is none."""
    try:
        with workspace.hold(folders.results) as results, results.folder(request_id) as folder:
            data, _ = folder.read(OUTPUTS_FILE, max_bytes=limits.OUTPUTS_BYTES)
            value = canonical.loads_strict(data, max_bytes=limits.OUTPUTS_BYTES)
    except (OSError, canonical.StrictJSONError):
        return []
    rows = value.get("outputs") if isinstance(value, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


class Part(NamedTuple):
    """Bytes of a file of `size` bytes, from `offset` on."""

    data: bytes
    offset: int
    size: int


def read_bytes(
    workspace: Workspace, folders: RequesterFolders, request_id: str, path: str, offset: int, length: int
) -> Part:
    """Part of an output. Raises InvalidInput with what to do instead, OSError."""
    path = path.removeprefix("/out/")
    rows = outputs_of(workspace, folders, request_id)
    row = next((row for row in rows if row["path"] == path), None)
    if row is None:
        known = ", ".join(str(row["path"]) for row in rows[:16]) or "none"
        raise InvalidInput(f"path: no such output; outputs: {known}")
    if not row["released"]:
        raise InvalidInput(f"path: this output was held back ({row['why']}); ask the operator for it")
    with workspace.hold(folders.results) as results, results.folder(request_id) as folder:
        descriptor, _ = folder.open_regular(row["sha256"])
        try:
            return Part(os.pread(descriptor, length, offset), offset, row["size"])
        finally:
            os.close(descriptor)
