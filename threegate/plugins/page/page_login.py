"""How an operator's browser finds the page's server and logs in: a link that works once, for a few minutes.

Invariant: only an account that can write to tool-exec/control/ (the operator's side, closed to CORE) can
create a link; the folder stores its digest, never the link; using it is one unlink, so it works once however
many servers check it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from threegate.core import durable, limits
from threegate.core.errors import Unavailable
from threegate.core.workspace import Workspace

_CODE: Final = re.compile(r"[A-Za-z0-9_-]{32}")
_SERVER: Final = "page-server"
"""Contains the port of the server that holds this file's lock."""
_LOGIN: Final = "page-login"
_ENROL: Final = "passkey-enrol"
_MADE: Final = "passkey-made"
_AHEAD_SECONDS: Final = 5
"""How far a file's time may be ahead of the clock that reads it (coarse file clocks)."""


def new_code(workspace: Workspace) -> str:
    """A new code (192 random bits as text). Removes unused expired codes. Raises Unavailable."""
    return _new_code(workspace, _LOGIN, b"")


def new_enrolment(workspace: Workspace, operator: str) -> str:
    """A new code for one passkey of one operator. Raises Unavailable."""
    return _new_code(workspace, _ENROL, operator.encode())


def enrolling(workspace: Workspace, code: str) -> str | None:
    """The operator whose passkey a code may enrol; None if it was not created here, is expired or was used."""
    try:
        if _CODE.fullmatch(code) and _fresh(place := _place(workspace, code, _ENROL)):
            return durable.read_regular(place, max_bytes=limits.PASSKEY_REQUEST_BYTES).decode()
    except OSError:
        pass
    return None


def leave_passkey(workspace: Workspace, code: str, made: bytes) -> bool:
    """Store what a browser made for a code, which is then used up; False if it was used before. Raises OSError."""
    if enrolling(workspace, code) is None or not _taken(_place(workspace, code, _ENROL)):
        return False
    durable.deliver(_place(workspace, code, _MADE), made)
    return True


def passkey_made(workspace: Workspace, code: str) -> bytes | None:
    """What a browser made for a code, once; None until there is something. Raises OSError."""
    place = _place(workspace, code, _MADE)
    try:
        made = durable.read_regular(place, max_bytes=limits.PASSKEY_REQUEST_BYTES)
    except FileNotFoundError:
        return None
    place.unlink()
    return made


def _new_code(workspace: Workspace, purpose: str, text: bytes) -> str:
    code = secrets.token_urlsafe(24)
    try:
        for kind in (_LOGIN, _ENROL, _MADE):
            for old in workspace.control.glob(f"{kind}-*"):
                if not _fresh(old):
                    old.unlink(missing_ok=True)
        durable.deliver(_place(workspace, code, purpose), text)
    except OSError as error:
        raise _unusable(workspace, "written", error) from None
    return code


@contextmanager
def serving_at(workspace: Workspace, port: int) -> Iterator[None]:
    """Announce until the block ends that the page is served on this port. Raises Unavailable if another server does."""
    try:
        descriptor = os.open(workspace.control / _SERVER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _unusable(workspace, "written", error) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Unavailable("another server of the page is just starting; try again") from None
        # In place: a file that replaced it would not have the lock.
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(port).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def served_port(workspace: Workspace) -> int | None:
    """The port of the server that currently serves this workspace's page; None if there is none. Raises Unavailable."""
    try:
        descriptor = os.open(workspace.control / _SERVER, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(workspace, "read", error) from None
    try:
        # The lock says whether a server runs; a killed one leaves its file behind.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(descriptor, 8, 0).decode("ascii", "replace")
        return int(text) if text.isascii() and text.isdigit() else None
    else:
        return None
    finally:
        os.close(descriptor)


def take_code(workspace: Workspace, code: str) -> bool:
    """Whether the code was created here, recently enough, and not used before; it is then used up."""
    if not _CODE.fullmatch(code):
        return False
    place = _place(workspace, code, _LOGIN)
    return _fresh(place) and _taken(place)


def _unusable(workspace: Workspace, what: str, error: OSError) -> Unavailable:
    return Unavailable(
        f"{workspace.control}: cannot be {what} ({error.strerror}); run this as the workspace's operator"
    )


def _taken(place: Path) -> bool:
    try:
        place.unlink()
    except OSError:
        return False
    return True


def _fresh(place: Path) -> bool:
    try:
        facts = place.lstat()
    except OSError:
        return False
    # A time far in the future would never expire.
    age = time.time() - facts.st_mtime
    return stat.S_ISREG(facts.st_mode) and -_AHEAD_SECONDS <= age <= limits.PAGE_LOGIN_SECONDS


def _place(workspace: Workspace, code: str, purpose: str) -> Path:
    return workspace.control / f"{purpose}-{hashlib.sha256(code.encode()).hexdigest()}"
