"""The Merkle tree over the trail's lines, as RFC 6962 section 2.1 has it, and its proofs.

A leaf is a line without its newline. Invariant: `Frontier` over n leaves has the root that the recursive
definition of the RFC gives for the same leaves; a proof that verifies binds leaf, position and size to a root.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

# Different, so that no line has the hash of a node and none can be passed off as one (RFC 6962, section 2.1).
LEAF_PREFIX = b"\x00"
NODE_PREFIX = b"\x01"
_sha256 = hashlib.sha256
EMPTY_ROOT = hashlib.sha256(b"").digest()


class ProofError(ValueError):
    """A proof does not verify."""


def leaf_hash(line: bytes) -> bytes:
    """MTH of one leaf."""
    return hashlib.sha256(LEAF_PREFIX + line).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """MTH of two subtrees."""
    return hashlib.sha256(NODE_PREFIX + left + right).digest()


class Frontier:
    """The roots of the full subtrees of a growing tree, largest first: all that appending and the root need."""

    __slots__ = ("_nodes", "size")

    def __init__(self) -> None:
        self.size = 0
        self._nodes: list[bytes] = []

    @classmethod
    def of(cls, size: int, nodes: Iterable[bytes]) -> Frontier:
        """The frontier of a tree of `size` leaves again, from its `nodes`."""
        frontier = cls()
        frontier.size, frontier._nodes = size, list(nodes)
        return frontier

    @property
    def nodes(self) -> tuple[bytes, ...]:
        """The roots of the full subtrees, largest first."""
        return tuple(self._nodes)

    def add(self, line: bytes) -> None:
        """Append a leaf."""
        nodes = self._nodes
        node = _sha256(LEAF_PREFIX + line).digest()
        size = self.size
        while size & 1:
            node = _sha256(NODE_PREFIX + nodes.pop() + node).digest()
            size >>= 1
        nodes.append(node)
        self.size += 1

    def extend(self, leaves: list[bytes]) -> None:
        """Append many leaves by their leaf hashes, level by level."""
        nodes, row, level = self._nodes, leaves, self.size
        self.size += len(leaves)
        single: list[bytes] = []
        while row:
            if level & 1:
                row = [nodes.pop(), *row]
            level >>= 1
            if len(row) & 1:
                single.append(row[-1])
            pairs = iter(row)
            row = [_sha256(NODE_PREFIX + left + right).digest() for left, right in zip(pairs, pairs, strict=False)]
        nodes.extend(reversed(single))

    def root(self) -> bytes:
        """MTH of all leaves so far."""
        if not self._nodes:
            return EMPTY_ROOT
        node = self._nodes[-1]
        for left in reversed(self._nodes[:-1]):
            node = node_hash(left, node)
        return node


def root_of(leaves: Sequence[bytes]) -> bytes:
    """MTH of leaf hashes."""
    if not leaves:
        return EMPTY_ROOT
    if len(leaves) == 1:
        return leaves[0]
    split = _split(len(leaves))
    return node_hash(root_of(leaves[:split]), root_of(leaves[split:]))


def inclusion_proof(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    """PATH(m, D[n]): the audit path of leaf `index`, lowest first. Raises IndexError for an index outside."""
    if not 0 <= index < len(leaves):
        raise IndexError(f"leaf {index} is not in a tree of {len(leaves)}")
    if len(leaves) == 1:
        return []
    split = _split(len(leaves))
    if index < split:
        return [*inclusion_proof(index, leaves[:split]), root_of(leaves[split:])]
    return [*inclusion_proof(index - split, leaves[split:]), root_of(leaves[:split])]


def consistency_ranges(old_size: int, size: int) -> list[tuple[int, int]]:
    """Which leaves are below each hash of PROOF(m, D[n]), in the proof's order: ``leaves[start:end]``. Raises
    IndexError.
    """
    if not 0 < old_size <= size:
        raise IndexError(f"no tree of {old_size} within one of {size}")
    ranges: list[tuple[int, int]] = []
    start, end, whole = 0, size, True
    while old_size != end:
        split = start + _split(end - start)
        if old_size <= split:
            ranges.append((split, end))
            end = split
        else:
            ranges.append((start, split))
            start, whole = split, False
    if not whole:
        ranges.append((start, end))
    return ranges[::-1]


def roots_of_ranges(ranges: Sequence[tuple[int, int]], blocks: Iterable[list[bytes]]) -> list[bytes]:
    """The root over each range of leaves, from one pass over all leaf hashes in blocks, in memory that does not grow.

    The ranges do not overlap. Raises IndexError when there are too few leaves.
    """
    frontiers = [Frontier() for _ in ranges]
    at = 0
    for block in blocks:
        for (start, end), frontier in zip(ranges, frontiers, strict=True):
            frontier.extend(block[max(0, start - at) : max(0, end - at)])
        at += len(block)
    if at < max((end for _, end in ranges), default=0):
        raise IndexError(f"there are only {at} leaves")
    return [frontier.root() for frontier in frontiers]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Iterable[bytes], root: bytes) -> None:
    """Check an audit path (RFC 9162, 2.1.3.2). Returns None or raises ProofError."""
    if not 0 <= index < size:
        raise ProofError("the leaf is outside the tree")
    node, last = index, size - 1
    result = leaf
    for sibling in proof:
        if last == 0:
            raise ProofError("the proof is too long")
        if node & 1 or node == last:
            result = node_hash(sibling, result)
            while not node & 1 and node != 0:
                node >>= 1
                last >>= 1
        else:
            result = node_hash(result, sibling)
        node >>= 1
        last >>= 1
    if last != 0:
        raise ProofError("the proof is too short")
    if result != root:
        raise ProofError("the proof leads to another root")


def verify_consistency(old_size: int, new_size: int, proof: Sequence[bytes], old_root: bytes, new_root: bytes) -> None:
    """Check a consistency proof (RFC 9162, 2.1.4.2). Returns None or raises ProofError."""
    if not 0 < old_size <= new_size:
        raise ProofError("the older tree is not smaller")
    if old_size == new_size:
        if proof or old_root != new_root:
            raise ProofError("two trees of one size have different roots")
        return
    path = list(proof)
    # The older tree is then a whole subtree, whose root the verifier has: the proof leaves it out.
    if old_size & (old_size - 1) == 0:
        path.insert(0, old_root)
    if not path:
        raise ProofError("the proof is empty")
    node, last = old_size - 1, new_size - 1
    while node & 1:
        node >>= 1
        last >>= 1
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            raise ProofError("the proof is too long")
        if node & 1 or node == last:
            old = node_hash(sibling, old)
            new = node_hash(sibling, new)
            while not node & 1 and node != 0:
                node >>= 1
                last >>= 1
        else:
            new = node_hash(new, sibling)
        node >>= 1
        last >>= 1
    if last != 0:
        raise ProofError("the proof is too short")
    if old != old_root:
        raise ProofError("the proof does not lead to the older root")
    if new != new_root:
        raise ProofError("the proof does not lead to the newer root")


def _split(size: int) -> int:
    """The largest power of two smaller than `size` (size > 1)."""
    return int(1 << ((size - 1).bit_length() - 1))
