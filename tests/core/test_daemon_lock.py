"""One daemon for a workspace: a living one is respected, what a killed one leaves behind for a moment is waited for."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from threegate.core.errors import Unavailable
from threegate.core.workspace import Workspace


@pytest.fixture(name="workspace")
def a_workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path)
    workspace.make_folders()
    return workspace


def test_a_living_daemon_is_named(workspace: Workspace) -> None:
    with (
        workspace.daemon_lock(),
        pytest.raises(Unavailable, match=f"process {os.getpid()}"),
        workspace.daemon_lock(),
    ):
        pass
    with workspace.daemon_lock():
        pass


def test_the_child_that_a_killed_daemon_was_starting_is_waited_for(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threegate.core.workspace.LOCK_SECONDS", 30.0)
    ready, told = os.pipe()
    wait, go = os.pipe()
    daemon = os.fork()
    if daemon == 0:
        with workspace.daemon_lock():
            if os.fork() == 0:  # on its way to its own program, with all that its parent had open
                os.close(go)
                os.write(told, b"x")
                os.read(wait, 1)
            os._exit(137)
    os.waitpid(daemon, 0)
    assert os.read(ready, 1) == b"x"
    released: list[float] = []
    timer = threading.Timer(0.2, lambda: (released.append(time.monotonic()), os.close(go)))
    timer.start()
    with workspace.daemon_lock():
        assert released, "it was held until then"
    timer.join()
    for descriptor in (ready, told, wait):
        os.close(descriptor)
