"""How an operator gets into the page of a running server: a link that works once, for a few minutes.

Invariant: a link is made only by who can write to tool-exec/control/ (the operator's side, closed to CORE); the
folder holds its digest, never the link; taking it is one unlink, so it works once however many servers look.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import stat
import time
from pathlib import Path
from typing import Final

from threegate.core import durable, limits
from threegate.core.errors import Unavailable
from threegate.core.workspace import Workspace

_CODE: Final = re.compile(r"[A-Za-z0-9_-]{32}")
_PREFIX: Final = "page-login-"
_AHEAD_SECONDS: Final = 5
"""A file's time may be this much ahead of the clock that reads it (coarse file clocks)."""


def new_code(workspace: Workspace) -> str:
    """A fresh code (192 random bits as text). Forgets those that nobody used in time. Raises Unavailable."""
    code = secrets.token_urlsafe(24)
    try:
        for old in workspace.control.glob(f"{_PREFIX}*"):
            if not _fresh(old):
                old.unlink(missing_ok=True)
        durable.deliver(_place(workspace, code), b"")
    except OSError as error:
        raise Unavailable(
            f"{workspace.control}: cannot be written ({error.strerror}); run this as the workspace's operator"
        ) from None
    return code


def take_code(workspace: Workspace, code: str) -> bool:
    """Whether the code was made here, not too long ago, and not used before; it is used up by this."""
    if not _CODE.fullmatch(code):
        return False
    place = _place(workspace, code)
    if not _fresh(place):
        return False
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
    age = time.time() - facts.st_mtime
    return stat.S_ISREG(facts.st_mode) and -_AHEAD_SECONDS <= age <= limits.PAGE_LOGIN_SECONDS


def _place(workspace: Workspace, code: str) -> Path:
    return workspace.control / f"{_PREFIX}{hashlib.sha256(code.encode()).hexdigest()}"
