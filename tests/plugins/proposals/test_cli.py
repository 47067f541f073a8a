"""`threegate proposal`: verdicts as text, JSON and JSON lines; exit codes; what it says when it cannot."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tests.support import make_place
from threegate import cli

AUTO = {"tool": "git.status", "args": {}}
APPROVAL = {"tool": "web.fetch", "args": {"url": "https://example.com/"}}
BLOCK = {"tool": "file.read", "args": {"path": "../x"}}
REJECT = {"tool": "file.read", "args": {}}


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(value: object, name: str = "p.json") -> str:
    Path(name).write_text(json.dumps(value))
    return name


@pytest.mark.parametrize(
    ("value", "verdict", "code"),
    [(AUTO, "auto", 0), (APPROVAL, "approval", 0), (BLOCK, "block", 2), (REJECT, "reject", 2)],
)
@pytest.mark.parametrize("how", [(), ("--quiet",)], ids=" ".join)
def test_a_verdict_and_its_exit_code(
    value: object, verdict: str, code: int, how: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.execute(["validate", "--as", "proposal", *how, write(value)]) == code
    assert capsys.readouterr().out.startswith(verdict)
    assert cli.execute(["validate", "--as", "proposal", *how, write(value), "--format", "json"]) == code
    said = json.loads(capsys.readouterr().out)
    assert said["verdict"] == verdict
    assert {"verdict", "risk", "errors", "reasons", "becomes"} <= set(said)
    assert all(set(error) == {"path", "code", "message"} for error in said["errors"])
    assert cli.execute(["--json", "validate", "--as", "proposal", *how, write(value)]) == code
    assert json.loads(capsys.readouterr().out) == said


def test_lines_in_lines_out(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "\n".join(map(json.dumps, [AUTO, BLOCK, REJECT, APPROVAL]))
        + "\n\n{\n"
        + "x" * 200_000
        + "\n"
        + json.dumps(AUTO)
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert cli.execute(["validate", "--as", "proposal", "-", "--jsonl"]) == 2
    said = [json.loads(line)["verdict"] for line in capsys.readouterr().out.splitlines()]
    assert said == ["auto", "block", "reject", "approval", "reject", "reject", "auto"]
    Path("ok.jsonl").write_text(json.dumps(AUTO) + "\n" + json.dumps(APPROVAL) + "\n")
    assert cli.execute(["validate", "--as", "proposal", "ok.jsonl", "--jsonl"]) == 0


def test_explain_says_where_a_path_and_a_url_lead(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        cli.execute(["validate", "--as", "proposal", write({"tool": "file.read", "args": {"path": "a/../.env"}})]) == 0
    )
    out = capsys.readouterr().out
    assert "path is .env in the project (protected)" in out
    assert "auto by itself, risk low" in out
    assert cli.execute(["validate", "--as", "proposal", write(APPROVAL)]) == 0
    assert "the host to be contacted is example.com, port 443" in capsys.readouterr().out
    value = {"tool": "app.open_proposed", "args": {"app": "x"}, "risk": "medium"}
    assert cli.execute(["validate", "--as", "proposal", write(value)]) == 0
    assert "never proposed below medium" in capsys.readouterr().out


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.execute(["validate", "--as", "proposal", "none.json"]) == 2
    assert "none.json: cannot be read" in capsys.readouterr().err


def test_a_workspace_that_was_named_must_be_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.execute(["-w", "nowhere", "validate", "--as", "proposal", write(AUTO)]) == 64


def test_a_draft_is_printed_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = {"tool": "memory.propose", "args": {"content": "x"}}
    assert cli.execute(["draft", "--proposal", write(value)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("---\nrequest_type: tool_request\n")
    assert cli.execute(["draft", "--proposal", write(value), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["draft"].startswith("---\n")
    assert cli.execute(["draft", "--proposal", write(BLOCK)]) == 2
    assert capsys.readouterr().out.startswith("block")
    assert cli.execute(["draft", "--proposal", write(AUTO)]) == 3
    assert "project.root" in capsys.readouterr().err
    assert cli.execute(["draft", "--proposal", write({"tool": "shell.dry_run", "args": {"argv": ["rm", "x"]}})]) == 0
    assert "would be blocked" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.json"]


def test_a_proposal_is_dropped_into_the_inbox(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.execute(["draft", "--drop", "--proposal", write(AUTO)]) == 64
    place = make_place(tmp_path)
    capsys.readouterr()
    assert cli.execute(["-w", str(place.root), "draft", "--drop", "--proposal", write(AUTO)]) == 0
    dropped = Path(capsys.readouterr().out.strip())
    assert json.loads(dropped.read_text()) == AUTO
    assert cli.execute(["-w", str(place.root), "draft", "--drop", "--proposal", write(AUTO)]) == 2
    assert "is taken" in capsys.readouterr().err
