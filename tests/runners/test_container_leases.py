"""A container with a lease ends when no beat comes, whatever its command does about it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.conftest import slow, soak
from tests.engine_fixtures import clearance, control, docker, era_job, era_runner
from tests.runners.watched import AT_WORK, Watched
from tests.support import wait_until
from threegate.runners.era import container_run
from threegate.runners.era.runner import EraRunner
from threegate.runners.interface import unheard
from threegate.runners.minder import since_boot

__all__ = ["era_runner"]
pytestmark = [pytest.mark.engine, pytest.mark.root]
SLEEP = "import time; time.sleep(90)"
BUSY = "import os\nfor _ in range(100):\n  if os.fork() == 0: break\nwhile True: pass"
ORPHANS = """
import os
for _ in range(4):
  if os.fork() == 0: break
while True:
  try:
    if os.fork() == 0:
      os.fork()
      os._exit(0)
    os.wait()
  except OSError: pass
"""
"""Each child leaves one more for PID 1 to bury."""
SPIN = "def spin():\n  while True: pass\n"
SIGNALS = "import os\nwhile True:\n  for number in (1, 2, 15, 17, 18, 19, 20): os.kill(1, number)"
FLOOD = "import os\nwhile True: os.write(1, b'at work\\n' * 1000)"


def init_of(workspace: str) -> Path:
    """PID 1 of the one container: no process of it is left once this is gone. The engine lists it for longer, until
    somebody has read its output.
    """
    container = docker("ps", "-q", "--filter", f"label=threegate.workspace={workspace}").strip()
    return Path("/proc") / docker("inspect", "--format", "{{.State.Pid}}", container).strip()


@pytest.mark.parametrize(
    ("code", "runtime", "cpu"),
    [
        (SLEEP, "runc", "1"),
        (ORPHANS, "runc", "0.5"),
        slow(BUSY, "runc", "0.2"),
        soak(SIGNALS, "runc", "1"),
        soak(FLOOD, "runc", "1"),
        soak(SLEEP, "runsc", "1"),
        slow("import os; os.kill(1, 19)\n" + SLEEP, "runsc", "1"),
    ],
    ids=lambda value: value if value in ("runc", "runsc") else "",
)
def test_its_watcher_stands_still_and_the_container_ends(code: str, runtime: str, cpu: str, tmp_path: Path) -> None:
    """Thawed it says what happened, and the next run works."""
    code = f"print('{AT_WORK}', flush=True)\nopen('/out/x', 'w').write('x')\n{code}"
    watched = Watched(tmp_path, "ERA", code, lease=6, time_sec=100, runtime=runtime, cpu=cpu, stream_bytes=1 << 40)
    try:
        watched.wait_at_work()
        init = init_of(watched.workspace)
        assert init.exists()
        watched.stand_still()
        wait_until(lambda: not init.exists(), "the end of the container", 30)
        watched.go_on()
        assert watched.ends() == [
            {"status": "interrupted", "detail": unheard(6), "out": []},
            {"status": "succeeded", "detail": "The command finished with exit code 0.", "out": []},
        ]
    finally:
        watched.close()


@pytest.mark.parametrize("code", ["", soak("import os, threading\nthreading.Thread(target=spin, daemon=True).start()")])
def test_beats_keep_a_run_for_longer_than_its_lease(code: str, era_runner: EraRunner, tmp_path: Path) -> None:
    steer = control(tmp_path)
    steer.begin_lease(4)
    job = era_job("/usr/bin/python3", "-I", "-c", f"{SPIN}{code}\nimport time; time.sleep(9)", time_sec=60)
    outcome = era_runner.run(clearance(job), job, steer)
    assert outcome.status == "succeeded" and outcome.wall_ms > 8_000, outcome


def test_a_run_does_not_begin_after_its_lease(era_runner: EraRunner, tmp_path: Path) -> None:
    """The process stood still between the start token and the go."""
    steer = control(tmp_path)
    steer.lease_sec, steer.leased = 7, since_boot() - 7
    job = era_job("/usr/bin/touch", "/out/began")
    outcome = era_runner.run(clearance(job), job, steer)
    assert (outcome.status, outcome.artifacts, outcome.wall_ms) == ("interrupted", (), 0)
    assert outcome.detail == "It was not started: its lease of 7 s ended before that."


def test_the_keeper_takes_no_go_that_comes_too_late(
    era_runner: EraRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process stood still after it had looked at the clock for the last time."""
    real = container_run.read_back

    def late(*words: object, **named: object) -> None:
        real(*words, **named)  # type: ignore[arg-type]
        began = since_boot()
        wait_until(lambda: since_boot() > began + 2, "a pause")
        steer.leased = since_boot()

    monkeypatch.setattr(container_run, "read_back", late)
    steer = control(tmp_path)
    steer.begin_lease(2)
    job = era_job("/usr/bin/touch", "/out/began")
    begin = time.monotonic()
    outcome = era_runner.run(clearance(job), job, steer)
    assert (outcome.status, outcome.detail, outcome.artifacts) == ("interrupted", unheard(2), ())
    assert time.monotonic() - begin < 60
