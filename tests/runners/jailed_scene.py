"""Runs one program in a jail with an allowlist, and prints what came of it as JSON: a process of its own, so that any
account and any network namespace can be its.

Arguments, as JSON: argv, network (pairs), bound (path here, path in the jail), kill (true: the proxy is killed when the
program has written its first line), secret (method, host, port, path, value; or null). Or ``prove``: the runner's own
probe with a network, with what it found.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.engine_fixtures import control, era_job
from tests.support import processes
from threegate.core.settings import EraSettings
from threegate.request.job import BUBBLEWRAP
from threegate.runners.egress.secret_header import SecretHeader
from threegate.runners.era.jailed_egress import open_egress
from threegate.runners.era.jailed_run import BubblewrapRunner
from threegate.runners.jail.jail import Account, Bound, Jail


def run(
    argv: list[str],
    network: list[str],
    bound: list[tuple[str, str]],
    kill: bool = False,
    secret: list[Any] | None = None,
) -> dict[str, Any]:
    """What the program wrote, and what the way out says of it."""
    job = era_job(*argv, network=tuple(network))
    jail = Jail(
        Account.own(), tuple(Bound(Path(here), there) for here, there in bound), environment=dict(job.environment)
    )
    gate = ["/bin/sh", "-c", 'read go && exec "$@"', "gate", *argv]
    with ExitStack() as held:
        process = held.enter_context(
            jail.start(gate, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, begin=False)
        )
        held.callback(process.wait_empty)
        fields = Path(f"/proc/self/fdinfo/{process.first}").read_text().split()
        pid = int(fields[fields.index("Pid:") + 1])
        egress = held.enter_context(open_egress(pid, job, SecretHeader(*secret) if secret else None))
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        first = b""
        if kill:
            first = process.stdout.readline()
            mine = f"PPid:\t{os.getpid()}\n".encode()
            ours = {pid for pid, status in processes("status") if mine in status}
            [proxy] = [pid for pid, words in processes() if pid in ours and b"jail.host_proxy" in words]
            os.kill(proxy, signal.SIGKILL)
        out, err = process.communicate(timeout=200)
        alive = egress.alive()
        destinations = [asdict(item) for item in egress.destinations()]
    return {
        "code": process.returncode,
        "out": (first + out).decode(),
        "err": err.decode(),
        "alive": alive,
        "destinations": destinations,
        "notes": egress.notes,
        "limit": egress.limit,
    }


def prove() -> dict[str, Any]:
    """The probe of ERA by bubblewrap."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        outcome = BubblewrapRunner(EraSettings(runtime=BUBBLEWRAP)).prove(control(Path(name)), network=True)
    return {
        "walls": json.loads(outcome.stdout.kept or b"[]"),
        "detail": outcome.detail,
        "network": outcome.effective_limits.get("network"),
        "destinations": [asdict(item) for item in outcome.destinations],
        "notes": outcome.notes,
    }


if __name__ == "__main__":
    print(json.dumps(prove() if sys.argv[1] == "prove" else run(**json.loads(sys.argv[1]))))
