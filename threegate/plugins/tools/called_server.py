"""What is said with a tool server, however it is reached: it is compared with its manifest, and called.

Invariant: a call is sent at most once, and only after the server was compared with its manifest. Its answer is data; a
server that asks for something itself (elicitation, sampling, roots) gets nothing, and the call ends. After any
ServerError the server is closed and not called again.

The protocol is MCP's JSON-RPC with a client of our own: the SDK's is asynchronous, accepts ambiguous JSON and answers
of any size, calls back when a server asks, and over HTTP sends a call again.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from threegate import __version__
from threegate.core import limits
from threegate.core.errors import Refused, Unavailable
from threegate.plugins.tools.manifest import Manifest, PinnedTool, differences, tool_of_list
from threegate.plugins.tools.message_stream import ServerError, one_line

CLIENT: Final[Mapping[str, Any]] = {"name": "threegate", "version": __version__}
"""What a server hears of us."""
_PINNED: Final = ("protocolVersion", "capabilities", "serverInfo", "instructions")
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


class LoginRequiredError(Refused):
    """The server wants a login, or another one; nothing was called. `challenges`: its `WWW-Authenticate`, as data."""

    def __init__(self, message: str, challenges: tuple[str, ...]) -> None:
        super().__init__("login_required", message)
        self.challenges = challenges


class CalledServer(ABC):
    """A context manager: the server is reached with the block and left with it."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.calls = 0
        """Calls since it was opened."""
        self.last_id = 0
        """Of the newest request."""
        self.changed = True
        """Whether its list may differ from what it was compared with."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.close_quietly()  # the error being raised says whether a call may have been made

    @property
    @abstractmethod
    def told_secret(self) -> bool:
        """Whether it said one of its secrets since it was opened; what it said then was masked."""

    @abstractmethod
    def initialize(self) -> dict[str, Any]:
        """What it says of itself, as in a manifest; once, before anything else. Raises Refused, ServerError."""

    @abstractmethod
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
        """Send one request and wait for its answer; `reached`: it is a call, and may have an effect. Returns the
        result; of a call, an object with `result` or `error`. Raises ServerError, after which the server is closed.
        """

    @abstractmethod
    def reply(self, message: Mapping[str, Any]) -> None:
        """Answer a request of the server, where that is possible. Raises ServerError."""

    @abstractmethod
    def settle(self) -> None:
        """Read what arrived since the last answer, before a call. Raises ServerError."""

    @abstractmethod
    def cancel(self) -> None:
        """Stop the call in progress, from another thread; its `call` raises ServerError `cancelled`."""

    @abstractmethod
    def close(self) -> None:
        """Leave it. Raises Unavailable if something of it stays."""

    def close_quietly(self) -> None:
        """Leave it where another error is being reported."""
        with suppress(Unavailable):
            self.close()

    def list_tools(self) -> tuple[PinnedTool, ...]:
        """All pages of its list, in the time of one answer. Raises ServerError."""
        found: list[PinnedTool] = []
        cursor: str | None = None
        seen: set[str] = set()
        self.changed = False
        until = time.monotonic() + limits.TOOLS_START_SECONDS
        while True:
            left = max(0.0, until - time.monotonic())
            page = self.ask("tools/list", {} if cursor is None else {"cursor": cursor}, seconds=left)
            found += self._tools_of(page.get("tools"))
            if len(found) > limits.TOOLS_PINNED or len({tool.name for tool in found}) != len(found):
                raise self.broken("the server lists too many tools, or two with the same name")
            cursor = page.get("nextCursor")
            if cursor is None:
                return tuple(found)
            if not isinstance(cursor, str) or cursor in seen or len(seen) >= limits.TOOLS_PAGES:
                raise self.broken("the server's list of tools has no end")
            seen.add(cursor)

    def check_pinned(self) -> None:
        """Compare what it says of itself, before the first call. Raises Refused `tools_changed`, ServerError."""
        self.compare(self.initialize(), self.list_tools())

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
        self.settle()
        if self.changed:
            self.compare(self.manifest.initialize, self.list_tools())
        params: dict[str, Any] = {"name": tool, "arguments": dict(arguments)}
        if progress is not None:
            params["_meta"] = {"progressToken": self.last_id + 1}
        self.calls += 1
        result = self.ask("tools/call", params, seconds=time_sec, max_bytes=max_bytes, reached=True, progress=progress)
        return self._answer(result)

    def compare(self, initialize: Mapping[str, Any], tools: tuple[PinnedTool, ...]) -> None:
        """With what is pinned. Raises Refused `tools_changed`, after which the server is closed."""
        changed = differences(self.manifest, initialize=initialize, tools=tools)
        if changed:
            self.close_quietly()
            raise Refused(
                "tools_changed",
                f"{self.manifest.server}: no longer matches what was signed ({changed[0].what}); "
                f"see: threegate tools refresh {self.manifest.server}",
            )

    def pinned_words(self, said: Mapping[str, Any], versions: tuple[str, ...]) -> dict[str, Any]:
        """What is pinned of what it said about itself, in one of these versions of the protocol. Raises ServerError."""
        found = {key: said.get(key) for key in _PINNED}
        wrong = (
            found["protocolVersion"] not in versions
            or not isinstance(found["serverInfo"], dict)
            or not isinstance(found["instructions"], str | None)
        )
        if wrong or not isinstance(found["capabilities"], dict):
            raise self.broken(f"the server supports none of MCP {', '.join(versions)}")
        if "tools" not in found["capabilities"]:
            raise self.end(ServerError("server_error", "the server offers no tools"))
        return found

    def result_of(self, message: Mapping[str, Any], *, failed_as_answer: bool) -> dict[str, Any]:
        """The result in an answer to the newest request, as `ask` returns it. Raises ServerError."""
        if type(message.get("id")) is not int or message["id"] != self.last_id:
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

    def hear(self, message: Mapping[str, Any], *, in_call: bool, progress: Progress | None) -> None:
        """Handle a message the server sent by itself: its own requests are never granted. Raises ServerError."""
        method, params = message["method"], message.get("params")
        if "id" not in message:
            if method == "notifications/tools/list_changed":
                self.changed = True
            elif method == "notifications/progress" and progress is not None and isinstance(params, dict):
                token = params.get("progressToken")
                if type(token) is int and token == self.last_id:
                    progress({key: value for key, value in params.items() if key != "progressToken"})
            return
        if method == "ping":
            self.reply({"jsonrpc": "2.0", "id": message["id"], "result": {}})
        elif in_call:
            asked = {"method": str(method), "params": params if isinstance(params, dict) else {}}
            raise ServerError("input_required", "the server asks for something during the call", asked=asked)
        else:
            error = {"code": _NO_SUCH_METHOD, "message": "not offered"}
            self.reply({"jsonrpc": "2.0", "id": message["id"], "error": error})

    def end(self, error: ServerError) -> ServerError:
        """The error, after leaving the server."""
        self.close_quietly()
        return error

    def broken(self, message: str, *, reached: bool = False) -> ServerError:
        """An error of the protocol, after leaving the server."""
        return self.end(ServerError("server_protocol", message, reached=reached))

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
            raise self.broken("the server's result is not a tool result", reached=True)
        return Answer(tuple(content), structured, failed, meta)

    def _tools_of(self, rows: object) -> list[PinnedTool]:
        try:
            if not isinstance(rows, list):
                raise ValueError("not a list")
            return [tool_of_list(row) for row in rows]
        except ValueError as error:
            raise self.broken(f"the server's list of tools cannot be pinned: {error}") from None
