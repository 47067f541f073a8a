"""The forwarder of one run: adds a secret to one request, over verified TLS to one host.

It runs inside a helper container (``python3 -I secret_forwarder.py METHOD HOST PORT PATH CA_FILE``), so it
needs only the standard library. The secret arrives as one line on standard input and stays in this process.

Invariant: only METHOD PATH of HOST is answered, once for each connection; no redirect is followed; nothing is
sent before the host's certificate and name were verified; an answer that contains the secret, plain or in an
encoding that the masking of tool servers knows too (`shows`), or that could hide it, is not forwarded.
"""

from __future__ import annotations

import base64
import http.client
import ipaddress
import re
import socket
import socketserver
import ssl
import sys
from http.server import BaseHTTPRequestHandler

LISTEN = ("127.0.0.1", 3130)
CONNECT_SECONDS = 10
READ_SECONDS = 60
REQUEST_BYTES = 1 << 20
ANSWER_BYTES = 8 << 20
_REQUEST_HEADERS = ("Accept", "Content-Type", "User-Agent", "X-GitHub-Api-Version")
_ANSWER_HEADERS = ("Content-Type", "Location", "ETag", "Retry-After", "X-GitHub-Request-Id")


NOT_PUBLIC = (
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 "
    "192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 "
    "169.254.169.0/24 169.254.170.0/24 100.100.100.200/32 192.0.0.192/32 168.63.129.16/32"
).split()
"""NOT_PUBLIC4 and METADATA4 of `core.public_address`, which this file cannot import where it runs."""


def public(address: str) -> bool:
    """Whether an IPv4 address may be the host's: no private, local or reserved one, and none where a cloud answers."""
    return not any(ipaddress.IPv4Address(address) in ipaddress.IPv4Network(network) for network in NOT_PUBLIC)


_ESCAPED = re.compile(rb"(?<!\\)\\+(?:(?:u00|x)([0-9A-Fa-f]{2})|/)|%(?:25)*([0-9A-Fa-f]{2})")
"""A character as a JSON or string escape, or percent-encoded, however often that was escaped again."""


def shows(data: bytes, value: bytes) -> bool:
    """Whether bytes contain a value: plain, with JSON or string escapes, percent-encoded, hexadecimal, or base64
    (standard or URL-safe, wrapped, at any alignment).
    """
    # One pass, and each run of backslashes or of "25" is read once: linear in the data, also if it is hostile.
    data = _ESCAPED.sub(lambda found: bytes.fromhex((found[1] or found[2] or b"2f").decode()), data)
    solid = re.sub(rb"\s|(?<!\\)\\+[nrt]", b"", data).translate(bytes.maketrans(b"-_", b"+/"))
    digits = re.sub(rb"0x|[:,+]", b"", solid.lower())
    return value in data or value.hex().encode() in digits or any(form in solid for form in _base64(value))


def _base64(value: bytes) -> list[bytes]:
    """The digits that depend on nothing but the value, behind 0, 1 and 2 other bytes."""
    return [
        base64.b64encode(b"\0" * before + value)[-(-before * 8 // 6) : (before + len(value)) * 8 // 6]
        for before in range(3)
    ]


class CheckedConnection(http.client.HTTPSConnection):
    """HTTPS over IPv4 to a public address: a name may resolve differently after the proxy looked it up."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext) -> None:
        super().__init__(host, port, timeout=CONNECT_SECONDS, context=context)
        self._checked = context

    def connect(self) -> None:
        """Connect and verify the certificate. Raises OSError."""
        found = socket.getaddrinfo(self.host, self.port, socket.AF_INET, socket.SOCK_STREAM)
        address = str(found[0][4][0])
        if not public(address):
            raise OSError("the host's address is not public")
        plain = socket.create_connection((address, self.port), CONNECT_SECONDS)
        plain.settimeout(READ_SECONDS)
        self.sock = self._checked.wrap_socket(plain, server_hostname=self.host)


class OneRequest:
    """The one request that gets the secret, and how it is sent."""

    def __init__(self, request: tuple[str, str, int, str], context: ssl.SSLContext, value: str) -> None:
        self.method, self.host, self.port, self.path = request
        self._context = context
        self._value = value

    def forward(self, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes] | None:
        """The host's answer: status, headers and body; None for one that must not be forwarded. Of `headers` only
        those of a list are sent. Raises OSError and HTTPException.
        """
        given = {name: headers[name.lower()] for name in _REQUEST_HEADERS if name.lower() in headers}
        connection = CheckedConnection(self.host, self.port, self._context)
        try:
            connection.request(
                self.method,
                self.path,
                body,
                {
                    **given,
                    # `shows` cannot look into what is compressed.
                    "Accept-Encoding": "identity",
                    "Authorization": f"Bearer {self._value}",
                    "Connection": "close",
                },
            )
            answer = connection.getresponse()
            data = answer.read(ANSWER_BYTES + 1)
        finally:
            connection.close()
        passed = {name: text for name in _ANSWER_HEADERS if (text := answer.getheader(name)) is not None}
        if (
            len(data) > ANSWER_BYTES
            or answer.getheader("Content-Encoding", "identity") != "identity"
            or any(shows(text, self._value.encode("ascii")) for text in (data, *(t.encode() for t in passed.values())))
        ):
            return None
        return answer.status, passed, data


class Forwarder(socketserver.ThreadingTCPServer):
    """Listens for the proxy, on loopback in their common network namespace. (An HTTPServer would look up its
    own name.)
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self, listen: tuple[str, int], request: tuple[str, str, int, str], context: ssl.SSLContext, value: str
    ) -> None:
        self.only = OneRequest(request, context, value)
        super().__init__(listen, Forward)


class Forward(BaseHTTPRequestHandler):
    """One request of the proxy."""

    server: Forwarder
    timeout = READ_SECONDS

    def parse_request(self) -> bool:
        """Parse as usual, then refuse anything but the one request."""
        if not super().parse_request():
            return False
        # The words as received: `self.path` would collapse leading slashes.
        path = self.requestline.split()[1].removeprefix(f"http://{self.server.only.host}")
        host = self.headers.get("Host", "").removesuffix(":80")
        wanted = (self.server.only.method, self.server.only.host, self.server.only.path)
        if (self.command, host, path) != wanted:
            self.send_error(403, "not the one request that this forwarder is for")
            return False
        self._pass_on()
        return False

    def _pass_on(self) -> None:
        self.close_connection = True
        length = self.headers.get("Content-Length", "")
        # With two lengths, proxy and forwarder could disagree about where the request ends (request smuggling).
        if not (length.isascii() and length.isdigit()) or "Transfer-Encoding" in self.headers:
            self.send_error(411, "a length is required")
            return
        if len(length) > 9 or int(length) > REQUEST_BYTES:
            self.send_error(413, "the request is too long")
            return
        body = self.rfile.read(int(length))
        try:
            answer = self.server.only.forward(body, {name.lower(): self.headers[name] for name in self.headers})
        except (OSError, ValueError, http.client.HTTPException):
            self.send_error(502, "no verified answer from the host")
            return
        if answer is None:
            self.send_error(502, "the host's answer is not forwarded")
            return
        status, headers, data = answer
        self.send_response_only(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: forwarded data must not be logged."""


def main(arguments: list[str]) -> None:
    """Read the secret, then serve until the container ends."""
    method, host, port, path, authorities = arguments
    value = sys.stdin.readline().strip()
    if not value:
        raise SystemExit("no secret received")
    context = ssl.create_default_context(cafile=authorities)
    Forwarder(LISTEN, (method, host, int(port), path), context, value).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
