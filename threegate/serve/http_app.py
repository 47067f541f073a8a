"""The gates over HTTP: POST /pre-tool-check, /proposals/validate, /contracts/decide; GET /health, /ready,
/docs, /openapi.json.

Invariants: a caller is rate-limited by its address first, then must present the token, then its body is read,
up to the limit as counted on the stream. Callers without the token use up nothing of those who have it. Query
parameters and headers have no part in a decision; a decision that was not recorded is not returned.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from threegate.aana import DecisionLog, EvidenceMode, check_bytes
from threegate.core import limits
from threegate.core.errors import InvalidInput, NoWorkspace, ThreeGateError, Unavailable
from threegate.core.workspace import Workspace
from threegate.serve.docs_page import CONTENT_SECURITY_POLICY, render_docs
from threegate.serve.openapi import openapi_document
from threegate.serve.rate_limit import RateLimit
from threegate.serve.recording import can_record
from threegate.serve.workspace_gates import WorkspaceGates

_OPEN: Final = frozenset({"/health"})
"""Paths that are not rate-limited: a probe must not use up its host's requests."""
_METHODS: Final = {
    "/pre-tool-check": "POST",
    "/proposals/validate": "POST",
    "/contracts/decide": "POST",
    "/health": "GET",
    "/ready": "GET",
    "/docs": "GET",
    "/openapi.json": "GET",
    "/metrics": "GET",
}


@dataclass(frozen=True)
class HttpOptions:
    """The operator's options. `token` None means that no token is required (loopback only)."""

    token: str | None
    log: DecisionLog
    evidence_mode: EvidenceMode = "quickstart"
    per_minute: int = limits.SERVE_REQUESTS_PER_MINUTE
    body_seconds: float = limits.SERVE_BODY_SECONDS
    clock: Callable[[], float] = field(default=time.monotonic)
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    """The time of a decision, at which the age of evidence is measured."""
    workspace: Workspace | None = None
    """The workspace whose project, settings and contracts judge proposals and contract calls."""
    metrics: Callable[[], bytes] | None = None
    """Returns the numbers of the workspace in Prometheus' text format; None without a workspace or the
    extra.
    """


class _Refusal(Exception):
    """An answer that is not a decision."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(code)
        self.status, self.code, self.message, self.headers = status, code, message, headers

    def response(self) -> JSONResponse:
        body = {"error": {"code": self.code, "message": self.message}}
        return JSONResponse(body, status_code=self.status, headers=self.headers)


def create_app(options: HttpOptions) -> FastAPI:
    """The application; nothing is bound or read yet."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url="/openapi.json", redirect_slashes=False)
    document = openapi_document(token=options.token is not None)
    app.openapi = lambda: document  # type: ignore[method-assign]
    everyone, known = (RateLimit(options.per_minute, clock=options.clock) for _ in range(2))
    gates = WorkspaceGates(options.workspace, options.log, clock=options.clock)

    @app.middleware("http")
    async def in_front(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        try:
            if request.url.path not in _OPEN:
                _count(request, everyone, known, options.token)
            response = await call_next(request)
        except _Refusal as refusal:
            response = refusal.response()
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    @app.exception_handler(_Refusal)
    async def refused(_request: Request, refusal: _Refusal) -> Response:
        return refusal.response()

    @app.exception_handler(HTTPException)
    async def no_route(request: Request, error: HTTPException) -> Response:
        if error.status_code == 405:
            allowed = _METHODS.get(request.url.path, "GET")
            message = f"this path accepts {allowed} only"
            return _Refusal(405, "method_not_allowed", message, {"Allow": allowed}).response()
        return _Refusal(error.status_code, "not_found", "no such path").response()

    @app.post("/pre-tool-check")
    async def pre_tool_check(request: Request) -> Response:
        data = await _body_of(request, options)
        try:
            result = check_bytes(
                data,
                now=options.now(),
                evidence_mode=options.evidence_mode,
                log=options.log,
                surface="http",
            )
        except OSError:
            raise _not_recorded() from None
        unreadable = any("cannot be read as JSON" in item["message"] for item in result["validation_errors"])
        return JSONResponse(result, status_code=400 if unreadable else 200)

    @app.post("/proposals/validate")
    async def validate_proposal(request: Request) -> Response:
        return await _verdict(gates.judge_proposal, await _body_of(request, options), options.now())

    @app.post("/contracts/decide")
    async def decide_call(request: Request) -> Response:
        return await _verdict(gates.decide_call, await _body_of(request, options), options.now())

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> dict[str, str]:
        if not can_record(options.log.path):
            raise _Refusal(503, "decision_log_not_writable", "decisions cannot be recorded")
        return {"status": "ready"}

    @app.get("/metrics")
    async def metrics(request: Request) -> Response:
        _authorize(request, options.token)
        return await _numbers(options.metrics)

    @app.get("/docs")
    async def docs() -> HTMLResponse:
        return HTMLResponse(render_docs(document), headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY})

    return app


async def _body_of(request: Request, options: HttpOptions) -> bytes:
    """The JSON body of an authorized caller."""
    _authorize(request, options.token)
    _require_json(request)
    return await _read_body(request, options.body_seconds)


async def _verdict(judge: Callable[[bytes, datetime], dict[str, Any]], data: bytes, now: datetime) -> Response:
    """The answer of a gate of the workspace, or why there is none."""
    try:
        return JSONResponse(await asyncio.to_thread(judge, data, now))
    except InvalidInput as error:
        raise _Refusal(400, "not_judged", str(error)) from None
    except NoWorkspace as error:
        raise _Refusal(404, "no_workspace", str(error)) from None
    except Unavailable as error:
        raise _Refusal(503, "gate_not_usable", str(error)) from None
    except OSError:
        raise _not_recorded() from None


def _not_recorded() -> _Refusal:
    return _Refusal(503, "decision_not_recorded", "the decision could not be recorded; do not execute")


async def _numbers(metrics: Callable[[], bytes] | None) -> Response:
    if metrics is None:
        raise _Refusal(404, "no_metrics", "give a workspace and install threegate[metrics]")
    try:
        text = await asyncio.to_thread(metrics)
    except (OSError, ThreeGateError):
        raise _Refusal(503, "metrics_not_readable", "the trail or a folder cannot be read by this account") from None
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _count(request: Request, everyone: RateLimit, known: RateLimit, token: str | None) -> None:
    """Count one request of this address; the address is the connection's, never a header's.

    All accounts of a machine share its address, so who has the token has a budget that others cannot use up. A token
    that is short enough to be guessed has none: its guesses must stay slow.
    """
    address = request.client.host if request.client else ""
    seconds = everyone.wait_for(address)
    if token is None or (len(token) >= limits.SERVE_TOKEN_CHARS and _has_token(request, token)):
        seconds = known.wait_for(address)
    if seconds:
        message = f"too many requests from this address; wait {seconds} s"
        raise _Refusal(429, "rate_limited", message, {"Retry-After": str(seconds)})


def _authorize(request: Request, token: str | None) -> None:
    """Exactly one Authorization header with exactly the token, compared in constant time."""
    if token is not None and not _has_token(request, token):
        raise _Refusal(
            401,
            "unauthorized",
            "send the token that the server was started with as: Authorization: Bearer TOKEN",
            {"WWW-Authenticate": "Bearer"},
        )


def _has_token(request: Request, token: str) -> bool:
    given = request.headers.getlist("authorization")
    scheme, _, credentials = (given[0] if len(given) == 1 else "").partition(" ")
    right = hmac.compare_digest(credentials.strip().encode("latin-1"), token.encode())
    return scheme.lower() == "bearer" and right


def _require_json(request: Request) -> None:
    """Accept JSON only: a page in a browser can send other types to any address without permission."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise _Refusal(415, "unsupported_media_type", "send Content-Type: application/json")


async def _read_body(request: Request, seconds: float) -> bytes:
    """The body, up to the limit, within `seconds`; the Content-Length header is not trusted."""
    data = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                data += chunk
                if len(data) > limits.AANA_EVENT_BYTES:
                    raise _Refusal(
                        413,
                        "body_too_large",
                        f"an event may have at most {limits.AANA_EVENT_BYTES} bytes",
                        {"Connection": "close"},
                    )
    except TimeoutError:
        raise _Refusal(
            408, "body_too_slow", f"the body did not arrive within {seconds:g} s", {"Connection": "close"}
        ) from None
    return bytes(data)
