"""The names of request files, and of the signatures beside them: one strict grammar for both.

Invariant: a name is a request's, a signature's or neither, and a signature's name has exactly one request that it belongs to:
a request's name holds `.md` and `.sig` as parts nowhere but `.md` at its end.
"""

from __future__ import annotations

import re
from typing import Final

_REQUEST: Final = r"TR-(?:[A-Za-z0-9_-]|\.(?!(?:md|sig)(?:\.|$))){0,200}\.md"
_request = re.compile(_REQUEST).fullmatch
_companion = re.compile(rf"({_REQUEST})\.sig(?:\.([A-Za-z0-9][A-Za-z0-9._@+-]{{0,63}}))?").fullmatch


def is_request_name(name: str) -> bool:
    """Whether a file of this name may be a request: ``TR-<A-Z a-z 0-9 . _ ->.md``."""
    return _request(name) is not None


def request_of_companion(name: str) -> tuple[str, str] | None:
    """The request file that a signature file belongs to, and the countersigner (empty: the approver). None: no such name.

    ``TR-x.md.sig`` is the approver's, ``TR-x.md.sig.<operator>`` a countersigner's.
    """
    match = _companion(name)
    return None if match is None else (match[1], match[2] or "")
