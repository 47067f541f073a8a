"""What must be hidden is: secrets of 20 kinds, made anew in each run, in files as projects have them."""

from __future__ import annotations

import base64
import os
import random
import string
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from threegate.plugins.agents.project_survey import survey

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
CAPITALS = string.ascii_uppercase + string.digits
BASE64 = LETTERS + "+/"
URLSAFE = LETTERS + "_-"
OF_EACH = 10
LEAST = 0.95
"""Part of what is planted that is found; the rest is random text that happens to look typed."""


def of(rng: random.Random, alphabet: str, count: int) -> str:
    return "".join(rng.choices(alphabet, k=count))


TOKENS: dict[str, Callable[[random.Random], str]] = {
    "github": lambda rng: f"gh{rng.choice('pousr')}_{of(rng, LETTERS, 36)}",
    "github fine-grained": lambda rng: f"github_pat_{of(rng, LETTERS, 22)}_{of(rng, LETTERS, 59)}",
    "gitlab": lambda rng: f"glpat-{of(rng, URLSAFE, 20)}",
    "aws": lambda rng: f"AKIA{of(rng, string.ascii_uppercase + '234567', 16)}\nAWS_SECRET: {of(rng, BASE64, 40)}",
    "google": lambda rng: f"AIza{of(rng, URLSAFE, 35)}",
    "google oauth": lambda rng: f"GOCSPX-{of(rng, URLSAFE, 28)}",
    "azure storage": lambda rng: f"AccountKey={base64.b64encode(rng.randbytes(64)).decode()}",
    "stripe": lambda rng: f"{rng.choice(['sk', 'rk'])}_live_{of(rng, LETTERS, 24)}",
    "slack": lambda rng: f"xoxb-{of(rng, string.digits, 12)}-{of(rng, string.digits, 13)}-{of(rng, LETTERS, 24)}",
    "slack webhook": lambda rng: (
        f"https://hooks.slack.com/services/T{of(rng, CAPITALS, 10)}/B{of(rng, CAPITALS, 10)}/{of(rng, LETTERS, 24)}"
    ),
    "sendgrid": lambda rng: f"SG.{of(rng, URLSAFE, 22)}.{of(rng, URLSAFE, 43)}",
    "openai": lambda rng: f"sk-proj-{of(rng, URLSAFE, 74)}T3BlbkFJ{of(rng, URLSAFE, 74)}",
    "anthropic": lambda rng: f"sk-ant-api03-{of(rng, URLSAFE, 93)}AA",
    "npm": lambda rng: f"npm_{of(rng, LETTERS, 36)}",
    "pypi": lambda rng: f"pypi-AgEIcHlwaS5vcmc{of(rng, URLSAFE, 150)}",
    "digitalocean": lambda rng: f"dop_v1_{of(rng, HEX, 64)}",
    "vault": lambda rng: f"hvs.{of(rng, URLSAFE, 90)}",
    "url": lambda rng: f"postgres://app:{of(rng, LETTERS, 15)}7@db{rng.randrange(9)}.acme-corp.io:5432/main",
    "private key": lambda rng: private_key(),
    "age": lambda rng: f"AGE-SECRET-KEY-1{of(rng, 'QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L', 58)}",
}
"""20 kinds: how one of each is made."""
FILES = [
    ("config/prod.yml", "service:\n  name: shop\n  credential: {}\n"),
    ("src/settings.py", 'import os\n\nNAME = \'shop\'\nVALUE = """{}"""\n'),
    ("deploy.sh", "#!/bin/sh\nset -e\nexport VALUE='{}'\nexec ./run\n"),
    ("README.md", "# Shop\n\nLog in with\n\n    {}\n\nand start it.\n"),
    ("notes", "{}\n"),
]


def private_key() -> str:
    made = subprocess.run(
        ["openssl", "genpkey", "-algorithm", "ed25519"], capture_output=True, check=True, text=True
    ).stdout  # fmt: skip
    return made.strip()


@pytest.fixture(scope="module")
def planted() -> list[tuple[str, str]]:
    """Kind and secret, new ones in each run; THREEGATE_SEED makes the same ones again."""
    seed = os.environ.get("THREEGATE_SEED") or os.urandom(4).hex()
    print(f"THREEGATE_SEED={seed}")
    rng = random.Random(seed)
    return [(kind, make(rng)) for kind, make in TOKENS.items() for _ in range(OF_EACH)]


def test_what_is_planted_is_hidden(tmp_path: Path, planted: list[tuple[str, str]]) -> None:
    """Each in a project's file of one of several kinds; the misses are listed."""
    assert len(TOKENS) == 20 and len(planted) == 200
    paths = {}
    for number, (kind, secret) in enumerate(planted):
        name, text = FILES[number % len(FILES)]
        path = tmp_path / f"{number:03}" / name
        path.parent.mkdir(parents=True)
        path.write_text(text.format(secret))
        paths[str(path.relative_to(tmp_path))] = (kind, secret)
    found = survey(tmp_path)
    missed = [paths[path] for path in paths if found.hidden.get(path) != "secret"]
    print(f"{len(missed)} of {len(paths)} were missed:", *missed, sep="\n")
    assert len(missed) <= len(paths) * (1 - LEAST), missed
    for item in found.findings:
        kind, secret = paths[item.path]
        for part in secret.split():
            assert part not in item.excerpt or len(part) < 16, (kind, item)
