"""A person logs in to a remote server, once; calls get a valid token for as long as the authorization server wants."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acts.bench_workspace import make_bench
from tests.plugins.tools.authorization_server import AUTHORITY, SERVER, WELL_KNOWN, Client, Said, make_certificates
from tests.plugins.tools.login_bench import NAME, LoginBench, open_logins
from threegate.core import limits
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.plugins.tools.remote.header_files import kept_headers
from threegate.plugins.tools.remote_login import RemoteLogin


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def logins(tmp_path: Path, certificates: tuple[Path, Path]) -> Iterator[LoginBench]:
    with open_logins(tmp_path, certificates) as made:
        yield made


def test_the_whole_login(logins: LoginBench, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    logins.bench = make_bench(tmp_path / "whole")
    servers = logins.servers
    oauth = logins.log_in()
    assert servers.paths() == [
        f"{WELL_KNOWN}protected-resource/mcp", f"{WELL_KNOWN}authorization-server", "/register", "/authorize", "/token",
    ]  # fmt: skip
    (registered,), (asked,), (sent,) = (servers.sent(path) for path in ("/register", "/authorize", "/token"))
    assert registered["application_type"] == "native" and registered["token_endpoint_auth_method"] == "none"
    assert registered["redirect_uris"] == [asked["redirect_uri"]] == [sent["redirect_uri"]]
    assert asked["redirect_uri"].startswith("http://127.0.0.1:") and len(asked["redirect_uri"].split("/")[3]) == 22
    assert asked["code_challenge_method"] == "S256" and len(asked["state"]) == 43
    assert asked["resource"] == sent["resource"] == servers.url
    assert asked["scope"] == "read offline_access" and logins.statuses == [200]
    assert oauth.issuer == servers.issuer_url and oauth.scopes == ("read", "offline_access") and oauth.iss
    token = logins.token(oauth)
    assert servers.is_valid(token) and len(servers.sent("/token")) == 1, "nothing is refreshed before its time"
    assert stat.S_IMODE(logins.file.stat().st_mode) == 0o600
    assert not logins.file.is_relative_to(logins.bench.workspace.root)
    for path in logins.bench.workspace.root.rglob("*"):
        if path.is_file():
            assert token.encode() not in path.read_bytes()


def test_a_token_is_refreshed_before_it_ends(logins: LoginBench) -> None:
    oauth = logins.log_in()
    first = logins.kept()
    logins.keep(expires_at=int(time.time()) + limits.LOGIN_EARLY_SECONDS - 5)
    second = logins.token(oauth)
    assert second != first["access_token"] and logins.servers.is_valid(second)
    assert logins.kept()["access_token"] == second and logins.kept()["refresh_token"] != first["refresh_token"]
    assert logins.servers.sent("/token")[1] == {
        "grant_type": "refresh_token", "refresh_token": first["refresh_token"], "client_id": oauth.client_id,
        "resource": logins.servers.url,
    }  # fmt: skip
    assert logins.token(oauth) == second and len(logins.servers.sent("/token")) == 2


def test_a_token_that_a_server_refused_is_not_sent_again(logins: LoginBench) -> None:
    oauth = logins.log_in()
    login = logins.login(RemoteLogin(oauth))
    sent = logins.headers(oauth)
    login.was_refused(sent)
    again = logins.headers(oauth)
    assert again != sent
    login.was_refused(sent)
    assert logins.headers(oauth) == again, "the newer token is another one"
    logins.login(None).was_refused(sent)


def test_log_in_again_with_what_is_signed(logins: LoginBench) -> None:
    """No document is asked for again, and the client is the same one."""
    oauth = logins.log_in()
    first, asked = logins.token(oauth), len(logins.servers.asked)
    logins.log_in_again(oauth)
    assert logins.servers.paths()[asked:] == ["/authorize", "/token"]
    assert logins.token(oauth) != first
    (one, two) = (values["redirect_uri"] for values in logins.servers.sent("/authorize"))
    assert one != two and one.split("/")[3] == two.split("/")[3], "another port, and the path that was registered"


def test_log_in_again_when_everything_kept_was_lost(logins: LoginBench) -> None:
    """As on another machine: what is signed is enough for a client without a secret."""
    oauth = logins.log_in()
    logins.file.unlink()
    logins.log_in_again(oauth)
    assert logins.servers.is_valid(logins.token(oauth))


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_client_with_a_secret(logins: LoginBench, method: str) -> None:
    logins.servers.issuer.secret_clients = method
    oauth = logins.log_in()
    assert oauth.authentication == method
    logins.keep(expires_at=0)
    assert logins.servers.is_valid(logins.token(oauth))
    assert logins.kept()["client_secret"] not in str(oauth)
    logins.file.unlink()
    with pytest.raises(Refused, match=f"type: threegate tools remove {NAME}, then add it again") as caught:
        logins.log_in_again(oauth)
    assert caught.value.code == "login_required" and len(logins.links) == 1


def test_a_client_that_was_registered_by_hand(logins: LoginBench) -> None:
    del logins.servers.metadata["registration_endpoint"]
    with pytest.raises(Refused, match="registers no clients; register one there, then give --client-id"):
        logins.log_in()
    logins.servers.issuer.clients["ours"] = Client("ours", "", {"redirect_uris": ["http://127.0.0.1/callback"]})
    assert logins.log_in(client_id="ours", scopes=["read", "write"]).client_id == "ours"
    (asked,) = logins.servers.sent("/authorize")
    assert asked["redirect_uri"].endswith("/callback") and asked["scope"] == "read write"


def test_a_client_id_metadata_document(logins: LoginBench) -> None:
    document = "https://example.org/threegate.json"
    logins.bench.settings(tools__client_metadata_url=document)
    assert logins.log_in().client_id != document, "this authorization server takes none"
    logins.servers.metadata["client_id_metadata_document_supported"] = True
    logins.servers.issuer.clients[document] = Client(document, "", {"redirect_uris": ["http://127.0.0.1/callback"]})
    assert logins.log_in().client_id == document
    assert logins.log_in(client_id=document).client_id == document


def test_scopes_that_nobody_named_are_those_that_were_given(logins: LoginBench) -> None:
    logins.servers.challenge = ""
    del logins.servers.resource["scopes_supported"]
    oauth = logins.log_in()
    assert "scope" not in logins.servers.sent("/authorize")[0] and oauth.scopes == ("read",)
    logins.keep(expires_at=0)
    assert logins.servers.is_valid(logins.token(oauth))


def test_metadata_at_the_well_known_places(logins: LoginBench) -> None:
    """Without a place in the challenge: with the path, then without it; and a resource may be a whole host."""
    servers = logins.servers
    servers.challenge = 'Basic realm="x", Bearer'
    servers.resource["resource"] = f"https://{SERVER}:{servers.port}"
    there = f"{WELL_KNOWN}protected-resource"
    found = json.dumps(servers.resource).encode()

    def moved(path: str, said: Said) -> Said:
        return {f"{there}/mcp": Said(404, b"", {}), there: Said(200, found, {})}.get(path, said)

    servers.altered = moved
    assert logins.log_in().resource == f"https://{SERVER}:{servers.port}"
    assert servers.paths(SERVER) == [f"{there}/mcp", there]
    assert servers.paths(AUTHORITY)[0] == f"{WELL_KNOWN}authorization-server"


def test_headers_of_files(logins: LoginBench, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("ghp-CANARY-123\n")
    file.chmod(0o600)
    logins.bench.settings(secrets__hub__file=str(file))
    headers = kept_headers("hub", ["X-Key=hub"])
    assert logins.headers(None, headers=headers) == (
        ("Authorization", "Bearer ghp-CANARY-123"),
        ("X-Key", "ghp-CANARY-123"),
    )
    assert "CANARY" not in str(RemoteLogin(None, headers).to_data())

    def why() -> str:
        with pytest.raises(Unavailable) as caught:
            logins.headers(None, headers=headers)
        assert "CANARY" not in str(caught.value)
        return str(caught.value)

    file.chmod(0o640)
    assert "may be read by other accounts" in why()
    file.chmod(0o600)
    inside = logins.bench.workspace.root / "token"
    inside.write_bytes(file.read_bytes())
    inside.chmod(0o600)
    logins.bench.settings(secrets__hub__file=str(inside))
    assert "is in the workspace; keep it elsewhere" in why()
    logins.bench.settings(secrets__hub__file=str(tmp_path / "none"))
    assert "cannot be read (No such file" in why()
    logins.bench.settings(secrets__hub__file="", secrets__hub__env="HUB")
    assert "put secrets.hub with file into threegate.toml" in why()
    for bearer, given, says in (
        ("", ["X Key=hub"], "write it as NAME=SECRET"),
        ("", ["X-Key"], "write it as NAME=SECRET"),
        ("", ["Mcp-Session-Id=hub"], "decides how a request is read"),
        ("", ["Content-Length=hub"], "decides how a request is read"),
        ("hub", ["authorization=hub"], "each name once"),
    ):
        with pytest.raises(InvalidInput, match=says):
            kept_headers(bearer, given)


def test_a_server_without_a_login_gets_no_header(logins: LoginBench) -> None:
    assert logins.login(None).headers() == ()
    assert logins.headers(None) == ()


def test_another_account_cannot_log_in(logins: LoginBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The account is that of the workspace's key."""
    oauth = logins.log_in()
    asked = len(logins.servers.asked)
    with monkeypatch.context() as other:
        other.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
        for attempt in (logins.log_in, lambda: logins.log_in_again(oauth)):
            with pytest.raises(Refused, match="only the account that runs the daemon") as caught:
                attempt()
            assert caught.value.code == "login_account"
    with monkeypatch.context() as other:
        other.setattr(os, "geteuid", lambda: 4711)
        with pytest.raises(Refused, match="only the account that runs the daemon"):
            logins.log_in()
        with pytest.raises(Refused, match="nobody is logged in"):
            logins.headers(oauth)
    assert len(logins.servers.asked) == asked, "no server was asked for anything"
