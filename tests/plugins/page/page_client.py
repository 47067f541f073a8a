"""The operator's page in this process, asked as a browser on this machine would ask, or as an attacker would."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from threegate.core.workspace import Workspace
from threegate.plugins.page.app import create_server
from threegate.plugins.page.page_login import new_code

HOST = "127.0.0.1:8766"


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Client:
    """One server, and the session of its operator once `login` was called."""

    workspace: Workspace
    clock: Clock = field(default_factory=Clock)
    per_minute: int = 100_000
    base: str = ""
    cookie: str = ""

    def __post_init__(self) -> None:
        self.app = create_server(self.workspace, per_minute=self.per_minute, clock=self.clock)

    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        headers: list[tuple[str, str]] | None = None,
        host: str = HOST,
        client: str = "127.0.0.1",
        server: str = "127.0.0.1",
        cookie: bool = True,
    ) -> httpx.Response:
        """One request; `path` is below the server's root as it stands, the cookie is sent only where its path fits."""
        sent = [("Host", host)] if host else []
        sent += headers or []
        if cookie and self.cookie and path.startswith(self.base):
            sent.append(("Cookie", self.cookie))

        async def go() -> httpx.Response:
            transport = httpx.ASGITransport(app=_From(self.app, server), client=(client, 40000))  # type: ignore[arg-type]
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8766") as browser:
                request = browser.build_request(method, "http://127.0.0.1:8766/")
                request.url = request.url.copy_with(raw_path=path.encode())
                request.headers = httpx.Headers(sent)
                return await browser.send(request)

        return asyncio.run(go())

    def login(self) -> httpx.Response:
        """Take a fresh link as the browser does; what it answered."""
        answer = self.ask(f"/page/login/{new_code(self.workspace)}", cookie=False)
        if answer.status_code == 303:
            self.base = answer.headers["location"]
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def get(self, path: str = "", **more: object) -> str:
        """A page of the session, which must be there."""
        answer = self.ask(self.base + path, **more)  # type: ignore[arg-type]
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.text

    def links(self, group: str) -> list[str]:
        """The addresses of the requests in a list, below the base."""
        found = re.findall(r'href="([^"]+/request/[^"]+)"', self.get(f"list/{group}"))
        return [address.removeprefix(self.base) for address in found]


class _From:
    """Puts the address of ours that a connection came to into the scope, as uvicorn does."""

    def __init__(self, app: Callable[..., object], server: str) -> None:
        self._app, self._server = app, server

    async def __call__(self, scope: dict[str, object], receive: object, send: object) -> None:
        scope = {**scope, "server": (self._server, 8766)}
        await self._app(scope, receive, send)  # type: ignore[misc]
