"""A stand-in for ChatGPT, and logins as `codex login` of Codex 0.169.0 writes them.

It answers the three addresses to which a token goes, keeps every request, and has what a provider that is taken over
may send: cookies, a redirect, the token itself.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ACCOUNT = "acct-of-the-person"
RESPONSES = "/backend-api/codex/responses"
ACCOUNTS = "/backend-api/wham/accounts/check"
IDENTITY = "/api/accounts/v1/user-auth-credential/whoami"
USUAL = {"workspace_backend_origin": "NO_CONSTRAINT", "account_routing_override": "NO_CONSTRAINT"}


def jwt(mark: str, ends_in: float = 3600, **claims: Any) -> str:
    """A token that ends in so many seconds. Its mark is in the last part, so no two are alike."""
    about = {"chatgpt_account_id": ACCOUNT, "chatgpt_plan_type": "plus"}
    parts = (
        {"alg": "RS256", "typ": "JWT"},
        {"exp": int(time.time() + ends_in), "https://api.openai.com/auth": about, **claims},
        {"signature": f"CANARY-{mark}-" + mark * 40},
    )
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)


@dataclass(frozen=True)
class Tokens:
    """What one login consists of."""

    access: str
    refresh: str
    identity: str

    @property
    def values(self) -> tuple[str, str, str]:
        return self.access, self.refresh, self.identity


def log_in(home: Path, mark: str = "first", ends_in: float = 3600, **changes: Any) -> Tokens:
    """What `codex login` leaves, by a rename as it does it; `changes` are other members of the file."""
    tokens = Tokens(jwt(f"access-{mark}", ends_in), f"rt.1.CANARY-refresh-{mark}-{'r' * 60}", jwt(f"identity-{mark}"))
    value = {
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": None,
        "tokens": {
            "id_token": tokens.identity,
            "access_token": tokens.access,
            "refresh_token": tokens.refresh,
            "account_id": ACCOUNT,
        },
        "last_refresh": "2026-11-28T09:00:00Z",
        **changes,
    }
    write_login(home, json.dumps(value, indent=2))
    return tokens


def write_login(home: Path, text: str) -> None:
    """Put a file with a login there."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = home / ".auth-part"
    part.write_text(text)
    part.chmod(0o600)
    part.rename(home / "auth.json")


@dataclass(frozen=True)
class Asked:
    """One request that arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class ChatGPT:
    """The provider. Each member may be changed while it runs."""

    seen: list[Asked] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    pieces: list[bytes] = field(default_factory=lambda: [b'data: {"usage":{"total_tokens":7}}\n\n'])
    rows: list[dict[str, Any]] = field(default_factory=lambda: [{"id": ACCOUNT, **USUAL}])
    accounts: tuple[int, bytes] | None = None
    """What is answered instead of `rows`, with its status."""
    identity: dict[str, Any] = field(default_factory=lambda: {"chatgpt_account_id": ACCOUNT})
    plain: dict[str, str] = field(
        default_factory=lambda: {"content-type": "application/json", "set-cookie": "session=CANARY-cookie; Path=/"}
    )
    """Headers of every answer but the model's."""
    between: float = 0
    """Seconds between two bytes of an answer about accounts; 0: it comes whole."""
    url: str = ""
    ended: threading.Event = field(default_factory=threading.Event)

    def paths(self) -> list[str]:
        return [f"{asked.method} {asked.path}" for asked in self.seen]

    def answer(self, asked: Asked) -> tuple[int, Mapping[str, str], list[bytes]]:
        """What one request gets."""
        if (asked.method, asked.path) == ("POST", RESPONSES):
            return self.status, {**self.headers, "set-cookie": "session=CANARY-cookie; Path=/"}, self.pieces
        if (asked.method, asked.path) == ("GET", ACCOUNTS):
            status, data = self.accounts or (200, json.dumps({"accounts": self.rows}).encode())
            pieces = [data[at : at + 1] for at in range(len(data))] if self.between else [data]
            return status, {**self.plain, "location": "/backend-api/elsewhere"}, pieces
        if (asked.method, asked.path) == ("GET", IDENTITY):
            return 200, self.plain, [json.dumps(self.identity).encode()]
        return 404, self.plain, [b"{}"]

    @contextmanager
    def serving(self, address: tuple[str, int] = ("127.0.0.1", 0), tls: ssl.SSLContext | None = None) -> Iterator[None]:
        """Answer meanwhile, on loopback."""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                heads = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, heads, self.rfile.read(size))
                provider.seen.append(asked)
                status, headers, pieces = provider.answer(asked)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for piece in [*pieces, b""]:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    self.wfile.flush()
                    if provider.between and asked.path == ACCOUNTS and provider.ended.wait(provider.between):
                        return

            do_GET = do_PUT = do_DELETE = do_POST

            def log_message(self, *_arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(address, Handler)
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield
        finally:
            self.ended.set()
            server.shutdown()
            server.server_close()
