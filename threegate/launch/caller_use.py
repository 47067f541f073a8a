"""An approved call that a process outside makes itself: how it asks for the arguments, and says how it ended.

The process, the *caller*, writes `inbox/.use-<request id>` and keeps the lock of that file (a POSIX record lock, which
the kernel takes away with the process, however that ends, and which no child inherits). The daemon claims the request,
then writes `verdicts/use-<request id>.json` with the signed arguments and the caller's token. The caller adds a second
line when its function has ended.

Invariant: a file without a living holder, or of another account than the requester's, asks for nothing; what a caller
writes never says which arguments it gets. Only one process can hold the lock, and only what the daemon writes after the
claim lets it begin. An end counts only from the file that asked.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from threegate.core import access_lists, canonical, durable, limits
from threegate.core.errors import Refused, Unavailable
from threegate.core.workspace import RequesterFolders, Workspace

USE_SCHEMA: Final = "threegate.use/1"
_FLOCK: Final = struct.Struct("hhqqi4x")
"""`struct flock` of fcntl(2) on 64-bit Linux: type, whence, start, length, process."""
_WHOLE: Final = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_TOKEN: Final = re.compile(r"[0-9a-f]{32}").fullmatch
_ERROR: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}").fullmatch
_TRIES: Final = 3


def ask_name(request_id: str) -> str:
    """The file in the inbox by which a caller asks; a hidden name, so no scan takes it for a draft."""
    return f".use-{request_id}"


def go_path(folders: RequesterFolders, request_id: str) -> Path:
    """The file with which the daemon lets a caller begin."""
    return folders.verdicts / f"use-{request_id}.json"


# ---- the daemon's side


@dataclass(frozen=True, slots=True)
class CallerEnd:
    """How the caller says that its function ended."""

    raised: str = ""
    """The class of its exception; empty: it returned."""


class CallerAsk:
    """The open file of a caller that asks now."""

    def __init__(self, descriptor: int, token: str, holder: int) -> None:
        """Made by `caller_ask`."""
        self._descriptor = descriptor
        self.token = token
        """Random; the daemon's answer has it."""
        self._holder = holder

    def lives(self) -> bool:
        """Whether the process that asked still has the lock."""
        return _holder_of(self._descriptor) == self._holder

    def end(self) -> CallerEnd | None:
        """What it says of the end; None: nothing yet, or nothing that can be read."""
        ended = _lines(self._descriptor)[1:]
        if len(ended) != 1 or ended[0].keys() != {"ended", "raised"} or ended[0]["ended"] is not True:
            return None
        raised = ended[0]["raised"]
        return CallerEnd(raised) if raised == "" or (isinstance(raised, str) and _ERROR(raised)) else None

    def close(self) -> None:
        """Let the file go."""
        os.close(self._descriptor)


def caller_ask(workspace: Workspace, owner: int, request_id: str) -> CallerAsk | None:
    """What the requester's process asks for now; None if none does, or if its file is not one that asks."""
    try:
        with workspace.hold(workspace.inbox) as inbox:
            descriptor, facts = inbox.open_regular(ask_name(request_id))
    except OSError:
        return None
    holder, asked = _holder_of(descriptor), _lines(descriptor)
    said = asked[0] if len(asked) == 1 else {}
    token = said.get("token")
    named = (said.get("schema"), said.get("request_id")) == (USE_SCHEMA, request_id)
    if named and isinstance(token, str) and _TOKEN(token) and holder is not None and facts.st_uid == owner:
        return CallerAsk(descriptor, token, holder)
    os.close(descriptor)
    return None


def is_asked(workspace: Workspace, owner: int, request_id: str) -> bool:
    """Whether the requester's process asks now for this request."""
    ask = caller_ask(workspace, owner, request_id)
    if ask is not None:
        ask.close()
    return ask is not None


def let_begin(workspace: Workspace, request_id: str, ask: CallerAsk, tool: str, arguments: Mapping[str, Any]) -> None:
    """Give the caller the signed arguments. The request must be claimed. Raises OSError."""
    said = {"schema": USE_SCHEMA, "request_id": request_id, "token": ask.token, "tool": tool, "arguments": arguments}
    mode = access_lists.file_mode(workspace.verdicts)
    durable.overwrite(go_path(workspace, request_id), canonical.canonical_bytes(said), mode, settled=False)


def clear_use(workspace: Workspace, request_id: str) -> None:
    """Remove both files of a call that has ended; what cannot be removed lets nothing begin."""
    with suppress(OSError):
        go_path(workspace, request_id).unlink()
    with suppress(OSError), workspace.hold(workspace.inbox) as inbox:
        inbox.unlink(ask_name(request_id))


def remove_left_uses(workspace: Workspace) -> None:
    """Remove what a daemon that was killed left for callers. Their requests are interrupted."""
    for path in workspace.verdicts.glob("use-*.json"):
        with suppress(OSError):
            path.unlink()


def _holder_of(descriptor: int) -> int | None:
    """The process that has the lock; None if none has it. Nothing is locked by asking."""
    kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, _WHOLE))
    return int(process) if kind == fcntl.F_WRLCK else None


def _lines(descriptor: int) -> list[dict[str, Any]]:
    """The complete lines of a caller's file; empty if one of them is not an object of JSON."""
    data = os.pread(descriptor, limits.CALLER_FILE_BYTES + 1, 0)
    try:
        found = [canonical.loads_strict(line, max_bytes=limits.CALLER_FILE_BYTES) for line in data.split(b"\n")[:-1]]
    except canonical.StrictJSONError:
        return []
    return found if len(data) <= limits.CALLER_FILE_BYTES and all(isinstance(line, dict) for line in found) else []


# ---- the caller's side


_HELD: Final[set[tuple[int, str]]] = set()
"""What this process uses, because its threads share the kernel's lock; with its id, because a child copies the set."""
_HELD_LOCK: Final = threading.Lock()


class CallerHold:
    """A process asks to make one approved call itself, for as long as this is open."""

    def __init__(self, workspace: Workspace, request_id: str) -> None:
        """Write the question. Raises Refused (`in_use`: another process or thread has it), Unavailable."""
        self._workspace = workspace
        self._request_id = request_id
        self._token = secrets.token_hex(16)
        self._key = os.getpid(), str(workspace.inbox / ask_name(request_id))
        with _HELD_LOCK:
            if self._key in _HELD:
                raise _in_use(request_id)
            _HELD.add(self._key)
        try:
            self._descriptor = self._lock()
            asked = {"schema": USE_SCHEMA, "request_id": request_id, "token": self._token}
            os.ftruncate(self._descriptor, 0)
            self._write(asked)
        except OSError as error:
            self._let_go()
            raise Unavailable(f"{self._key[1]}: cannot be written ({error.strerror or error})") from None
        except Refused:
            self._let_go()
            raise

    def begin(self) -> tuple[str, Any] | None:
        """The tool and the signed arguments, once the daemon has claimed the request for this process; None: not yet.
        Raises Unavailable.
        """
        path = go_path(self._workspace, self._request_id)
        try:
            said = canonical.loads_strict(
                durable.read_regular(path, max_bytes=limits.CALLER_GO_BYTES), max_bytes=limits.CALLER_GO_BYTES
            )
        except FileNotFoundError:
            return None
        except (OSError, canonical.StrictJSONError) as error:
            raise Unavailable(f"{path}: cannot be read ({error})") from None
        named = isinstance(said, dict) and said.get("schema") == USE_SCHEMA and said.get("token") == self._token
        return (said["tool"], said["arguments"]) if named else None

    def end(self, raised: type[BaseException] | None) -> None:
        """Say how the function ended. Raises Refused (`in_use`: this is a child of the process that asked),
        Unavailable.
        """
        if os.getpid() != self._key[0]:
            raise _in_use(self._request_id)
        name = "" if raised is None else raised.__name__
        try:
            self._write({"ended": True, "raised": name if not name or _ERROR(name) else "Exception"})
        except OSError as error:
            raise Unavailable(f"{self._key[1]}: cannot be written ({error.strerror or error})") from None

    def __enter__(self) -> CallerHold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._key[0]:
            return  # a child: the file is its parent's
        with suppress(OSError), self._workspace.hold(self._workspace.inbox) as inbox:
            if inbox.stat(ask_name(self._request_id)).st_ino == os.fstat(self._descriptor).st_ino:
                inbox.unlink(ask_name(self._request_id))
        self._let_go()

    def _lock(self) -> int:
        """The locked file. Raises Refused, OSError."""
        name = ask_name(self._request_id)
        for _ in range(_TRIES):
            with self._workspace.hold(self._workspace.inbox) as inbox:
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
                descriptor = os.open(name, flags, 0o644, dir_fd=inbox.fileno())
                try:
                    os.fchmod(descriptor, 0o644)  # the daemon reads it, whatever the umask is
                    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    # The holder before may have removed it between the two: then this is not the file of that name.
                    if os.fstat(descriptor).st_ino == inbox.stat(name).st_ino:
                        return descriptor
                except BlockingIOError:
                    os.close(descriptor)
                    raise _in_use(self._request_id) from None
                except FileNotFoundError:
                    pass
                except OSError:
                    os.close(descriptor)
                    raise
                os.close(descriptor)
        raise _in_use(self._request_id)

    def _write(self, line: Mapping[str, Any]) -> None:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        os.lseek(self._descriptor, 0, os.SEEK_END)
        durable.write_fd(self._descriptor, data, Path(self._key[1]))

    def _let_go(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)
        with _HELD_LOCK:
            _HELD.discard(self._key)


def _in_use(request_id: str) -> Refused:
    return Refused("in_use", f"{request_id}: another process or thread uses this decision")
