"""Secrets of high confidence: real forms are found, and what only looks like one is not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from threegate.core.secretscan.certain import find_certain

RANDOM = "n4Kd9Zq2Lw8Xr5Tb7Vm3Yc6Hj1Gf0SpQaRuE"
AWS = "AKIA" + "Q3EGZ7XN5WVL2JTR"
SECRET = [
    f"ghp_{RANDOM}",
    f"x = 'sk-ant-{RANDOM}'",
    f"export AWS_KEY={AWS}\nexport AWS_SECRET=" + "pQ2vX7mN4rT9wL1yB6cD3fG5hJ0sK8uA2eR4xYzW\n",
    "postgres://app:x7Kp2mQ9vL@db.prod.acme-corp.io/main",
    f"glpat-{RANDOM[:20]}",
]
NONE = [
    "AKIA" + "IOSFODNN7EXAMPLE",
    AWS,
    "postgres:postgres@localhost",
    "postgres://postgres:postgres@localhost:5432/app",
    "https://user:p4ssw0rd99@example.com/",
    'password = "hunter2"',
    "ghp_" + "x" * 36,
    "ghp_" + "0123456789" * 4,
    "glpat-" + "exampleexampleexample",
    "Bearer testtoken",
    "-----BEGIN PRIVATE KEY-----\nMIIB...\n-----END PRIVATE KEY-----",
    'if "BEGIN RSA PRIVATE KEY" in text:',
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "5f2b9c07a1e84d36b0c95ad1e7f38264" * 2,
]


@pytest.mark.parametrize("text", SECRET, ids=range(len(SECRET)))
def test_what_is_a_secret(text: str) -> None:
    assert find_certain(text)


@pytest.mark.parametrize("text", NONE, ids=range(len(NONE)))
def test_what_only_looks_like_one(text: str) -> None:
    assert not find_certain(text)


@pytest.mark.parametrize("form", ["openssh", "pem", "pkcs8", "encrypted", "quoted"])
def test_a_private_key_counts_if_it_decodes(tmp_path: Path, form: str) -> None:
    kind, *options = {"openssh": ["ed25519"], "encrypted": ["ed25519"]}.get(form, ["rsa", "-b", "2048"])
    if form in ("pem", "quoted"):
        options += ["-m", "PEM"]
    if form == "pkcs8":
        options += ["-m", "PKCS8"]
    phrase = "a phrase" if form == "encrypted" else ""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, *options, "-N", phrase, "-f", tmp_path / "key"], check=True)
    text = (tmp_path / "key").read_text()
    if form == "quoted":
        text = "key = (\n" + "".join(f'    "{line}\\n"\n' for line in text.splitlines()) + ")\n"
    assert find_certain(text)
    assert not find_certain(text.replace(text.splitlines()[4], "", 1)) or form in ("openssh", "encrypted")


GOOGLE, CRATES = "AIzaSyD3xK9mQ2vLr8TnWpJ4hYcZbE7gFsUq1oX", "cioFQJY8VdLPwM4olh9tXj3nPkUqY5hZblf"


@pytest.mark.parametrize("around", ["{}", "key={}", '"text\\n{}"', "?key%3D{}&x=1", "'{}',", "{}\n"])
def test_a_token_with_a_short_prefix_counts_as_a_word(around: str) -> None:
    assert find_certain(around.format(GOOGLE))
    assert find_certain(f"token = {CRATES}")


@pytest.mark.parametrize("around", ["x{}", "{}x", "a/{}+b", "+{}", "{}/", "_{}"])
@pytest.mark.parametrize("token", [GOOGLE, CRATES])
def test_and_not_within_encoded_data(token: str, around: str) -> None:
    """Two of 80 notebooks with pictures of a megabyte were hidden for it."""
    assert not find_certain(around.format(token))
