"""Every attempt of `era_attempts` in one run, by one way, and what the host is like before and after."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.adversarial.escapes.era_attempts import ATTEMPTS, DRIVER, GVISOR_DIFFERS
from tests.engine_fixtures import clearance, control, docker, era_job, era_settings, with_inputs
from tests.runners.jailed import SETTINGS, jailed_job
from threegate.request.job import BUBBLEWRAP, ERA_ENVIRONMENT
from threegate.runners.era.jailed_run import BubblewrapRunner
from threegate.runners.era.runner import EraRunner
from threegate.runners.interface import Outcome

SECRET = "canary-5d21be77"


@dataclass
class Tried:
    """What one container saw, and what the host looked like before and after."""

    outcome: Outcome
    answers: dict[str, str]
    folder: Path
    canary_held: bool
    sleeper_lives: bool
    containers: str


def attempt_all(folder: Path, runtime: str) -> Tried:
    """Run every attempt in one container and look at the host around it."""
    host = folder / "host"
    host.mkdir(parents=True)
    canary = host / "canary"
    canary.write_text(SECRET)
    canary.chmod(0o644)
    before = canary.stat()
    workspace = f"ws-{uuid.uuid4().hex}"
    name = f"threegate-{uuid.uuid4().hex}"
    with (
        socket.socket(socket.AF_UNIX) as abstract,
        socket.create_server(("127.0.0.1", 0)) as server,
        subprocess.Popen(["sleep", "300"]) as sleeper,
        ExitStack() as stack,
    ):
        stack.callback(sleeper.kill)
        abstract.bind(f"\0{name}")
        abstract.listen()
        facts = {
            "CANARY": str(canary),
            "HOSTFOLDER": str(host),
            "HOSTPID": sleeper.pid + 100_000,
            "HOSTPORT": server.getsockname()[1],
            "HOSTSOCKET": name,
            "KNOWN": [*ERA_ENVIRONMENT, "LC_CTYPE"],
            "ATTEMPTS": {name: ATTEMPTS[name] for name in ATTEMPTS if runtime != "runsc" or name not in GVISOR_DIFFERS},
        }
        script = "".join(f"{key} = {value!r}\n" for key, value in facts.items()) + DRIVER
        job = (jailed_job if runtime == BUBBLEWRAP else era_job)(
            "/usr/bin/python3",
            "-I",
            "-X",
            "utf8",
            "/in/driver",
            memory_mb=256,
            time_sec=60,
            runtime="" if runtime == BUBBLEWRAP else runtime,
            out_bytes=4 << 20,
            out_files=64,
            file_bytes=4 << 20,
        )
        job = with_inputs(job, folder, {"driver": script.encode(), "input": b"approved"})
        steer = control(folder, workspace_id=workspace)
        if runtime == BUBBLEWRAP:
            runner = BubblewrapRunner(SETTINGS)
        else:
            runner = EraRunner(era_settings(runtime=runtime))
        outcome = runner.run(clearance(job), job, steer)
        runner.close()
        lives = sleeper.poll() is None
    after = canary.stat()
    same = canary.read_text() == SECRET and (before.st_ino, before.st_mtime_ns) == (
        after.st_ino,
        after.st_mtime_ns,
    )
    text = outcome.stdout.kept.decode()
    answers = json.loads(text) if text else {}
    left = "" if runtime == BUBBLEWRAP else docker("ps", "-aq", "--filter", f"label=threegate.workspace={workspace}")
    return Tried(outcome, answers, folder, same and os.listdir(host) == ["canary"], lives, left)


def the_host_is_as_it_was(tried: Tried) -> None:
    assert tried.canary_held
    assert tried.sleeper_lives
    assert tried.containers == ""
    assert SECRET.encode() not in tried.outcome.stdout.kept + tried.outcome.stderr.kept
    assert not (tried.folder / "run" / "work").exists()


def what_came_out_is_plain(tried: Tried) -> None:
    """Every trap in /out stayed behind with its reason; what was collected is ordinary and read-only."""
    out = tried.folder / "run" / "out"
    reasons = "\n".join(tried.outcome.dropped)
    for word in (
        "symbolic link",
        "FIFO",
        "socket",
        "several hard links",
        "set-user-id",
        "control",
        "not UTF-8",
    ):
        assert word in reasons, reasons
    collected = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert collected == sorted(item.path for item in tried.outcome.artifacts) == ["locked/x", "run", "sparse"]
    for path in out.rglob("*"):
        assert not path.is_symlink()
        assert path.is_dir() or (path.stat().st_mode & 0o7777) == 0o400
