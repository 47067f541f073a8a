"""threegate validate, rules, explain and draft: real command lines, their outputs and exit codes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.request.examples import NAME, monty
from threegate import cli
from threegate.cli import invocation, output, validate_command
from threegate.request.schema import report_schema

SECRET = "AKIA" + "IOSFODNN7" + "QRSTUVW"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No workspace above; the root options are those of a new process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(invocation, "ROOT", invocation.RootOptions())


def put(name: str, text: str, folder: str = "inbox") -> str:
    Path(folder).mkdir(exist_ok=True, parents=True)
    path = Path(folder) / name
    path.write_text(text, "utf-8", newline="")
    return str(path)


def test_a_valid_draft_exits_0_and_an_invalid_one_2_with_place_rule_and_caret(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.execute(["validate", put(NAME, monty())]) == 0
    assert capsys.readouterr().out == f"inbox/{NAME}: valid (draft)\n"
    assert cli.execute(["validate", put("TR-bad.md", monty(network="full"))]) == 2
    out = capsys.readouterr().out
    assert "inbox/TR-bad.md:10:10: error TG138: network must be none or allowlist\n" in out
    assert "   10 | network: full\n      |          ^\n      = " in out


def test_the_default_stage_is_that_of_the_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(NAME, monty(), "tool-exec/approved")
    assert cli.execute(["validate", path]) == 2
    assert "TG142" in capsys.readouterr().out
    assert cli.execute(["validate", "--stage", "draft", path]) == 0
    put(NAME, monty())
    monkeypatch.chdir("inbox")
    assert cli.execute(["validate", NAME]) == 0


def test_warnings_change_nothing_but_with_strict(capsys: pytest.CaptureFixture[str]) -> None:
    path = put("TR-other.md", monty())
    assert cli.execute(["validate", path]) == 0
    assert cli.execute(["validate", "--strict", path]) == 2
    assert "warning TG102" in capsys.readouterr().out


def test_json_is_valid_for_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    put(NAME, monty())
    put("TR-bad.md", "x")
    for arguments in (
        ["--json", "validate", "inbox"],
        ["validate", "--json", "inbox"],
        ["validate", "--format", "json", "inbox"],
    ):
        assert cli.execute(arguments) == 2
        value = json.loads(capsys.readouterr().out)
        jsonschema.Draft202012Validator(report_schema()).validate(value)
        assert [file["valid"] for file in value["files"]] == [True, False]
        invocation.ROOT.json = False


def test_sarif_has_what_scanners_ask_for_and_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    put("TR-bad.md", monty(network="full", purpose=SECRET))
    assert cli.execute(["validate", "--format", "sarif", "inbox"]) == 0
    text = capsys.readouterr().out
    value = json.loads(text)
    schema = json.loads((Path(__file__).parents[1] / "data" / "sarif-2.1.0-subset.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(value)
    run = value["runs"][0]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert SECRET not in text


def test_github_annotations_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    path = put("TR-bad.md", monty(network="full"))
    assert cli.execute(["validate", "--format", "github", path]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert any(
        line.startswith("::error file=inbox/TR-bad.md,line=10,col=10,title=TG138::network must be") for line in lines
    )
    assert all(line.startswith(("::error ", "::warning ")) for line in lines)
    assert output._property("a:b,c%\n") == "a%3Ab%2Cc%25%0A"


def test_folders_are_searched_without_links_and_hidden_folders(capsys: pytest.CaptureFixture[str]) -> None:
    put(NAME, monty(), "ws/inbox")
    put(NAME, monty(), "ws/.hidden")
    put("README.md", "x", "ws")
    os.symlink("inbox", "ws/link")
    assert cli.execute(["validate", "ws"]) == 0
    assert capsys.readouterr().out.count("valid") == 1


def test_a_folder_without_requests_is_said_to_be_empty(capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty").mkdir()
    assert cli.execute(["validate", "empty"]) == 0
    assert "nothing was checked" in capsys.readouterr().err


def test_what_is_no_regular_file_is_refused_and_what_is_missing_fails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    os.symlink(put(NAME, monty()), "inbox/TR-link.md")
    os.mkfifo("inbox/TR-fifo.md")
    assert cli.execute(["validate", "inbox/TR-link.md", "inbox/TR-fifo.md", "/dev/null"]) == 2
    assert capsys.readouterr().out.count("error TG100") == 3
    assert cli.execute(["validate", put("TR-big.md", "x" * 70_000)]) == 2
    assert "70000 bytes" in capsys.readouterr().out
    assert cli.execute(["validate", "missing.md"]) == 3
    assert "missing.md: cannot be read" in capsys.readouterr().err


def test_a_folder_that_cannot_be_listed_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def walk(_path: str, onerror: object) -> list[object]:
        onerror(PermissionError(13, "Permission denied", "locked"))  # type: ignore[operator]
        return []

    Path("locked").mkdir()
    monkeypatch.setattr(os, "walk", walk)
    assert cli.execute(["validate", "locked"]) == 3
    assert "locked: cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "code"), [(monty(), 0), ("x" * 200_000, 2)])
def test_standard_input(
    text: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert cli.execute(["validate", "--stage", "draft", "-"]) == code
    assert capsys.readouterr().out.startswith("-:")


def test_wrong_usage_is_64() -> None:
    assert cli.execute(["validate", "--format", "xml", "a"]) == 64
    assert cli.execute(["validate", "--stage", "done", "a"]) == 64
    assert cli.execute(["validate"]) == 64


def test_many_files_are_checked_in_parallel_in_order(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validate_command, "PARALLEL_FROM", 4)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    paths = [put(f"TR-{number}.md", monty(network="full") if number % 2 else monty()) for number in range(6)]
    assert cli.execute(["validate", "-q", *paths, "missing.md"]) == 2
    captured = capsys.readouterr()
    assert [line.split(":")[0] for line in captured.out.splitlines() if "TG138" in line] == paths[1::2]
    assert "missing.md" in captured.err


def test_the_workspaces_maxima_hold(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("threegate.toml").write_text("[request]\nmax_memory_mb = 64\n")
    path = put(NAME, monty())
    assert cli.execute(["validate", path]) == 2
    assert "between 8 and 64 MiB" in capsys.readouterr().out
    Path("threegate.toml").write_text("nonsense = 1\n")
    assert cli.execute(["validate", path]) == 2
    assert "threegate.toml" in capsys.readouterr().err
    monkeypatch.setenv("THREEGATE_WORKSPACE", "/nowhere")
    assert cli.execute(["validate", path]) == 64


def test_no_secret_and_no_escape_reaches_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    path = put("TR-bad.md", monty(purpose=f"{SECRET} \x1b[31m red \u202e"))
    for form in output.FORMATS:
        cli.execute(["validate", "--format", form, path])
        text = capsys.readouterr().out
        assert SECRET not in text and "\x1b" not in text and "\u202e" not in text


def test_long_and_wide_lines_keep_the_caret_under_the_place() -> None:
    from threegate.request.report import Finding

    finding = Finding("TG101", "error", 1, 300, "m", "h")
    shown, mark = output.caret(["x" * 299 + "HERE" + "y" * 300], finding)
    assert shown[mark.index("^")] == "H" and len(shown) < 200
    shown, mark = output.caret(["東京 x"], Finding("TG101", "error", 1, 4, "m", "h"))
    assert mark.index("^") - len("      | ") == 5
    assert list(output.caret([], finding)) == []
    assert output.width("e\u0301a") == 2


def test_rules_and_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.execute(["validate", "--rules"]) == 0
    assert "TG107  error" in capsys.readouterr().out
    assert cli.execute(["validate", "--rules", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["id"] == "TG100"
    assert cli.execute(["validate", "--rules", "--format", "markdown"]) == 0
    assert capsys.readouterr().out == (Path(__file__).parents[2] / "docs" / "rules.md").read_text("utf-8")
    assert cli.execute(["validate", "--explain", "tg107"]) == 0
    out = capsys.readouterr().out
    assert "Refused (front matter):" in out and "Accepted (front matter):" in out
    assert cli.execute(["validate", "--explain", "hidden-character", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "TG107"
    assert cli.execute(["validate", "--explain", "TG999"]) == 2


def test_nothing_of_a_requests_code_is_told_on_stderr() -> None:
    path = put(NAME, monty().replace("print(1)", "x = 1if 2 else '\\d'"))
    done = subprocess.run(
        [sys.executable, "-m", "threegate", "validate", path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_name_that_is_no_text_is_told_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    path = os.fsdecode(b"inbox/TR-\xff\x1b.md")
    put(path.removeprefix("inbox/"), "x")
    for form in output.FORMATS:
        assert cli.execute(["validate", "--format", form, path]) == (0 if form == "sarif" else 2)
        text = capsys.readouterr().out
        assert text.isascii() and "\x1b" not in text and "TG101" in text
