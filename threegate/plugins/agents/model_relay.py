"""The relay between a jailed agent and its model: a separate process outside the jail, and the only way out.

Invariant: nothing that the agent sent is forwarded unchanged. Head and body are parsed (h11, strict JSON),
checked (`model_protocols`) and rewritten, with the operator's key or login for one host over TLS and no other
credential, cookies included; no redirect is followed and no connection is upgraded. The key is read from a pipe, so it
is in no argument, no environment and no file; a login is read from its folder (`chatgpt_upstream`). An answer that
repeats either is masked. When the pipe closes, because the launcher exited or was killed, the relay exits.

Budgets are exact also for requests at the same time: a request and its bytes are reserved before the first await, and
given back if it is refused; while tokens are limited, one answer is counted before the next request is made. Memory
is bounded: a body is read only when there is room for it (AGENT_MODEL_HELD_BYTES), and the process may not have more
than AGENT_MODEL_MEMORY_MB of data.

Run as ``python -m threegate.plugins.agents.model_relay SOCKET COUNTS``: two descriptors, of the listening socket and
of the file for the counts. Its settings are one JSON line on stdin.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import resource
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final, cast

import httpx
import uvicorn

from threegate.core import limits
from threegate.core.canonical import StrictJSONError, loads_strict
from threegate.plugins.agents.chatgpt_upstream import EXPIRED_OUTSIDE, RESPONSES, ChatGPTUpstream
from threegate.plugins.agents.model_counts import ModelCounts, RelaySettings
from threegate.plugins.agents.model_protocols import ModelRequestRefused, Passed, check_request
from threegate.plugins.tools.known_values import MASK, KnownValues

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_QUERIES: Final[Mapping[str, frozenset[str]]] = {
    "responses": frozenset(("",)),
    "chat": frozenset(("",)),
    "messages": frozenset(("", "beta=true")),
    "gemini": frozenset(("", "alt=sse")),
}
_KEY_HEADERS: Final[Mapping[str, tuple[str, str]]] = {
    "responses": ("authorization", "Bearer {}"),
    "chat": ("authorization", "Bearer {}"),
    "messages": ("x-api-key", "{}"),
    "gemini": ("x-goog-api-key", "{}"),
}
_BETA: Final = re.compile(
    r"(claude-code|interleaved-thinking|fine-grained-tool-streaming|prompt-caching|context-1m|token-efficient-tools"
    r"|extended-cache-ttl|output-128k|effort|structured-outputs)-[0-9a-z-]{1,40}"
).fullmatch
"""Betas of Anthropic's API that change how the model answers; those that let the provider reach out are not forwarded.
"""
_REFUSES: Final = "ThreeGate's model relay refuses:"
_PASSED_BACK: Final = frozenset(("content-type", "retry-after", "request-id", "x-request-id"))
_TOTALS: Final = (b"total_tokens", b"totalTokenCount")
_PARTS: Final = (b"input_tokens", b"cache_creation_input_tokens", b"cache_read_input_tokens", b"output_tokens")
"""Of Anthropic's messages, where `input_tokens` does not include what was cached."""
_USAGE: Final = re.compile(rb'"(%s)"\s*:\s*([0-9]{1,12})' % b"|".join((*_TOTALS, *_PARTS)))


class Relay:
    """One ASGI application for one run."""

    def __init__(self, settings: RelaySettings, counts: int) -> None:
        self._settings = settings
        self._file = counts
        self._client = httpx.AsyncClient(
            follow_redirects=False,
            trust_env=False,  # no proxy and no netrc of the person
            timeout=httpx.Timeout(limits.AGENT_MODEL_SECONDS, connect=20),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),  # keeps none
        )
        self.counts = ModelCounts()
        self._login = ChatGPTUpstream(self._client, settings) if settings.login else None
        self._hidden = _Hidden(frozenset((settings.key,)) - {""})
        self._held = 0
        self._room = asyncio.Condition()
        self._turn = asyncio.Lock()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        counts = self.counts
        try:
            heads = self._head(scope)
            size = _declared(heads)
            # From here to the first await nothing else runs: what is checked here is still so when it is counted.
            self._check_budget()
            counts.requests += 1
            counts.bytes_out += size
        except ModelRequestRefused as error:
            await self._refuse(send, error)
            return
        counts.write(self._file)
        async with AsyncExitStack() as held:
            try:
                if self._settings.tokens:
                    await held.enter_async_context(self._turn)
                    self._check_tokens()
                await held.enter_async_context(self._room_for(size))
                passed, body = self._checked(scope, await _body(receive, size))
                credential = await self._credential()
            except (ModelRequestRefused, StrictJSONError, MemoryError) as error:
                counts.requests -= 1
                counts.bytes_out -= size
                await self._refuse(send, error)
                return
            counts.bytes_out += len(body) - size
            counts.write(self._file)
            path, query = passed.path if self._login is None else RESPONSES, scope["query_string"].decode("latin-1")
            headers = {**self._headers(heads), **credential}
            await self._forward(passed, f"{path}?{query}" if query else path, body, headers, send)

    def _head(self, scope: dict[str, Any]) -> dict[str, str]:
        """The headers. Raises ModelRequestRefused."""
        heads = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["method"] != "POST" or "upgrade" in heads or "content-encoding" in heads:
            raise ModelRequestRefused("this kind of request")
        if scope["query_string"].decode("latin-1") not in _QUERIES[self._settings.protocol]:
            raise ModelRequestRefused("this query")
        return heads

    def _check_budget(self) -> None:
        settings, counts = self._settings, self.counts
        if counts.requests >= settings.requests or counts.bytes_in + counts.bytes_out >= settings.bytes:
            raise ModelRequestRefused("more in this run: its budget (agents.NAME.requests, megabytes) is used up")
        self._check_tokens()

    def _check_tokens(self) -> None:
        if self._settings.tokens and self.counts.tokens >= self._settings.tokens:
            raise ModelRequestRefused("more in this run: its budget (agents.NAME.tokens) is used up")

    @asynccontextmanager
    async def _room_for(self, size: int) -> AsyncIterator[None]:
        """Room for a body. Whoever waits for it has read nothing, so those who have it can finish."""
        async with self._room:
            await self._room.wait_for(lambda: self._held + size <= limits.AGENT_MODEL_HELD_BYTES)
            self._held += size
        try:
            yield
        finally:
            async with self._room:
                self._held -= size
                self._room.notify_all()

    def _checked(self, scope: dict[str, Any], data: bytes) -> tuple[Passed, bytes]:
        """The request, and its body for the provider. Raises ModelRequestRefused, StrictJSONError, MemoryError."""
        settings = self._settings
        # Before it is parsed: a pair of brackets takes many times its two bytes in memory.
        if data.count(b"[") + data.count(b"{") > limits.AGENT_MODEL_BRACKETS:
            raise ModelRequestRefused(f"more than {limits.AGENT_MODEL_BRACKETS} brackets in one request")
        value = loads_strict(data, max_bytes=limits.AGENT_MODEL_REQUEST_BYTES)
        passed = check_request(settings.protocol, scope["raw_path"].decode("latin-1"), value, settings.models)
        return passed, json.dumps(passed.body, ensure_ascii=False, separators=(",", ":")).encode()

    async def _refuse(self, send: Send, error: Exception) -> None:
        self.counts.refused += 1
        self.counts.write(self._file)
        why = f"more than its memory holds ({limits.AGENT_MODEL_MEMORY_MB} MiB)"
        await _answer(send, 403, f"{_REFUSES} {why if isinstance(error, MemoryError) else error}")

    async def _credential(self) -> dict[str, str]:
        """The headers with the key, or with the login as it is now. Raises ModelRequestRefused."""
        if self._login is not None:
            headers = await self._login.headers()
            self._hidden = self._hidden.with_all(self._login.values)
            return headers
        if not self._settings.key:
            return {}
        header, form = _KEY_HEADERS[self._settings.protocol]
        return {header: form.format(self._settings.key)}

    async def _forward(self, passed: Passed, path: str, body: bytes, headers: Mapping[str, str], send: Send) -> None:
        started = False
        try:
            async with self._client.stream("POST", self._settings.url + path, content=body, headers=headers) as reply:
                if self._login is not None and reply.status_code == httpx.codes.UNAUTHORIZED:
                    self._login.forget()
                    await _answer(send, 403, f"{_REFUSES} {EXPIRED_OUTSIDE}")
                    return
                if 300 <= reply.status_code < 400:
                    await _answer(send, 502, "the model's endpoint answered with a redirect, which is not followed")
                    return
                named = [
                    (name, self._hidden.masked(value))
                    for name, value in reply.headers.raw
                    if name.decode().lower() in _PASSED_BACK
                ]
                await send({"type": "http.response.start", "status": reply.status_code, "headers": named})
                started = True
                await self._stream(reply, send, len(body) if passed.answers else None)
        except httpx.HTTPError as error:
            if not started:
                await _answer(send, 502, f"the model's endpoint cannot be reached ({type(error).__name__})")
                return
            raise
        finally:
            self.counts.write(self._file)

    async def _stream(self, reply: httpx.Response, send: Send, asked: int | None) -> None:
        """Forward the answer as it arrives, and count it, whatever ends it. A run whose budget is used up gets no
        more of it. `asked` is the size of the request; None if it uses no tokens.
        """
        tail, used, size, waiting = b"", _Usage(), 0, b""
        try:
            async for piece in reply.aiter_raw():
                size += len(piece)
                self.counts.bytes_in += len(piece)
                tail = used.look(tail + piece)
                if self.counts.bytes_in + self.counts.bytes_out > self._settings.bytes:
                    waiting = b""
                    break
                ready, waiting = self._hidden.split(waiting + piece)
                await send({"type": "http.response.body", "body": ready, "more_body": True})
        finally:
            if asked is not None and reply.status_code < 300:
                # A provider that reports no tokens must not make the budget endless.
                self.counts.tokens += used.tokens or -(-(asked + size) // limits.AGENT_MODEL_TOKEN_BYTES)
            self.counts.write(self._file)
        await send({"type": "http.response.body", "body": self._hidden.masked(waiting), "more_body": False})

    def _headers(self, heads: Mapping[str, str]) -> dict[str, str]:
        """Our headers. Of the agent's, only the accepted content type and the listed Anthropic betas are used."""
        stream = "text/event-stream" in heads.get("accept", "")
        made = {
            "content-type": "application/json",
            "accept": "text/event-stream" if stream else "application/json",
            # A compressed answer could not be searched for the key.
            "accept-encoding": "identity",
            "user-agent": "threegate",
        }
        if self._settings.protocol == "messages":
            made["anthropic-version"] = "2023-06-01"
            betas = [name.strip() for name in heads.get("anthropic-beta", "").split(",")]
            if known := [name for name in betas if _BETA(name)]:
                made["anthropic-beta"] = ",".join(known)
        return made


class _Hidden:
    """Values that no answer may have: the key, or all of a login."""

    def __init__(self, values: frozenset[str]) -> None:
        self._values = values
        self._whole = sorted((value.encode() for value in values), key=len, reverse=True)
        most, end = limits.AGENT_MASKED_CHARS, limits.AGENT_MASKED_END_CHARS
        self._forms = KnownValues([value if len(value) <= most else value[-end:] for value in values])

    def with_all(self, values: frozenset[str]) -> _Hidden:
        """These values and the present ones."""
        return self if values <= self._values else _Hidden(self._values | values)

    def masked(self, data: bytes) -> bytes:
        """The data with each value masked."""
        if not self._values:
            return data
        for value in self._whole:
            data = data.replace(value, MASK.encode())
        return self._forms.text(data.decode("latin-1")).encode("latin-1")

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """The part of an answer that may be sent, masked, and the rest, in which a value may begin."""
        masked = self.masked(data)
        begun = len(masked)
        for value in self._whole:
            at = masked.find(value[:1], max(0, len(masked) - len(value) + 1))
            while 0 <= at < begun:
                if value.startswith(masked[at:]):
                    begun = at
                at = masked.find(value[:1], at + 1)
        return masked[:begun], masked[begun:]


class _Usage:
    """Tokens of one answer: the largest number of each kind that the provider reported, because streams repeat them."""

    def __init__(self) -> None:
        self._said: dict[bytes, int] = {}

    def look(self, text: bytes) -> bytes:
        """Count the numbers in a text; return its end, where a number may continue."""
        for match in _USAGE.finditer(text):
            self._said[match[1]] = max(self._said.get(match[1], 0), int(match[2]))
        return text[-64:]  # a name and the beginning of its number may be in two pieces

    @property
    def tokens(self) -> int:
        """The larger of the total and the sum of the parts: an answer may also contain such names as data."""
        said = self._said
        return max(*(said.get(name, 0) for name in _TOTALS), sum(said.get(name, 0) for name in _PARTS))


def _declared(heads: Mapping[str, str]) -> int:
    """How many bytes a body will have at most. Raises ModelRequestRefused."""
    length = heads.get("content-length", "")
    # Without a length, or with one that is not a number, the largest body is reserved.
    size = int(length) if length.isdecimal() and len(length) < 19 else limits.AGENT_MODEL_REQUEST_BYTES
    if size > limits.AGENT_MODEL_REQUEST_BYTES:
        raise ModelRequestRefused(f"more than {limits.AGENT_MODEL_REQUEST_BYTES >> 20} MiB in one request")
    return size


async def _body(receive: Receive, most: int) -> bytes:
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ModelRequestRefused("an incomplete request")
        piece = message.get("body", b"")
        size += len(piece)
        if size > most:
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
    most = limits.AGENT_MODEL_MEMORY_MB << 20
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    listener, counts = int(sys.argv[1]), int(sys.argv[2])
    line = b""
    while not line.endswith(b"\n"):  # byte by byte: the end of stdin is watched by its descriptor afterwards
        if not (piece := os.read(0, 1)):
            return
        line += piece
    given = json.loads(line)
    given["models"] = tuple(given["models"])
    settings = RelaySettings(**given)
    asyncio.run(_serve(Relay(settings, counts), socket.socket(fileno=listener)))


if __name__ == "__main__":
    main()
