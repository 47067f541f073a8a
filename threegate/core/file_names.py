"""The names of files: of requests, of the signatures beside them, of agents' runs, of witnesses: one strict grammar for
each.

Invariant: a name is a request's, a signature's, a run's or none of these, and a signature's name has exactly one
request that it belongs to: a request's name holds `.md` and `.sig` as parts nowhere but `.md` at its end.
"""

from __future__ import annotations

import re
import secrets
from datetime import datetime
from typing import Final

SETTINGS_FILE: Final = "threegate.toml"
WITNESS_NAME: Final = r"[a-z0-9][a-z0-9-]{0,31}"
"""A witness's name is part of the name of a file."""

README: Final = "README.md"
"""What a checkout's inbox has for people: the one name there that is neither a request nor worth an answer."""
_REQUEST: Final = r"TR-(?:[A-Za-z0-9_-]|\.(?!(?:md|sig)(?:\.|$))){0,200}\.md"
is_request_name: Final = re.compile(_REQUEST).fullmatch
"""Whether a file of this name may be a request: ``TR-<A-Z a-z 0-9 . _ ->.md``."""
_slugged = re.compile(r"TR-[0-9]{8}-[0-9]{6}Z-([a-z0-9-]{1,64})(?:\.[0-9]+)?\.md").fullmatch
_companion = re.compile(rf"({_REQUEST})\.sig(?:\.([A-Za-z0-9][A-Za-z0-9._@+-]{{0,63}}))?").fullmatch


def slug_of(name: str) -> str:
    """What follows the time in a request's file name, ``TR-YYYYMMDD-HHMMSSZ-<slug>.md``: chosen by whoever drafted it,
    and not unique. Empty for any other name.
    """
    match = _slugged(name)
    return match[1] if match else ""


def request_of_companion(name: str) -> tuple[str, str] | None:
    """The request file that a signature file belongs to, and the countersigner (empty: the approver). None: no such
    name.

    ``TR-x.md.sig`` is the approver's, ``TR-x.md.sig.<operator>`` a countersigner's.
    """
    match = _companion(name)
    return None if match is None else (match[1], match[2] or "")


_agent_run = re.compile(r"ar-[0-9]{8}-[0-9]{6}z-[0-9a-f]{8}").fullmatch


def is_agent_run_id(name: str) -> bool:
    """Whether this is the id of an agent's run, ``ar-YYYYMMDD-HHMMSSz-<8 hex digits>``: as a folder's name it cannot
    leave its folder.
    """
    return _agent_run(name) is not None


def new_agent_run_id(now: datetime) -> str:
    """An id that no other run has; `now` is in UTC."""
    return f"ar-{now:%Y%m%d-%H%M%S}z-{secrets.token_hex(4)}"
