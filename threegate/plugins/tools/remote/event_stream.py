"""The messages in an answer that is an event stream, each parsed strictly.

Invariant: what comes out depends on the bytes alone, not on how they arrived in pieces. Nothing is asked for again: an
event's `id` and `retry` are for clients that reconnect. Source: the HTML standard, "Server-sent events".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

_LINE: Final = re.compile(rb"\r\n|\n|\r")


def event_data(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each event of the kind `message`, in order; what is behind the last blank line is no event. Events of
    another kind, comments and events without data are left out.
    """
    kind, data = b"", list[bytes]()
    for number, line in enumerate(_lines(pieces)):
        if number == 0:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            if kind in (b"", b"message") and (joined := b"\n".join(data)):
                yield joined
            kind, data = b"", []
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            kind = value
        elif name == b"data":
            data.append(value)


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Each line that has an end, without it. A CR at the end of a piece may be half of one."""
    rest: list[bytes] = []
    half = False
    for piece in pieces:
        if half and piece.startswith(b"\n"):
            piece, half = piece[1:], False
        if not piece:
            continue
        half = piece.endswith(b"\r")
        *lines, last = _LINE.split(piece)
        for line in lines:
            yield b"".join((*rest, line))
            rest.clear()
        rest.append(last)
