"""Servers, authorization servers and web pages that want a login for themselves: one clear refusal each, and nothing is
kept or sent to them.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import socketserver
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.tools.authorization_server import (
    SERVER,
    WELL_KNOWN,
    Said,
    follow,
    make_certificates,
    with_query,
)
from tests.plugins.tools.login_bench import NAME, LoginBench, open_logins
from tests.support import wait_until
from threegate.core import limits
from threegate.core.errors import Refused, Unavailable
from threegate.plugins.tools.remote.browser import check_link, open_browser
from threegate.plugins.tools.remote.callback_listener import CallbackListener
from threegate.plugins.tools.remote.oauth_documents import bearer_challenge

RESOURCE = f"{WELL_KNOWN}protected-resource/mcp"
METADATA = f"{WELL_KNOWN}authorization-server"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def logins(tmp_path: Path, certificates: tuple[Path, Path]) -> Iterator[LoginBench]:
    with open_logins(tmp_path, certificates) as made:
        yield made


def refusal(logins: LoginBench, code: str = "login_refused", **more: Any) -> str:
    """Why there is no login; nothing of it is kept."""
    with pytest.raises(Refused) as caught:
        logins.log_in(**more)
    assert caught.value.code == code and not logins.file.exists()
    return str(caught.value)


# ---- what a server names


@pytest.mark.parametrize(
    "named",
    ["https://169.254.169.254/latest/meta-data", "https://[fd00:ec2::254]/", "https://10.0.0.1:8443/x"],
)
def test_metadata_in_a_private_network(logins: LoginBench, named: str) -> None:
    logins.servers.challenge = f'Bearer resource_metadata="{named}"'
    assert "leads to an address that is not public" in refusal(logins, "url_refused")
    assert logins.servers.asked == []


def test_a_name_that_leads_to_a_private_network(logins: LoginBench) -> None:
    """At every step: who controls a name decides late where it leads."""
    servers = logins.servers
    for document, key in (("resource", "authorization_servers"), ("metadata", "registration_endpoint")):
        kept = dict(getattr(servers, document))
        url = "https://169.254.169.254/a"
        getattr(servers, document)[key] = [url] if key.endswith("s") else url
        assert "not public" in refusal(logins, "url_refused")
        getattr(servers, document).update(kept)
    servers.metadata["token_endpoint"] = "https://169.254.169.254/token"
    assert (
        refusal(logins, "url_refused") == "the token endpoint: 169.254.169.254 leads to an address that is not public"
    )


@pytest.mark.parametrize("url", ["http://mcp.example.com/a", "file:///etc/passwd", "https://user@mcp.example.com/a"])
def test_metadata_that_is_not_at_an_https_url(logins: LoginBench, url: str) -> None:
    logins.servers.challenge = f'Bearer resource_metadata="{url}"'
    refusal(logins, "url_refused")
    assert logins.servers.asked == []


@pytest.mark.parametrize("key", ["authorization_endpoint", "token_endpoint", "registration_endpoint"])
@pytest.mark.parametrize("url", ["javascript:alert(1)", "http://auth.example.com/a", "data:text/html,x", "/relative"])
def test_an_endpoint_that_is_not_at_an_https_url(logins: LoginBench, key: str, url: str) -> None:
    logins.servers.metadata[key] = url
    assert "must begin with https://" in refusal(logins, "url_refused")
    assert logins.links == [] and logins.servers.paths() == [RESOURCE, METADATA]


@pytest.mark.parametrize(
    "resource",
    [
        "https://other.example.com/mcp",
        f"https://{SERVER}/mcp",
        "{origin}/mc",
        "{origin}/mcp/deeper",
        "{origin}/?a=1",
        "{origin}/MCP",
    ],
)
def test_metadata_of_another_resource(logins: LoginBench, resource: str) -> None:
    """The token would be good for that one."""
    logins.servers.resource["resource"] = resource.format(origin=f"https://{SERVER}:{logins.servers.port}")
    assert "about another resource" in refusal(logins)
    assert logins.servers.paths() == [RESOURCE]


@pytest.mark.parametrize("issuer", ["https://evil.example.com", "{issuer}/", "{issuer}/tenant", "HTTPS{rest}"])
def test_a_foreign_issuer(logins: LoginBench, issuer: str) -> None:
    """Metadata is an issuer's own, letter for letter: two spellings are two issuers."""
    own = logins.servers.issuer_url
    logins.servers.metadata["issuer"] = issuer.format(issuer=own, rest=own.removeprefix("https"))
    assert "names another issuer" in refusal(logins)
    assert logins.links == []


def test_an_issuer_with_a_query(logins: LoginBench) -> None:
    logins.servers.resource["authorization_servers"] = [f"{logins.servers.issuer_url}/?tenant=1"]
    assert "has a query" in refusal(logins)


@pytest.mark.parametrize("methods", [None, [], ["plain"]])
def test_no_pkce(logins: LoginBench, methods: list[str] | None) -> None:
    logins.servers.metadata["code_challenge_methods_supported"] = methods
    assert "does not promise PKCE with S256" in refusal(logins)


def test_no_codes(logins: LoginBench) -> None:
    logins.servers.metadata["response_types_supported"] = ["token"]
    assert "gives no codes" in refusal(logins)


@pytest.mark.parametrize(
    ("path", "said", "says"),
    [
        (RESOURCE, Said(302, b"", {"Location": "https://169.254.169.254/"}), "it leads elsewhere (302)"),
        (METADATA, Said(307, b"", {"Location": "https://evil.example.com/"}), "it leads elsewhere (307)"),
        ("/register", Said(307, b"", {"Location": "https://evil.example.com/"}), "it leads elsewhere (307)"),
        ("/token", Said(307, b"", {"Location": "https://evil.example.com/"}), "it leads elsewhere (307)"),
    ],
)
def test_redirects_are_not_followed(logins: LoginBench, path: str, said: Said, says: str) -> None:
    logins.servers.altered = lambda there, kept: said if there == path else kept
    assert says in refusal(logins, "url_refused")


@pytest.mark.parametrize("path", [RESOURCE, METADATA, "/register", "/token"])
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"[]", "is not a JSON object"),
        (b"{", ""),
        (b'{"issuer": "a", "issuer": "b"}', "twice"),
        (b"{}", "field required"),
        (b'{"resource": 1, "issuer": 1, "client_id": 1, "access_token": 1}', "should be a valid string"),
        (b"\xff", "UTF-8"),
    ],
)
def test_a_document_that_is_none(logins: LoginBench, path: str, body: bytes, says: str) -> None:
    logins.servers.altered = lambda there, kept: Said(200, body, {}) if there == path else kept
    assert says in refusal(logins)


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        (RESOURCE, 500, "status 500"),
        (RESOURCE, 204, "status 204"),
        (METADATA, 403, "status 403"),
        ("/register", 400, "status 400"),
        ("/token", 503, "status 503"),
    ],
)
def test_a_server_that_cannot(logins: LoginBench, path: str, status: int, says: str) -> None:
    logins.servers.altered = lambda there, kept: Said(status, b"", {}) if there == path else kept
    with pytest.raises(Unavailable, match=says):
        logins.log_in()
    assert not logins.file.exists()


def test_no_metadata_anywhere(logins: LoginBench) -> None:
    logins.servers.altered = lambda path, said: Said(404, b"", {}) if WELL_KNOWN in path else said
    assert "there is none, so nobody can log in" in refusal(logins)
    assert logins.servers.paths() == [RESOURCE], "the place that was named is the only one"


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ('Bearer resource_metadata="https://a.example.com/", resource_metadata="https://b.example.com/"', "twice"),
        ('Bearer scope="a", Bearer scope="b"', "two Bearer challenges"),
        ('Bearer scope="a', "cannot be read"),
        ("scope=a", "cannot be read"),
        ("Bearer scope=a b", "cannot be read"),
    ],
)
def test_a_challenge_with_two_meanings(logins: LoginBench, header: str, says: str) -> None:
    logins.servers.challenge = header
    assert says in refusal(logins)
    assert logins.servers.asked == []


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ([], {}),
        (['Basic realm="resource_metadata=\\"x\\""'], {}),
        (["Negotiate abc==, bearer SCOPE=a"], {"scope": "a"}),
        (
            ['Digest realm="Bearer scope=evil", nonce=1', 'Bearer error="x", scope="a b"'],
            {"error": "x", "scope": "a b"},
        ),
        (["Bearer , Basic"], {}),
        (['Bearer realm="a, \\"b\\""'], {"realm": 'a, "b"'}),
    ],
)
def test_a_challenge_in_words_of_others_is_none(headers: list[str], found: dict[str, str]) -> None:
    assert bearer_challenge(headers) == found


NAMES = st.from_regex(r"[a-z][a-z_]{0,9}", fullmatch=True)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
OTHERS = st.sampled_from(
    ["", "Basic", 'Digest realm="Bearer scope=x", nonce=1', "Negotiate abc==", 'Basic realm="a\\"b"']
)


@given(st.dictionaries(NAMES, VALUES, max_size=4), OTHERS, OTHERS)
def test_a_challenge_is_what_it_was_written_as(values: dict[str, str], before: str, after: str) -> None:
    """Whatever is in its values, and whatever other challenges are around it."""
    quoted = ", ".join('{}="{}"'.format(name, re.sub(r'(["\\])', r"\\\1", value)) for name, value in values.items())
    assert bearer_challenge([", ".join(filter(None, (before, f"Bearer {quoted}", after)))]) == values


@given(st.text(st.sampled_from('Bearer scope="a\\", =\t;x'), max_size=60))
def test_no_challenge_breaks_the_reader(text: str) -> None:
    with contextlib.suppress(Refused):
        assert all(isinstance(value, str) for value in bearer_challenge([text]).values())


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"token_endpoint_auth_method": "private_key_jwt"}, "token_endpoint_auth_method"),
        ({"token_endpoint_auth_method": "client_secret_post", "client_secret": None}, "wants a client secret"),
        ({"redirect_uris": ["https://evil.example.com/"]}, "another address for its answer"),
        ({"client_id": "a\nb"}, "client_id"),
        ({"client_id": ""}, "client_id"),
    ],
)
def test_another_client_than_was_asked_for(logins: LoginBench, said: dict[str, Any], says: str) -> None:
    logins.servers.altered = lambda path, kept: _changed(kept, **said) if path == "/register" else kept
    assert says in refusal(logins)
    assert logins.links == []


# ---- what comes back by the browser


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"iss": "https://evil.example.com"}, "comes from another authorization server"),
        ({"iss": None}, "does not name the authorization server, which it promised"),
        ({"iss": ""}, "comes from another authorization server"),
        ({"state": "x" * 43}, "does not belong to this login"),
        ({"state": None}, "does not belong to this login"),
        ({"code": None}, "has no code"),
        ({"code": ""}, "has no code"),
        ({"error": "access_denied"}, "the authorization server refused: access_denied"),
        ({"error": "\x1b[31mSIGN THIS"}, "the authorization server refused: an error without a plain code"),
        ({"error": "access_denied", "iss": "https://evil.example.com"}, "comes from another authorization server"),
    ],
)
def test_another_answer(logins: LoginBench, values: dict[str, str | None], says: str) -> None:
    """A mix-up of authorization servers, a forged answer, a refusal: the code is sent to nobody."""
    logins.arrives = lambda location: [with_query(location, **values)]
    assert says in refusal(logins)
    assert logins.servers.sent("/token") == []


def test_an_iss_that_was_not_promised_is_checked_too(logins: LoginBench) -> None:
    logins.servers.metadata["authorization_response_iss_parameter_supported"] = None
    logins.arrives = lambda location: [with_query(location, iss="https://evil.example.com")]
    assert "comes from another authorization server" in refusal(logins)
    logins.arrives = lambda location: [with_query(location, iss=None)]
    assert logins.servers.is_valid(logins.token(logins.log_in()))


def test_a_parameter_twice(logins: LoginBench) -> None:
    logins.arrives = lambda location: [f"{location}&code=other"]
    assert "has a parameter twice" in refusal(logins)
    assert logins.servers.sent("/token") == []


def test_a_second_callback(logins: LoginBench) -> None:
    """The first answer counts, whoever it is from; a later one is told so."""
    logins.arrives = lambda location: [with_query(location, state="forged")]
    assert "does not belong to this login" in refusal(logins)
    assert logins.servers.sent("/token") == []
    with CallbackListener("/path") as listener:
        assert [follow(f"{listener.redirect_uri}?code={code}") for code in ("a", "b")] == [200, 410]
        assert listener.answer() == {"code": "a"}
        with pytest.raises(Refused, match="no answer of a browser within 0.01 seconds"):
            listener.answer(0.01)
    with pytest.raises(ConnectionRefusedError):
        follow(listener.redirect_uri)


def test_a_callback_from_another_host(logins: LoginBench) -> None:
    """A page of a site whose name leads to this machine (rebinding), and requests that are none: no answer is taken."""
    with CallbackListener("/path") as listener:
        port = urlsplit(listener.redirect_uri).port
        for host in (f"evil.example.com:{port}", f"localhost:{port}", "127.0.0.1", f"127.0.0.1:{port}."):
            assert follow(f"{listener.redirect_uri}?code=evil", host=host) == 421
        assert follow(f"{listener.redirect_uri}?code=evil", method="POST") == 400
        assert follow(f"http://127.0.0.1:{port}/other?code=evil") == 404
        assert follow(f"{listener.redirect_uri}/?code=evil") == 404
        assert follow(f"{listener.redirect_uri}?code=own") == 200
        assert listener.answer() == {"code": "own"}
    assert logins.servers.asked == []


def test_requests_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is too long or breaks off is closed, and the next one is heard."""
    with CallbackListener("/path") as listener:
        port = urlsplit(listener.redirect_uri).port or 0
        for head in (b"GET /path", b"GET /path HTTP/1.1\r\n" + b"A: " + b"x" * limits.LOGIN_CALLBACK_BYTES):
            with socket.create_connection(("127.0.0.1", port)) as browser:
                browser.sendall(head)
                browser.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionResetError):
                    assert browser.recv(1) == b""
        assert follow(f"{listener.redirect_uri}?code=a") == 200 and listener.answer() == {"code": "a"}
    monkeypatch.setattr(socketserver.TCPServer, "server_bind", _no_port)
    with pytest.raises(Unavailable, match="127.0.0.1: the answer cannot be waited for there"):
        CallbackListener("/path")


def _no_port(self: object) -> None:
    raise OSError(98, "Address already in use")


@pytest.mark.parametrize(
    "scopes", [["a b"], [""], ['a"'], ["a\\b"], ["é"], ["x" * 257], [f"s{number}" for number in range(257)]]
)
def test_scopes_that_cannot_be_asked_for(logins: LoginBench, scopes: list[str]) -> None:
    assert "too many, too long, or none that can be asked for" in refusal(logins, scopes=scopes)
    assert logins.links == []


def test_no_answer_in_time(logins: LoginBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOGIN_SECONDS", 0.2)
    logins.arrives = lambda location: []
    assert "no answer of a browser within 0.2 seconds" in refusal(logins)


# ---- tokens


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"scope": "read write"}, "for scopes that nobody signed"),
        ({"token_type": "mac"}, "token_type"),
        ({"access_token": "a\r\nX-Evil: 1"}, "access_token"),
        ({"access_token": ""}, "access_token"),
        ({"expires_in": -1}, "expires_in"),
        ({"expires_in": "3600"}, "expires_in"),
        ({"refresh_token": "a b"}, "refresh_token"),
    ],
)
def test_other_tokens_than_were_asked_for(logins: LoginBench, said: dict[str, Any], says: str) -> None:
    logins.servers.altered = lambda path, kept: _changed(kept, **said) if path == "/token" else kept
    message = refusal(logins)
    assert says in message and "Evil" not in message


def test_a_code_that_is_not_valid(logins: LoginBench) -> None:
    logins.arrives = lambda location: [with_query(location, code="stolen")]
    assert refusal(logins) == "the authorization server gave no token: invalid_grant"
    assert len(logins.servers.sent("/token")) == 1


def test_a_verifier_that_somebody_else_has_not(logins: LoginBench) -> None:
    """A code that was started by another program, with another PKCE challenge, is worth nothing here."""

    def other(link: str) -> None:
        challenged = with_query(link, code_challenge="A" * 43)
        assert parse_qs(urlsplit(challenged).query)["code_challenge"] == ["A" * 43]
        browse(challenged)

    browse, logins.browse = logins.browse, other  # type: ignore[method-assign]
    assert refusal(logins) == "the authorization server gave no token: invalid_grant"


def test_a_token_is_for_one_server(logins: LoginBench, certificates: tuple[Path, Path]) -> None:
    """Another server that got the name, another URL, another client: what is kept is not for them."""
    oauth = logins.log_in()
    others: list[Callable[[], object]] = [
        lambda: logins.headers(oauth, url="https://evil.example.com/mcp"),
        lambda: logins.headers(replace(oauth, token_endpoint="https://evil.example.com/token")),
        lambda: logins.headers(replace(oauth, scopes=("write",))),
    ]
    for other in others:
        with pytest.raises(Refused, match=f"nobody is logged in; type: threegate tools login {NAME}") as caught:
            other()
        assert caught.value.code == "login_required"
    assert logins.servers.is_valid(logins.token(oauth))


# ---- the browser


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://auth.example.com/$(id)",
        "https://auth.example.com/a;id",
        "https://auth.example.com/`id`",
        "https://auth.example.com/'",
    ],
)
def test_a_link_that_a_shell_would_read(logins: LoginBench, endpoint: str) -> None:
    with pytest.raises(Refused, match="characters that no link needs"):
        check_link(endpoint, "https://auth.example.com")
    logins.servers.metadata["authorization_endpoint"] = endpoint
    assert "characters that no link needs" in refusal(logins)


def test_the_browser_opens_what_was_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one argument of one program; and nothing where there is no screen."""
    seen = tmp_path / "seen"
    program = tmp_path / "xdg-open"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$#" "$1" > {seen}.new; mv {seen}.new {seen}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    link = "https://auth.example.com/a?b=c&d=e"
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not open_browser(link, "https://auth.example.com")
    monkeypatch.setenv("DISPLAY", ":7")
    with pytest.raises(Refused, match="leads elsewhere"):
        open_browser(link, "https://other.example.com")
    assert open_browser(link, "https://auth.example.com")
    assert wait_until(seen.exists) and seen.read_text() == f"1\n{link}\n"
    program.write_bytes(b"\x7fELF")
    assert not open_browser(link, "https://auth.example.com"), "it cannot be started"
    program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not open_browser(link, "https://auth.example.com")


def _changed(said: Said, **values: Any) -> Said:
    return Said(said.status, json.dumps({**json.loads(said.body), **values}).encode(), said.headers)
