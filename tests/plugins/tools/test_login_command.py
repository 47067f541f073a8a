"""An operator adds a server of the SDK that wants a login, on a terminal; its calls work until the login ends."""

from __future__ import annotations

import os
import pty
import re
import select
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl

from tests.acts.bench_workspace import make_bench
from tests.plugins.tools.authorization_server import Servers, make_certificates, serving
from tests.plugins.tools.https_servers import NAME, Authority, sdk_server
from tests.plugins.tools.login_bench import LoginBench
from tests.support import wait_until
from threegate.cli import main
from threegate.core.errors import InvalidInput, Refused
from threegate.plugins.tools.login_question import AskedLogin, looked_at
from threegate.plugins.tools.remote import guarded_http
from threegate.plugins.tools.remote.guarded_http import Reach
from threegate.plugins.tools.server_process import open_fresh
from threegate.plugins.tools.tool_servers import WantedServer, pinned
from threegate.plugins.tools.tools_doctor import tool_lines

SERVER = "tracker"


class Checked:
    """The SDK's TokenVerifier, which asks the authorization server."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def verify_token(self, token: str) -> AccessToken | None:
        found = next((item for item in self._servers.issuer.valid if item.data["access_token"] == token), None)
        if found is None:
            return None
        scopes, resource = found.scope.split(), found.data["resource"]
        return AccessToken(token=token, client_id=found.client_id, scopes=scopes, resource=resource)


@dataclass
class Operator:
    """A person with a workspace, at a terminal; and the server, which counts calls."""

    logins: LoginBench
    url: str
    reach: Reach
    calls: list[str]

    def typed(self, *words: str, answers: str = "", browses: bool = True, **env: str) -> tuple[int, str]:
        """The exit code and the screen of a command. Each prompt gets the next letter; a browser follows the link."""
        child, terminal = pty.fork()
        if child == 0:
            self._command(words, env)
        data, screen, waiting, browsed = b"", "", list(answers), not browses
        while select.select([terminal], [], [], 60)[0]:
            try:
                data += os.read(terminal, 65536)
            except OSError:
                break
            screen = data.decode(errors="replace")
            if waiting and screen.count("[y/N] ") > len(answers) - len(waiting):
                os.write(terminal, f"{waiting.pop(0)}\n".encode())
            if not browsed and (link := re.search(r"^(https://\S+&\S+)\r\n", screen, re.MULTILINE)):
                browsed = True
                self.logins.browse(link[1])
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), screen.replace("\r\n", "\n")

    def _command(self, words: tuple[str, ...], env: dict[str, str]) -> None:
        """In a process of its own, as the program would: with names that lead to the servers of the test."""
        try:
            os.environ.update({"COLUMNS": "120", "NO_COLOR": "1", **env})
            sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w", 1), os.fdopen(2, "w", 1)
            guarded_http.PUBLIC = self.reach  # type: ignore[misc]
            sys.argv = ["threegate", "--workspace", str(self.logins.bench.workspace.root), *words]
            main()
        except SystemExit as done:
            os._exit(int(done.code or 0))
        except BaseException as error:
            os.write(2, repr(error).encode())
        os._exit(70)

    def call(self) -> str:
        """One call of its tool, as the daemon makes it."""
        bench = self.logins.bench
        manifest = pinned(bench.context, SERVER)
        with open_fresh(bench.workspace, self.logins.settings, manifest, reach=self.reach) as server:
            server.check_pinned()
            return str(server.call("echo", {"text": "hello"}, 20, 1 << 20).content[0]["text"])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def operator(
    tmp_path: Path, certificates: tuple[Path, Path], authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Operator]:
    """The server is the SDK's, with its own check of tokens; the authorization server is authlib's."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with ExitStack() as held:
        servers = held.enter_context(serving(certificates))
        listening = socket.create_server(("127.0.0.1", 0))
        url = f"https://{NAME}:{listening.getsockname()[1]}/mcp"
        servers.metadata["issuer"] = f"{servers.issuer_url}/"  # as the SDK writes it
        servers.iss = f"{servers.issuer_url}/"
        calls: list[str] = []
        made = MCPServer(
            "tracker",
            token_verifier=Checked(servers),
            auth=AuthSettings(
                issuer_url=AnyHttpUrl(servers.issuer_url),
                resource_server_url=AnyHttpUrl(url),
                required_scopes=["read"],
                validate_token_resource=True,
            ),
        )

        @made.tool()
        def echo(text: str) -> str:
            """Say it again."""
            calls.append(text)
            return text

        app = made.streamable_http_app(
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False)
        )
        held.enter_context(sdk_server(authority, app, listening))

        def tls() -> ssl.SSLContext:
            context = servers.reach.tls()
            context.load_verify_locations(authority.file)
            return context

        reach = Reach(servers.reach.lookup, servers.reach.may, tls)
        yield Operator(LoginBench(make_bench(tmp_path), servers), url, reach, calls)


def key_of(operator: Operator) -> list[str]:
    return ["--as", "alice", "--key", str(operator.logins.bench.keys["alice"])]


def doctor(operator: Operator) -> list[str]:
    bench = operator.logins.bench
    (line,) = tool_lines(bench.workspace, operator.logins.settings, False)
    return [line.state, line.seen, line.fix]


def test_from_add_to_remove(operator: Operator) -> None:
    code, screen = operator.typed("tools", "add", SERVER, "--url", operator.url, *key_of(operator), answers="yy")
    assert code == 0, screen
    issuer = operator.logins.servers.issuer_url
    for line in (
        f"Log in there, with your browser at {issuer}? [y/N]", "ThreeGate registers itself there",
        "open this link in a browser on this machine, within five minutes:", "Sign this server as alice? [y/N]",
        "added tracker with 1 tool (",
    ):  # fmt: skip
        assert line in screen, screen
    card = screen[screen.index("open this link") :]
    for line in (f"issuer | {issuer}/", "scopes | read offline_access", f"tokens for | {operator.url}"):
        assert line in re.sub(r" +", " ", card), card
    manifest = pinned(operator.logins.bench.context, SERVER)
    assert manifest.login is not None and manifest.login.oauth is not None
    oauth = manifest.login.oauth
    assert oauth.resource == operator.url and oauth.client_id in operator.logins.servers.issuer.clients
    token = operator.logins.kept()["access_token"]
    assert token not in screen and operator.call() == "hello" and operator.calls == ["hello"]

    operator.logins.servers.issuer.valid[0].data["access_token"] = "revoked"
    with pytest.raises(Refused, match=r"wants a login \(401\); type: threegate tools login tracker") as caught:
        operator.call()
    assert caught.value.code == "login_required" and operator.calls == ["hello"]
    assert operator.call() == "hello", "the next call refreshes what was refused"
    operator.logins.servers.issuer.valid.clear()
    with pytest.raises(Refused, match="wants a login"):
        operator.call()
    with pytest.raises(Refused, match="its login is not valid any more"):
        operator.call()

    assert doctor(operator) == ["warning", "tracker: its login has expired", "threegate tools login tracker"]
    code, screen = operator.typed("tools", "login", SERVER, answers="n", browses=False)
    assert code == 2 and "nothing was changed" in screen
    code, screen = operator.typed("tools", "login", SERVER, answers="y")
    assert code == 0 and "logged in to tracker" in screen, screen
    assert operator.call() == "hello" and len(operator.calls) == 3
    assert doctor(operator) == ["ok", "tracker: 1 tools, elsewhere, behind a URL", ""]
    code, screen = operator.typed("tools", "remove", SERVER, *key_of(operator), browses=False)
    assert code == 0 and not operator.logins.file.exists()
    trail = operator.logins.bench.workspace.root / "tool-exec" / "audit" / "trail.jsonl"
    assert token not in trail.read_text() and "at-" not in trail.read_text()


def test_a_login_that_is_not_signed_is_forgotten(operator: Operator) -> None:
    words = ("tools", "add", SERVER, "--url", operator.url, *key_of(operator))
    code, screen = operator.typed(*words, answers="yn")
    assert code == 2 and "nothing was changed" in screen
    assert operator.logins.servers.sent("/token") != [] and not operator.logins.file.exists()
    code, screen = operator.typed(*words, answers="n", browses=False)
    assert code == 2 and len(operator.logins.servers.sent("/register")) == 1, "nothing was registered before the yes"


def test_the_browser_opens_after_a_yes(operator: Operator, tmp_path: Path) -> None:
    """A program without a shell; with --yes nothing is opened."""
    seen = tmp_path / "seen"
    program = tmp_path / "xdg-open"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > {seen}.new; mv {seen}.new {seen}\n')
    program.chmod(0o755)
    env = {"DISPLAY": ":7", "PATH": f"{tmp_path}:/usr/bin:/bin"}
    words = ("tools", "add", SERVER, "--url", operator.url, *key_of(operator))
    code, screen = operator.typed(*words, answers="yn", **env)
    assert code == 2 and "your browser opens this link; the login waits five minutes for it:" in screen
    assert wait_until(seen.exists) and seen.read_text() == operator.logins.links[0]
    seen.unlink()
    code, screen = operator.typed(*words, "--yes", **env)
    assert code == 0 and "open this link in a browser on this machine" in screen and not seen.exists()


def test_a_server_that_has_a_token_from_a_file(operator: Operator, tmp_path: Path) -> None:
    oauth = operator.logins
    code, screen = operator.typed("tools", "add", SERVER, "--url", operator.url, *key_of(operator), "--yes")
    assert code == 0, screen
    file = tmp_path / "token"
    file.write_text(oauth.kept()["access_token"])
    file.chmod(0o600)
    oauth.bench.settings(secrets__tracker__file=str(file))
    words = ("tools", "add", "other", "--url", operator.url, "--bearer", "tracker", *key_of(operator))
    code, screen = operator.typed(*words, answers="y", browses=False)
    assert code == 0 and "Authorization: Bearer and the file of secrets.tracker" in screen, screen
    assert file.read_text() not in screen
    code, screen = operator.typed("tools", "login", "other", "--yes", browses=False)
    assert code == 2 and "other: was added without a login" in screen
    code, screen = operator.typed("tools", "test", "other", browses=False)
    assert code == 0, screen
    file.write_text("wrong-token")
    code, screen = operator.typed("tools", "test", "other", browses=False)
    assert code == 2 and "type: threegate tools remove other, then add it again" in screen


def test_a_token_is_never_sent_beside_another_authorization(operator: Operator, tmp_path: Path) -> None:
    """Which of two headers counts would be the server's to choose."""
    file = tmp_path / "key"
    file.write_text("wrong-token")
    file.chmod(0o600)
    operator.logins.bench.settings(secrets__key__file=str(file))
    words = ("tools", "add", SERVER, "--url", operator.url, "--header", "authorization=key", *key_of(operator), "--yes")
    code, screen = operator.typed(*words, browses=False)
    assert code == 2 and "the server wants a login (401)" in screen, screen
    assert operator.logins.servers.sent("/register") == []


@pytest.mark.parametrize(
    ("url", "asked", "says"),
    [
        ("", AskedLogin(client_id="x"), "are for a server at a URL; give --url"),
        ("", AskedLogin(headers=("X-Key=a",)), "are for a server at a URL; give --url"),
        ("https://mcp.example.com/", AskedLogin(bearer="a", scopes=("b",)), "--bearer: is instead of a login"),
        ("https://mcp.example.com/", AskedLogin(headers=("Host=a",)), "decides how a request is read"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, url: str, asked: AskedLogin, says: str) -> None:
    with (
        pytest.raises(InvalidInput, match=says),
        looked_at(make_bench(tmp_path).context, WantedServer(SERVER, (), url=url), asked, yes=True),
    ):
        raise AssertionError
