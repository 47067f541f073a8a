"""A tool server at a URL: compared with its manifest, then called by one POST (MCP's streamable HTTP).

Invariant: as of `called_server`. Each request is sent once, on a connection of its own, and whatever goes wrong behind
it is an error: an answer of 401 or 403, a redirect, a broken stream, another status. Nothing is sent again, nothing is
resumed, no stream is opened to listen. What is sent of a call contains the signed bytes of its arguments. A session
of MCP 2025-11-25 lives from `initialize` to `close`, and its id, like every header of a login, is masked in all that
the server says.

Two protocols: 2026-07-28 has no session, each request says everything; the handshake of 2025-11-25, which is also that
of the two before it. The one that was signed is the one that is spoken.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from typing import Any, Final

from threegate.core import canonical, limits
from threegate.core.errors import Refused, Unavailable
from threegate.plugins.tools.called_server import CLIENT, CalledServer, LoginRequiredError, Progress
from threegate.plugins.tools.known_values import KnownValues
from threegate.plugins.tools.manifest import Manifest, PinnedTool
from threegate.plugins.tools.message_stream import ServerError, read_message
from threegate.plugins.tools.remote.event_stream import event_data
from threegate.plugins.tools.remote.guarded_http import PUBLIC, Exchange, ExchangeError, Reach, Request, Why
from threegate.plugins.tools.remote.mirrored_headers import header_problem, header_text, mirrored

STATELESS: Final = "2026-07-28"
WITH_SESSION: Final = ("2025-11-25", "2025-06-18", "2025-03-26")
_META: Final = "io.modelcontextprotocol/"
_SESSION: Final = re.compile(r"[\x21-\x7e]{1,1024}")
_CODES: Final[Mapping[Why, str]] = {
    "unreachable": "server_not_started",
    "late": "server_silent",
    "long": "server_answer_too_large",
    "broken": "server_ended",
    "odd": "server_protocol",
}
_OTHER_PROTOCOL: Final = ("server_error", "server_protocol")
"""How a server answers to what is newer than it."""
_CUT_OFF: Final = ("server_ended", "server_protocol")
"""How an answer looks whose connection we ended."""

Headers = Callable[[], tuple[tuple[str, str], ...]]
"""The kept headers of a server, such as its login's. Raises Refused `login_required`."""
Told = Callable[[tuple[tuple[str, str], ...]], None]
"""Is told that the server did not accept these headers (401)."""


class RemoteServer(CalledServer):
    """A context manager: the login is read with the block, and the session ends with it."""

    def __init__(
        self, manifest: Manifest, headers: Headers, *, refused: Told = lambda sent: None, reach: Reach = PUBLIC
    ) -> None:
        super().__init__(manifest)
        self._headers = headers
        self._refused = refused
        self._reach = replace(reach, tls=cache(reach.tls))  # to load the authorities takes longer than the call
        self._kept: tuple[tuple[str, str], ...] = ()
        self._secrets = KnownValues(())
        self._met = False
        self._session = ""
        self._version = ""
        self._lock = threading.Lock()
        self._request: Request | None = None
        self._cancelled = threading.Event()

    def __enter__(self) -> RemoteServer:
        self._kept = self._headers()
        self._know()
        return self

    @property
    def told_secret(self) -> bool:
        return self._met or self._secrets.met

    def initialize(self) -> dict[str, Any]:
        signed = self.manifest.initialize.get("protocolVersion")
        if signed != STATELESS and signed is not None:
            return self._shake_hands()
        try:
            said = self._discovered()
        except ServerError as error:
            if signed is None and error.code in _OTHER_PROTOCOL:
                return self._shake_hands()
            raise self.end(error) from None
        return self.pinned_words(said, (STATELESS,))

    def list_tools(self) -> tuple[PinnedTool, ...]:
        found = super().list_tools()
        for tool in found if self._version == STATELESS else ():
            if (why := header_problem(tool.input_schema)) is not None:
                raise self.broken(f"the schema of the tool {tool.name} {why}")
        return found

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
        try:
            return self._asked(method, params, seconds, max_bytes, in_call=reached, progress=progress)
        except ServerError as error:
            raise self.end(error) from None
        except Refused:
            self.close_quietly()
            raise

    def reply(self, message: Mapping[str, Any]) -> None:
        """Nothing: a reply would be another request. A server that waits for it has the time of its call."""

    def settle(self) -> None:
        """Nothing arrives between two requests."""

    def cancel(self) -> None:
        with self._lock:
            self._cancelled.set()
            if self._request is not None:
                self._request.stop()

    def close(self) -> None:
        """End the session, as far as the server lets us."""
        session, self._session = self._session, ""
        if session:
            with suppress(Unavailable, Refused), Request(self.manifest.url, "the end", reach=self._reach) as request:
                request.send("DELETE", self._lines(session), seconds=limits.REMOTE_END_SECONDS).read()

    # ---- the two protocols

    def _discovered(self) -> dict[str, Any]:
        """The answer to `server/discover`, with the keys of the one to `initialize`."""
        self._version = STATELESS
        found = self._asked("server/discover", {}, limits.TOOLS_START_SECONDS, limits.TOOLS_START_BYTES)
        versions, meta = found.get("supportedVersions"), found.get("_meta")
        if not isinstance(versions, list) or STATELESS not in versions:
            raise ServerError("server_protocol", f"the server does not support MCP {STATELESS}")
        server = meta.get(f"{_META}serverInfo") if isinstance(meta, dict) else None
        return {**found, "protocolVersion": STATELESS, "serverInfo": {} if server is None else server}

    def _shake_hands(self) -> dict[str, Any]:
        self._version = ""
        first = {"protocolVersion": WITH_SESSION[0], "capabilities": {}, "clientInfo": CLIENT}
        said = self.pinned_words(self.ask("initialize", first), WITH_SESSION)
        self._version = said["protocolVersion"]
        message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        try:
            with self._sent(message, [], limits.TOOLS_START_SECONDS, limits.TOOLS_START_BYTES) as answer:
                answer.read()
                if answer.status >= 400:
                    raise ServerError("server_protocol", f"the server answered {answer.status} to its own handshake")
        except ServerError as error:
            raise self.end(error) from None
        return said

    # ---- one request

    def _asked(
        self,
        method: str,
        params: Mapping[str, Any],
        seconds: float,
        max_bytes: int,
        *,
        in_call: bool = False,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        self.last_id += 1
        stateless = self._version == STATELESS
        if stateless:
            said = {"protocolVersion": STATELESS, "clientInfo": CLIENT, "clientCapabilities": {}}
            meta = {**params.get("_meta", {}), **{f"{_META}{key}": value for key, value in said.items()}}
            params = {**params, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        with self._sent(message, self._mirrored(method, params), seconds, max_bytes, in_call=in_call) as answer:
            result = self._read(answer, in_call=in_call, progress=progress)
        return self._complete(result, in_call=in_call) if stateless else result

    def _mirrored(self, method: str, params: Mapping[str, Any]) -> list[tuple[str, str]]:
        """What a stateless request repeats of itself in its head."""
        if self._version != STATELESS:
            return []
        lines = [("mcp-method", method)]
        tool = self.manifest.tool(params["name"]) if method == "tools/call" else None
        if tool is not None:
            lines += [("mcp-name", header_text(tool.name)), *mirrored(tool.input_schema, params["arguments"])]
        return lines

    @contextmanager
    def _sent(
        self,
        message: Mapping[str, Any],
        lines: list[tuple[str, str]],
        seconds: float,
        max_bytes: int,
        *,
        in_call: bool = False,
    ) -> Iterator[Exchange]:
        """An answer to one POST with this message. Whatever goes wrong, also in the block, is a ServerError that says
        whether a call may have been made; a Refused means that nothing was sent, or that no call was.
        """
        body = canonical.canonical_bytes(message)  # in it the signed arguments, byte for byte
        request = Request(self.manifest.url, self.manifest.server, reach=self._reach)
        with self._lock:
            if self._cancelled.is_set():
                raise ServerError("cancelled", "the call was cancelled")
            self._request = request
        typed = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")]
        try:
            with request:
                answer = request.send(
                    "POST",
                    [*self._lines(self._session), *typed, *lines],
                    body,
                    seconds=seconds,
                    max_bytes=max_bytes,
                )
                self._refuse_status(answer, in_call=in_call)
                if message["method"] == "initialize":
                    self._begin_session(answer)
                yield answer
        except ExchangeError as error:
            code = "cancelled" if self._cancelled.is_set() else _CODES[error.why]
            raise ServerError(code, str(error), reached=in_call and request.sent) from None
        except ServerError as error:
            error.reached = in_call and request.sent
            if self._cancelled.is_set() and error.code in _CUT_OFF:
                error.code = "cancelled"
            raise
        except (Refused, Unavailable) as error:
            if in_call and request.sent:
                raise ServerError("server_protocol", str(error), reached=True) from None
            raise
        finally:
            with self._lock:
                self._request = None

    def _refuse_status(self, answer: Exchange, *, in_call: bool) -> None:
        if answer.status not in (401, 403):
            return
        name, wants = self.manifest.server, "a login" if answer.status == 401 else "another login, with more rights"
        what = f"threegate tools remove {name}, then add it again"
        if answer.status == 401:
            self._refused(self._kept)
            if self.manifest.oauth is not None:
                what = f"threegate tools login {name}"
        again = f"the server wants {wants} ({answer.status}); type: {what}"
        if in_call:
            raise ServerError("login_required", again)
        raise LoginRequiredError(f"{name}: {again}", answer.headers.get("www-authenticate", ()))

    def _read(self, answer: Exchange, *, in_call: bool, progress: Progress | None) -> dict[str, Any]:
        """The one answer among the messages."""
        kind = answer.header("content-type").partition(";")[0].strip().lower()
        if kind == "text/event-stream" and answer.status == 200:
            return self._answer_of(answer, event_data(answer.pieces()), in_call=in_call, progress=progress)
        if kind != "application/json" or answer.status == 202:
            raise ServerError("server_protocol", f"the server answered {answer.status} without a message")
        result = self._answer_of(answer, [answer.read()], in_call=in_call, progress=progress)
        if answer.status != 200 and not (in_call and "error" in result):
            raise ServerError("server_protocol", f"the server answered {answer.status} with a result")
        return result

    def _answer_of(
        self, answer: Exchange, messages: Iterable[bytes], *, in_call: bool, progress: Progress | None
    ) -> dict[str, Any]:
        found: dict[str, Any] | None = None
        try:
            for data in messages:
                message = read_message(data, self._secrets, scanned=in_call)
                if "method" in message:
                    self.hear(message, in_call=in_call, progress=progress)
                elif found is not None:
                    raise ServerError("server_protocol", "the server answered twice")
                else:
                    found = self.result_of(message, failed_as_answer=in_call)
                    answer.end_within(limits.TOOLS_END_SECONDS)
        except ExchangeError as error:
            if found is None or error.why != "late":
                raise
        if found is None:
            raise ServerError("server_ended", "the server's answer ended without a result")
        return found

    def _complete(self, result: dict[str, Any], *, in_call: bool) -> dict[str, Any]:
        """A result of a stateless request, if it is one. Raises ServerError."""
        whole = result.get("result", {}) if in_call else result
        kind = whole.get("resultType", "complete")
        if kind == "input_required" and in_call:
            asked = {"inputRequests": whole.get("inputRequests", {})}
            raise ServerError("input_required", "the server asks for something", reached=True, asked=asked)
        if kind != "complete":
            raise ServerError("server_protocol", "the server's result is of an unknown kind", reached=in_call)
        return result

    # ---- headers

    def _lines(self, session: str) -> list[tuple[str, str]]:
        """The headers of every request."""
        lines = [("user-agent", f"{CLIENT['name']}/{CLIENT['version']}"), *self._kept]
        if self._version:
            lines.append(("mcp-protocol-version", self._version))
        return [*lines, ("mcp-session-id", session)] if session else lines

    def _begin_session(self, answer: Exchange) -> None:
        session = answer.header("mcp-session-id")
        if session and not _SESSION.fullmatch(session):
            raise ServerError("server_protocol", "the server's session has no usable name")
        self._session = session
        self._know()

    def _know(self) -> None:
        """Mask what the server was given, and its session."""
        self._met = self._met or self._secrets.met
        given = [value.partition(" ")[2] or value for _, value in self._kept]
        self._secrets = KnownValues(
            value for value in (*given, self._session) if len(value) >= limits.SECRET_CHARS_MIN and value.isascii()
        )
