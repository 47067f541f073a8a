"""The trail's cost: durable events a second, verified lines a second, and a trail of a million lines.

    python -m bench.trail [LINES]        (default 1,000,000; wants about 400 MB on the disk of TMPDIR)

Verification is told in lines per second of CPU, start of the program included. References: a bare append+fdatasync loop of lines of the same length; a bare sha256+json loop over the same file.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.audit.populated import populate
from tests.audit.workspaces import make_workspace
from threegate import lifecycle
from threegate.audit import Trail

EVENTS = 1500
DATA = {"request_sha256": "a" * 64, "approval_sha256": "b" * 64, "state": "approved", "file": "TR-x.md"}


def per_second(count: int, work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def bare_appends(folder: Path, length: int) -> float:
    descriptor = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    line = b"x" * (length - 1) + b"\n"

    def work() -> None:
        for _ in range(EVENTS):
            os.write(descriptor, line)
            os.fdatasync(descriptor)

    rate = per_second(EVENTS, work)
    os.close(descriptor)
    return rate


def our_appends(trail: Trail, producers: int, batch: int = 1) -> float:
    def produce() -> None:
        for _ in range(EVENTS // producers // batch):
            with trail.locked() as held:
                for _ in range(batch):
                    held.append("observed", actor="bench", data=DATA)
                held.sync()

    def work() -> None:
        threads = [threading.Thread(target=produce) for _ in range(producers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return per_second(EVENTS // producers // batch * producers * batch, work)


def moves(root: Path, trail: Trail) -> float:
    """Whole transitions: event, rename, both folders synced."""
    workspace = trail.workspace
    here, there = workspace.approved / "TR-x.md", workspace.refused / "TR-x.md"
    here.write_bytes(b"x")

    def work() -> None:
        source, target = here, there
        for _ in range(EVENTS // 5):
            with trail.locked() as held:
                lifecycle.move(held, source, target, "observed", request_id="r", actor="bench")
            source, target = target, source

    return per_second(EVENTS // 5, work)


def bare_verify(path: Path) -> float:
    count = 0
    began = time.process_time()
    with open(path, "rb") as file:
        for line in file:
            hashlib.sha256(line).hexdigest()
            json.loads(line)
            count += 1
    return count / (time.process_time() - began)


def measured(root: Path, *command: str) -> tuple[float, int]:
    """CPU seconds (the machine may be busy) and peak memory (MiB) of one threegate command in a process of its own."""
    program = (
        "import resource,sys,os;from threegate.cli import run;"
        "code=run(sys.argv[1:]);"
        "used=resource.getrusage(resource.RUSAGE_SELF);"
        "print('PEAK',used.ru_maxrss//1024,used.ru_utime+used.ru_stime,code,file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "-w", str(root), *command], capture_output=True, text=True, check=True
    )
    peak = next(line for line in done.stderr.splitlines() if line.startswith("PEAK"))
    assert peak.endswith(" 0"), done.stdout[-500:] + done.stderr[-500:]
    return float(peak.split()[2]), int(peak.split()[1])


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    base = Path(tempfile.mkdtemp(prefix="threegate-bench-"))
    os.environ["XDG_STATE_HOME"] = str(base / "state")
    try:
        workspace, trail = make_workspace(base / "ws")
        our_appends(trail, 1)
        length = len(workspace.trail_file.read_bytes().splitlines()[-1]) + 1
        bare = bare_appends(base, length)
        print(f"bare append+fdatasync ({length} B)        {bare:10,.0f} /s")
        for name, rate in (
            ("1 producer", our_appends(trail, 1)),
            ("8 producers", our_appends(trail, 8)),
            ("1 producer, 8 events a sync", our_appends(trail, 1, 8)),
            ("whole transitions", moves(base, trail)),
        ):
            print(f"trail, {name:<29} {rate:10,.0f} /s   {rate / bare:5.2f} x bare")
        os.environ["XDG_STATE_HOME"] = str(base / "state2")
        for share in (10, 1):
            root = base / f"big{share}"
            os.environ["XDG_STATE_HOME"] = str(base / f"state{share}-big")
            workspace, _ = populate(root, int(wanted / 5.4 / share))
            lines = workspace.trail_file.read_bytes().count(b"\n") if share > 1 else None
            bare_rate = bare_verify(workspace.trail_file)
            seconds, peak = measured(root, "audit", "verify")
            if lines is None:
                with open(workspace.trail_file, "rb") as file:
                    lines = sum(1 for _ in file)
            rate = lines / seconds
            print(f"{lines:,} lines ({workspace.trail_file.stat().st_size / 1e6:.0f} MB)")
            print(f"  bare sha256+json                    {bare_rate:10,.0f} lines/s")
            print(
                f"  audit verify, start included        {rate:10,.0f} lines/s   {rate / bare_rate:5.2f} x bare, {seconds:.1f} s, peak {peak} MiB"
            )
            with open(workspace.trail_file, "rb") as file:
                for _ in range(30):
                    line = file.readline()
            request_id = json.loads(line)["request_id"]
            seconds, peak = measured(root, "audit", "show", "--request", request_id)
            print(
                f"  audit show --request                {lines / seconds:10,.0f} lines/s   {seconds:.1f} s, peak {peak} MiB"
            )
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(f"this process: peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


if __name__ == "__main__":
    main()
