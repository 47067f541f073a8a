"""Bearer tokens and other headers of requests to a remote server, whose values are secrets of the settings.

Invariant: a value comes from a file that only the daemon's account (or root) can read, and that is not in the
workspace. Names that decide how a request is read are never given away.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from threegate.core import limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.secret_value import read_secret
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.tools.remote_login import KeptHeader

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_OURS: Final = re.compile(
    r"host|connection|content-.*|transfer-encoding|te|trailer|upgrade|expect|accept|accept-encoding|keep-alive|proxy-.*|"
    r"cookie|origin|mcp-.*|last-event-id",
    re.IGNORECASE,
)


def kept_headers(bearer: str, headers: Sequence[str]) -> tuple[KeptHeader, ...]:
    """From `--bearer SECRET` and `--header NAME=SECRET`. Raises InvalidInput."""
    found = [KeptHeader("Authorization", bearer, "Bearer")] if bearer else []
    for text in headers:
        name, equals, secret = text.partition("=")
        if not (equals and secret and _NAME.fullmatch(name)):
            raise InvalidInput(f"--header {name}: write it as NAME=SECRET, where secrets.SECRET of the settings has it")
        if _OURS.fullmatch(name):
            raise InvalidInput(f"--header {name}: decides how a request is read; it cannot be given")
        found.append(KeptHeader(name, secret))
    if len({header.name.lower() for header in found}) < len(found) or len(found) > limits.REMOTE_HEADERS:
        raise InvalidInput(f"--header: each name once, and at most {limits.REMOTE_HEADERS}")
    return tuple(found)


def header_values(
    workspace: Workspace, settings: Settings, headers: Sequence[KeptHeader]
) -> tuple[tuple[str, str], ...]:
    """Names and current values. Raises Unavailable; the message has no value."""
    found = []
    for header in headers:
        reference = settings.secrets.get(header.secret)
        if reference is None or not reference.file:
            raise Unavailable(f"no secret: put secrets.{header.secret} with file into threegate.toml")
        _check_private(workspace, header.secret, Path(reference.file))
        value = read_secret(header.secret, reference)
        found.append((header.name, f"{header.scheme} {value}".lstrip()))
    return tuple(found)


def _check_private(workspace: Workspace, secret: str, file: Path) -> None:
    """Raises Unavailable if the file is in the workspace, or another account may read it."""
    what = f"no secret: the file of secrets.{secret}"
    try:
        facts = file.lstat()
    except OSError as error:
        raise Unavailable(f"{what} cannot be read ({error.strerror})") from None
    if os.path.realpath(file).startswith(f"{os.path.realpath(workspace.root)}/"):
        raise Unavailable(f"{what} is in the workspace; keep it elsewhere")
    if facts.st_uid not in (0, os.geteuid()) or stat.S_IMODE(facts.st_mode) & 0o077:
        raise Unavailable(f"{what} may be read by other accounts; type: chmod 600 FILE, as the daemon's account")
