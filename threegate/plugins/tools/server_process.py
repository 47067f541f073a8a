"""A running tool server: started according to its manifest, called over its standard streams, and terminated with the
block.

Invariant: a call is sent at most once, and only after the server was compared with its manifest. Its answer is data; a
server that asks for something itself (elicitation, sampling, roots) gets nothing, and the call ends. After any
ServerError the process is terminated and not called again.

The protocol is MCP's JSON-RPC over stdio, with a client of our own: the SDK's is asynchronous, accepts ambiguous JSON
and answers of any size, and calls back when a server asks. Only four methods of the protocol are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

from threegate import __version__
from threegate.core import limits
from threegate.core.errors import Refused, Unavailable
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.tools.manifest import Manifest, PinnedTool, differences, tool_of_list
from threegate.plugins.tools.message_stream import MessageStream, ServerError, one_line
from threegate.plugins.tools.server_start import Started, start_server

__all__ = ["Answer", "Server", "ServerError"]

PROTOCOL: Final = "2025-11-25"
_PROTOCOLS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_NO_SUCH_METHOD: Final = -32601

Progress = Callable[[Mapping[str, Any]], None]
"""Called with the params of each progress notification of a call (without `progressToken`)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A tool's result, as the server wrote it, masked; not checked against a schema, not trusted."""

    content: tuple[Mapping[str, Any], ...]
    """Content blocks, in order."""
    structured: Mapping[str, Any] | None
    is_error: bool
    """The tool failed: it reported so, or answered with `error`."""
    meta: Mapping[str, Any] | None = None
    """`_meta` of the result."""
    error: Mapping[str, Any] | None = None
    """A JSON-RPC error instead of a result: `code`, `message`, perhaps `data`."""


class Server:
    """A context manager: the process starts with the block and is terminated with it, including all its children.

    Start it in a thread that lives as long: the kernel kills a jail with the thread that started it. `open_server`
    makes one.
    """

    def __init__(self, manifest: Manifest, start: Callable[[], Started]) -> None:
        self.manifest = manifest
        self.calls = 0
        """Calls since it started."""
        self._start = start
        self._started: Started | None = None
        self._stream: MessageStream | None = None
        self._id = 0
        self._answered = False
        self._closed = False
        self._changed = True

    def __enter__(self) -> Server:
        self._started = self._start()
        self._stream = MessageStream(self._started.process, self._started.secrets)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._close_quietly()  # the error being raised says whether a call may have been made

    @property
    def told_secret(self) -> bool:
        """Whether it said one of its secrets since it was started; what it said then was masked."""
        return self._stream is not None and self._stream.met_secret

    @property
    def alive(self) -> bool:
        """Whether it may be called: it is started, and has not failed."""
        return self._stream is not None and self._started is not None and self._started.process.poll() is None

    def initialize(self) -> dict[str, Any]:
        """Its answer to `initialize`, as in a manifest; once, before anything else. Raises ServerError."""
        client = {"name": "threegate", "version": __version__}
        result = self._ask("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client})
        said = {key: result.get(key) for key in ("protocolVersion", "capabilities", "serverInfo", "instructions")}
        offered = said["capabilities"]
        wrong = (
            said["protocolVersion"] not in _PROTOCOLS
            or not isinstance(said["serverInfo"], dict)
            or not isinstance(said["instructions"], str | None)
        )
        if wrong or not isinstance(offered, dict):
            raise self._broken(f"the server supports none of MCP {', '.join(_PROTOCOLS)}")
        if "tools" not in offered:
            raise self._end(ServerError("server_error", "the server offers no tools"))
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return said

    def list_tools(self) -> tuple[PinnedTool, ...]:
        """All pages of its list. Raises ServerError."""
        found: list[PinnedTool] = []
        cursor: str | None = None
        seen: set[str] = set()
        self._changed = False
        while True:
            page = self._ask("tools/list", {} if cursor is None else {"cursor": cursor})
            found += self._tools_of(page.get("tools"))
            if len(found) > limits.TOOLS_PINNED or len({tool.name for tool in found}) != len(found):
                raise self._broken("the server lists too many tools, or two with the same name")
            cursor = page.get("nextCursor")
            if cursor is None:
                return tuple(found)
            if not isinstance(cursor, str) or cursor in seen:
                raise self._broken("the server's list of tools has no end")
            seen.add(cursor)

    def check_pinned(self) -> None:
        """Compare what it says of itself, before the first call. Raises Refused `tools_changed`, ServerError."""
        self._compare(self.initialize(), self.list_tools())

    def check_again(self) -> None:
        """Compare the list of a process that was called before. Raises Refused `tools_changed`, ServerError."""
        self._settle()
        self._compare(self.manifest.initialize, self.list_tools())

    def call(
        self, tool: str, arguments: Mapping[str, Any], time_sec: float, max_bytes: int, progress: Progress | None = None
    ) -> Answer:
        """Call a pinned tool once. `max_bytes` limits everything that the server writes meanwhile.

        Raises ServerError (`reached` says whether it may have been done; `input_required` if the server asked
        for something), Refused `tools_changed` if the server or its list differs from what is pinned: then
        nothing was sent.
        """
        if self.manifest.tool(tool) is None:
            raise Refused(
                "tools_unknown",
                f"{self.manifest.server} has no tool {tool}; see: threegate tools show {self.manifest.server}",
            )
        self._settle()
        if self._changed:
            self._compare(self.manifest.initialize, self.list_tools())
        params = {"name": tool, "arguments": dict(arguments)}
        if progress is not None:
            params["_meta"] = {"progressToken": self._id + 1}
        self.calls += 1
        result = self._ask("tools/call", params, seconds=time_sec, max_bytes=max_bytes, reached=True, progress=progress)
        return self._answer(result)

    def cancel(self) -> None:
        """Stop the call in progress, from another thread; its `call` raises ServerError `cancelled`."""
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

    def _close_quietly(self) -> None:
        with suppress(Unavailable):
            self.close()

    # ---- calling

    def _ask(
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
        self._id += 1
        stream.begin(seconds=seconds, max_bytes=max_bytes)
        try:
            stream.send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
            while True:
                message = stream.receive(scanned=reached)
                if "method" in message:
                    self._hear(message, in_call=reached, progress=progress)
                else:
                    return self._result(message, failed_as_answer=reached)
        except ServerError as error:
            error.reached = reached
            if reached and error.code in ("cancelled", "server_silent"):
                cancelled = {"method": "notifications/cancelled", "params": {"requestId": self._id}}
                stream.say_once({"jsonrpc": "2.0", **cancelled})
            raise self._end(error) from None

    def _result(self, message: Mapping[str, Any], *, failed_as_answer: bool) -> dict[str, Any]:
        if type(message.get("id")) is not int or message["id"] != self._id:
            raise ServerError("server_protocol", "the server sent an answer without a call, or two answers")
        result, error = message.get("result"), message.get("error")
        if isinstance(error, dict) and "result" not in message:
            said = error.get("message")
            if type(error.get("code")) is not int or not isinstance(said, str):
                raise ServerError("server_protocol", "the server answered with a malformed error")
            if failed_as_answer:
                return {"error": error}
            raise ServerError("server_error", f"the server refused ({one_line(said)})")
        if not isinstance(result, dict) or "error" in message:
            raise ServerError("server_protocol", "the server answered with neither a result nor an error")
        return {"result": result} if failed_as_answer else result

    def _hear(self, message: Mapping[str, Any], *, in_call: bool, progress: Progress | None) -> None:
        """Handle a message the server sent by itself: its own requests are never granted."""
        method, params = message["method"], message.get("params")
        if "id" not in message:
            if method == "notifications/tools/list_changed":
                self._changed = True
            elif method == "notifications/progress" and progress is not None and isinstance(params, dict):
                token = params.get("progressToken")
                if type(token) is int and token == self._id:
                    progress({key: value for key, value in params.items() if key != "progressToken"})
            return
        if method == "ping":
            self._open().send({"jsonrpc": "2.0", "id": message["id"], "result": {}})
        elif in_call:
            asked = {"method": str(method), "params": params if isinstance(params, dict) else {}}
            raise ServerError("input_required", "the server asks for something during the call", asked=asked)
        else:
            error = {"code": _NO_SUCH_METHOD, "message": "not offered"}
            self._open().send({"jsonrpc": "2.0", "id": message["id"], "error": error})

    def _settle(self) -> None:
        """Read what arrived since the last answer: another answer is one too many. Raises ServerError."""
        stream = self._open()
        stream.begin(seconds=limits.TOOLS_START_SECONDS, max_bytes=limits.TOOLS_START_BYTES)
        try:
            while stream.pending():
                message = stream.receive()
                if "method" not in message:
                    raise ServerError("server_protocol", "the server answered twice")
                self._hear(message, in_call=False, progress=None)
        except ServerError as error:
            raise self._end(error) from None

    def _answer(self, outcome: Mapping[str, Any]) -> Answer:
        if (error := outcome.get("error")) is not None:
            return Answer((), None, True, error=error)
        result = outcome["result"]
        content, structured = result.get("content"), result.get("structuredContent")
        failed, meta = result.get("isError", False), result.get("_meta")
        whole = (
            isinstance(content, list)
            and all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in content)
            and isinstance(structured, dict | None)
            and isinstance(failed, bool)
            and isinstance(meta, dict | None)
        )
        if not whole:
            raise self._broken("the server's result is not a tool result", reached=True)
        return Answer(tuple(content), structured, failed, meta)

    def _tools_of(self, rows: object) -> list[PinnedTool]:
        try:
            if not isinstance(rows, list):
                raise ValueError("not a list")
            return [tool_of_list(row) for row in rows]
        except ValueError as error:
            raise self._broken(f"the server's list of tools cannot be pinned: {error}") from None

    def _compare(self, initialize: Mapping[str, Any], tools: tuple[PinnedTool, ...]) -> None:
        changed = differences(self.manifest, initialize=initialize, tools=tools)
        if changed:
            self._close_quietly()
            raise Refused(
                "tools_changed",
                f"{self.manifest.server}: no longer matches what was signed ({changed[0].what}); "
                f"see: threegate tools refresh {self.manifest.server}",
            )

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            self._open().send(message)
        except ServerError as error:
            raise self._end(error) from None

    def _end(self, error: ServerError) -> ServerError:
        self._close_quietly()
        return error

    def _broken(self, message: str, *, reached: bool = False) -> ServerError:
        return self._end(ServerError("server_protocol", message, reached=reached))

    def _open(self) -> MessageStream:
        if self._stream is None:
            raise ServerError("server_ended", "the server was stopped; start it again")
        return self._stream


def open_server(workspace: Workspace, settings: Settings, manifest: Manifest) -> Server:
    """A server; enter it to start it (Refused `tools_changed`, Unavailable), then call `check_pinned`."""
    return Server(manifest, lambda: start_server(workspace, settings, manifest))
