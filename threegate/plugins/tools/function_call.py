"""The draft of a call of a program's own function, for `threegate.client`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from threegate.client.asked_decision import Drafted
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.core.workspace import Workspace
from threegate.plugins.tools.call_draft import draft_call, tool_call
from threegate.plugins.tools.manifest import Manifest, read_manifest
from threegate.plugins.tools.requested_call import check_arguments
from threegate.trail.trail import Trail


def draft_function_call(
    workspace: Workspace, name: str, arguments: Mapping[str, Any], manifest_sha256: str | None, mark: str
) -> Drafted:
    """The draft, checked against what is pinned; with `manifest_sha256` only as far as gate 1 checks it, for an account
    that may not read that. Raises InvalidInput, Refused (tools_unknown, tools_changed, arguments_unfit), Unavailable,
    TrailError, OSError.
    """
    server, dot, tool = name.partition(".")
    if not dot:
        raise InvalidInput(f"{name!r}: name the function as NAME.FUNCTION, as in: threegate tools show NAME")
    pinned = _pinned(workspace, server) if manifest_sha256 is None else None
    call = tool_call(server, tool, str(manifest_sha256) if pinned is None else pinned.digest, arguments)
    if pinned is not None:
        found = pinned.tool(tool)
        if pinned.place != "caller" or found is None:
            raise Refused("tools_unknown", f"{name}: no such function of a program; see: threegate tools list")
        check_arguments(found, call)
    settings = workspace.load_settings().request
    request, data = draft_call(call, requested_by="core", now=datetime.now(UTC), settings=settings, mark=mark)
    return Drafted(request.file_name, data)


def _pinned(workspace: Workspace, server: str) -> Manifest:
    if not os.access(workspace.audit, os.R_OK | os.X_OK):
        raise Unavailable(
            "this account may not read what is pinned; give manifest_sha256, from: threegate tools list --json"
        )
    trail = Trail(workspace)
    try:
        with trail.locked() as held:
            return read_manifest(workspace, held.index, server)
    finally:
        trail.close()
