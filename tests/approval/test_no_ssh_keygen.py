"""An ssh-keygen that is not there, cannot be started or does not answer: one line with the fix, and no approval."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support import make_key
from threegate.approval import signature
from threegate.approval.operators import load_operators
from threegate.approval.ssh_wire import parse_armor
from threegate.core import limits
from threegate.core.errors import Unavailable

NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture(name="signed")
def a_signature(tmp_path: Path) -> tuple[Path, bytes]:
    key = make_key(tmp_path / "key")
    return key, signature.sign_statement(b"statement", key, "threegate-approval")


def program(folder: Path, kind: str) -> Path:
    """A path for SSH_KEYGEN that fails in one way."""
    path = folder / "ssh-keygen"
    if kind == "silent":
        path.write_text("#!/bin/sh\nexec sleep 30\n")
        path.chmod(0o700)
    elif kind == "locked":
        path.write_text("#!/bin/sh\n")
        path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("missing", "apt-get install openssh-client"),
        ("locked", "Permission denied"),
        ("silent", "no answer in time"),
    ],
)
def test_each_way_names_its_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signed: tuple[Path, bytes], kind: str, words: str
) -> None:
    key, armor = signed
    public = key.with_suffix(".pub").read_text().split()
    operators = load_operators(
        f'op namespaces="threegate-approval,threegate-act" {public[0]} {public[1]}\n'.encode(), None
    )
    monkeypatch.setattr(signature, "SSH_KEYGEN", str(program(tmp_path, kind)))
    monkeypatch.setattr(limits, "SIGN_SECONDS", 0.2)
    monkeypatch.setattr(limits, "SSH_KEYGEN_SECONDS", 0.2)
    with pytest.raises(Unavailable, match=words):
        signature.sign_statement(b"statement", key, "threegate-approval")
    with pytest.raises(Unavailable, match=words):
        signature.genuine(b"statement", parse_armor(armor), "op", "threegate-approval", operators, at=[NOW])
