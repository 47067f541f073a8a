"""Write `approved_by` and `approved_utc` into a draft's front matter, and `deliver` where the person chose.

Invariant: exactly these lines are inserted or replaced, and no other byte changes. The caller reads the
result with gate 1 again and compares, so front matter that this code misreads is refused, not mangled.
"""

from __future__ import annotations

import json
from datetime import datetime

from threegate.approval.statement import format_utc
from threegate.core.errors import Refused


def insert_approval(data: bytes, approved_by: str, approved_utc: datetime, deliver: str | None = None) -> bytes:
    """The draft's bytes with the lines. Raises Refused if the front matter is not closed."""
    values = {b"approved_by": approved_by, b"approved_utc": format_utc(approved_utc)}
    if deliver is not None:
        values[b"deliver"] = deliver
    lines = data.split(b"\n")
    ending = b"\r" if lines[0].endswith(b"\r") else b""
    fence = b"---" + ending
    if lines[0] != fence or fence not in lines[1:]:
        raise Refused("request_changed", "the file has no closed front matter")
    close = lines.index(fence, 1)
    for key, value in values.items():
        line = key + b": " + json.dumps(value).encode() + ending
        places = [number for number in range(1, close) if lines[number].startswith(key + b":")]
        if places:
            lines[places[0]] = line
        else:
            lines.insert(close, line)
            close += 1
    return b"\n".join(lines)
