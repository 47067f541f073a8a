"""A remote server and its authorization server on 127.0.0.1, over TLS with an authority of their own: grants,
registration and clients are authlib's. And a browser, which follows one link.

A test changes a document (`metadata`, `resource`, `challenge`), or what comes back (`altered`), to be an attacker.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from authlib.common.security import generate_token
from authlib.oauth2.rfc6749 import (
    AuthorizationServer,
    JsonPayload,
    JsonRequest,
    OAuth2Payload,
    OAuth2Request,
    grants,
)
from authlib.oauth2.rfc6749.errors import OAuth2Error
from authlib.oauth2.rfc6750 import BearerTokenGenerator
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc9207 import IssuerParameter
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from threegate.plugins.tools.remote.guarded_http import Reach
from threegate.setup.certificates import certificate_pem, certify, common_name, new_key, private_pem

SERVER: Final = "mcp.example.com"
AUTHORITY: Final = "auth.example.com"
WELL_KNOWN: Final = "/.well-known/oauth-"


class _Values(OAuth2Payload):
    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._list: defaultdict[str, list[str]] = defaultdict(list)
        for name, value in pairs:
            self._list[name].append(value)

    @property
    def data(self) -> dict[str, str]:
        return {name: values[0] for name, values in self._list.items()}

    @property
    def datalist(self) -> defaultdict[str, list[str]]:
        return self._list


class _Asked(OAuth2Request):
    """A request as authlib reads it."""

    def __init__(self, method: str, uri: str, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(method, uri, headers=headers)
        query = parse_qsl(urlsplit(uri).query, keep_blank_values=True)
        sent = parse_qsl(body.decode(), keep_blank_values=True)
        self.payload = _Values(query + sent)
        self._args, self._form = dict(query), dict(sent)

    @property
    def args(self) -> dict[str, str]:
        return self._args

    @property
    def form(self) -> dict[str, str]:
        return self._form


class _Json(JsonPayload):
    def __init__(self, body: bytes) -> None:
        self._body = body

    @property
    def data(self) -> Any:
        return json.loads(self._body)


@dataclass
class Said:
    """An answer."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def location(self) -> str:
        return self.headers.get("Location", "")

    @location.setter
    def location(self, value: str) -> None:
        self.headers["Location"] = value


@dataclass
class Client:
    """authlib's ClientMixin, by its methods."""

    client_id: str
    secret: str
    metadata: dict[str, Any]

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        return str(self.metadata["redirect_uris"][0])

    def get_allowed_scope(self, scope: str) -> str:
        return scope or "read"

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        """Any port of 127.0.0.1 is the same (RFC 8252, 7.3)."""
        return _portless(redirect_uri) in map(_portless, self.metadata["redirect_uris"])

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self.secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == self.metadata.get("token_endpoint_auth_method", "none")

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in ("authorization_code", "refresh_token")


@dataclass
class Token:
    """An issued token, or a code."""

    client_id: str
    scope: str
    data: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        return self.data.get(name)

    def check_client(self, client: Client) -> bool:
        return client.client_id == self.client_id

    def get_scope(self) -> str:
        return self.scope

    def get_redirect_uri(self) -> Any:
        return self.data.get("redirect_uri")

    def is_expired(self) -> bool:
        return False


class _CodeGrant(grants.AuthorizationCodeGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = ["none", "client_secret_basic", "client_secret_post"]

    def save_authorization_code(self, code: str, request: Any) -> None:
        payload = request.payload
        self.server.codes[code] = Token(
            request.client.client_id,
            request.scope or "",
            {
                "code": code,
                "redirect_uri": payload.redirect_uri,
                "code_challenge": payload.data.get("code_challenge"),
                "code_challenge_method": payload.data.get("code_challenge_method"),
            },
        )

    def query_authorization_code(self, code: str, client: Client) -> Token | None:
        found = self.server.codes.get(code)
        return found if found is not None and found.check_client(client) else None

    def delete_authorization_code(self, authorization_code: Token) -> None:
        del self.server.codes[authorization_code.data["code"]]

    def authenticate_user(self, authorization_code: Token) -> str:
        return "anna"


class _RefreshGrant(grants.RefreshTokenGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = ["none", "client_secret_basic", "client_secret_post"]
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token: str) -> Token | None:
        return next((item for item in self.server.valid if item.data.get("refresh_token") == refresh_token), None)

    def authenticate_user(self, refresh_token: Token) -> str:
        return "anna"

    def revoke_old_credential(self, refresh_token: Token) -> None:
        self.server.valid.remove(refresh_token)


class _Registration(ClientRegistrationEndpoint):  # type: ignore[misc]
    def authenticate_token(self, request: Any) -> bool:
        return True

    def get_server_metadata(self) -> dict[str, Any]:
        return {"scopes_supported": ["read", "write", "offline_access"]}

    def generate_client_secret(self, request: Any) -> str:
        return generate_token(30) if self.server.secret_clients else ""

    def save_client(self, client_info: dict[str, Any], client_metadata: dict[str, Any], request: Any) -> Client:
        if self.server.secret_clients:
            client_metadata["token_endpoint_auth_method"] = self.server.secret_clients
        made = Client(client_info["client_id"], client_info["client_secret"], client_metadata)
        self.server.clients[made.client_id] = made
        return made

    def generate_client_registration_info(self, client: Client, request: Any) -> dict[str, Any]:
        return {
            "token_endpoint_auth_method": client.metadata.get("token_endpoint_auth_method", "none"),
            "client_secret": client.secret or None,
        }


class _Issuer(AuthorizationServer):  # type: ignore[misc]
    """Everything that it issued, in memory."""

    def __init__(self, secret_clients: str = "") -> None:
        super().__init__(["read", "write", "offline_access"])
        self.clients: dict[str, Client] = {}
        self.codes: dict[str, Token] = {}
        self.valid: list[Token] = []
        self.secret_clients = secret_clients
        self.lives = 3600
        generator = BearerTokenGenerator(
            lambda **_: f"at-{generate_token(40)}", lambda **_: f"rt-{generate_token(40)}", lambda *_: self.lives
        )
        self.register_token_generator("default", generator)
        self.register_grant(_CodeGrant, [CodeChallenge(required=True)])
        self.register_grant(_RefreshGrant)
        self.register_endpoint(_Registration)

    def query_client(self, client_id: str) -> Client | None:
        return self.clients.get(client_id)

    def save_token(self, token: dict[str, Any], request: Any) -> None:
        kept = {**token, "resource": request.payload.data.get("resource")}
        self.valid.append(Token(request.client.client_id, token.get("scope", ""), kept))

    def create_oauth2_request(self, request: _Asked) -> _Asked:
        return request

    def create_json_request(self, request: tuple[_Asked, bytes]) -> JsonRequest:
        made = JsonRequest("POST", request[0].uri, request[0].headers)
        made.payload = _Json(request[1])
        return made

    def handle_response(self, status: int, body: Any, headers: Any) -> Said:
        return Said(status, json.dumps(body).encode() if isinstance(body, dict) else b"", dict(headers))

    def send_signal(self, name: str, *args: Any, **more: Any) -> None:
        return


@dataclass
class Servers:
    """Both of them; `asked` are the requests that came, as method, path and parameters."""

    port: int
    issuer: _Issuer
    ca: Path
    resource: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    challenge: str = ""
    iss: str = ""
    """What answers name as their issuer; empty: what it is."""
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    altered: Callable[[str, Said], Said] = lambda path, said: said
    """What becomes of an answer, by the path that was asked for."""
    dropped: Callable[[str], bool] = lambda path: False
    """Whether the connection is closed in place of an answer, which was made."""

    @property
    def url(self) -> str:
        return f"https://{SERVER}:{self.port}/mcp"

    @property
    def issuer_url(self) -> str:
        return f"https://{AUTHORITY}:{self.port}"

    @property
    def reach(self) -> Reach:
        """The names lead here, and nowhere else; the authority is the only one that counts."""
        return Reach(
            lambda host, _port: ["127.0.0.1"] if host in (SERVER, AUTHORITY) else [host],
            lambda address: address == "127.0.0.1",
            lambda: ssl.create_default_context(cafile=str(self.ca)),
        )

    def challenges(self) -> list[str]:
        """What the server answers without a token."""
        return [self.challenge]

    def paths(self, host: str = "") -> list[str]:
        """The paths that were asked for, in their order."""
        return [path for name, path, _ in self.asked if host in ("", name)]

    def sent(self, path: str) -> list[dict[str, str]]:
        """The parameters of each request to a path."""
        return [values for _, there, values in self.asked if there == path]

    def is_valid(self, token: str) -> bool:
        """Whether the authorization server issued it, and did not revoke it."""
        return any(item.data["access_token"] == token for item in self.issuer.valid)

    def answer(self, host: str, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Said:
        parts = urlsplit(target)
        asked = _Asked(method, f"https://{host}{target}", headers, b"" if parts.path == "/register" else body)
        values = json.loads(body) if parts.path == "/register" else asked.payload.data
        self.asked.append((host.partition(":")[0], parts.path, values))
        return self.altered(parts.path, self._answer(host.partition(":")[0], parts.path, asked, body))

    def _answer(self, host: str, path: str, asked: _Asked, body: bytes) -> Said:
        if host == SERVER and path == "/mcp":
            if self.is_valid(asked.headers.get("Authorization", "").removeprefix("Bearer ")):
                return Said(200, b"{}", {"Content-Type": "application/json"})
            return Said(401, b"", {"WWW-Authenticate": self.challenge})
        if host == SERVER and path == f"{WELL_KNOWN}protected-resource/mcp":
            return Said(200, json.dumps(self.resource).encode(), {"Content-Type": "application/json"})
        if host == AUTHORITY and path == f"{WELL_KNOWN}authorization-server":
            return Said(200, json.dumps(self.metadata).encode(), {"Content-Type": "application/json"})
        if host == AUTHORITY and path == "/authorize":
            try:
                grant = self.issuer.get_consent_grant(asked, "anna")
            except OAuth2Error as error:
                return self.issuer.handle_error_response(asked, error)  # type: ignore[no-any-return]
            return self.issuer.create_authorization_response(asked, "anna", grant)  # type: ignore[no-any-return]
        if host == AUTHORITY and path == "/token":
            return self.issuer.create_token_response(asked)  # type: ignore[no-any-return]
        if host == AUTHORITY and path == "/register":
            return self.issuer.create_endpoint_response("client_registration", (asked, body))  # type: ignore[no-any-return]
        return Said(404, b"", {})

    def open(self, link: str) -> Said:
        """What a browser gets for a link to the authorization server."""
        parts = urlsplit(link)
        assert parts.hostname == AUTHORITY and parts.port == self.port
        context = ssl.create_default_context(cafile=str(self.ca))
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        connection = http.client.HTTPSConnection(parts.hostname, self.port, timeout=20)
        connection.sock = context.wrap_socket(plain, server_hostname=parts.hostname)
        try:
            connection.request("GET", f"{parts.path}?{parts.query}")
            got = connection.getresponse()
            return Said(got.status, got.read(), dict(got.headers))
        finally:
            connection.close()


def follow(location: str, *, host: str = "", method: str = "GET") -> int:
    """Go where an authorization server sends the browser; the status that this program answers."""
    parts = urlsplit(location)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 80, timeout=20)
    try:
        connection.request(method, f"{parts.path}?{parts.query}", headers={"Host": host or parts.netloc})
        return connection.getresponse().status
    finally:
        connection.close()


def with_query(location: str, **values: str | None) -> str:
    """The same place with other parameters; None takes one away."""
    parts = urlsplit(location)
    kept = {**dict(parse_qsl(parts.query)), **values}
    query = urlencode({name: value for name, value in kept.items() if value is not None})
    return urlunsplit((*parts[:3], query, ""))


def _portless(uri: str) -> tuple[str | None, str]:
    parts = urlsplit(uri)
    return parts.hostname, parts.path


def make_certificates(folder: Path) -> tuple[Path, Path]:
    """The authority, and the certificate of both names with its key."""
    authority, key = new_key(), new_key()
    root = certify(
        common_name("authority"), authority.public_key(), common_name("authority"), authority, days=2, authority=True
    )  # noqa: E501
    leaf = certify(
        common_name(SERVER), key.public_key(), common_name("authority"), authority, days=2,
        extensions=[
            (x509.SubjectAlternativeName([x509.DNSName(SERVER), x509.DNSName(AUTHORITY)]), False),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        ],
    )  # fmt: skip
    ca, chain = folder / "authority.pem", folder / "servers.pem"
    ca.write_bytes(certificate_pem(root))
    chain.write_bytes(private_pem(key) + certificate_pem(leaf))
    return ca, chain


@contextmanager
def serving(certificates: tuple[Path, Path], address: tuple[str, int] = ("127.0.0.1", 0)) -> Iterator[Servers]:
    """Both servers until the block ends."""
    ca, chain = certificates
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            said = made.answer(self.headers["Host"], self.command, self.path, self.headers, body)
            if made.dropped(urlsplit(self.path).path):
                return
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            return

    class Listening(ThreadingHTTPServer):
        daemon_threads = True

        def finish_request(self, request: Any, client_address: Any) -> None:
            with context.wrap_socket(request, server_side=True) as secure:
                self.RequestHandlerClass(secure, client_address, self)

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that does not like the certificate."""

    listening = Listening(address, Handler)
    made = Servers(listening.server_address[1], _Issuer(), ca)
    made.resource |= {
        "resource": made.url, "authorization_servers": [made.issuer_url], "scopes_supported": ["read"],
    }  # fmt: skip
    made.metadata |= {
        "issuer": made.issuer_url,
        "authorization_endpoint": f"{made.issuer_url}/authorize",
        "token_endpoint": f"{made.issuer_url}/token",
        "registration_endpoint": f"{made.issuer_url}/register",
        "scopes_supported": ["read", "write", "offline_access"],
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": False,
        "jwks_uri": None,
    }
    made.challenge = (
        f'Bearer resource_metadata="https://{SERVER}:{made.port}{WELL_KNOWN}protected-resource/mcp", scope="read"'
    )
    named = IssuerParameter()
    named.get_issuer = lambda: made.iss or made.issuer_url
    made.issuer.register_extension(lambda server: named(server))
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
