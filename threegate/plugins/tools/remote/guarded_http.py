"""One HTTPS exchange with a host that somebody else named: a tool server's, or one that it points to.

Invariant: nothing is sent before the address that was connected to was found public and the host's certificate and
name were verified. One request on one connection; no redirect is followed, no proxy and no credential is taken from
the environment, and an answer that is encoded, longer than asked for or later than the deadline is an error. The
deadline covers the name's lookup and every byte: what keeps a connection alive does not move it.

Sources: RFC 9110 (HTTP), RFC 8446 (TLS), docs/tools.md.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

import h11

from threegate.core import limits
from threegate.core.errors import Refused, Unavailable
from threegate.core.public_address import is_public, own_addresses

_HOST: Final = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
_PIECE: Final = 64 * limits.KIB
_IDENTITY: Final = ("accept-encoding", "identity")


Why = Literal["unreachable", "late", "long", "broken", "odd"]


class ExchangeError(Unavailable):
    """An exchange without a good answer, and `why`."""

    def __init__(self, message: str, why: Why) -> None:
        super().__init__(message)
        self.why = why


def checked_url(url: str, what: str = "the URL") -> SplitResult:
    """The parts of an https URL of printable ASCII, without user, fragment, backslash or a name of this machine only.
    `what` it is, for the message. Raises Refused (`url_refused`).
    """

    def refuse(why: str) -> Refused:
        return Refused("url_refused", f"{what} {why}")

    if len(url) > limits.REMOTE_URL_CHARS:
        raise refuse(f"has more than {limits.REMOTE_URL_CHARS} characters")
    if not re.fullmatch(r"[!-~]+", url) or "\\" in url:
        raise refuse("must be printable ASCII without spaces and backslashes")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise refuse("is no URL") from None
    if parts.scheme != "https":
        raise refuse("must begin with https://")
    if parts.username is not None or parts.password is not None or "#" in url:
        raise refuse("must have no user, password or fragment")
    literal = host.strip("[]")
    if not (_is_address(literal) or ("." in host and _HOST.fullmatch(host))) or port == 0:
        raise refuse("must name a host by its full name, such as mcp.example.com")
    return parts


def _is_address(host: str) -> bool:
    with suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return False


def origin_of(url: str) -> str:
    """``https://HOST[:PORT]`` of a checked URL, as browsers write it."""
    parts = checked_url(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"https://{host}" + (f":{parts.port}" if parts.port not in (None, 443) else "")


def _lookup(host: str, port: int) -> list[str]:
    name = host if _is_address(host) else f"{host}."  # with the dot no domain of resolv.conf is tried
    return [str(item[4][0]) for item in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)]


def _is_foreign(address: str) -> bool:
    return is_public(address) and address not in own_addresses()


@dataclass(frozen=True, slots=True)
class Reach:
    """How a name becomes an address, which address may be spoken to, and whose certificates count. Tests give their
    own; nothing else does.
    """

    lookup: Callable[[str, int], Sequence[str]] = _lookup
    """Raises OSError."""
    may: Callable[[str], bool] = _is_foreign
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context


PUBLIC: Final = Reach()


@dataclass(slots=True)
class Exchange:
    """An answer whose head has come. `status` and `headers` are the host's words: values, never lines of ours."""

    status: int
    headers: Mapping[str, tuple[str, ...]]
    """By name in lower case; each value in its order."""
    _connection: h11.Connection
    _socket: ssl.SSLSocket
    _until: float
    _left: int
    _what: str
    ended: bool = field(default=False)
    """Whether all of the body came."""

    def header(self, name: str) -> str:
        """The one value of a header; empty for none. Raises ExchangeError for two."""
        values = self.headers.get(name, ())
        if len(values) > 1:
            raise ExchangeError(f"{self._what}: the answer has the header {name} twice", "odd")
        return values[0] if values else ""

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes. Raises ExchangeError for a broken, late or too long one."""
        while not self.ended:
            event = _next(self._connection, self._socket, self._until, self._what)
            if isinstance(event, h11.Data):
                self._left -= len(event.data)
                if self._left < 0:
                    raise ExchangeError(f"{self._what}: the answer is too long", "long")
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self.ended = True

    def end_within(self, seconds: float) -> None:
        """Wait no longer than that for the rest."""
        self._until = min(self._until, time.monotonic() + seconds)

    def read(self) -> bytes:
        """The whole body. Raises as `pieces`."""
        return b"".join(self.pieces())


class Request:
    """One request to one URL, on a connection of its own. `stop` ends it from any thread."""

    def __init__(self, url: str, what: str, *, reach: Reach = PUBLIC) -> None:
        """`what` is asked of it, for messages. Raises Refused (`url_refused`)."""
        self._parts = checked_url(url, what)
        self._what = what
        self._reach = reach
        self._lock = threading.Lock()
        self._stopped = False
        self._socket: socket.socket | None = None
        self.sent = False
        """Whether the host may have the request; never True before its certificate was verified."""

    def __enter__(self) -> Request:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._socket is not None:
            self._socket.close()

    def stop(self) -> None:
        """End it. Twice is fine."""
        with self._lock:
            self._stopped = True
            if self._socket is not None:
                # Not SSLSocket.shutdown, which forgets the TLS first: the thread that sends would go on in plain text.
                # Nor is it closed here: that thread could then write into the next file with its number.
                with suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def send(
        self,
        method: str,
        headers: Sequence[tuple[str, str]] = (),
        body: bytes = b"",
        *,
        seconds: float = limits.REMOTE_SECONDS,
        max_bytes: int = limits.REMOTE_BYTES,
    ) -> Exchange:
        """Send it, once, and wait for the answer's head. The whole exchange ends after `seconds`.

        Raises ExchangeError for a host that cannot be reached or answers wrongly, Refused (`url_refused`) for a name
        that leads to an address which is not public, or for a redirect.
        """
        until = time.monotonic() + seconds
        host, port = self._parts.hostname or "", self._parts.port or 443
        secure = self._connected(host, port, until)
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=limits.SERVE_HEAD_BYTES)
        target = (self._parts.path or "/") + (f"?{self._parts.query}" if self._parts.query else "")
        lines = [
            ("host", self._parts.netloc),
            _IDENTITY,
            *([("content-length", str(len(body)))] if body or method == "POST" else []),
            *headers,
            ("connection", "close"),
        ]
        data = connection.send(h11.Request(method=method, target=target, headers=lines)) or b""
        data += connection.send(h11.Data(data=body)) or b"" if body else b""
        data += connection.send(h11.EndOfMessage()) or b""
        self.sent = True
        left = memoryview(data)
        while left:
            _in_time(secure, until, self._what)  # each time: `sendall` would give its time to every piece
            try:
                left = left[secure.send(left) :]
            except TimeoutError:
                raise _late(self._what) from None
            except OSError:
                raise self._broken() from None
        head = _next(connection, secure, until, self._what)
        while isinstance(head, h11.InformationalResponse):
            head = _next(connection, secure, until, self._what)
        if not isinstance(head, h11.Response):
            raise self._broken()
        return self._answer(head, connection, secure, until, max_bytes)

    def _answer(
        self, head: h11.Response, connection: h11.Connection, secure: ssl.SSLSocket, until: float, max_bytes: int
    ) -> Exchange:
        if 300 <= head.status_code < 400:
            raise Refused(
                "url_refused", f"{self._what}: it leads elsewhere ({head.status_code}), which is not followed"
            )
        found: dict[str, tuple[str, ...]] = {}
        for name, value in head.headers:
            key = name.decode("ascii").lower()
            found[key] = (*found.get(key, ()), value.decode("latin-1"))
        answer = Exchange(head.status_code, found, connection, secure, until, max_bytes, self._what)
        if answer.header("content-encoding").lower() not in ("", "identity"):
            raise ExchangeError(f"{self._what}: the answer is compressed, which was not asked for", "odd")
        return answer

    def _broken(self) -> ExchangeError:
        return ExchangeError(f"{self._what}: the connection broke off", "broken")

    def _connected(self, host: str, port: int, until: float) -> ssl.SSLSocket:
        """A connection to a public address of the host whose certificate is good for the name."""
        for address in self._addresses(host, port, until):
            plain = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or a request waits behind the handshake
            self._hold(plain)
            _in_time(plain, until, self._what)
            with suppress(OSError):
                plain.connect((address, port))
                break
            plain.close()
        else:
            raise ExchangeError(f"{self._what}: {host} cannot be reached on port {port}", "unreachable")
        try:
            secure = self._reach.tls().wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
        except (OSError, ValueError):
            raise self._broken() from None
        self._hold(secure)
        _in_time(secure, until, self._what)
        try:
            secure.do_handshake()
        except TimeoutError:
            raise _late(self._what) from None
        except ssl.SSLError as error:
            if self._stopped or isinstance(error, ssl.SSLEOFError):  # a stop, too, is no end that TLS knows
                raise self._broken() from None
            why = getattr(error, "verify_message", "") or error.reason or "no TLS"
            raise ExchangeError(f"{self._what}: the certificate of {host} is not good: {why}", "unreachable") from None
        except (OSError, ValueError):
            raise self._broken() from None
        return secure

    def _hold(self, connection: socket.socket) -> None:
        """From now on `stop` ends this connection. Raises ExchangeError after a `stop`."""
        with self._lock:
            if self._stopped:
                connection.close()
                raise self._broken()
            self._socket = connection

    def _addresses(self, host: str, port: int, until: float) -> Sequence[str]:
        """All of them public: who controls the name could otherwise mix in an address of this network."""
        found: list[str] = []

        def look() -> None:
            with suppress(OSError, UnicodeError):
                found.extend(self._reach.lookup(host, port))

        looking = threading.Thread(target=look, daemon=True, name="lookup")  # the C library's lookup has no limit
        looking.start()
        looking.join(max(0.0, until - time.monotonic()))
        if looking.is_alive() or not found:
            raise ExchangeError(f"{self._what}: the name {host} was not found", "unreachable")
        if not all(map(self._reach.may, found)):
            raise Refused("url_refused", f"{self._what}: {host} leads to an address that is not public")
        return list(dict.fromkeys(found))


def fetch(
    url: str,
    what: str,
    method: str = "GET",
    headers: Sequence[tuple[str, str]] = (),
    body: bytes = b"",
    *,
    reach: Reach = PUBLIC,
) -> tuple[Exchange, bytes]:
    """A whole exchange within REMOTE_SECONDS and REMOTE_BYTES: the answer and its body. Raises as `Request`."""
    with Request(url, what, reach=reach) as request:
        answer = request.send(method, headers, body)
        return answer, answer.read()


def _in_time(where: socket.socket, until: float, what: str) -> None:
    left = until - time.monotonic()
    if left <= 0:
        raise _late(what)
    where.settimeout(left)


def _late(what: str) -> ExchangeError:
    return ExchangeError(f"{what}: no answer in time", "late")


def _next(connection: h11.Connection, where: ssl.SSLSocket, until: float, what: str) -> object:
    """The next part of the answer."""
    try:
        while (event := connection.next_event()) is h11.NEED_DATA:
            _in_time(where, until, what)
            connection.receive_data(where.recv(_PIECE))
    except TimeoutError:
        raise _late(what) from None
    except (OSError, ValueError):
        raise ExchangeError(f"{what}: the connection broke off", "broken") from None
    except h11.ProtocolError:
        raise ExchangeError(f"{what}: the answer is no HTTP, or broke off", "odd") from None
    if isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
        raise ExchangeError(f"{what}: the connection broke off", "broken")
    return event
