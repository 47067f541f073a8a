"""What others run: the pre-commit hook, the GitHub action, and the editors' patterns, against the real output."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.request.examples import NAME, era
from threegate import cli
from threegate.cli import invocation

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a workspace, with a bad draft in its inbox."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(invocation, "ROOT", invocation.RootOptions())
    Path("inbox").mkdir()
    Path("inbox", NAME).write_text(era(network="full"), "utf-8")


def test_the_hook_runs_the_validator_on_requests_only(capsys: pytest.CaptureFixture[str]) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    chosen = re.compile(hook["files"])
    assert chosen.search(f"inbox/{NAME}") and chosen.search("TR-a.md")
    assert not chosen.search("inbox/README.md") and not chosen.search("TR-a.md.sig")
    program, *arguments = shlex.split(hook["entry"])
    assert program == "threegate"
    assert cli.execute([*arguments, f"inbox/{NAME}"]) == 2
    assert "TG138" in capsys.readouterr().out


def test_the_action_is_a_composite_one_whose_commands_exist() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    assert action["runs"]["using"] == "composite"
    for step in action["runs"]["steps"]:
        assert "uses" in step or step["shell"] == "bash"
        assert "${{" not in step.get("run", ""), "inputs reach the shell through its environment only"
    assert cli.execute(["validate", "--format", "github", "--stage", "draft", "--", "inbox"]) == 2


def test_the_editors_pattern_reads_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "editor.md").read_text("utf-8")
    pattern = json.loads("{" + re.search(r'"regexp": .*', page)[0].rstrip(",") + "}")["regexp"]  # type: ignore[index]
    cli.execute(["validate", "-q", "inbox"])
    first = capsys.readouterr().out.splitlines()[0]
    match = re.match(pattern, first)
    assert match is not None
    assert match.groups()[:5] == (f"inbox/{NAME}", "10", "10", "error", "TG138")
