"""A running tool server: started according to its manifest, called over its standard streams, and terminated with the
block.

Invariant: as of `called_server`; after any ServerError the process is terminated, with all its children.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from threegate.core import limits
from threegate.core.extras import require_extra
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.tools.called_server import CLIENT, Answer, CalledServer, Progress
from threegate.plugins.tools.manifest import Manifest
from threegate.plugins.tools.message_stream import MessageStream, ServerError
from threegate.plugins.tools.server_start import Started, start_server

if TYPE_CHECKING:
    from threegate.plugins.tools.remote.guarded_http import Reach

__all__ = ["Answer", "Server", "ServerError"]

PROTOCOL: Final = "2025-11-25"
_PROTOCOLS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")


class Server(CalledServer):
    """A context manager: the process starts with the block and is terminated with it, including all its children.

    Start it in a thread that lives as long: the kernel kills a jail with the thread that started it. Entering raises
    Refused (`tools_changed`, `tools_unsafe`), Unavailable; then call `check_pinned`.
    """

    def __init__(self, workspace: Workspace, settings: Settings, manifest: Manifest) -> None:
        super().__init__(manifest)
        self._workspace = workspace
        self._settings = settings
        self._started: Started | None = None
        self._stream: MessageStream | None = None
        self._closed = False

    def __enter__(self) -> Server:
        self._started = start_server(self._workspace, self._settings, self.manifest)
        self._stream = MessageStream(self._started.process, self._started.secrets)
        return self

    @property
    def told_secret(self) -> bool:
        return self._stream is not None and self._stream.met_secret

    @property
    def alive(self) -> bool:
        """Whether it may be called: it is started, and has not failed."""
        return self._stream is not None and self._started is not None and self._started.process.poll() is None

    def initialize(self) -> dict[str, Any]:
        client = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": CLIENT}
        said = self.pinned_words(self.ask("initialize", client), _PROTOCOLS)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return said

    def check_again(self) -> None:
        """Compare the list of a process that was called before. Raises Refused `tools_changed`, ServerError."""
        self.settle()
        self.compare(self.manifest.initialize, self.list_tools())

    def cancel(self) -> None:
        if self._stream is not None:
            self._stream.cancel()

    def close(self) -> None:
        """Terminate it: close its input, wait briefly, then kill it. Raises Unavailable if a process stays."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        if self._started is not None and not self._closed:
            self._closed = True
            self._started.end()

    def ask(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        seconds: float = limits.TOOLS_START_SECONDS,
        max_bytes: int = limits.TOOLS_START_BYTES,
        reached: bool = False,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        stream = self._open()
        self.last_id += 1
        stream.begin(seconds=seconds, max_bytes=max_bytes)
        try:
            stream.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
            while True:
                message = stream.receive(scanned=reached)
                if "method" in message:
                    self.hear(message, in_call=reached, progress=progress)
                else:
                    return self.result_of(message, failed_as_answer=reached)
        except ServerError as error:
            error.reached = reached
            if reached and error.code in ("cancelled", "server_silent"):
                cancelled = {"method": "notifications/cancelled", "params": {"requestId": self.last_id}}
                stream.say_once({"jsonrpc": "2.0", **cancelled})
            raise self.end(error) from None

    def reply(self, message: Mapping[str, Any]) -> None:
        self._open().send(message)

    def settle(self) -> None:
        """Another answer since the last one is one too many."""
        stream = self._open()
        stream.begin(seconds=limits.TOOLS_START_SECONDS, max_bytes=limits.TOOLS_START_BYTES)
        try:
            while stream.pending():
                message = stream.receive()
                if "method" not in message:
                    raise ServerError("server_protocol", "the server answered twice")
                self.hear(message, in_call=False, progress=None)
        except ServerError as error:
            raise self.end(error) from None

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            self._open().send(message)
        except ServerError as error:
            raise self.end(error) from None

    def _open(self) -> MessageStream:
        if self._stream is None:
            raise ServerError("server_ended", "the server was stopped; start it again")
        return self._stream


def open_fresh(
    workspace: Workspace, settings: Settings, manifest: Manifest, *, reach: Reach | None = None
) -> CalledServer:
    """Enter it to reach the server (Refused, Unavailable), then call `check_pinned`. `reach` is for tests."""
    if not manifest.url:
        return Server(workspace, settings, manifest)
    require_extra("a tool server at a URL", "mcp")
    from threegate.plugins.tools.remote.guarded_http import PUBLIC
    from threegate.plugins.tools.remote.login import ServerLogin
    from threegate.plugins.tools.remote.remote_server import RemoteServer

    reach = reach or PUBLIC
    login = ServerLogin(workspace, settings, manifest, reach=reach)
    return RemoteServer(manifest, login.headers, refused=login.was_refused, reach=reach)
