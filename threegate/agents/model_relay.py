"""The relay between a jailed agent and its model: a separate process outside the jail, and the only way out.

Invariant: nothing that the agent sent is forwarded unchanged. Head and body are parsed (h11, strict JSON),
checked (`model_protocols`) and rewritten, with the operator's key for one host over TLS and no other
credential; no redirect is followed and no connection is upgraded. The key is read from a pipe, so it is in no
argument, no environment and no file. When the pipe closes, because the launcher exited or was killed, the
relay exits.

Run as ``python -m threegate.agents.model_relay SOCKET COUNTS``: two descriptors, of the listening socket and
of the file for the counts. Its settings are one JSON line on stdin.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

import httpx
import uvicorn

from threegate.agents.model_counts import ModelCounts, RelaySettings
from threegate.agents.model_protocols import ModelRequestRefused, check_request
from threegate.core import limits
from threegate.core.canonical import StrictJSONError, loads_strict

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_QUERIES: Final[Mapping[str, frozenset[str]]] = {
    "responses": frozenset(("",)),
    "chat": frozenset(("",)),
    "messages": frozenset(("", "beta=true")),
    "gemini": frozenset(("", "alt=sse")),
}
_BETA: Final = re.compile(
    r"(claude-code|interleaved-thinking|fine-grained-tool-streaming|prompt-caching|context-1m|token-efficient-tools"
    r"|extended-cache-ttl|output-128k|effort|structured-outputs)-[0-9a-z-]{1,40}"
).fullmatch
"""Betas of Anthropic's API that change how the model answers; those that let the provider reach out are not
forwarded.
"""
_PASSED_BACK: Final = frozenset(("content-type", "retry-after", "request-id", "x-request-id"))
_USAGE: Final = re.compile(rb'"(total_tokens|input_tokens|output_tokens|totalTokenCount)"\s*:\s*([0-9]{1,12})')


class Relay:
    """One ASGI application for one run."""

    def __init__(self, settings: RelaySettings, counts: int) -> None:
        self._settings = settings
        self._file = counts
        self._client = httpx.AsyncClient(
            follow_redirects=False,
            trust_env=False,
            timeout=httpx.Timeout(limits.AGENT_MODEL_SECONDS, connect=20),
        )
        self.counts = ModelCounts()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        try:
            path, body, headers = await self._judged(scope, receive)
        except (ModelRequestRefused, StrictJSONError) as error:
            self.counts.refused += 1
            self.counts.write(self._file)
            await _answer(send, 403, f"ThreeGate's model relay refuses: {error}")
            return
        self.counts.requests += 1
        self.counts.bytes_out += len(body)
        self.counts.write(self._file)
        started = False
        try:
            async with self._client.stream("POST", self._settings.url + path, content=body, headers=headers) as reply:
                if 300 <= reply.status_code < 400:
                    await _answer(send, 502, "the model's endpoint answered with a redirect, which is not followed")
                    return
                passed = [(name, value) for name, value in reply.headers.raw if name.decode().lower() in _PASSED_BACK]
                await send({"type": "http.response.start", "status": reply.status_code, "headers": passed})
                started = True
                await self._stream(reply, send)
        except httpx.HTTPError as error:
            if not started:
                await _answer(send, 502, f"the model's endpoint cannot be reached ({type(error).__name__})")
                return
            raise
        finally:
            self.counts.write(self._file)

    async def _stream(self, reply: httpx.Response, send: Send) -> None:
        """Forward the answer as it arrives, and count it. A run whose budget is used up gets no more of
        it.
        """
        tail, used = b"", _Usage()
        async for piece in reply.aiter_raw():
            self.counts.bytes_in += len(piece)
            tail = used.look(tail + piece)
            if self.counts.bytes_in + self.counts.bytes_out > self._settings.bytes:
                break
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        self.counts.tokens += used.tokens
        self.counts.write(self._file)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _judged(self, scope: dict[str, Any], receive: Receive) -> tuple[str, bytes, dict[str, str]]:
        """Path with its query, body and headers for the provider. Raises ModelRequestRefused, StrictJSONError."""
        settings, counts = self._settings, self.counts
        heads: dict[str, str] = {}
        for name, value in scope["headers"]:
            heads[name.decode("latin-1")] = value.decode("latin-1")
        if scope["method"] != "POST" or "upgrade" in heads or "content-encoding" in heads:
            raise ModelRequestRefused("this kind of request")
        query = scope["query_string"].decode("latin-1")
        if query not in _QUERIES[settings.protocol]:
            raise ModelRequestRefused("this query")
        if counts.requests >= settings.requests or counts.bytes_in + counts.bytes_out >= settings.bytes:
            raise ModelRequestRefused("more in this run: its budget (agents.NAME.requests, megabytes) is used up")
        if settings.tokens and counts.tokens >= settings.tokens:
            raise ModelRequestRefused("more in this run: its budget (agents.NAME.tokens) is used up")
        data = await _body(receive)
        value = loads_strict(data, max_bytes=limits.AGENT_MODEL_REQUEST_BYTES)
        passed = check_request(settings.protocol, scope["raw_path"].decode("latin-1"), value, settings.models)
        body = json.dumps(passed.body, ensure_ascii=False, separators=(",", ":")).encode()
        return f"{passed.path}?{query}" if query else passed.path, body, self._headers(heads)

    def _headers(self, heads: Mapping[str, str]) -> dict[str, str]:
        """Headers of our own. Of the agent's headers, only the accepted content type and the listed Anthropic
        betas are used.
        """
        stream = "text/event-stream" in heads.get("accept", "")
        made = {
            "content-type": "application/json",
            "accept": "text/event-stream" if stream else "application/json",
            "accept-encoding": "identity",
            "user-agent": "threegate",
        }
        key = self._settings.key
        if self._settings.protocol == "messages":
            made["anthropic-version"] = "2023-06-01"
            betas = [name.strip() for name in heads.get("anthropic-beta", "").split(",")]
            if known := [name for name in betas if _BETA(name)]:
                made["anthropic-beta"] = ",".join(known)
            return {**made, "x-api-key": key} if key else made
        if self._settings.protocol == "gemini":
            return {**made, "x-goog-api-key": key} if key else made
        return {**made, "authorization": f"Bearer {key}"} if key else made


class _Usage:
    """Tokens of one answer: the largest number of each kind that the provider reported, because streams
    repeat them.
    """

    def __init__(self) -> None:
        self._said: dict[bytes, int] = {}

    def look(self, text: bytes) -> bytes:
        """Count the numbers in a text; return its end, where a number may continue."""
        for match in _USAGE.finditer(text):
            self._said[match[1]] = max(self._said.get(match[1], 0), int(match[2]))
        return text[-64:]

    @property
    def tokens(self) -> int:
        """The sum of all kinds."""
        said = self._said
        total = max(said.get(b"total_tokens", 0), said.get(b"totalTokenCount", 0))
        return total or said.get(b"input_tokens", 0) + said.get(b"output_tokens", 0)


async def _body(receive: Receive) -> bytes:
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ModelRequestRefused("an incomplete request")
        piece = message.get("body", b"")
        size += len(piece)
        if size > limits.AGENT_MODEL_REQUEST_BYTES:
            raise ModelRequestRefused(f"more than {limits.AGENT_MODEL_REQUEST_BYTES >> 20} MiB in one request")
        pieces.append(piece)
        if not message.get("more_body"):
            return b"".join(pieces)


async def _answer(send: Send, status: int, text: str) -> None:
    """An error in a form that the clients of all four protocols display."""
    data = json.dumps(
        {"type": "error", "error": {"type": "permission_error", "code": status, "message": text}}
    ).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})


async def _serve(app: Relay, listener: socket.socket) -> None:
    config = uvicorn.Config(
        cast(Any, app),
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        lifespan="off",
        http="h11",
        ws="none",
        limit_concurrency=limits.AGENT_MODEL_CONNECTIONS,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=limits.SERVE_HEAD_BYTES,
    )
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    server = uvicorn.Server(config)
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), lambda: setattr(server, "should_exit", not os.read(0, 1)))
    await server.serve(sockets=[listener])


def main() -> None:
    """Serve until stdin closes."""
    listener, counts = int(sys.argv[1]), int(sys.argv[2])
    line = b""
    while not line.endswith(b"\n"):
        if not (piece := os.read(0, 1)):
            return
        line += piece
    given = json.loads(line)
    given["models"] = tuple(given["models"])
    settings = RelaySettings(**given)
    asyncio.run(_serve(Relay(settings, counts), socket.socket(fileno=listener)))


if __name__ == "__main__":
    main()
