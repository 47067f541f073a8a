"""Secrets that no scan of UTF-8 text finds: by the name of a file, in another encoding, as bytes. And what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from threegate.agents.project_survey import survey

TOKEN = "ghp_" + "n4Kd9Zq2Lw8Xr5Tb7Vm3Yc6Hj1Gf0SpQaRuE"
SECRET = {
    ".netrc": b"machine example.com login me password x\n",
    "_NETRC": b"machine a\n",
    "deep/.pgpass": b"h:5432:d:u:p\n",
    "infra/terraform.tfstate": b'{"version": 4}\n',
    "infra/terraform.tfstate.backup": b"{}\n",
    "cert.p12": b"0\x82\x01\x02",
    "CERT.PFX": b"0\x82\x01\x02",
    "store.kdbx": b"\x03\xd9\xa2\x9a",
    "id_ed25519": b"anything\n",
    ".aws/credentials": b"[default]\n",
    "vault.key": b"c2VjcmV0IGtleSBvZiB0aGUgdmF1bHQgOTg3NjU0\n",
    "config/master.key": b"5f2b9c07a1e84d36b0c95ad1e7f38264\n",
    "raw.key": bytes(range(128, 160)),
    "notes16.txt": f"token {TOKEN}\n".encode("utf-16"),
    "notes16le.txt": f"token {TOKEN}\n".encode("utf-16-le"),
    "notes16be.txt": f"token {TOKEN}\n".encode("utf-16-be"),
    "notes32.txt": f"token {TOKEN}\n".encode("utf-32"),
    "notes8.txt": b"\xef\xbb\xbf" + f"token {TOKEN}\n".encode(),
}
NONE = {
    "netrc.md": b"how to write a .netrc\n",
    "tests/netrc_parser.py": b"def parse(): ...\n",
    "main.tf": b'resource "a" "b" {}\n',
    "apt.key": b"-----BEGIN PGP PUBLIC KEY BLOCK-----\nmQINBF\n-----END PGP PUBLIC KEY BLOCK-----\n",
    "talk.key": b"PK\x03\x04" + b"presentation " * 1000,
    "words.key": b"first second third\n",
    "minisign.pub.key": b"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\n",
    "id_rsa.pub": b"ssh-ed25519 AAAAC3 a@b\n",
    "hello16.txt": "plain text\n".encode("utf-16"),
    "zeros.bin": bytes(4096),
    "vault.keys.md": b"about keys\n",
}


@pytest.mark.parametrize("project", [True, False], ids=["project", "read"])
def test_secrets_by_name_and_by_encoding_are_hidden_and_nothing_else(tmp_path: Path, project: bool) -> None:
    for path, data in (SECRET | NONE).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    assert sorted(survey(tmp_path, project=project).hidden) == sorted(SECRET)


def test_what_was_scanned_by_older_rules_is_scanned_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, cache = tmp_path / "project", tmp_path / "cache"
    project.mkdir()
    (project / "vault.key").write_bytes(SECRET["vault.key"])
    with monkeypatch.context() as older:
        older.setattr("threegate.agents.project_survey._RULES", 1)
        older.setattr("threegate.agents.project_survey.is_key_file", lambda path, data: False)
        assert not survey(project, cache=cache).hidden
    assert survey(project, cache=cache).hidden == {"vault.key": "secret"}
