"""Lines from an MCP client: parsed strictly before anything else reads them, and always answered.

Invariant: only single JSON-RPC messages in unambiguous JSON reach the server, as over HTTP; for every other
line, each id in it gets an error. The text of an error repeats nothing of the line.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from mcp_types import INVALID_REQUEST, PARSE_ERROR, jsonrpc_message_adapter

from threegate.core import canonical, limits

Id = int | str | None
Answer = Callable[[Id, int, str], Awaitable[None]]
"""(id, code, message) → an error to the client."""
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)


class NotRead(Exception):
    """A line that is not a message. `code` is JSON-RPC's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def read_line(line: bytes) -> str:
    """The line as text, if it is one message. Raises NotRead."""
    try:
        value = canonical.loads_strict(line, max_bytes=limits.MCP_LINE_BYTES, max_depth=limits.MCP_DEPTH)
    except canonical.StrictJSONError as error:
        raise NotRead(PARSE_ERROR, f"Parse error: {error}") from None
    if isinstance(value, list):
        raise NotRead(INVALID_REQUEST, "Invalid request: a batch; send each message by itself")
    try:
        jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError:
        raise NotRead(INVALID_REQUEST, "Invalid request: not a JSON-RPC request, notification or response") from None
    return line.decode()


def ids_of(line: bytes) -> list[Id]:
    """The id of each message in a line, as far as it can be known; None if it cannot. Never empty, never raises.

    Only tokens are examined: this works for lines that no JSON parser accepts, at any depth and with numbers of any
    length.
    """
    found: list[Id] = []
    current: list[Id] | None = None
    depth, level, key, before = 0, 1, b"", b""
    for match in _TOKEN.finditer(line):
        token = match.group()
        if token in (b"{", b"["):
            if depth == 0 and token == b"[":
                level = 2
            depth += 1
            if depth == level and token == b"{":
                current = []
        elif token in (b"}", b"]"):
            if depth == level and current is not None:
                found += _one(current)
                current = None
            depth -= 1
        elif token == b":":
            key = before
        elif token != b"," and before == b":" and depth == level and current is not None and _text(key) == "id":
            current.append(_scalar(token))
        before = token
    if current is not None:
        found += _one(current)
    return found or [None]


def _one(ids: list[Id]) -> list[Id]:
    """The id of one message: none if it has none, None if it has several."""
    return ids[:1] if len({(type(item), item) for item in ids}) <= 1 else [None]


def _scalar(token: bytes) -> Id:
    if re.fullmatch(rb"-?[0-9]{1,16}", token) and abs(int(token)) <= canonical.INTEGER_MAX:
        return int(token)
    return _text(token)


def _text(token: bytes) -> str | None:
    """A JSON string's text; None if it is long or ambiguous."""
    if not token.startswith(b'"') or len(token) > limits.MCP_NAME_BYTES:
        return None
    try:
        value: Any = canonical.loads_strict(token, max_bytes=limits.MCP_NAME_BYTES)
    except canonical.StrictJSONError:
        return None
    return str(value)


async def read_lines(readline: Callable[[int], Awaitable[bytes]], answer: Answer) -> AsyncIterator[str]:
    """The messages of a stream. Other lines are answered here. `readline(most)` returns at most `most` bytes."""
    while line := await readline(limits.MCP_LINE_BYTES + 1):
        # What is left of a line that is too long is dropped: it would be taken for the next line.
        rest = line
        while len(rest) > limits.MCP_LINE_BYTES and not rest.endswith(b"\n"):
            rest = await readline(limits.MCP_LINE_BYTES + 1)
        if not line.strip():
            continue
        try:
            text = read_line(line.rstrip(b"\r\n"))
        except NotRead as error:
            # A line of a megabyte can name a hundred thousand ids.
            for item in ids_of(line)[: limits.MCP_BATCH_ANSWERS]:
                await answer(item, error.code, str(error))
        else:
            yield text
