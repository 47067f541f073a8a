"""threegate draft: what it writes is valid, means what was asked, and is never half there."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from threegate import cli
from threegate.cli import invocation


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with default settings and an inbox."""
    (tmp_path / "ws" / "inbox" / "files").mkdir(parents=True)
    (tmp_path / "ws" / "threegate.toml").write_text("")
    monkeypatch.chdir(tmp_path / "ws")
    monkeypatch.setattr(invocation, "ROOT", invocation.RootOptions())
    return tmp_path / "ws"


def drafts() -> list[Path]:
    return sorted(Path("inbox").glob("TR-*.md"))


def test_an_era_draft_with_inputs_outputs_and_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    Path("script.py").write_text("print(1)\n")
    arguments = [
        "draft",
        "--purpose",
        "Rank: the sales",
        "--command",
        "python3 /in/script.py 'a b'",
        "--input",
        "script.py",
    ]
    arguments += [
        "--output",
        "ranked.json",
        "--output",
        "/out/by region.csv",
        "--network-allow",
        "api.example.com:8443",
    ]
    assert cli.execute([*arguments, "--network-rationale", "reads the rates", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    digest = hashlib.sha256(b"print(1)\n").hexdigest()
    assert value["inputs"] == [{"name": "script.py", "sha256": digest}] and value["copied"] == ["script.py"]
    assert Path("inbox/files/script.py").read_bytes() == b"print(1)\n"
    text = Path(value["path"]).read_text()
    assert "api.example.com:8443" in text and "- `/out/by region.csv`" in text
    assert cli.execute(["validate", "inbox"]) == 0


def test_a_monty_draft_with_variables_and_a_second_one(capsys: pytest.CaptureFixture[str]) -> None:
    Path("code.py").write_text("x = '```'\nprint(limit)")
    Path("vars.json").write_text('{"limit": 3}')
    arguments = [
        "draft",
        "--backend",
        "monty",
        "--purpose",
        "Count",
        "--code",
        "code.py",
        "--vars",
        "vars.json",
        "--slug",
    ]
    assert cli.execute([*arguments, "one"]) == 0
    assert (
        cli.execute([*arguments, "two", "--risk", "high", "--sensitivity", "public", "--justification", "asked for"])
        == 0
    )
    assert capsys.readouterr().out.count("valid (draft)") == 2
    assert len(drafts()) == 2 and all("````python" in path.read_text() for path in drafts())


def test_the_same_input_twice_is_copied_once_and_another_of_its_name_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("a.csv").write_text("1")
    arguments = ["draft", "--purpose", "x", "--command", "cat /in/a.csv", "--input", "a.csv", "--slug"]
    assert cli.execute([*arguments, "one"]) == 0
    assert "copied a.csv" in capsys.readouterr().out
    assert cli.execute([*arguments, "two"]) == 0
    assert "copied" not in capsys.readouterr().out
    Path("a.csv").write_text("2")
    assert cli.execute([*arguments, "three"]) == 2
    assert "another file with this name" in capsys.readouterr().err
    assert len(drafts()) == 2


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--command", "bash a.sh"], "TG312"),
        (["--command", "ls", "--memory", "999999"], "TG140"),
        (["--command", "ls", "--slug", "Not A Slug"], "--slug"),
        (["--command", "ls 'a"], "quot"),
        (["--command", "ls", "--cpu", "many"], "--cpu"),
        (["--command", "ls", "--network-allow", "127.0.0.1"], "IP address"),
        (["--command", "ls", "--input", "a b.csv"], "rename"),
        (["--command", "ls", "--code", "code.py"], "backend ERA"),
        ([], "--command"),
        (["--backend", "monty"], "--code"),
        (["--backend", "monty", "--code", "code.py", "--command", "ls"], "not a command"),
        (["--backend", "monty", "--code", "latin.py"], "UTF-8"),
        (["--command", "python3 a.py --password=hunter2secret"], "TG501"),
    ],
)
def test_what_would_be_refused_is_not_written(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("code.py").write_text("print(1)\n")
    Path("latin.py").write_bytes(b"\xe9")
    Path("a b.csv").write_text("1")
    assert cli.execute(["draft", "--purpose", "x", *arguments]) == 2
    error = capsys.readouterr().err
    assert word in error and "hunter2" not in error
    assert drafts() == [] and not list(Path("inbox/files").iterdir())


def test_wrong_choices_and_no_workspace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for option in ("--backend", "--risk", "--sensitivity"):
        assert cli.execute(["draft", "--purpose", "x", "--command", "ls", option, "other"]) == 64
    monkeypatch.chdir(tmp_path)
    assert cli.execute(["draft", "--purpose", "x", "--command", "ls"]) == 64
