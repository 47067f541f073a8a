"""What the daemon's unit needs for tool servers: their programs and folders, and jails."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.tools.manifest import parse_manifest
from threegate.setup.service_unit import UnitNeeds


def unit_needs(workspace: Workspace, settings: Settings, uid: int | None, era: bool) -> UnitNeeds:
    """What the added servers need."""
    servers = []
    # From their file names alone: the unit does not decide whether one is started.
    for path in sorted(workspace.tools.glob("*.json")):
        with suppress(OSError, InvalidInput):
            servers.append(parse_manifest(durable.read_regular(path, max_bytes=limits.TOOLS_MANIFEST_BYTES)))
    servers = [server for server in servers if server.place != "caller"]  # nothing of these is started
    binds = [item for server in servers for item in server.binds]
    return UnitNeeds(
        network=any(server.hosts or server.place == "host" for server in servers),
        reads=(*(Path(place) for server in servers for place in server.program), *(Path(item.path) for item in binds)),
        projects=tuple(Path(item.path) for item in binds if item.writable),
        jails=any(server.place != "remote" for server in servers),
    )
