"""The commands: what they print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.trail.operated import make_operated
from tests.trail.workspaces import approve, make_workspace, run
from threegate import cli
from threegate.cli import invocation
from threegate.core.workspace import Workspace


@pytest.fixture(name="workspace")
def a_workspace(tmp_path: Path) -> Workspace:
    workspace, trail = make_workspace(tmp_path / "ws")
    with trail.locked() as held:
        approve(held, "ran1")
    run(trail, "ran1")
    return workspace


@pytest.fixture(name="tg")
def command(workspace: Workspace, capsys: pytest.CaptureFixture[str]):
    def call(*arguments: str, expect: int = 0) -> str:
        code = cli.execute(["-w", str(workspace.root), *arguments])
        invocation.ROOT.json = False
        taken = capsys.readouterr()
        assert code == expect, taken.err
        assert taken.err == "" if code == 0 else taken.err.count("\n") <= 1
        return taken.out if code in (0, 2) and taken.out else taken.err

    return call


def test_show_is_a_story(tg) -> None:
    story = tg("audit", "show")
    assert "approved and signed by operator" in story and "the run finished with status succeeded, exit code 0" in story
    assert tg("audit", "show", "--request", "ran1").count("\n") == 4
    assert tg("audit", "show", "--type", "claimed", "--since", "2025-01-01").count("\n") == 1
    assert tg("audit", "show", "--since", "1h") == ""
    assert [json.loads(line)["seq"] for line in tg("audit", "show", "--json").splitlines()] == [1, 2, 3, 4, 5]
    assert "nobody: no such request here" in tg("audit", "show", "--request", "nobody", expect=2)
    assert "no such event" in tg("audit", "show", "--type", "nonsense", expect=2)
    assert "give a date" in tg("audit", "show", "--since", "yesterday", expect=2)


def test_verify_says_yes_or_where(tg, workspace: Workspace) -> None:
    assert tg("audit", "verify").startswith("trail verifies: 5 events in 1 files")
    assert json.loads(tg("audit", "verify", "--json"))["ok"] is True
    assert tg("audit", "verify", "--key", str(workspace.audit / "workspace.pub"))
    workspace.trail_file.write_bytes(workspace.trail_file.read_bytes().replace(b'"exit_code":0', b'"exit_code":1'))
    said = tg("audit", "verify", expect=2)
    assert "trail.jsonl:5: the line does not have the hash that it names" in said and "DOES NOT VERIFY" in said
    assert json.loads(tg("audit", "verify", "--json", expect=2))["problems"][0]["line"] == 5
    assert "cannot be read" in tg("audit", "verify", "--checkpoint", "/nowhere", expect=2)


def test_prove_and_verify_proof(tg, workspace: Workspace, tmp_path: Path) -> None:
    proof = tmp_path / "5.tlog-proof"
    proof.write_text(tg("audit", "prove", "5"))
    assert "proven: event 5 of 5" in tg("audit", "check-proof", str(proof))
    key = str(workspace.audit / "workspace.pub")
    assert json.loads(tg("audit", "check-proof", str(proof), "--key", key, "--json"))["event"]["type"] == "finished"
    proof.write_text(proof.read_text().replace("index 4", "index 3"))
    assert "does not verify" in tg("audit", "check-proof", str(proof), expect=2)
    proof.write_text("x")
    assert "not a proof" in tg("audit", "check-proof", str(proof), expect=2)
    assert "not among" in tg("audit", "prove", "99", expect=2)


def test_results_and_their_validation(tg, workspace: Workspace) -> None:
    (path,) = workspace.results.iterdir()
    assert path.name in tg("status", "--results")
    assert tg("show", "ran1", "--result").strip() == path.read_text().strip()
    assert json.loads(tg("status", "--results", "--json"))["results"][0]["status"] == "succeeded"
    assert "text" in json.loads(tg("show", path.stem, "--result", "--json"))["results"][0]
    assert "nobody: no such request here" in tg("show", "nobody", "--result", expect=2)
    assert tg("validate", "--as", "result", str(path)) == f"{path}: valid\n"
    path.write_text(path.read_text().replace("## Summary", "## Sum"))
    assert "sections" in tg("validate", "--as", "result", str(path), expect=2)
    assert json.loads(tg("validate", "--as", "result", "--json", str(path), expect=2))["results"][0]["valid"] is False
    path.unlink()
    assert tg("status", "--results") == "no results yet\n"
    assert "cannot be read" in tg("validate", "--as", "result", str(path), expect=2)


def test_adopt_says_why_and_needs_a_yes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, key = make_operated(tmp_path)
    moved = tmp_path / "moved"
    made.root.rename(moved)
    call = ["-w", str(moved), "settings", "adopt", "--as", "operator", "--key", str(key)]
    assert cli.execute(call) != 0
    assert "--yes" in capsys.readouterr().err
    assert cli.execute([*call, "--yes"]) == 0
    said = capsys.readouterr().out
    assert "copied or moved" in said and "adopted: epoch 2" in said
    assert cli.execute([*call, "--yes"]) == 2
    assert "nothing to adopt" in capsys.readouterr().err


def test_checkpoint_rotate_and_prune(tg, workspace: Workspace, tmp_path: Path) -> None:
    kept = tmp_path / "kept.txt"
    assert tg("audit", "checkpoint", "--out", str(kept)).encode() == kept.read_bytes()
    assert "closed at 6 events" in tg("audit", "rotate")
    assert json.loads(tg("audit", "checkpoint", "--json"))["size"] == 7
    assert "4 checkpoints" in tg("audit", "verify", "--checkpoint", str(kept))
    assert "would remove 1 runs" in tg("audit", "prune", "--older-than", "1s", "--dry-run")
    assert json.loads(tg("audit", "prune", "--older-than", "1s", "--json"))["runs"] == ["ran1"]
    assert not (workspace.runs / "ran1").exists()
    assert tg("audit", "verify")
    assert "a duration" in tg("audit", "prune", "--older-than", "soon", expect=2)
