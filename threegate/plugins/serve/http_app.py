"""The gates over HTTP: POST /pre-tool-check, /proposals/validate, /contracts/decide; GET /health, /ready,
/docs, /openapi.json.

Invariants: a caller is rate-limited by its address first, then must present the token, then its body is read,
up to the limit as counted on the stream. Callers without the token use up nothing of those who have it. Query
parameters and headers have no part in a decision; a decision that was not recorded is not returned.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from threegate import __version__
from threegate.aana import DecisionLog, EvidenceMode, check_bytes
from threegate.aana.schema import event_part
from threegate.contracts.contract_line import ContractLine
from threegate.core import limits
from threegate.core.errors import InvalidInput, NoWorkspace, ThreeGateError, Unavailable
from threegate.core.extras import has_extra
from threegate.core.forms import FORMS, Form
from threegate.core.record import Record, schema_of
from threegate.core.workspace import Workspace
from threegate.plugins.serve.answers import Alive, ContractDecision, Decision, Error, Ready, schema_part
from threegate.plugins.serve.connections import read_body
from threegate.plugins.serve.docs_page import CONTENT_SECURITY_POLICY, render_docs
from threegate.plugins.serve.event_examples import EXAMPLES
from threegate.plugins.serve.rate_limit import RateLimit
from threegate.plugins.serve.recording import can_record
from threegate.plugins.serve.workspace_gates import WorkspaceGates

_OPEN: Final = frozenset({"/health"})
"""Paths that are not rate-limited: a probe must not use up its host's requests."""
_ABOUT: Final[dict[str, Any]] = {
    "title": "ThreeGate pre-tool check",
    "description": (
        "The AANA Agent Action Contract v1: may this tool call run now? And the verdicts on action proposals, "
        "and the decisions by a workspace's contracts."
    ),
    "version": __version__,
    "license_info": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    "contact": {"name": "The ThreeGate developers", "url": "https://github.com/threegate/threegate"},
    "servers": [{"url": "/", "description": "The server that returned this document."}],
    "openapi_tags": [
        {"name": "decision", "description": "Decisions of the gates."},
        {"name": "state", "description": "State of the server and its workspace."},
    ],
}
_MEANINGS: Final = {
    400: "No HTTP/1.1 request.",
    401: "The token is missing or wrong.",
    404: "No workspace, the extra threegate[metrics] is not installed, or the plugin evidence is off.",
    408: "The body arrived too slowly.",
    413: "The body is larger than 64 KiB.",
    415: "The Content-Type is not application/json.",
    421: "Without a token: the Host is not this machine.",
    429: "Too many requests from this address; Retry-After says how long to wait.",
    503: "Temporarily unavailable: something cannot be recorded or read, or too many connections are open.",
}
_HERE: Final = re.compile(r"(localhost|[0-9.]+|\[[0-9a-f:]+\])(?::[0-9]*)?")
_TEXT: Final = {"text/plain": {"schema": {"type": "string"}}}
_RETRY_AFTER: Final = {
    "Retry-After": {
        "description": "Seconds to wait.",
        "schema": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 60},
    }
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
    """Returns the numbers of the workspace in Prometheus' text format; None if there are none (`numbers_of`)."""
    local: bool = False
    """Whether the Host of a request must be this machine: otherwise the script of a page whose name resolves to
    127.0.0.1 (DNS rebinding) could ask where no token is required.
    """


class _Refusal(Exception):
    """An answer that is not a decision."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(code)
        self.status, self.code, self.message, self.headers = status, code, message, headers

    def response(self) -> JSONResponse:
        body = {"error": {"code": self.code, "message": self.message}}
        return JSONResponse(body, status_code=self.status, headers=self.headers)


class _Bearer(HTTPBearer):
    """The token of the server: what the document says of it, and the check itself."""

    def __init__(self, token: str) -> None:
        about = "The token that the server was started with (THREEGATE_TOKEN)."
        super().__init__(scheme_name="bearer", description=about)
        self._token = token

    async def __call__(self, request: HTTPConnection) -> None:
        """Exactly one Authorization header with exactly the token."""
        if not _has_token(request, self._token):
            message = "send the token that the server was started with as: Authorization: Bearer TOKEN"
            raise _Refusal(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})


def create_app(options: HttpOptions) -> FastAPI:
    """The application; nothing is bound or read yet."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url="/openapi.json", redirect_slashes=False, **_ABOUT)
    secured: dict[str, Any] = {"dependencies": [] if options.token is None else [Depends(_Bearer(options.token))]}
    wanted = (421,) if options.local else () if options.token is None else (401,)
    everyone, known = (RateLimit(options.per_minute, clock=options.clock) for _ in range(2))
    gates = WorkspaceGates(options.workspace, options.log, clock=options.clock)

    @app.middleware("http")
    async def in_front(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        try:
            if options.local and not _is_here(request.headers.get("host", "")):
                raise _Refusal(421, "wrong_host", "without a token, ask http://127.0.0.1:PORT or http://localhost:PORT")
            # Before the token is compared and the body is read: guessing a token must be slow.
            if request.url.path not in _OPEN:
                _count(request, everyone, known, options.token)
            response = await call_next(request)
        except _Refusal as refusal:
            response = refusal.response()
        # A decision is about one call at one time; a cached one would let a later call pass.
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    @app.exception_handler(_Refusal)
    async def refused(_request: Request, refusal: _Refusal) -> Response:
        return refusal.response()

    @app.exception_handler(HTTPException)
    async def no_route(_request: Request, error: HTTPException) -> Response:
        if error.status_code == 405:
            allowed = ", ".join(sorted((error.headers or {})["Allow"].split(", ")))
            message = f"this path accepts {allowed} only"
            return _Refusal(405, "method_not_allowed", message, {"Allow": allowed}).response()
        return _Refusal(error.status_code, "not_found", "no such path").response()

    @app.post(
        "/pre-tool-check",
        operation_id="preToolCheck",
        summary="May this call run?",
        **_judging(Decision, *wanted, unread=("The body is not JSON, and the envelope says refuse", Decision)),
        **_body(event_part(), examples=EXAMPLES),
        **secured,
    )
    async def pre_tool_check(request: Request) -> Response:
        """Decides on one Agent Action Contract v1 event. Execute only when execution_allowed is true."""
        data = await _body_of(request, options.body_seconds)
        try:
            result = check_bytes(
                data, now=options.now(), evidence_mode=options.evidence_mode, log=options.log, surface="http"
            )
        except OSError:
            raise _not_recorded() from None
        # The envelope refuses already; the status is for clients that look at nothing else.
        unreadable = any("cannot be read as JSON" in item["message"] for item in result["validation_errors"])
        return JSONResponse(result, status_code=400 if unreadable else 200)

    def judging(form: Form) -> Callable[[Request], Awaitable[Response]]:
        async def judge(request: Request) -> Response:
            judged = partial(gates.judge_document, form)
            return await _verdict(judged, await _body_of(request, options.body_seconds), options.now())

        return judge

    for form in _forms(options.workspace):
        app.post(
            form.path,
            operation_id=form.operation,
            summary=form.asks,
            description=form.says,
            **_judging(form.answer, *wanted),
            **_body(schema_part(form.schema)),
            **secured,
        )(judging(form))

    @app.post(
        "/contracts/decide",
        operation_id="decideCall",
        summary="Do the contracts allow this call?",
        **_judging(
            ContractDecision,
            *wanted,
            404,
            unread=("The body contains nothing that can be judged: do not execute", Error),
        ),
        **_body(schema_of(ContractLine)),
        **secured,
    )
    async def decide_call(request: Request) -> Response:
        """Decides by the workspace's contracts on one call of a tool that you run yourself.

        Execute only when verdict is allow and there is no reason.
        """
        return await _verdict(gates.decide_call, await _body_of(request, options.body_seconds), options.now())

    @app.get("/health", operation_id="health", summary="Is the process alive?", **_state())
    async def health() -> Alive:
        """Whether the process answers; not rate-limited."""
        return Alive(status="ok")

    @app.get("/ready", operation_id="ready", summary="Can it decide?", **_state(429))
    async def ready() -> Ready:
        """Whether decisions can be made and recorded."""
        if not can_record(options.log.path):
            raise _Refusal(503, "decision_log_not_writable", "decisions cannot be recorded")
        return Ready(status="ready")

    @app.get(
        "/metrics",
        operation_id="metrics",
        summary="The workspace's numbers",
        response_class=Response,
        **_state(*wanted, 404, 429, content=_TEXT),
        **secured,
    )
    async def metrics() -> Response:
        """The workspace's numbers for Prometheus."""
        return await _numbers(options.metrics)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(render_docs(app.openapi()), headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY})

    return app


def _forms(workspace: Workspace | None) -> list[Form]:
    """The kinds of documents that plugins judge; those of a plugin that is off have no path."""
    return list(FORMS.given(_off_in(workspace)).values())


def numbers_of(workspace: Workspace | None, decisions: Path) -> Callable[[], bytes] | None:
    """What /metrics answers; None without a workspace or the extra."""
    if workspace is None or not has_extra("metrics"):
        return None
    from threegate.plugins.serve.gauge import WorkspaceGauge

    return WorkspaceGauge(workspace, decisions).text


def _off_in(workspace: Workspace | None) -> tuple[str, ...]:
    try:
        return () if workspace is None else workspace.load_settings().plugins.off
    except ThreeGateError:  # then nothing is judged: each call says why
        return ()


def _answers(*statuses: int) -> dict[int, dict[str, Any]]:
    """The answers besides 200. Any path can also answer 400 and 503, from the HTTP server itself, as text."""
    found: dict[int, dict[str, Any]] = {
        status: {"model": Error, "description": _MEANINGS[status]} for status in sorted((*statuses, 400, 503))
    }
    found[400] = {"description": _MEANINGS[400], "content": _TEXT}
    found[503]["content"] = _TEXT
    if 429 in found:
        found[429]["headers"] = _RETRY_AFTER
    return found


def _judging(answer: type[Record], *statuses: int, unread: tuple[str, type[Record]] | None = None) -> dict[str, Any]:
    """What an operation that judges its body answers; `unread`: what 400 means too, and its model."""
    found = _answers(*statuses, 408, 413, 415, 429)
    found[503]["description"] = "The decision could not be made or recorded: do not execute."
    if unread is not None:
        found[400] |= {"description": f"{unread[0]}; or not an HTTP/1.1 request.", "model": unread[1]}
    return {"tags": ["decision"], "response_model": answer, "response_description": "A decision.", "responses": found}


def _body(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What a body must be. The gates read its bytes themselves: of what is wrong with it they decide too."""
    content = {"application/json": {"schema": schema, **more}}
    return {"openapi_extra": {"requestBody": {"required": True, "content": content}, "security": []}}


def _state(*statuses: int, content: dict[str, Any] | None = None) -> dict[str, Any]:
    responses = _answers(*statuses)
    if content is not None:
        responses[200] = {"content": content}
    return {
        "tags": ["state"],
        "response_description": "The requested data.",
        "responses": responses,
        "openapi_extra": {"security": []},
    }


async def _body_of(request: Request, seconds: float) -> bytes:
    """The JSON body, if it arrives in time."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # A page in a browser can send other types to any address without permission.
        raise _Refusal(415, "unsupported_media_type", "send Content-Type: application/json")
    # What follows on the connection would be the rest of this body, so it is closed.
    most, close = limits.AANA_EVENT_BYTES, {"Connection": "close"}
    try:
        data = await read_body(request, most, seconds)
    except TimeoutError:
        raise _Refusal(408, "body_too_slow", f"the body did not arrive within {seconds:g} s", close) from None
    if data is None:
        raise _Refusal(413, "body_too_large", f"an event may have at most {most} bytes", close)
    return data


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
        raise _Refusal(404, "no_metrics", "give a workspace, threegate[metrics] and the plugin evidence")
    try:
        text = await asyncio.to_thread(metrics)
    except (OSError, ThreeGateError):
        raise _Refusal(503, "metrics_not_readable", "the trail or a folder cannot be read by this account") from None
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _is_here(host: str) -> bool:
    """Whether a Host names this machine by an address of loopback, or as localhost; with or without a port."""
    name = _HERE.fullmatch(host.lower())
    if name is None or name[1] == "localhost":
        return name is not None
    try:
        return ipaddress.ip_address(name[1].strip("[]")).is_loopback
    except ValueError:
        return False


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


def _has_token(request: HTTPConnection, token: str) -> bool:
    """Exactly one Authorization header with exactly the token, compared in constant time."""
    # Of two headers a proxy might read one and this server the other, so there must be exactly one.
    given = request.headers.getlist("authorization")
    scheme, _, credentials = (given[0] if len(given) == 1 else "").partition(" ")
    # As bytes: compare_digest takes text in ASCII only, and a header may have any byte.
    right = hmac.compare_digest(credentials.strip().encode("latin-1"), token.encode())
    return scheme.lower() == "bearer" and right
