"""The proofs of a tree on disk are those of RFC 6962."""

from __future__ import annotations

import pytest

from threegate.plugins.evidence.tree_nodes import TreeNodes
from threegate.trail import tree

LINES = [str(number).encode() for number in range(70)]
LEAVES = [tree.leaf_hash(line) for line in LINES]


def test_paths_and_roots_are_those_of_the_recursive_definition() -> None:
    with TreeNodes() as nodes:
        for size, line in enumerate(LINES, start=1):
            nodes.add(line)
            assert nodes.root() == tree.root_of(LEAVES[:size])
            for index in {0, size // 3, size // 2, size - 1}:
                assert nodes.path(index, size) == tree.inclusion_proof(index, LEAVES[:size])
        for size in range(1, 71):
            for index in range(size):
                assert nodes.path(index, size) == tree.inclusion_proof(index, LEAVES[:size])


@pytest.mark.parametrize(("index", "size"), [(0, 0), (3, 3), (-1, 2), (0, 4)])
def test_there_is_no_path_outside_of_the_tree(index: int, size: int) -> None:
    with TreeNodes() as nodes:
        for line in LINES[:3]:
            nodes.add(line)
        with pytest.raises(IndexError):
            nodes.path(index, size)
