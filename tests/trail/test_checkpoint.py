"""Checkpoints and proofs: parse∘render is the identity, and nothing else parses or verifies."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from tests.trail.workspaces import grow, make_workspace
from threegate.audit.trail_checkpoints import (
    prove_line,
    rotate,
    trail_checkpoint_due,
    trail_checkpoint_when_due,
    write_trail_checkpoint,
)
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.secretscan.scan import has_secret
from threegate.core.user_state import UserState
from threegate.trail import tail as tail_module
from threegate.trail import tree
from threegate.trail.chain import open_segment
from threegate.trail.checkpoint import LineProof, NoteSignature, TrailCheckpoint, sign_trail_checkpoint
from threegate.trail.tail import TrailTail
from threegate.trail.verify import verify_trail
from threegate.trail.workspace_key import SigningKey, VerifierKey, load_key, make_key

KEY = SigningKey("threegate.local/ws-test", Ed25519PrivateKey.from_private_bytes(b"k" * 32))
NOTE = sign_trail_checkpoint(KEY, 7, b"r" * 32)


@given(
    st.from_regex(r"[a-z0-9./-]{1,40}", fullmatch=True),
    st.integers(0, 10**15),
    st.binary(min_size=32, max_size=32),
    st.lists(
        st.tuples(st.from_regex(r"[a-z0-9./-]{1,20}", fullmatch=True), st.binary(min_size=5, max_size=80)),
        min_size=1,
        max_size=4,
    ),
)
def test_what_is_rendered_parses_to_the_same(origin, size, root, signatures) -> None:
    note = TrailCheckpoint(origin, size, root, tuple(NoteSignature(name, raw[:4], raw[4:]) for name, raw in signatures))
    assert TrailCheckpoint.parse(note.render()) == note


@given(st.binary(max_size=400))
def test_no_other_bytes_parse(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        TrailCheckpoint.parse(data)
    with pytest.raises(InvalidInput):
        LineProof.parse(data)


@given(st.integers(0, len(NOTE.render()) - 1), st.integers(1, 255))
def test_a_changed_note_does_not_parse_to_its_bytes_or_does_not_verify(place: int, change: int) -> None:
    data = bytearray(NOTE.render())
    data[place] ^= change
    with pytest.raises(InvalidInput):
        note = TrailCheckpoint.parse(bytes(data))
        assert note.render() == bytes(data)
        note.verify(KEY.public)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace("\n7\n", "\n07\n"),
        lambda text: text.replace("\n7\n", "\n+7\n"),
        lambda text: text.replace("\n7\n", "\n٧\n"),
        lambda text: text + "\n",
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n\n", "\nextension\n\n"),
        lambda text: text.replace("\u2014", "-"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.partition("\u2014")[0],
    ],
)
def test_lax_spellings_are_refused(spoil) -> None:
    with pytest.raises(InvalidInput):
        TrailCheckpoint.parse(spoil(NOTE.render().decode()).encode())


def test_the_signature_counts_only_for_its_key_and_origin() -> None:
    NOTE.verify(KEY.public)
    other = SigningKey(KEY.name, Ed25519PrivateKey.from_private_bytes(b"o" * 32))
    with pytest.raises(InvalidInput, match="no signature by"):
        NOTE.verify(other.public)
    with pytest.raises(InvalidInput, match="origin"):
        NOTE.verify(VerifierKey("elsewhere", KEY.public.raw))
    witness = NoteSignature("witness", b"wwww", b"anything")
    TrailCheckpoint(NOTE.origin, NOTE.size, NOTE.root, (*NOTE.signatures, witness)).verify(KEY.public)


def test_a_verifier_key_has_one_spelling() -> None:
    text = KEY.public.render()
    assert VerifierKey.parse(text) == KEY.public
    name, identity, encoded = text.split("+", 2)
    for wrong in (
        text + "\n",
        text.upper(),
        f"{name}+00000000+{encoded}",
        f"{name}+{identity}+{base64.b64encode(b'x' * 33).decode()}",
        f"other+{identity}+{encoded}",
        f"\udcff+{identity}+{encoded}",  # as an argument has bytes that are not UTF-8
        "",
    ):
        with pytest.raises(InvalidInput):
            VerifierKey.parse(wrong)


def test_every_event_can_be_proven_and_the_proof_stands_alone(tmp_path: Path) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")
    grow(trail, 13)
    key = load_key("ws-" + "5" * 32).public
    lines = [event.line for event in trail.events()]
    with trail.locked() as held:
        _, note = write_trail_checkpoint(held, actor="me")
    for seq in range(1, 14):
        proof = prove_line(trail, seq, note=note)
        again = LineProof.parse(proof.render())
        assert again == proof
        again.verify(key)
        for changed in (
            LineProof(lines[seq - 1] + b" ", proof.index, proof.hashes, note),
            LineProof(proof.line, (seq + 3) % 13, proof.hashes, note),
            LineProof(proof.line, proof.index, proof.hashes[:-1], note),
        ):
            with pytest.raises(InvalidInput):
                changed.verify(key)
    assert prove_line(trail, 14).checkpoint.size == 14
    with pytest.raises(InvalidInput, match="not among"):
        prove_line(trail, 15)
    with pytest.raises(InvalidInput, match="not among"):
        prove_line(trail, 14, note=note)
    with pytest.raises(InvalidInput, match="not one of this trail"):
        prove_line(trail, 1, note=sign_trail_checkpoint(load_key("ws-" + "5" * 32), 5, b"0" * 32))
    leaves = [tree.leaf_hash(line) for line in lines]
    tree.verify_consistency(5, 13, trail.prove_consistency(5, 13), tree.root_of(leaves[:5]), tree.root_of(leaves))
    with pytest.raises(InvalidInput):
        trail.prove_consistency(9, 100)


def test_checkpoints_and_rotation_verify_together(tmp_path: Path) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")
    with trail.locked() as held:
        assert not trail_checkpoint_due(held, 10)
    for size in (12, 30, 44):
        grow(trail, size)
        with trail.locked() as held:
            assert trail_checkpoint_due(held, 10)
            path, note = (rotate if size == 30 else write_trail_checkpoint)(held, actor="me")
            assert not trail_checkpoint_due(held, 10)
            assert path.name == f"{size:012d}" and note.size == size
            assert held.outside_problem() is None
    result = verify_trail(workspace)
    assert (result.ok, result.segments, result.checkpoints, result.lines) == (True, 2, 3, 45)


def test_without_the_key_nothing_is_signed_and_nothing_announced(tmp_path: Path) -> None:
    _, trail = make_workspace(tmp_path / "ws")
    path = UserState.of("ws-" + "5" * 32).key_file
    for content in (None, b"zz", b"00" * 31):
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        with trail.locked() as held, pytest.raises(Unavailable, match=r"workspace\.key"):
            write_trail_checkpoint(held, actor="me")
    assert len(list(trail.events())) == 1


def test_a_checkpoint_is_written_when_it_is_due(tmp_path: Path) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")
    assert trail_checkpoint_when_due(trail, 5, actor="daemon") is None
    grow(trail, 6)
    assert trail_checkpoint_when_due(trail, 5, actor="daemon") == workspace.audit / "checkpoints" / "000000000006"
    assert trail_checkpoint_when_due(trail, 5, actor="daemon") is None
    assert verify_trail(workspace).ok


def test_a_public_key_that_looks_like_a_token_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first event would have it masked, and no checkpoint of that trail could ever be verified."""
    like_a_token = Ed25519PrivateKey.from_private_bytes((99394).to_bytes(32, "big"))
    other = Ed25519PrivateKey.from_private_bytes(bytes(32))
    made = [other, like_a_token]
    assert has_secret(SigningKey("threegate.local/ws-1", like_a_token).public.render())
    monkeypatch.setattr(Ed25519PrivateKey, "generate", staticmethod(made.pop))
    assert make_key("ws-" + "7" * 32).private is other and made == []
    assert load_key("ws-" + "7" * 32).public.raw == other.public_key().public_bytes_raw()


def test_who_counts_misses_nothing_of_rotations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file may be closed once or twice between two looks, and in the middle of the first one."""
    workspace, trail = make_workspace(tmp_path / "ws")

    def rotated(size: int) -> None:
        grow(trail, size)
        with trail.locked() as held:
            rotate(held, actor="me")

    def opened(path: Path) -> int:
        if path == workspace.trail_file and sizes:
            rotated(sizes.pop())
        return open_segment(path)

    sizes = [20, 10]
    monkeypatch.setattr(tail_module, "open_segment", opened)
    tail = TrailTail(workspace)
    assert [event.seq for event in tail.read_on()] == list(range(1, 22)) and not sizes
    rotated(30)
    rotated(40)
    grow(trail, 50)
    assert [event.seq for event in tail.read_on()] == list(range(22, 51))
    assert list(tail.read_on()) == []
