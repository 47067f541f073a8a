"""Real runs with a lease, each watched by a process of its own, which can stand still without the test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.engine_fixtures import clearance, control, era_job, era_settings, monty_job
from tests.support import wait_until
from threegate.runners.era.runner import EraRunner
from threegate.runners.interface import Control, Runner
from threegate.runners.monty.runner import MontyRunner

AT_WORK = "at work"
"""What a run prints when it begins its work."""
_PLENTY = 60.0
"""The lease of the run that just works, in seconds: a busy machine may take long to start it."""


class Watched:
    """A process that runs one job with a lease, and after it one that just works.

    `backend` is monty or ERA; `code` is Python of the backend and prints AT_WORK. The workspace's id names containers.
    """

    def __init__(self, folder: Path, backend: str, code: str, lease: float, **bounds: Any) -> None:
        self.workspace = f"ws-{os.urandom(16).hex()}"
        words = [backend, code, str(folder), self.workspace, str(lease), json.dumps(bounds)]
        self._log = folder / "log"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, *words], cwd=Path(__file__).parents[2], stdout=log, stderr=log
            )
        self.pid = self._process.pid

    def wait_at_work(self) -> None:
        """Until the run printed it."""
        wait_until(lambda: AT_WORK in self._text(), self._text, 60)

    def stand_still(self) -> None:
        """SIGSTOP to this process, and to no other."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def ends(self) -> list[dict[str, Any]]:
        """How both runs ended: status, detail, names in /out."""
        assert self._process.wait(120) == 0, self._text()
        return [json.loads(line) for line in self._text().splitlines() if line.startswith("{")]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    def _text(self) -> str:
        return self._log.read_text(errors="replace")


def main(backend: str, code: str, folder: str, workspace: str, lease: str, given: str) -> None:
    """Run both, and print how they ended."""
    bounds: dict[str, Any] = json.loads(given)
    runner: Runner
    if backend == "monty":
        runner = MontyRunner(0)
        jobs = [monty_job(code, **bounds), monty_job("1")]
    else:
        runner = EraRunner(era_settings())
        jobs = [era_job("/usr/bin/python3", "-I", "-c", code, **bounds), era_job("/usr/bin/true")]
    for number, job in enumerate(jobs):
        steer = control(Path(folder, str(number)), workspace_id=workspace)
        steer.begin_lease(_PLENTY if number else float(lease))
        threading.Thread(target=_tell, args=(steer,), daemon=True).start()
        outcome = runner.run(clearance(job), job, steer)
        names = [item.path for item in outcome.artifacts]
        print(json.dumps({"status": outcome.status, "detail": outcome.detail, "out": names}), flush=True)
    runner.close()


def _tell(steer: Control) -> None:
    wait_until(lambda: (line := steer.output.line()) and AT_WORK in line.text)
    print(AT_WORK, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
