"""Colours of code on a screen. Lexers are work on foreign text, so a process of its own runs them, for one screen.
Who draws while they work asks from a thread, and another one may `stop` it.

Invariant: colours change no character and hide none: the pieces that come back, joined, are the text that was given,
or it stays plain. So it does if it is longer than COLOUR_TEXT_BYTES, if its colours take more than COLOUR_TEXT_SECONDS,
and if the process fails; one that was too slow or answered something else is ended and not asked again.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

from threegate.core import limits
from threegate.core.own_process import own_process

STYLES: Final = {"": "", "comment": "36", "string": "33", "number": "35", "keyword": "1;34", "name": "34"}
"""The parameters of a style's SGR sequence. None is dim."""


class LexerProcess:
    """A process that runs lexers, from the first text that it is asked for until the end of a screen."""

    def __init__(self, command: Sequence[str] = ()) -> None:
        """`command` is what is started; by default our own process."""
        self._command = command or own_process("threegate.core.lexer_process")
        self._child: subprocess.Popen[bytes] | None = None
        self._loaded: set[str] = set()
        """Lexers that the process is ready for."""
        self._failed = False

    def __enter__(self) -> LexerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def stop(self) -> None:
        """What is asked for, or will be, stays plain; from any thread, and at once."""
        self._failed = True
        if (child := self._child) is not None:
            child.kill()

    def colours(self, lexer: str, text: str) -> list[tuple[str, str]] | None:
        """Style and text of each piece of a text, in order; None where it stays plain."""
        if self._failed or not text or len(text.encode()) > limits.COLOUR_TEXT_BYTES:
            return None
        try:
            child = self._child = self._child or self._start()
            if self._failed:
                raise OSError("it was stopped meanwhile")
            if lexer not in self._loaded:
                _checked(self._asked(child, lexer, "", limits.COLOUR_START_SECONDS), "")
                self._loaded.add(lexer)
            return _checked(self._asked(child, lexer, text, limits.COLOUR_TEXT_SECONDS), text)
        except (OSError, ValueError, RecursionError):
            self._failed = True
            self._end()
            return None

    def _start(self) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        for pipe in (child.stdin, child.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        return child

    def _asked(self, child: subprocess.Popen[bytes], lexer: str, text: str, seconds: float) -> object:
        """Write a request and read its answer, both within this time. Raises OSError, ValueError."""
        asked = json.dumps([lexer, text]).encode() + b"\n"
        assert child.stdin is not None and child.stdout is not None
        to, back = child.stdin.fileno(), child.stdout.fileno()
        until = time.monotonic() + seconds
        found = bytearray()
        while not found.endswith(b"\n"):
            left = until - time.monotonic()
            ready = select.select([back], [to] if asked else [], [], max(left, 0))
            if left <= 0 or not any(ready):
                raise TimeoutError
            if ready[1]:
                asked = asked[os.write(to, asked[: limits.KIB]) :]
            if ready[0]:
                chunk = os.read(back, limits.MIB)
                found += chunk
                if not chunk or len(found) > limits.COLOUR_ANSWER_BYTES:
                    raise OSError("it ended or wrote too much")
        return json.loads(found)

    def _end(self) -> None:
        """End the process, whatever it does."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None


def _checked(value: object, text: str) -> list[tuple[str, str]]:
    """The pieces of an answer. Raises ValueError unless they are the text, each with a known style."""
    pieces: list[tuple[str, str]] = []
    for piece in value if isinstance(value, list) else ():
        match piece:
            case [str(style), str(part)] if style in STYLES:
                pieces.append((style, part))
            case _:
                raise ValueError("not a piece with a style")
    if "".join(part for _, part in pieces) != text:
        raise ValueError("not the text")
    return pieces
