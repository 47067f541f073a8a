"""Real servers for the tests: the HTTP server as its own process on a free port."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

TOKEN = "correct-horse-battery-staple-7"
START_SECONDS = 90


@dataclass(frozen=True)
class Running:
    """A server process: where it answers, and where it records."""

    url: str
    port: int
    log: Path
    process: subprocess.Popen[str]


TOKEN_VARIABLES = ("THREEGATE_TOKEN", "AANA_BRIDGE_TOKEN")


def start(
    folder: Path,
    *options: str,
    token: str | None = TOKEN,
    workspace: Path | None = None,
    variable: str = "THREEGATE_TOKEN",
) -> Running:
    """Start ``threegate serve http`` on a free port and wait for its first line."""
    log = folder / "decisions.jsonl"
    environment = {
        key: value for key, value in os.environ.items() if key not in (*TOKEN_VARIABLES, "THREEGATE_WORKSPACE")
    }
    environment["XDG_STATE_HOME"] = str(folder / "state")
    if token is not None:
        environment[variable] = token
    where = ["--workspace", str(workspace)] if workspace else []
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "threegate",
            *where,
            "serve",
            "http",
            "--port",
            "0",
            "--log",
            str(log),
            *options,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        cwd=folder,
    )
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    line = process.stdout.readline() if readable else ""
    if not line.startswith("listening on "):
        process.kill()
        process.wait()
        pytest.fail(f"the server did not start: {line!r}")
    url = line.removeprefix("listening on ").strip()
    return Running(url, int(url.rpartition(":")[2]), log, process)


def stop(running: Running) -> int:
    """End the process as an operator would; its exit code."""
    running.process.send_signal(signal.SIGTERM)
    try:
        return running.process.wait(20)
    finally:
        running.process.kill()
        assert running.process.stdout is not None
        running.process.stdout.close()
