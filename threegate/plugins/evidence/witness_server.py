"""The HTTP side of a witness: POST /add-checkpoint, GET /<sha256 of the origin>/checkpoint (C2SP
tlog-witness).

Invariant: one checkpoint is judged at a time, so that what is compared is what is replaced; no body is read
beyond its limit or its timeout; every answer is one line in the log.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.plugins.evidence.witness import Witness
from threegate.plugins.serve.connections import read_body


def create_witness_app(witness: Witness, say: Callable[[int, str], None]) -> Starlette:
    """The application; `say` receives the status and the line of each answer."""

    async def add_checkpoint(request: Request) -> Response:
        try:
            body = await read_body(request, limits.WITNESS_BODY_BYTES, limits.SERVE_BODY_SECONDS)
        except (TimeoutError, ClientDisconnect):
            return _no(say, 400, "the body did not arrive in time")
        if body is None:
            return _no(say, 400, f"the body is larger than {limits.WITNESS_BODY_BYTES} bytes")
        try:
            answer = witness.add(body)  # in the event loop: nothing else is judged meanwhile
        except Unavailable as error:
            say(503, str(error))
            return PlainTextResponse("the state of this witness cannot be written\n", 503)
        say(answer.status, answer.line)
        return Response(answer.body, answer.status, media_type=answer.content_type)

    async def checkpoint(request: Request) -> Response:
        note = witness.last(request.path_params["origin_hash"])
        if note is None:
            return PlainTextResponse("no checkpoint of that log was cosigned\n", 404)
        return Response(note, media_type="text/plain; charset=utf-8")

    return Starlette(
        routes=[
            Route("/add-checkpoint", add_checkpoint, methods=["POST"]),
            Route("/{origin_hash}/checkpoint", checkpoint, methods=["GET"]),
        ]
    )


def _no(say: Callable[[int, str], None], status: int, line: str) -> Response:
    say(status, line)
    return PlainTextResponse(f"{line}\n", status)
