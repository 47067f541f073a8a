"""What an event of a plugin's kind does to the core, whether or not the kind is known: its reserved keys say it.

`nonce`, and `nonce` in `signed`, are used up. `ids_sha256` are digests of request ids that are spent: nothing is ever
drafted, approved or run under them again. `files` names files below tool-exec/, each with its digest, or null for one
that is gone from there. Nothing else of such an event counts for the core: it places, claims, ends and frees nothing.

Invariant: the same bytes mean the same whoever reads them. What has another form than this is a problem that is named
(`Reserved.problem`), and nothing is launched in a workspace whose trail has such an event: what it used up is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from threegate.core.file_names import WITNESS_NAME
from threegate.core.workspace import STATES
from threegate.trail.event import RESERVED, Event

_DIGEST = re.compile(r"[0-9a-f]{64}").fullmatch
_OF_THE_CORE: Final = frozenset(
    (
        *STATES,
        ".daemon.lock",
        "audit",
        "contracts",
        "control",
        "drafts",
        "memory",
        "operators",
        "operators.passkeys",
        "operators.revoked",
        "results",
        "runs",
        "verdicts",
    )
)
"""Files and folders that only events of the core announce."""
_COSIGNED = re.compile(rf"audit/checkpoints/[0-9]{{12}}\.{WITNESS_NAME}").fullmatch


class Reserved(NamedTuple):
    """What the reserved keys of one event say, as far as they can be read."""

    nonces: tuple[str, ...] = ()
    files: Mapping[str, str | None] = {}
    """Path below tool-exec/ → digest; None if the file is gone from there."""
    ids: frozenset[str] = frozenset()
    problem: str | None = None
    """What cannot be read, to follow the event's number."""


def reserved(event: Event) -> Reserved:
    """What an event of no kind of the core says in its reserved keys. Never fails."""
    data = event.data
    if not any(key in data for key in RESERVED):
        return Reserved()
    problems = []
    signed, ids, named = ({} if data.get(key) is None else data[key] for key in ("signed", "ids_sha256", "files"))
    given = [data.get("nonce"), signed.get("nonce") if isinstance(signed, dict) else 0]
    nonces = [nonce for nonce in given if isinstance(nonce, str)]
    if any(nonce is not None and not isinstance(nonce, str) for nonce in given):
        problems.append("a nonce")
    if ids != {} and not (isinstance(ids, list) and all(isinstance(item, str) and _DIGEST(item) for item in ids)):
        ids = []
        problems.append("a spent id")
    files: dict[str, str | None] = {}
    for path, digest in named.items() if isinstance(named, dict) else [("", named)]:
        if _is_announced(path, digest):
            files[path] = digest
        else:
            problems.append("a file")
    problem = f"names {problems[0]} in a form that cannot be read" if problems else None
    return Reserved(tuple(nonces), files, frozenset(ids), problem)


def _is_announced(path: str, digest: object) -> bool:
    """Whether a plugin may announce this file, and so."""
    parts = path.split("/")
    if not all(part not in ("", ".", "..") for part in parts):
        return False
    if digest is not None and not (isinstance(digest, str) and _DIGEST(digest)):
        return False
    if parts[0] == "inputs":  # what is pinned has its digest as its name
        return len(parts) == 2 and _DIGEST(parts[1]) is not None and digest in (None, parts[1])
    return parts[0] not in _OF_THE_CORE or _COSIGNED(path) is not None
