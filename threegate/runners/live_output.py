"""The last line that a running request wrote, for people who watch it.

Invariant: a run only leaves its last bytes in memory and never waits for readers. The file is derived and lossy: no
decision depends on it, only the operator's side has it, and its content is ignored if the daemon that wrote it died.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from threegate.core import durable, limits
from threegate.core.secretscan.scan import mask_secrets

if TYPE_CHECKING:
    from threegate.core.workspace import Workspace

PROGRESS: Final = "progress"
"""Used instead of a stream's name: a server's progress report on the call it is working on."""
_STREAMS: Final = ("stdout", "stderr", PROGRESS)
_ENDS: Final = re.compile(r"[\r\n]+")


@dataclass(frozen=True, slots=True)
class OutputLine:
    """`stream` is ``stdout``, ``stderr`` or ``progress``; `text` is foreign, masked, at most LIVE_LINE_CHARS."""

    stream: str
    text: str


class LastOutput:
    """The end of the stream that was written last. One thread writes, another may read at any time."""

    def __init__(self) -> None:
        self._last: tuple[str, bytes] | None = None

    def put(self, stream: str, tail: bytes) -> None:
        """The current last LIVE_TAIL_BYTES of a stream (or all of it, if it is shorter)."""
        self._last = (stream, tail)

    def line(self) -> OutputLine | None:
        """The last line that is not blank, as far as it was written; None if there is none."""
        last = self._last
        if last is None:
            return None
        stream, tail = last
        # Masked before it is cut: a secret of several lines is recognized by its first one.
        text = mask_secrets(tail.decode("utf-8", "backslashreplace"))
        lines = [line for line in _ENDS.split(text) if line.strip()]
        if not lines:
            return None
        line = lines[-1]
        if len(lines) == 1 and len(tail) >= limits.LIVE_TAIL_BYTES:
            # Its start is gone, and with it what would identify a secret in its first word.
            line = line.partition(" ")[2] or "(a line without an end)"
        return OutputLine(stream, line[: limits.LIVE_LINE_CHARS])


class LiveOutputFile:
    """The file with the last line of each running request: written by the daemon's loop, and only when it changes."""

    def __init__(self, workspace: Workspace) -> None:
        self._path = workspace.output_file
        self._text: str | None = None  # what a killed daemon left is replaced by the first write

    def write(self, running: Mapping[str, LastOutput]) -> None:
        """Update it; without running requests there is no file. A disk error does not stop a run."""
        lines = {request_id: line for request_id, output in running.items() if (line := output.line())}
        text = json.dumps({key: [line.stream, line.text] for key, line in lines.items()}) if lines else ""
        if text == self._text:
            return
        self._text = text
        replace_unsynced(self._path, text)  # the loop must not wait for the disk


def replace_unsynced(path: Path, text: str) -> None:
    """Write a derived file that nobody needs after a crash; without text there is no file. Never raises OSError."""
    with suppress(OSError):
        if not text:
            path.unlink(missing_ok=True)
            return
        part = path.with_name(f".{path.stem}.part")
        part.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(part, flags, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(part, path)


def live_output(workspace: Workspace, request_id: str) -> OutputLine | None:
    """The last line of a running request; None if it wrote none, or no daemon is running that could know."""
    try:
        value = json.loads(durable.read_regular(workspace.output_file, max_bytes=limits.LIVE_FILE_BYTES))
        stream, text = value[request_id]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if stream not in _STREAMS or not isinstance(text, str) or not workspace.daemon_lock_held():
        return None
    return OutputLine(stream, text[: limits.LIVE_LINE_CHARS])
