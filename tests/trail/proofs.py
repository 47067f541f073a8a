"""The consistency proof of RFC 6962 over leaves in memory: what the one that streams is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from threegate.trail.tree import consistency_ranges, root_of


def consistency_proof(old_size: int, leaves: Sequence[bytes]) -> list[bytes]:
    """PROOF(m, D[n]): that the tree of the first `old_size` leaves is a prefix. Raises IndexError."""
    return [root_of(leaves[start:end]) for start, end in consistency_ranges(old_size, len(leaves))]
