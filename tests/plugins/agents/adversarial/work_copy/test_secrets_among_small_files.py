"""Secrets in many small files that others wrote: each is found in its file, and nowhere else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.plugins.agents.test_planted_secrets import TOKENS
from threegate.plugins.agents.file_findings import find_in_file
from threegate.plugins.agents.project_survey import survey

CODE = "exports.f = (a, b) => a + b;\n"
SURROUNDINGS = ["{}", "{}\n", "\n{}", "a {}", "{} b", CODE + "{}", "{}\n" + CODE, "'{}'", "{}\r\n", CODE * 40 + "'{}'"]


@pytest.mark.parametrize("own", [True, False])
def test_every_kind_is_found_in_every_surrounding(tmp_path: Path, own: bool) -> None:
    """In several encodings, among other files; files without a secret are never hidden."""
    rng = random.Random(f"37 {own}")
    texts = [around.format(make(rng)) for around in SURROUNDINGS for make in TOKENS.values()]
    data = [text.encode() for text in texts]
    data += [text.encode("utf-16") for text in texts[:40]] + [f"\xe9 {text}".encode() for text in texts[:40]]
    data += [f"{text}\0".encode() for text in texts[:40]] + [CODE.encode(), b""] * 400
    rng.shuffle(data)
    secret = set()
    names = ["{}.js", "{}.key", "f{}", ".env.{}", "{}/.npmrc", "secrets/{}", "tests/{}/id_rsa", "{}.p12", "{}/index.js"]
    for number, piece in enumerate(data):
        above = rng.choice(["node_modules/a", "node_modules/b", "vendor", "src"])
        path = tmp_path / above / (rng.choice(names) if number % 8 == 0 else "{}.js").format(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(piece)
        name = str(path.relative_to(tmp_path))
        if any(found.hides for found in find_in_file(name, piece, b"k", lambda path: False, listing=own)):
            secret.add(name)
    assert {path for path, reason in survey(tmp_path, project=own, key=b"k").hidden.items()} == secret
    assert len(secret) > len(texts) * 0.8


def test_a_few_secrets_among_many_files_are_found(tmp_path: Path) -> None:
    """Also in a large file."""
    folder = tmp_path / "node_modules" / "a"
    folder.mkdir(parents=True)
    for number in range(300):
        (folder / f"{number}.js").write_text(CODE * 60)
    secret = f"x = '{TOKENS['github'](random.Random(3))}'\n"
    for name in ("123.js", "298.js"):
        (folder / name).write_text(secret)
    (folder / "large.js").write_text(CODE * 10_000 + secret)
    secrets = [f"node_modules/a/{name}.js" for name in ("123", "298", "large")]
    assert survey(tmp_path).hidden == dict.fromkeys(secrets, "secret")


def test_no_secret_is_put_together_from_two_files(tmp_path: Path) -> None:
    """The first half of a token at the end of one file, the rest at the beginning of the next."""
    folder = tmp_path / "node_modules"
    folder.mkdir()
    for number, make in enumerate(TOKENS.values()):
        token = make(random.Random(number)).partition("\n")[0]
        (folder / f"{number:02}a.js").write_text(token[:12])
        (folder / f"{number:02}b.js").write_text(token[12:])
    assert not survey(tmp_path).hidden


def test_a_file_that_is_known_to_be_clean_is_scanned_when_it_changes(tmp_path: Path) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "project" / "node_modules"
    folder.mkdir(parents=True)
    for number in range(20):
        (folder / f"{number}.js").write_text(CODE)
    for _ in range(2):
        assert not survey(tmp_path / "project", cache=cache).hidden
    (folder / "7.js").write_text(TOKENS["gitlab"](random.Random(7)))
    (folder / "new.js").write_text(TOKENS["npm"](random.Random(8)))
    for _ in range(2):
        assert set(survey(tmp_path / "project", cache=cache).hidden) == {"node_modules/7.js", "node_modules/new.js"}
