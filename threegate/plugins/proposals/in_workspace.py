"""Proposals in a workspace: where their drafts and input files are, and the check of a draft against its
proposal.

Invariant: a draft in tool-exec/drafts/ is exactly what its proposal makes of it, or it cannot be signed;
input files with project bytes are readable only by the operator until a human has approved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from threegate.core import canonical, durable, limits
from threegate.core.errors import Refused
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.request.model import Request

_DIGESTS = re.compile(rb"[0-9a-f]{64}")


def check_proposal_draft(
    workspace: Workspace,
    draft: Path,
    data: bytes,
    request: Request,
    copies: Mapping[str, Path],
    *,
    settings: Settings,
    recorded_sha256: str | None,
) -> None:
    """Derive a draft in tool-exec/drafts/ again from its proposal.

    `copies` has the path of our copy of each input; `recorded_sha256` is the proposal's digest in the trail's
    `proposed` event. Raises Refused("proposal_changed") for every difference, and for a draft without a proposal.
    """
    from threegate.plugins.proposals.proposal_draft import derive_again, proposal_file  # few were proposals

    place = proposal_file(draft)
    try:
        proposal = durable.read_regular(place, max_bytes=limits.PROPOSAL_BYTES)
    except OSError as error:
        raise Refused(
            "proposal_changed", f"{place.name}: the draft's proposal cannot be read ({error.strerror or error})"
        ) from None
    if canonical.sha256_hex(proposal) != recorded_sha256:
        raise Refused(
            "proposal_changed", f"{place.name}: is not the proposal that the trail recorded; reject the draft"
        )
    inputs: Mapping[str, bytes] = {
        item.name: durable.read_regular(copies[item.name], max_bytes=limits.INPUT_FILE_BYTES) for item in request.inputs
    }
    derive_again(data, proposal, inputs, settings=settings)


def sweep(workspace: Workspace) -> int:
    """Remove what `unneeded` returns. Only the daemon calls this; `audit prune` records an event. Raises OSError."""
    gone = unneeded(workspace)
    for path in gone:
        durable.unlink(path)
    return len(gone)


def unneeded(workspace: Workspace) -> list[Path]:
    """Files that no waiting draft needs any more: proposals without a draft, snapshots and other input files
    that no draft names.

    Approved requests have their own copies in inputs/. Such files are created under the trail's lock, always
    before their draft: any caller but the daemon's own thread must hold the lock. Empty if a draft cannot be
    read. Raises OSError.
    """
    if not workspace.drafts.is_dir():
        return []
    named: set[str] = set()
    gone: list[Path] = []
    for path in sorted(workspace.drafts.iterdir()):
        if path.name.endswith(".proposal.json"):
            if not os.path.lexists(path.with_name(path.name.removesuffix(".proposal.json"))):
                gone.append(path)
        elif path.name.endswith(".md"):
            try:
                data = durable.read_regular(path, max_bytes=limits.REQUEST_BYTES)
            except OSError:
                return []
            # What this draft names is unknown, so anything may be needed.
            named.update(match.decode() for match in _DIGESTS.findall(data))
    folder = workspace.draft_files
    if folder.is_dir():
        gone += [path for path in sorted(folder.iterdir()) if path.name not in named]
    return gone
