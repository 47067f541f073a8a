"""Cosignatures, checked with plain `cryptography` from the text of c2sp.org/tlog-cosignature and c2sp.org/signed-note;
and that nothing else counts as one.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from threegate.core.errors import InvalidInput
from threegate.trail.checkpoint import NoteSignature, TrailCheckpoint, sign_trail_checkpoint
from threegate.trail.cosignature import AddCheckpoint, WitnessKey, cosign, with_cosignature
from threegate.trail.workspace_key import SigningKey, VerifierKey

LOG = SigningKey("threegate.local/ws-" + "5" * 32, Ed25519PrivateKey.from_private_bytes(b"l" * 32))
WITNESS = SigningKey("witness.example/w1", Ed25519PrivateKey.from_private_bytes(b"w" * 32))
OTHER = SigningKey("witness.example/w1", Ed25519PrivateKey.from_private_bytes(b"o" * 32))
NOTE = sign_trail_checkpoint(LOG, 20852163, b"r" * 32)
KEY = WitnessKey.of(WITNESS)


def check_by_the_spec(note: bytes, vkey: str) -> int:
    """The time of the one cosignature of a witness on a note; raises AssertionError or InvalidSignature. None of our
    code.
    """
    name, key_id, encoded = vkey.split("+", 2)
    typed = base64.b64decode(encoded, validate=True)
    assert typed[0] == 4 and len(typed) == 33
    assert hashlib.sha256(name.encode() + b"\n" + b"\x04" + typed[1:]).digest()[:4].hex() == key_id
    text, _, signatures = note.decode().rpartition("\n\n")
    body = text.encode() + b"\n"
    [line] = [line for line in signatures.splitlines() if line.split(" ")[1] == name]
    dash, _, value = line.split(" ")
    raw = base64.b64decode(value, validate=True)
    assert dash == "\u2014" and raw[:4].hex() == key_id and len(raw) == 4 + 8 + 64
    time = int.from_bytes(raw[4:12], "big")
    assert 0 < time < 2**63
    message = b"cosignature/v1\n" + b"time " + str(time).encode() + b"\n" + body
    Ed25519PublicKey.from_public_bytes(typed[1:]).verify(raw[12:], message)
    return time


def test_a_stranger_verifies_it() -> None:
    line = cosign(WITNESS, NOTE, 1679315147).render().encode()
    cosigned = with_cosignature(NOTE, KEY, line)
    assert check_by_the_spec(cosigned.render(), KEY.render()) == 1679315147 == KEY.time_of(cosigned)
    assert cosigned.render() == NOTE.render() + line and TrailCheckpoint.parse(cosigned.render()) == cosigned
    cosigned.verify(LOG.public)
    with pytest.raises(InvalidSignature):
        check_by_the_spec(cosigned.render().replace(b"20852163", b"20852164"), KEY.render())


def test_the_key_of_the_specification() -> None:
    """The example of c2sp.org/signed-note is a log's key: of another kind, so it is no witness's."""
    example = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
    assert VerifierKey.parse(example).render() == example
    with pytest.raises(InvalidInput, match="of another kind"):
        WitnessKey.parse(example)
    with pytest.raises(InvalidInput, match="of another kind"):
        VerifierKey.parse(KEY.render())


@pytest.mark.parametrize(
    "lines",
    [
        b"",
        b"\n",
        b"no line\n",
        "\u2014 witness.example/w1 AAAA".encode(),
        "\u2014 witness.example/w1 AAAA\n".encode(),
        "\u2014 witness.example/w1 AAA\n".encode(),
        b"\xff\n",
        cosign(OTHER, NOTE, 1679315147).render().encode(),
        cosign(WITNESS, sign_trail_checkpoint(LOG, 20852162, b"r" * 32), 1679315147).render().encode(),
        cosign(WITNESS, NOTE, 0).render().encode(),
        NOTE.signatures[0].render().encode(),
        NoteSignature(KEY.name, KEY.key_id, WITNESS.sign(NOTE.body)).render().encode(),
        NoteSignature(KEY.name, KEY.key_id, bytes(8) + WITNESS.sign(NOTE.body)).render().encode(),
    ],
)
def test_what_is_no_cosignature_does_not_count(lines: bytes) -> None:
    with pytest.raises(InvalidInput):
        with_cosignature(NOTE, KEY, lines)


def test_every_changed_bit_is_found() -> None:
    good = cosign(WITNESS, NOTE, 1679315147)
    for at in range(len(good.signature) * 8):
        changed = bytearray(good.signature)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(InvalidInput, match="does not verify"):
            KEY.time_of(replace(NOTE, signatures=(*NOTE.signatures, replace(good, signature=bytes(changed)))))


def test_signatures_of_unknown_keys_are_left_out() -> None:
    ours, strange = cosign(WITNESS, NOTE, 5), cosign(OTHER, NOTE, 6)
    cosigned = with_cosignature(NOTE, KEY, (strange.render() + ours.render()).encode())
    assert cosigned.signatures == (*NOTE.signatures, ours)


@given(st.integers(0, 10**15), st.lists(st.binary(min_size=32, max_size=32), max_size=63))
def test_a_request_comes_back_as_it_was(old: int, proof: list[bytes]) -> None:
    asked = AddCheckpoint(old, tuple(proof), NOTE)
    assert AddCheckpoint.parse(asked.render()) == asked


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"old 0\n\n",
        b"old 00\n\n" + NOTE.render(),
        b"old -1\n\n" + NOTE.render(),
        b"old  0\n\n" + NOTE.render(),
        b"Old 0\n\n" + NOTE.render(),
        b"old 0\r\n\r\n" + NOTE.render(),
        b"old 0\n" + NOTE.render(),
        b"old 1\nAAAA\n\n" + NOTE.render(),
        b"old 1\n" + b"A" * 42 + b"B=\n\n" + NOTE.render(),
        b"old 1\n" + (b"A" * 43 + b"=\n") * 64 + b"\n" + NOTE.render(),
        b"old 0\n\n" + NOTE.render()[:-1],
        b"old 0\n\n" + NOTE.render() + b"\n",
        b"old 0\n\n" + NOTE.render() + b"\xff",
        b"old 0\n\n" + NOTE.body,
        "old \u0663\n\n".encode() + NOTE.render(),
    ],
)
def test_only_one_spelling_is_a_request(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        AddCheckpoint.parse(data)
