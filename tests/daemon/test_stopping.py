"""Stopping the daemon has a bound, whatever its threads do; what is left is ended by the next start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.acts.bench_workspace import make_bench
from tests.conftest import slow
from threegate.daemon.log import Log
from threegate.daemon.loop import Daemon

HANGS = """
import sys, time
from pathlib import Path
from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.core.workspace import Workspace
from threegate.daemon.log import Log
from threegate.daemon.loop import Daemon, run_daemon
from threegate.runners.monty.runner import MontyRunner

limits.STOP_GRACE_SECONDS, limits.STOP_RECORD_SECONDS = 0.2, 1.0
once = sys.argv[2] == "once"

def hang(*_):
    print("hangs", flush=True)
    time.sleep(3600)

def turns(daemon, inbox, problem):
    while not daemon._dispatcher.running:
        daemon._dispatcher.schedule()
    raise Unavailable("the disk is full")

MontyRunner.run = hang
if once:
    Daemon._turns = turns  # what runs may finish, even where the loop has failed
sys.exit(run_daemon(Workspace(Path(sys.argv[1])), once=once, log=Log()))
"""


@pytest.mark.parametrize("how", ["service", slow("once")])
def test_a_thread_that_never_ends_does_not_keep_the_daemon(tmp_path: Path, how: str) -> None:
    bench = make_bench(tmp_path)
    bench.approve(bench.draft())
    process = subprocess.Popen(
        [sys.executable, "-c", HANGS, str(bench.workspace.root), how],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ),
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline() == "hangs\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 3, said
    assert time.monotonic() - began < 15
    assert "gave up waiting for its end" in said and "req-1" in said
    assert Daemon(bench.workspace, Log(quiet=True), once=True).run() == 0
    (result,) = bench.workspace.results.glob("TS-*-req-1.md")
    assert "status: interrupted" in result.read_text()
