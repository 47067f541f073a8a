"""A server for one call, or to look at it: a new process, or what is behind its URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.core.extras import require_extra
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.tools.called_server import CalledServer
from threegate.plugins.tools.manifest import Manifest
from threegate.plugins.tools.server_process import open_server

if TYPE_CHECKING:
    from threegate.plugins.tools.remote.guarded_http import Reach


def open_fresh(
    workspace: Workspace, settings: Settings, manifest: Manifest, *, reach: Reach | None = None
) -> CalledServer:
    """Enter it to reach the server (Refused, Unavailable), then call `check_pinned`. `reach` is for tests."""
    if not manifest.url:
        return open_server(workspace, settings, manifest)
    require_extra("a tool server at a URL", "mcp")
    from threegate.plugins.tools.remote.guarded_http import PUBLIC
    from threegate.plugins.tools.remote.login import ServerLogin
    from threegate.plugins.tools.remote.remote_server import RemoteServer

    reach = reach or PUBLIC
    login = ServerLogin(workspace, settings, manifest, reach=reach)
    return RemoteServer(manifest, login.headers, refused=login.was_refused, reach=reach)
