"""Messages of a tool server: JSON lines over its standard streams, each parsed strictly, within limits of
bytes and time.

Invariant: whatever a server writes or does not read, a call here returns by its deadline; nothing beyond its
byte budget is kept. Ambiguous input (duplicate keys, a batch, invalid UTF-8) ends the conversation: it is
never skipped. Nothing leaves here with one of the server's secrets in it (`known_values`): this is the only place
where a server's words come in, so results, errors, progress, requests of its own and its lists are all masked.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final

import orjson

from threegate.core import canonical, limits
from threegate.core.errors import Unavailable
from threegate.core.secretscan.scan import mask_secrets
from threegate.plugins.tools.known_values import KnownValues

_PIECE: Final = 1 << 16


class ServerError(Unavailable):
    """A tool server failed. `reached` says whether a call may have had an effect: then it is never repeated.

    `code` is one of `server_not_started`, `server_ended`, `server_silent` (timeout), `server_answer_too_large`,
    `server_protocol` (an invalid answer), `server_error` (it refused before any call), `cancelled`, and
    `input_required`: it asked for something during a call. Then `asked` is its request (method and params), as data.
    """

    def __init__(
        self, code: str, message: str, *, reached: bool = False, asked: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reached = reached
        self.asked = asked


class MessageStream:
    """Both directions of one process. One thread talks; `cancel` may be called from any other."""

    def __init__(self, process: subprocess.Popen[bytes], secrets: Sequence[str] = ()) -> None:
        assert process.stdin and process.stdout and process.stderr
        self._stdin: IO[bytes] = process.stdin
        self._stdout: IO[bytes] = process.stdout
        self._stderr: IO[bytes] = process.stderr
        for stream in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(stream.fileno(), False)
        self._secrets = KnownValues(secrets)
        self._cancel = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector = selectors.DefaultSelector()
        for source in (self._stdout.fileno(), self._stderr.fileno(), self._cancel):
            self._selector.register(source, selectors.EVENT_READ)
        self._lines: deque[bytes] = deque()
        self._partial = bytearray()
        self._last_words = b""
        self._words_cut = False
        self._ended = False
        self._budget = limits.TOOLS_START_BYTES
        self._deadline = 0.0

    def begin(self, *, seconds: float, max_bytes: int) -> None:
        """The budget from now until the next `begin`; bytes already waiting to be read count."""
        self._deadline = time.monotonic() + seconds
        self._budget = max_bytes - len(self._partial) - sum(map(len, self._lines))

    def send(self, message: Mapping[str, Any]) -> None:
        """Write one complete message. Raises ServerError."""
        view = memoryview(orjson.dumps(message) + b"\n")
        self._selector.register(self._stdin.fileno(), selectors.EVENT_WRITE)
        try:
            while view:
                if self._wait():
                    with suppress(BlockingIOError):
                        view = view[os.write(self._stdin.fileno(), view[:_PIECE]) :]
        except BrokenPipeError:
            raise self._gone() from None
        finally:
            self._selector.unregister(self._stdin.fileno())

    def receive(self, *, scanned: bool = True) -> dict[str, Any]:
        """The next message, masked. What only looks like a secret is masked with `scanned`; without, it stays, because
        what is pinned of a server must not depend on what we recognize today. Raises ServerError.
        """
        while not self._lines:
            if self._ended:
                raise self._gone()
            self._wait()
        return read_message(self._lines.popleft(), self._secrets, scanned=scanned)

    @property
    def met_secret(self) -> bool:
        """Whether any message so far had one of the server's secrets."""
        return self._secrets.met

    def pending(self) -> bool:
        """Whether a message is waiting. Raises ServerError."""
        self._take(0)
        return bool(self._lines)

    def cancel(self) -> None:
        """Make the current wait, and everything after it, fail with `cancelled`."""
        with suppress(OSError):
            os.eventfd_write(self._cancel, 1)

    def say_once(self, message: Mapping[str, Any]) -> None:
        """Write a message if that is possible without waiting; otherwise drop it."""
        with suppress(OSError):
            os.write(self._stdin.fileno(), orjson.dumps(message) + b"\n")

    def last_words(self) -> str:
        """The end of its standard error, as one line."""
        said = self._secrets.text(self._last_words.decode("utf-8", "replace")).strip().splitlines()
        if not said:
            return ""
        if self._words_cut and len(said) == 1:
            # The start of the line is gone; a secret in its first word could not be recognized.
            return one_line(said[0].partition(" ")[2])
        return one_line(said[-1])

    def close(self) -> None:
        """Close all descriptors; a server that reads its input sees the end of it."""
        self._selector.close()
        for stream in (self._stdin, self._stdout, self._stderr):
            with suppress(OSError):
                stream.close()
        os.close(self._cancel)

    def _wait(self) -> bool:
        """Read until something arrives; return whether standard input accepts bytes. Raises ServerError."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise ServerError("server_silent", "the server did not answer in time")
        return self._take(left)

    def _take(self, seconds: float) -> bool:
        writable = False
        for key, _ in self._selector.select(seconds):
            if key.fd == self._cancel:
                raise ServerError("cancelled", "the call was cancelled")
            if key.fd == self._stdin.fileno():
                writable = True
            else:
                self._read(key.fd)
        return writable

    def _read(self, source: int) -> None:
        try:
            piece = os.read(source, _PIECE)
        except BlockingIOError:
            return
        if not piece:
            self._selector.unregister(source)
            self._ended = self._ended or source == self._stdout.fileno()
        elif source == self._stderr.fileno():
            said = self._last_words + piece
            self._words_cut = self._words_cut or len(said) > limits.TOOLS_STDERR_BYTES
            self._last_words = said[-limits.TOOLS_STDERR_BYTES :]
        else:
            self._budget -= len(piece)
            if self._budget < 0:
                raise ServerError("server_answer_too_large", "the server sent more than the limit for an answer")
            # Line by line: a bytearray that is split again for each piece would be quadratic in a long line.
            *lines, rest = piece.split(b"\n")
            for line in lines:
                self._partial += line
                if self._partial.strip():
                    self._lines.append(bytes(self._partial))
                self._partial.clear()
            self._partial += rest

    def _gone(self) -> ServerError:
        said = self.last_words()
        return ServerError("server_ended", f"the server ended before it answered{f' ({said})' if said else ''}")


def read_message(data: bytes, secrets: KnownValues, *, scanned: bool) -> dict[str, Any]:
    """One message, masked; `scanned` as in `KnownValues.json`. Raises ServerError."""
    try:
        message = canonical.loads_strict(data, max_bytes=len(data))
    except canonical.StrictJSONError as error:
        raise ServerError("server_protocol", f"the server wrote what is not a message ({error})") from None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise ServerError("server_protocol", "the server wrote what is not a JSON-RPC message")
    masked: dict[str, Any] = secrets.json(message, scanned=scanned)
    return masked


def one_line(text: str) -> str:
    """A server's words, already masked, as one short line, without what looks like a secret."""
    line = mask_secrets(text)
    return "".join(char if char.isprintable() else "?" for char in line)[: limits.TOOLS_WORDS_CHARS]
