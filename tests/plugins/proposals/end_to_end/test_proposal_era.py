"""The ERA lanes of proposals (git and shell), run for real in containers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import engine_host, few, missing
from tests.support import Place, make_place
from threegate import cli

pytestmark = pytest.mark.engine

PROPOSALS: dict[str, dict[str, Any]] = {
    "status": {"tool": "git.status", "args": {}},
    "diff": {"tool": "git.diff", "args": {"path": "README.md"}},
    "staged": {"tool": "git.diff", "args": {"staged": True}},
    "log": {"tool": "git.log", "args": {"limit": 1}},
    "shell": {
        "tool": "shell.execute_approved",
        "args": {"argv": ["python3", "a.py", "it's here"], "cwd": "src", "timeoutMs": 20000},
        "risk": "high",
    },
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Path, dict[str, str]]]:
    """A workspace in which each of these was dropped, drafted, approved and run."""
    if not engine_host():
        missing("a container engine with the ERA image (scripts/engine up)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        folder = tmp_path_factory.mktemp("era")
        project = make_project(folder)
        place = make_place(
            folder,
            settings={
                "project.root": str(project),
                "runners.era.engine": engine_host() or "",
                "runners.era.image": os.environ["THREEGATE_TEST_IMAGE"],
            },
        )
        for name, proposal in PROPOSALS.items():
            part = place.root / "inbox" / f".{name}.part"
            part.write_text(json.dumps(proposal))
            part.rename(place.root / "inbox" / f"AP-{name}.json")
        place.once()
        ids = {}
        for name in PROPOSALS:
            verdict = place.verdict(f"AP-{name}.json")
            assert verdict["valid"], verdict
            ids[name] = verdict["request_id"]
            draft = place.root / "tool-exec" / "drafts" / verdict["judgement"]["draft"]
            signed = ["--as", "operator", "--key", str(place.key), "--yes"]
            assert cli.execute(["-w", str(place.root), "approve", str(draft), *signed]) == 0
        place.once()
        yield place, project, ids


def make_project(folder: Path) -> Path:
    """A repository with a change, a staged change, hooks and settings that would run programs, and secrets."""
    project = folder / "project"
    (project / "src").mkdir(parents=True)
    (project / "secrets").mkdir()
    (project / "README.md").write_text("hello\n")
    (project / "src" / "a.py").write_text("import os, sys\nprint(sys.argv[1:], sorted(os.listdir('..')))\n")
    (project / "secrets" / "key").write_text("swordfish\n")
    (project / ".env").write_text("PASSWORD=swordfish\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(project)]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-f", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *arguments], check=True, capture_output=True)
    (project / "README.md").write_text("hello\nmore\n")
    (project / ".env").write_text("PASSWORD=marlin\n")
    (project / "staged.txt").write_text("staged\n")
    subprocess.run([*git, "add", "-f", "staged.txt", ".env"], check=True, capture_output=True)
    hook = project / ".git" / "hooks" / "fsmonitor-watchman"
    hook.write_text("#!/bin/sh\ntouch /out/owned\n")
    hook.chmod(0o755)
    for key, value in (
        ("core.fsmonitor", ".git/hooks/fsmonitor-watchman"),
        ("diff.external", ".git/hooks/fsmonitor-watchman"),
        ("core.pager", "touch /out/owned"),
    ):
        subprocess.run([*git, "config", key, value], check=True)
    return project


def out(ran: tuple[Place, Path, dict[str, str]], name: str, file: str) -> str:
    """An artifact as text."""
    place, _, ids = ran
    return (place.root / "tool-exec" / "runs" / ids[name] / "out" / file).read_text()


@pytest.mark.parametrize("name", few(PROPOSALS, 1))
@pytest.mark.slow
def test_every_era_lane_runs(ran: tuple[Place, Path, dict[str, str]], name: str) -> None:
    place, _, ids = ran
    text = place.result(ids[name])
    assert "status: succeeded\n" in text, text
    assert "swordfish" not in text
    assert "marlin" not in text
    assert not (place.root / "tool-exec" / "runs" / ids[name] / "out" / "owned").exists()


def test_git_says_what_it_says_outside_less_what_is_protected(
    ran: tuple[Place, Path, dict[str, str]],
) -> None:
    assert out(ran, "status", "status.txt").splitlines() == ["## main", " M README.md", "A  staged.txt"]
    assert "+more" in out(ran, "diff", "diff.patch")
    staged = out(ran, "staged", "diff.patch")
    assert "+staged" in staged
    assert "PASSWORD" not in staged
    assert "first" in out(ran, "log", "log.txt")


def test_a_command_gets_exactly_its_argv_over_the_snapshot(ran: tuple[Place, Path, dict[str, str]]) -> None:
    place, _, ids = ran
    assert "[\"it's here\"] ['README.md', 'src', 'staged.txt']" in place.result(ids["shell"])


def test_the_project_is_as_it_was(ran: tuple[Place, Path, dict[str, str]]) -> None:
    _, project, _ = ran
    assert (project / "README.md").read_text() == "hello\nmore\n"
    assert sorted(path.name for path in project.iterdir()) == [
        ".env",
        ".git",
        "README.md",
        "secrets",
        "src",
        "staged.txt",
    ]
