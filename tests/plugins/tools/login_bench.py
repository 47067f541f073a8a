"""A person who logs in to the servers of `authorization_server`: a workspace, and a browser that follows each link."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.acts.bench_workspace import Bench
from tests.plugins.tools.authorization_server import Servers, follow, serving
from tests.plugins.tools.https_servers import remote_manifest
from threegate.core.settings import Settings
from threegate.core.user_state import UserState
from threegate.core.workspace import Workspace
from threegate.plugins.tools.remote.browser_login import Again, log_in, log_in_again, plan_login
from threegate.plugins.tools.remote.login import ServerLogin
from threegate.plugins.tools.remote_login import OAuthLogin, RemoteLogin
from threegate.trail.workspace_key import make_key

NAME = "tracker"


@dataclass
class LoginBench:
    """The person and the servers."""

    bench: Bench
    servers: Servers
    links: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    arrives: Callable[[str], list[str]] = lambda location: [location]
    """From where the browser is sent to where it goes."""

    @property
    def settings(self) -> Settings:
        return self.bench.workspace.load_settings()

    @property
    def file(self) -> Path:
        return UserState.of(self.settings.workspace.id).folder / f"login-{NAME}.json"

    def kept(self) -> dict[str, Any]:
        """What is in the file."""
        found = json.loads(self.file.read_bytes())
        assert isinstance(found, dict)
        return found

    def keep(self, **values: Any) -> None:
        """Change it there."""
        self.file.write_bytes(json.dumps({**self.kept(), **values}).encode())

    def browse(self, link: str) -> None:
        """As `ShowLink`: a browser goes there, and where it is sent."""
        self.links.append(link)
        location = self.servers.open(link).location

        def visit() -> None:
            for place in self.arrives(location):
                self.statuses.append(follow(place))

        threading.Thread(target=visit, daemon=True).start()

    def log_in(self, **more: Any) -> OAuthLogin:
        """The first login, with everything that the server says."""
        reach = self.servers.reach
        plan = plan_login(self.settings, NAME, self.servers.url, self.servers.challenges(), reach=reach, **more)
        return log_in(self.settings, plan, self.browse, reach=reach)

    def log_in_again(self, oauth: OAuthLogin) -> None:
        again = Again(self.settings, NAME, self.servers.url, oauth)
        log_in_again(again, self.browse, reach=self.servers.reach)

    def headers(self, oauth: OAuthLogin | None, *, url: str = "", **more: Any) -> tuple[tuple[str, str], ...]:
        """What a call would be sent with."""
        return self.login(RemoteLogin(oauth, **more), url=url).headers()

    def login(self, login: RemoteLogin | None, *, url: str = "") -> ServerLogin:
        """Of a server that was signed with it."""
        signed = remote_manifest(url or self.servers.url, server=NAME, login=login)
        return ServerLogin(self.bench.workspace, self.settings, signed, reach=self.servers.reach)

    def token(self, oauth: OAuthLogin) -> str:
        """The one in these headers."""
        ((name, value),) = self.headers(oauth)
        assert name == "Authorization"
        return value.removeprefix("Bearer ")


@contextmanager
def open_logins(folder: Path, certificates: tuple[Path, Path]) -> Iterator[LoginBench]:
    """A new person, and new servers. Of their workspace there is what a login reads."""
    root = folder / "ws"
    root.mkdir()
    workspace_id = f"ws-{secrets.token_hex(16)}"
    (root / "threegate.toml").write_text(f'[workspace]\nid = "{workspace_id}"\n')
    make_key(workspace_id)
    with serving(certificates) as servers:
        yield LoginBench(Bench(Workspace(root), {}), servers)
