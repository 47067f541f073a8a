"""Where a person's browser brings the answer of an authorization server: a port of 127.0.0.1 for a few minutes.

Invariant: the first request for the path with the exact Host is the answer, whatever it says; every later one gets 410.
A request with another Host (a page of another site whose name leads here) or path is refused and changes nothing.
Source: RFC 8252, 7.3 and 8.3.
"""

from __future__ import annotations

import queue
import re
import socketserver
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self, cast
from urllib.parse import parse_qsl

from threegate.core import limits
from threegate.core.errors import Refused, Unavailable

_REQUEST: Final = re.compile(r"GET (/[!-~]*) HTTP/1\.1")
_PAGES: Final = {
    200: ("OK", "The answer arrived. Return to the terminal: it says whether you are logged in."),
    400: ("Bad Request", "This is not the answer of a login."),
    404: ("Not Found", "There is nothing here."),
    410: ("Gone", "An answer came already. If it was not yours, log in again."),
    421: ("Misdirected Request", "This is not the address of the login."),
}
_HEADERS: Final = (
    "Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\nConnection: close\r\n"
)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, path: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.path = path
        self.host = f"127.0.0.1:{self.server_address[1]}"
        self.answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._used = False

    def judged(self, head: bytes) -> int:
        """The status for a request; an answer is taken once."""
        lines = head.decode("latin-1").split("\r\n")
        request = _REQUEST.fullmatch(lines[0])
        if request is None:
            return 400
        if [
            value.strip() for name, _, value in (line.partition(":") for line in lines[1:]) if name.lower() == "host"
        ] != [self.host]:
            return 421
        path, _, query = request[1].partition("?")
        if path != self.path:
            return 404
        with self._lock:
            if self._used:
                return 410
            self._used = True
        self.answers.put(query)
        return 200

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that breaks off is nothing to anybody."""


class _Handler(socketserver.StreamRequestHandler):
    timeout = limits.LOGIN_CALLBACK_SECONDS

    def handle(self) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.rfile.readline(limits.LOGIN_CALLBACK_BYTES)
            head += line
            if not line or len(head) > limits.LOGIN_CALLBACK_BYTES:
                return
        status = cast(_Server, self.server).judged(head.removesuffix(b"\r\n\r\n"))
        reason, text = _PAGES[status]
        body = f"{text}\n".encode()
        self.wfile.write(f"HTTP/1.1 {status} {reason}\r\n{_HEADERS}Content-Length: {len(body)}\r\n\r\n".encode() + body)


class CallbackListener:
    """Listens from its making to the end of its block. Raises Unavailable if it cannot."""

    def __init__(self, path: str) -> None:
        try:
            self._server = _Server(path)
        except OSError as error:
            raise Unavailable(f"127.0.0.1: the answer cannot be waited for there ({error.strerror})") from None
        self.redirect_uri = f"http://{self._server.host}{path}"
        """Where the browser is sent."""
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="login", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, seconds: float = limits.LOGIN_SECONDS) -> Mapping[str, str]:
        """The parameters of the answer. Raises Refused (`login_refused`) if none comes in time, or one that has a
        parameter twice.
        """
        try:
            query = self._server.answers.get(timeout=seconds)
        except queue.Empty:
            raise Refused("login_refused", f"no answer of a browser within {seconds:g} seconds; log in again") from None
        found: dict[str, str] = {}
        for name, value in parse_qsl(query, keep_blank_values=True, errors="replace"):
            if name in found:
                raise Refused("login_refused", "the answer has a parameter twice; nothing was sent; log in again")
            found[name] = value
        return found
