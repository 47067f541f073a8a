"""Real daemon processes in a workspace that is not as they left it: each case is named, none is believed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.conftest import few
from tests.support import wait_until
from tests.trail.operated import make_operated
from tests.trail.workspaces import approve
from threegate.core.workspace import Workspace
from threegate.trail.payloads import Observed
from threegate.trail.trail import Trail

THREEGATE = [sys.executable, "-m", "threegate"]


@pytest.fixture(name="workspace")
def with_a_request_waiting(tmp_path: Path) -> Workspace:
    """A workspace with an approved file: it would be refused or run, and must be left alone as long as something is
    wrong.
    """
    workspace, _ = make_operated(tmp_path)
    with Trail(workspace).locked() as held:
        approve(held, "waits")
        held.keep_head()
    return workspace


def once(workspace: Workspace, *before: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, *THREEGATE, "-w", str(workspace.root), "run", "--once"],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def untouched(workspace: Workspace) -> None:
    assert [path.suffix for path in sorted(workspace.approved.iterdir())] == [".md", ".sig"]
    assert not any(workspace.results.iterdir()) and not any(workspace.runs.iterdir())


def test_the_waiting_request_is_dealt_with_when_nothing_is_wrong(workspace: Workspace) -> None:
    done = once(workspace)
    assert done.returncode == 0, done.stderr
    assert not any(workspace.approved.iterdir()) and len(list(workspace.results.iterdir())) == 1


@pytest.mark.slow
def test_eight_daemons_one_works_and_seven_say_so(workspace: Workspace) -> None:
    daemons = [
        subprocess.Popen(
            [*THREEGATE, "-w", str(workspace.root), "run"], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        for _ in range(8)
    ]
    try:
        wait_until(lambda: sum(daemon.poll() is not None for daemon in daemons) == 7, "seven that leave", 180)
        left = [daemon for daemon in daemons if daemon.poll() is not None]
        working = [daemon for daemon in daemons if daemon.poll() is None]
        assert (len(left), len(working)) == (7, 1)
        for daemon in left:
            assert daemon.returncode == 3
            assert daemon.stderr is not None
            assert b"another daemon is running here" in daemon.stderr.read()
        wait_until(lambda: any(workspace.results.iterdir()), "a result", 120)
        working[0].send_signal(signal.SIGTERM)
        assert working[0].wait(30) == 0
    finally:
        for daemon in daemons:
            daemon.kill()
            daemon.wait()
            assert daemon.stderr is not None
            daemon.stderr.close()
    assert len(list(workspace.results.iterdir())) == 1
    assert [event.type for event in Trail(workspace).events()].count("refused") == 1


def test_the_clock_jumped_back_an_hour(workspace: Workspace) -> None:
    ahead = Trail(workspace, clock=lambda: datetime.now(UTC) + timedelta(hours=1))
    with ahead.locked() as held:
        held.append(Observed(), actor="x")
    done = once(workspace)
    assert done.returncode == 3 and "clock" in done.stderr
    untouched(workspace)


def test_a_restored_backup(workspace: Workspace, tmp_path: Path) -> None:
    shutil.copytree(workspace.root, tmp_path / "backup")
    with Trail(workspace).locked() as held:
        held.append(Observed(), actor="x")
        held.keep_head()
    shutil.rmtree(workspace.root)
    shutil.copytree(tmp_path / "backup", workspace.root)
    done = once(workspace)
    assert done.returncode == 3 and "cut or restored" in done.stderr and "settings adopt" in done.stderr
    untouched(workspace)


def test_a_copied_workspace(workspace: Workspace, tmp_path: Path) -> None:
    copy = Workspace(tmp_path / "copy")
    shutil.copytree(workspace.root, copy.root)
    done = once(copy)
    assert done.returncode == 3 and "copied or moved" in done.stderr
    untouched(copy)


@pytest.mark.parametrize("what", few(["garbage in the middle", "a copy of a line", "missing", "another file"], 1))
def test_a_trail_that_another_program_wrote_to(workspace: Workspace, what: str) -> None:
    path = workspace.trail_file
    lines = path.read_bytes().splitlines(keepends=True)
    if what == "garbage in the middle":
        path.write_bytes(b"".join([*lines[:1], b"garbage\n", *lines[1:]]))
    elif what == "a copy of a line":
        path.write_bytes(b"".join([*lines, lines[-1]]))
    elif what == "missing":
        path.unlink()
    else:
        path.unlink()
        path.symlink_to("/dev/null")
    done = once(workspace)
    assert done.returncode == 3 and "trail.jsonl" in done.stderr
    assert "Traceback" not in done.stderr
    untouched(workspace)


@pytest.mark.root
def test_a_read_only_disk(workspace: Workspace) -> None:
    """In a mount namespace of its own, so that nothing of it is left behind."""
    root = str(workspace.root)
    script = f'mount --bind "{root}" "{root}" && mount -o remount,bind,ro "{root}" && exec "$@"'
    done = once(workspace, "unshare", "-m", "sh", "-c", script, "sh")
    assert done.returncode == 3 and "Read-only file system" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    untouched(workspace)
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *THREEGATE, "-w", root, "audit", "verify"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, "an auditor can read a read-only disk"


def test_the_environment_of_these_tests_is_their_own() -> None:
    assert "XDG_STATE_HOME" in os.environ and str(Path.home()) not in os.environ["XDG_STATE_HOME"]


def test_the_daemon_signs_a_checkpoint_when_one_is_due(workspace: Workspace) -> None:
    from threegate.setup.settings_file import set_values

    set_values(workspace.settings_file, {"audit.checkpoint_every": 3})
    assert once(workspace).returncode == 0
    assert list((workspace.audit / "checkpoints").iterdir())
    done = subprocess.run(
        [*THREEGATE, "-w", str(workspace.root), "audit", "verify"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and " 0 checkpoints" not in done.stdout, done.stdout
