"""What a key's files tell: every format that ssh-keygen writes, and files that are none."""

from __future__ import annotations

import base64
import os
import struct
import subprocess
from pathlib import Path

import pytest

from tests.approval import fido
from tests.approval.fido import string
from tests.support import make_key
from threegate.approval.key_files import line_of, parse_line, read_private, read_public
from threegate.core import limits

FORMATS = [
    ("ed25519", "RFC4716"), ("ecdsa", "RFC4716"), ("rsa", "RFC4716"), ("rsa", "PEM"), ("ecdsa", "PEM"),
    ("rsa", "PKCS8"), ("ecdsa", "PKCS8"),
]  # fmt: skip


@pytest.mark.parametrize("phrase", ["", "open sesame"])
@pytest.mark.parametrize(("kind", "format_"), FORMATS)
def test_whether_it_is_encrypted_is_known_without_asking(tmp_path: Path, kind: str, format_: str, phrase: str) -> None:
    key = tmp_path / "key"
    size = ["-b", "1024"] if kind == "rsa" else []  # made in no time
    subprocess.run(["ssh-keygen", "-q", "-t", kind, *size, "-m", format_, "-N", phrase, "-f", key], check=True)
    private, public = read_private(key), read_public(tmp_path / "key.pub")
    assert private is not None and public is not None
    assert private.asks == ("passphrase" if phrase else "nothing")
    assert private.public == (public.key if format_ == "RFC4716" else None)
    listed = subprocess.run(["ssh-keygen", "-lf", key], capture_output=True, text=True, check=True).stdout
    assert public.key.fingerprint in listed
    assert line_of(public.key).text == public.text


def token_file(token: fido.SecurityKey, flags: int, *, cipher: bytes = b"none") -> bytes:
    """A token's private key file as ssh-keygen writes it."""
    head = token.blob[: -len(string(fido.APPLICATION))]
    private = b"\1\2\3\4" * 2 + head + string(fido.APPLICATION) + bytes([flags]) + string(b"handle") + string(b"")
    body = b"openssh-key-v1\0" + string(cipher) + string(b"none") + string(b"") + struct.pack(">I", 1)
    body += string(token.blob) + string(private)
    text = base64.encodebytes(body).decode()
    return f"-----BEGIN OPENSSH PRIVATE KEY-----\n{text}-----END OPENSSH PRIVATE KEY-----\n".encode()


@pytest.mark.parametrize("make", [fido.ed25519_key, fido.ecdsa_key])
@pytest.mark.parametrize(
    ("flags", "cipher", "asks"),
    [(0x01, b"none", "touch"), (0x05, b"none", "passphrase"), (0x01, b"aes256-ctr", "passphrase")],
)
def test_a_token_asks_for_a_touch_or_its_pin(
    tmp_path: Path, make: type[fido.SecurityKey], flags: int, cipher: bytes, asks: str
) -> None:
    token = make()
    (tmp_path / "id_sk").write_bytes(token_file(token, flags, cipher=cipher))
    private = read_private(tmp_path / "id_sk")
    assert private is not None and private.public is not None
    assert (private.asks, private.public.blob) == (asks, token.blob)
    shown = subprocess.run(["ssh-keygen", "-lf", tmp_path / "id_sk"], capture_output=True, text=True, check=True)
    assert private.public.fingerprint in shown.stdout


def broken(part: str) -> bytes:
    whole = base64.b64decode(b"".join(token_file(fido.ed25519_key(), 1).splitlines()[1:-1]))
    other = {
        "magic": b"X" + whole[1:],
        "two keys": whole.replace(struct.pack(">I", 1) + string(b"")[:0], struct.pack(">I", 2), 1),
        "end": whole[:-40],
        "public": whole.replace(b"sk-ssh", b"sk-xxx"),
    }[part]
    text = base64.encodebytes(other)
    return b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + text + b"-----END OPENSSH PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"nothing\n", b"-----BEGIN PUBLIC KEY-----\n", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n",
        b"-----BEGIN OPENSSH PRIVATE KEY-----\nA\n-----END OPENSSH PRIVATE KEY-----\n",
        *map(broken, ("magic", "two keys", "public")),
        b"-----BEGIN RSA PRIVATE KEY-----\n" + b"A" * limits.PRIVATE_KEY_BYTES,
    ],
)  # fmt: skip
def test_what_is_no_private_key(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "key").write_bytes(data)
    assert read_private(tmp_path / "key") is None


def test_files_that_cannot_be_read_are_no_keys(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    for name in ("fifo", "one", "missing"):
        assert read_private(tmp_path / name) is None and read_public(tmp_path / name) is None


def test_a_key_behind_a_link_is_one(tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    for suffix in ("", ".pub"):
        (tmp_path / f"link{suffix}").symlink_to(f"{key}{suffix}")
    assert read_private(tmp_path / "link") == read_private(key)
    assert read_public(tmp_path / "link.pub") == read_public(tmp_path / "key.pub") is not None


def test_of_a_line_only_a_plain_comment_is_kept(tmp_path: Path) -> None:
    text = " ".join(make_key(tmp_path / "key").with_suffix(".pub").read_text().split()[:2])
    for comment in ("", "me@here", "two words"):
        line = parse_line(f"{text} {comment}\n")
        assert line is not None and (line.text, line.comment) == (text, comment)
    for comment in ("\x1b[2J", "\u202e", "x" * 61):
        line = parse_line(f"{text} {comment}")
        assert line is not None and line.comment == ""
    for wrong in ("", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-dss AAAAB3NzaC1kc3M= me"):
        assert parse_line(wrong) is None
