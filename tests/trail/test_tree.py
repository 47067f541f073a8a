"""RFC 6962: the tree against the recursive definition, and every proof for every small size."""

from __future__ import annotations

import hashlib

import pytest

from tests.conftest import peer
from tests.trail.proofs import consistency_proof
from threegate.trail import tree

pymerkle = peer("pymerkle")

LINES = [f"line {n}".encode() for n in range(34)]
LEAVES = [tree.leaf_hash(line) for line in LINES]


def definition(leaves: list[bytes]) -> bytes:
    """MTH as RFC 6962, 2.1 writes it, on the lines themselves."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return hashlib.sha256(b"\x01" + definition(leaves[:k]) + definition(leaves[k:])).digest()


def test_the_known_answers_of_the_reference_implementation() -> None:
    """Test vectors of certificate-transparency's merkle tree (inputs and roots are public)."""
    inputs = [bytes.fromhex(text) for text in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")]  # fmt: skip  # noqa: E501
    roots = [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ]
    frontier = tree.Frontier()
    for item, root in zip(inputs, roots, strict=True):
        frontier.add(item)
        assert frontier.root().hex() == root


def test_the_frontier_is_the_definition() -> None:
    frontier = tree.Frontier()
    assert frontier.root() == definition([]) == tree.root_of([])
    for size, line in enumerate(LINES, start=1):
        frontier.add(line)
        assert frontier.root() == definition(LINES[:size]) == tree.root_of(LEAVES[:size])


def test_another_implementation_has_our_roots_and_takes_our_inclusion_proofs() -> None:
    theirs = pymerkle.InmemoryTree(algorithm="sha256")
    for size, line in enumerate(LINES, start=1):
        theirs.append_entry(line)
        root = tree.root_of(LEAVES[:size])
        assert theirs.get_state(size) == root
        for index in range(size):
            proof = theirs.prove_inclusion(index + 1, size)
            proof.path = [LEAVES[index], *tree.inclusion_proof(index, LEAVES[:size])]
            pymerkle.verify_inclusion(LEAVES[index], root, proof, index=index + 1, size=size)


def test_every_inclusion_proof_verifies_and_no_other_does() -> None:
    for size in range(1, len(LINES) + 1):
        root = tree.root_of(LEAVES[:size])
        for index in range(size):
            proof = tree.inclusion_proof(index, LEAVES[:size])
            tree.verify_inclusion(LEAVES[index], index, size, proof, root)
            for wrong in (
                (LEAVES[(index + 1) % size] if size > 1 else b"x", index, size, proof, root),
                (LEAVES[index], index, size, proof, b"\0" * 32),
                (LEAVES[index], index, size, [*proof, b"\0" * 32], root),
                (LEAVES[index], size, size, proof, root),
                *([(LEAVES[index], index, size, proof[:-1], root)] if proof else []),
                *([(LEAVES[index], (index + 1) % size, size, proof, root)] if size > 1 else []),
            ):
                with pytest.raises(tree.ProofError):
                    tree.verify_inclusion(*wrong)


def test_every_consistency_proof_verifies_and_no_other_does() -> None:
    for new in range(1, len(LINES) + 1):
        new_root = tree.root_of(LEAVES[:new])
        for old in range(1, new + 1):
            old_root = tree.root_of(LEAVES[:old])
            proof = consistency_proof(old, LEAVES[:new])
            tree.verify_consistency(old, new, proof, old_root, new_root)
            for wrong in (
                (old, new, proof, b"\0" * 32, new_root),
                (old, new, proof, old_root, b"\0" * 32),
                (old, new, [*proof, b"\0" * 32], old_root, new_root),
                (new + 1, new, proof, old_root, new_root),
                *([(old, new, proof[:-1], old_root, new_root)] if proof else []),
            ):
                with pytest.raises(tree.ProofError):
                    tree.verify_consistency(*wrong)


def test_asking_outside_of_the_tree() -> None:
    with pytest.raises(IndexError):
        tree.inclusion_proof(3, LEAVES[:3])
    with pytest.raises(IndexError):
        consistency_proof(0, LEAVES[:3])
