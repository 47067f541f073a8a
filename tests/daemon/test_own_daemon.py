"""A daemon that commands share: it ends once none of them needs it and nothing is left to do."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support import THREEGATE, Place, make_place, monty_draft, request_id, wait_until
from threegate.core.own_daemon import UseOfDaemon, own_daemon
from threegate.core.workspace import Workspace


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


@contextmanager
def shared_daemon(place: Place) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*THREEGATE, "--workspace", str(place.root), "run", "--while-used"], stderr=subprocess.DEVNULL
    )
    try:
        wait_until(Workspace(place.root).daemon_lock_held)
        yield process
    finally:
        process.kill()
        process.wait()


def test_it_ends_after_what_was_approved_has_run(place: Place) -> None:
    """It stays while one command needs it, and what the last one left is done first."""
    workspace, first = Workspace(place.root), ExitStack()
    first.enter_context(own_daemon(workspace, workspace.load_settings()))
    with first, shared_daemon(place) as process:
        with own_daemon(workspace, workspace.load_settings()) as daemon:
            assert daemon.problem() is None
            place.approve(place.drop(monty_draft(request_id("first"), "print(1)")))
            place.wait_for("finished/TR-*.md")
        place.approve(place.drop(monty_draft(request_id("second"), "print(2)")))
        assert process.poll() is None
        first.close()
        assert process.wait(60) == 0
    assert [event["data"]["status"] for event in place.events("finished")] == ["succeeded"] * 2


def test_no_command_can_rely_on_one_that_is_about_to_end(place: Place) -> None:
    """From the moment that it has found nobody, a command waits until it is gone, and it may still change its mind."""
    workspace = Workspace(place.root)
    use = UseOfDaemon(workspace)
    with own_daemon(workspace, workspace.load_settings()):
        assert not use.end()
    assert use.end() and use.is_over
    other = UseOfDaemon(workspace)
    assert not other.end()
    use.go_on()
    assert not use.is_over and other.end()


def test_a_full_or_closed_folder_is_a_reason_and_no_end(place: Place) -> None:
    workspace = Workspace(place.root)
    workspace.launchers_file.mkdir()
    with own_daemon(workspace, workspace.load_settings()) as daemon:
        daemon.need()
        assert not daemon.started
        assert "Is a directory" in str(daemon.problem()) and str(daemon.problem()).endswith("threegate run")
