"""Runs one program by bubblewrap with an allowlist, and prints what came of it as JSON: a process of its own, so that
any account and any network namespace can be its.

Arguments, as JSON: argv, network (pairs), inputs (name and path), kill (true: the proxy is killed when the program has
written its first line), secret (method, host, path, value; or null). Or ``prove``: the runner's own probe with a
network, with what it found.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tests.engine_fixtures import clearance, control, with_inputs
from tests.runners.jailed import SETTINGS, jailed_job
from tests.support import processes, wait_until
from threegate.core.settings import SecretReference
from threegate.runners.era.runner import EraRunner
from threegate.runners.interface import Control, Outcome


def run(
    argv: list[str],
    network: list[str],
    inputs: Mapping[str, str],
    kill: bool = False,
    secret: tuple[str, str, str, str] | None = None,
) -> Outcome:
    """The outcome of the program."""
    references = {}
    job = jailed_job(*argv, network=tuple(network), time_sec=100, memory_mb=128)
    if secret is not None:
        method, host, path, os.environ["TG_SECRET"] = secret
        references["github"] = SecretReference(env="TG_SECRET", method=method, host=host, path=path)  # type: ignore[arg-type]
        job = replace(job, tool="github.issue_create_approved", proposal_sha256="0" * 64)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        job = with_inputs(job, Path(name), {name: Path(path).read_bytes() for name, path in inputs.items()})
        steer = control(Path(name))
        killer = threading.Thread(target=_kill_proxy, args=(steer,))
        if kill:
            killer.start()
        outcome = EraRunner(SETTINGS, secret_references=references).run(clearance(job), job, steer)
        if kill:
            killer.join()
    return outcome


def _kill_proxy(steer: Control) -> None:
    wait_until(steer.output.line, "the first line")
    mine = f"PPid:\t{os.getpid()}\n".encode()
    ours = {pid for pid, status in processes("status") if mine in status}
    [proxy] = [pid for pid, words in processes() if pid in ours and b"jail.host_proxy" in words]
    os.kill(proxy, signal.SIGKILL)


def prove() -> Outcome:
    """The probe of ERA by bubblewrap."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        return EraRunner(SETTINGS).prove(control(Path(name)), network=True)


def main() -> None:
    outcome = prove() if sys.argv[1] == "prove" else run(**json.loads(sys.argv[1]))
    said: dict[str, Any] = {
        "detail": outcome.detail,
        "code": outcome.exit_code,
        "out": outcome.stdout.kept.decode(),
        "err": outcome.stderr.kept.decode(),
        "destinations": [asdict(item) for item in outcome.destinations],
        "notes": outcome.notes,
        "network": outcome.effective_limits.get("network"),
        "retry": outcome.retry_after_sec,
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main()
