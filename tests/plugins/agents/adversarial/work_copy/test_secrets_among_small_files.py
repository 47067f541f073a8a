"""Many small files are scanned at once: what is found is what is found one by one, wherever a secret is in its file."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.core.secretscan.test_forms import EXAMPLES
from tests.plugins.agents.test_planted_secrets import TOKENS
from threegate.core.secretscan.certain import may_have_certain
from threegate.core.secretscan.patterns import FORMS
from threegate.core.secretscan.scan import PatternSet
from threegate.plugins.agents import file_findings, project_survey
from threegate.plugins.agents.project_survey import Survey, survey

CODE = "exports.f = (a, b) => a + b;\n"
SET = PatternSet([form.pattern for form in FORMS])
SURROUNDINGS = ["{}", "{}\n", "\n{}", "a {}", "{} b", CODE + "{}", "{}\n" + CODE, "'{}'", "{}\r\n", CODE * 40 + "'{}'"]


def both(project: Path, monkeypatch: pytest.MonkeyPatch, *, own: bool) -> tuple[Survey, Survey]:
    """What is found together, and one by one."""
    together = survey(project, project=own, key=b"k")
    with monkeypatch.context() as patched:
        patched.setattr(file_findings, "may_have_certain", lambda texts: any(True for _ in texts))
        return together, survey(project, project=own, key=b"k")


@pytest.mark.parametrize("own", [True, False])
def test_together_and_one_by_one_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    """Every kind in every surrounding, in several encodings, among other files, and below one of them in turn."""
    rng = random.Random(f"37 {own}")
    texts = [around.format(make(rng)) for around in SURROUNDINGS for make in TOKENS.values()]
    data = [text.encode() for text in texts]
    data += [text.encode("utf-16") for text in texts[:40]] + [f"\xe9 {text}".encode() for text in texts[:40]]
    data += [f"{text}\0".encode() for text in texts[:40]] + [CODE.encode(), b""] * 400
    rng.shuffle(data)
    names = ["{}.js", "{}.key", "f{}", ".env.{}", "{}/.npmrc", "secrets/{}", "tests/{}/id_rsa", "{}.p12", "{}/index.js"]
    for number, piece in enumerate(data):
        above = rng.choice(["node_modules/a", "node_modules/b", "vendor", "src"])
        path = tmp_path / above / (rng.choice(names) if number % 8 == 0 else "{}.js").format(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(piece)
    together, apart = both(tmp_path, monkeypatch, own=own)
    assert together == apart
    assert sum(reason == "secret" for reason in apart.hidden.values()) > len(texts) * 0.8


def test_what_is_scanned_together_is_scanned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of others' small files only those with a secret are looked at alone, and large ones."""
    folder = tmp_path / "node_modules" / "a"
    folder.mkdir(parents=True)
    for number in range(300):
        (folder / f"{number}.js").write_text(CODE * 60)  # more than is scanned at once
    secret = f"x = '{TOKENS['github'](random.Random(3))}'\n"
    for name in ("123.js", "298.js"):
        (folder / name).write_text(secret)
    (folder / "large.js").write_text(CODE * 10_000 + secret)
    alone: list[str] = []
    find = file_findings.find_in_file

    def found(path: str, *rest: object, **more: object) -> object:
        alone.append(path)
        return find(path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(project_survey, "find_in_file", found)
    secrets = [f"node_modules/a/{name}.js" for name in ("123", "298", "large")]
    assert survey(tmp_path).hidden == dict.fromkeys(secrets, "secret")
    assert alone == secrets


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


def test_each_form_that_occurs_in_a_file_occurs_between_others() -> None:
    """Also a form that asks for the beginning or the end of a text, or of a word: a line end is one."""
    for _, example in EXAMPLES:
        for around in SURROUNDINGS:
            text = around.replace("{}", example).encode("latin-1", "replace")
            alone = SET.which(text)
            for beside in (b"abc", b"0", b"_", b"/", b"-", b"=", CODE.encode()):
                assert set(alone) <= set(SET.which(b"\n".join([beside, text, beside])))
            assert may_have_certain([b"abc", text, b"xyz"]) >= may_have_certain([text])
