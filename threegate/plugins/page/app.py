"""The page's routes. Every answer passes the guard first and carries the page's headers."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from threegate.core import limits
from threegate.core.errors import ThreeGateError
from threegate.core.workspace import Workspace
from threegate.plugins.page.access import PageRequest, Sessions, refusal, set_cookie
from threegate.plugins.page.page_login import take_code
from threegate.plugins.page.page_templates import HEADERS, PASSKEY_HEADERS, render
from threegate.plugins.page.views import Missing, Views
from threegate.plugins.serve.rate_limit import RateLimit

LOGIN: Final = "In a terminal on this machine, type: threegate serve page"
Count = Callable[[str], int]
"""Counts one request of an address: 0 if it may pass, else the seconds to wait."""


def create_server(
    workspace: Workspace,
    *,
    per_minute: int = limits.SERVE_REQUESTS_PER_MINUTE,
    clock: Callable[[], float] = time.monotonic,
) -> ASGIApp:
    """The page at /page and nothing else. `per_minute` limits clients that are not logged in."""
    limit = RateLimit(per_minute, clock=clock)
    server = Starlette(routes=[Mount("/page", _create_page(workspace, count=limit.wait_for, clock=clock))])
    server.router.redirect_slashes = False
    return server


def _create_page(workspace: Workspace, *, count: Count, clock: Callable[[], float]) -> ASGIApp:
    sessions = Sessions(clock)
    views = Views(workspace)

    async def login(request: Request) -> Response:
        code = request.path_params["code"]
        if not await run_in_threadpool(take_code, workspace, code):
            if seconds := count(request.client.host if request.client else ""):
                return _too_many(seconds)
            return message(403, "This link is not valid (any more)", f"It works once. {LOGIN}")
        view, value = sessions.begin()
        response = RedirectResponse(f"/page/{view}/", status_code=303)
        response.headers["Set-Cookie"] = set_cookie(view, value)
        return response

    inner = routed([Route("/login/{code}", login), *look_routes(views, sessions)])
    return Guard(inner, sessions, count)


def look_routes(views: Views, sessions: Sessions, origin: str = "") -> list[Route]:
    """The pages for a logged-in operator."""

    def shows(view: Callable[[Request], str]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            if not sessions.holds(request.path_params["view"], request.headers.getlist("cookie")):
                return not_logged_in(origin)
            try:
                return _page(request, await run_in_threadpool(view, request))
            except Missing as missing:
                return message(404, "Not found", str(missing))
            except ThreeGateError as error:
                return message(503, "This cannot be shown now", str(error))
            except OSError as error:
                return message(503, "This cannot be shown now", error.strerror or type(error).__name__)

        return answer

    return [
        Route("/{view}/", shows(views.overview)),
        Route("/{view}/list/{group}", shows(views.group)),
        Route("/{view}/request/{folder}/{key}", shows(views.request)),
        Route("/{view}/file/{folder}/{key}/{file}", shows(views.file)),
        Route("/{view}/stream/{folder}/{key}/{name}", shows(views.stream)),
    ]


def routed(routes: list[Route]) -> Starlette:
    """An application with these routes; every other path is answered with 404."""

    async def wrong(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return message(status, "Not found", "Use the menu to find what you are looking for.")

    inner = Starlette(routes=routes, exception_handlers={HTTPException: wrong})
    inner.router.redirect_slashes = False
    return inner


class Guard:
    """Checks every request first, and adds the page's headers to every answer."""

    def __init__(self, inner: ASGIApp, sessions: Sessions, count: Count, origin: str = "") -> None:
        """`origin`: of a page that accepts passkeys, and therefore POST."""
        self._inner, self._sessions, self._count, self._origin = inner, sessions, count, origin
        self._methods = ("GET", "HEAD", "POST") if origin else ("GET", "HEAD")
        self._open = ("", "login", "enrol", "draft") if origin else ("login",)
        # Every account of this machine has the operator's address: whoever has a link that works logs in all the same.
        self._counts_itself = () if origin else ("login",)
        self._headers = PASSKEY_HEADERS if origin else HEADERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers[name] = value
            await send(message)

        if scope["type"] != "http":
            return
        response = self._refuse(scope)
        await (response or self._inner)(scope, receive, send_with_headers)

    def _refuse(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        client, server = scope.get("client") or ("", 0), scope.get("server") or ("", 0)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        first = path.removeprefix("/").partition("/")[0]
        asked = PageRequest(
            client[0],
            (server[0], server[1]),
            {name: headers.getlist(name) for name in headers},
            scope["method"] == "POST",
            linked=first == "draft",
        )
        # First where it comes from, then what it does, then who it is; whoever has a session is not counted.
        if why := refusal(asked, self._origin):
            return message(403, "Not shown", why)
        if scope["method"] not in self._methods:
            response = message(405, "Not done", "The page is read-only.")
            response.headers["Allow"] = ", ".join(self._methods)
            return response
        if self._sessions.holds(first, headers.getlist("cookie")):
            return None
        if first not in self._counts_itself and (seconds := self._count(client[0])):
            return _too_many(seconds)
        return None if first in self._open else not_logged_in(self._origin)


def _too_many(seconds: int) -> Response:
    response = message(429, "Too many requests", f"Wait {seconds} s.")
    response.headers["Retry-After"] = str(seconds)
    return response


def _page(request: Request, body: str) -> Response:
    """The page, or 304 if the browser already has it."""
    tag = f'"{hashlib.sha256(body.encode()).hexdigest()[:32]}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return HTMLResponse(body, headers={"ETag": tag})


def not_logged_in(origin: str = "") -> Response:
    """The answer to a client whose session is over or never began."""
    return message(403, "You are not logged in", f"Log in with your passkey: {origin}/page/" if origin else LOGIN)


def message(status: int, title: str, text: str, *, login: str = "") -> HTMLResponse:
    """A page with one line, and a link to log in if `login` is its address."""
    phrase = HTTPStatus(status).phrase
    return HTMLResponse(render("message.html", title=title, text=text, phrase=phrase, login=login), status_code=status)
