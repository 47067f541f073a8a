"""cancel of a running request: only the daemon says `cancelled`, and then the process is gone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.acts.bench_workspace import Bench
from tests.support import children, wait_until
from threegate.cli import execute as run
from threegate.trail.trail import Trail

ENDLESS = "while True:\n    pass"


def test_cancelled_means_gone(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    root = ["--workspace", str(bench.workspace.root)]
    bench.approve(bench.draft(code=ENDLESS, data=None))
    daemon = subprocess.Popen(
        [sys.executable, "-m", "threegate", *root, "run"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:

        def started() -> bool:
            return "started" in {event.type for event in Trail(bench.workspace).events()}

        wait_until(lambda: started() or daemon.poll() is not None, "a run")
        assert daemon.poll() is None, daemon.communicate()[1]
        capfd.readouterr()
        assert run([*root, "cancel", "req-1", "--wait", "60", "--reason", "enough"]) == 0
        said = capfd.readouterr().out
        assert "it was running and was killed after" in said and "nothing of it ran" not in said
        events = [event for event in Trail(bench.workspace).events() if event.request_id == "req-1"]
        kinds = [event.type for event in events]
        assert kinds.index("cancel_requested") < kinds.index("cancelled")
        cancelled, approved = (
            next(event for event in events if event.type == kind) for kind in ("cancelled", "approved")
        )
        assert cancelled.actor == "daemon"
        for name in ("nonce", "approval_sha256"):
            assert cancelled.data[name] and cancelled.data[name] == approved.data[name]
        assert not list(bench.workspace.control.glob("cancel-*"))
        assert not children(daemon.pid, state="R"), "no child of the daemon is still running the loop"
        asked = next(event for event in events if event.type == "cancel_requested").when
        ended = next(event for event in events if event.type == "cancelled").when
        print(f"from the wish to the word: {(ended - asked).total_seconds():.3f} s")
    finally:
        daemon.terminate()
        daemon.communicate(timeout=60)
    (result,) = bench.workspace.results.iterdir()
    assert "status: cancelled" in result.read_text()
    assert list(bench.workspace.refused.glob("*.md"))
