"""What a tool of a server is called at the door: `NAME__tool`, as every client takes it.

Invariant: a name of the door means one tool: a server's name has no underscore, and what had to be shortened carries a digest.
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
