"""The last line that a running request wrote, for people who watch it.

Invariant: a run only leaves its last bytes in memory and never waits for who reads them. The file is derived and lossy:
nothing is decided by it, only the operator's side has it, and what it tells of a daemon that died is not told.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from threegate.core import durable, limits
from threegate.secretscan import mask_secrets

if TYPE_CHECKING:
    from threegate.core.workspace import Workspace

PROGRESS: Final = "progress"
"""In the place of a stream's name: what a server says of the call that it works on."""
_STREAMS: Final = ("stdout", "stderr", PROGRESS)
_ENDS: Final = re.compile(r"[\r\n]+")


@dataclass(frozen=True, slots=True)
class OutputLine:
    """`stream` is ``stdout``, ``stderr`` or ``progress``; `text` is foreign, at most LIVE_LINE_CHARS, secrets masked."""

    stream: str
    text: str


class LastOutput:
    """The end of the stream that was written last. One thread writes, another may read at any time."""

    def __init__(self) -> None:
        self._last: tuple[str, bytes] | None = None

    def put(self, stream: str, tail: bytes) -> None:
        """The last LIVE_TAIL_BYTES of a stream (or all of it, where it is shorter) as they are now."""
        self._last = (stream, tail)

    def line(self) -> OutputLine | None:
        """The last line that is not blank, as far as it was written; None when there is none."""
        last = self._last
        if last is None:
            return None
        stream, tail = last
        # Masked before it is cut: a secret of several lines is known by its first one.
        text = mask_secrets(tail.decode("utf-8", "backslashreplace"))
        lines = [line for line in _ENDS.split(text) if line.strip()]
        if not lines:
            return None
        line = lines[-1]
        if len(lines) == 1 and len(tail) >= limits.LIVE_TAIL_BYTES:
            # Its start is gone, and with it what a secret in its first word would be known by.
            line = line.partition(" ")[2] or "(a line without an end)"
        return OutputLine(stream, line[: limits.LIVE_LINE_CHARS])


class LiveOutputFile:
    """The file with the last line of each running request: written by the daemon's loop only, and only when it differs."""

    def __init__(self, workspace: Workspace) -> None:
        self._path = workspace.output_file
        self._text: str | None = None  # what a daemon that was killed left there goes with the first write

    def write(self, running: Mapping[str, LastOutput]) -> None:
        """Bring it up to date; without running requests there is no file. A disk that refuses keeps nothing from running."""
        lines = {request_id: line for request_id, output in running.items() if (line := output.line())}
        text = json.dumps({key: [line.stream, line.text] for key, line in lines.items()}) if lines else ""
        if text == self._text:
            return
        self._text = text
        with suppress(OSError):
            if not text:
                self._path.unlink(missing_ok=True)
                return
            # Not synced: nobody needs it after a crash, and the loop must not wait for the disk.
            part = self._path.with_name(".output.part")
            with suppress(FileNotFoundError):
                part.unlink()
            descriptor = os.open(
                part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
            with os.fdopen(descriptor, "w") as stream:
                stream.write(text)
            os.replace(part, self._path)


def live_output(workspace: Workspace, request_id: str) -> OutputLine | None:
    """The last line of a request that runs; None when it wrote none, or no daemon runs that could know."""
    try:
        value = json.loads(durable.read_regular(workspace.output_file, max_bytes=limits.LIVE_FILE_BYTES))
        stream, text = value[request_id]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if stream not in _STREAMS or not isinstance(text, str) or not workspace.daemon_lock_held():
        return None
    return OutputLine(stream, text[: limits.LIVE_LINE_CHARS])
