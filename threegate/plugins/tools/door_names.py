"""The name of a server's tool at the door: `NAME__tool`, in a form that every client accepts.

Invariant: a name identifies one tool: a server's name has no underscore, and a shortened name contains a digest.
"""

from __future__ import annotations

import re
from typing import Final

from threegate.core import limits
from threegate.core.canonical import sha256_hex

_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")


def door_name(server: str, tool: str) -> str:
    """At most DOOR_NAME_CHARS of A-Z a-z 0-9 _ -."""
    plain = f"{server}__{_ODD.sub('_', tool)}"
    if len(plain) <= limits.DOOR_NAME_CHARS and plain == f"{server}__{tool}":
        return plain
    digest = sha256_hex(tool.encode())[: limits.DOOR_NAME_DIGEST_CHARS]
    return f"{plain[: limits.DOOR_NAME_CHARS - limits.DOOR_NAME_DIGEST_CHARS - 1]}_{digest}"
