"""Secrets that no scan of UTF-8 text finds: by the name of a file, in another encoding, as bytes. And what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from threegate.plugins.agents.project_survey import survey

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
    ".password-store/mail/me.gpg": b"\x85\x01\x0c",
    "release.jks": b"\xfe\xed\xfe\xed",
    ".env-prod": b"A=1\n",
    ".env.production.local": b"A=1\n",
    ".npmrc": b"//registry.npmjs.org/:_authToken=5b1c9d0e-aa11-4a2f-9d5c-b33b6f1f2a77\n",
    ".pypirc": b"[pypi]\nusername = me\npassword = Xk29dkq0\n",
    "run/secrets/db_password.txt": b"Tr0ub4dor\n",
    "prod.kubeconfig": b"users:\n- user:\n    client-key-data: LS0tLS1CRUdJTiBSU0E=\n",
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
    ".env.example": b"PASSWORD=\n",
    ".env.local.sample": b"PASSWORD=\n",
    ".env_template": b"PASSWORD=\n",
    ".envrc": b"layout python\n",
    "db/schema.sql": b"create table a (b text);\n",
    "app.sqlite3": b"SQLite format 3\0",
    "data/database/backups/old.bak": b"old\n",
    "secrets/service.py": b"def read(): ...\n",
    "secrets/README.txt": b"how to put secrets here\n",
    "credentials/credentials.go": b"package credentials\n",
    "sub/.npmrc": b"//registry.npmjs.org/:_authToken=${NPM_TOKEN}\nalways-auth=true\n",
    "sub/.pypirc": b"[pypi]\nusername = __token__\npassword = ${TOKEN}\n",
    "android/app/debug.keystore": b"\xfe\xed\xfe\xed",
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
        older.setattr("threegate.plugins.agents.project_survey._RULES", 1)
        older.setattr("threegate.plugins.agents.file_findings.file_secret", lambda path, data: None)
        assert not survey(project, cache=cache).hidden
    assert survey(project, cache=cache).hidden == {"vault.key": "secret"}
