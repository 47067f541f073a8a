"""The trail's cost: durable events a second, verified lines a second, and a trail of a million lines.

    python -m bench.trail [LINES]        (default 1,000,000; wants about 400 MB on the disk of TMPDIR)

Verification is reported in lines per second by the clock, start of the program included, and by the CPU seconds of its
process beside it: on a machine that is busy the clock tells little. References, run in turn: a bare append+fdatasync
loop of lines of the same length; a bare loop over the same file of what verification cannot do without (two sha256 and
one json parse a line).
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
from typing import NamedTuple

import orjson

from tests.trail.populated import populate
from tests.trail.workspaces import make_workspace
from threegate.trail import moves
from threegate.trail.payloads import Approved, Observed
from threegate.trail.trail import Trail

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
    """`batch` 0: announced, so that threads share syncs; else each takes the lock for `batch` events and a sync of
    its own.
    """

    def announce() -> None:
        for _ in range(EVENTS // producers):
            trail.announce(Approved.from_data(DATA), actor="bench")

    def produce() -> None:
        for _ in range(EVENTS // producers // batch):
            with trail.locked() as held:
                for _ in range(batch):
                    held.append(Approved.from_data(DATA), actor="bench")
                held.sync()

    def work() -> None:
        threads = [threading.Thread(target=produce if batch else announce) for _ in range(producers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    each = batch or 1
    return per_second(EVENTS // producers // each * producers * each, work)


def transitions(root: Path, trail: Trail) -> float:
    """Whole transitions: event, rename, both folders synced."""
    workspace = trail.workspace
    here, there = workspace.approved / "TR-x.md", workspace.refused / "TR-x.md"
    here.write_bytes(b"x")

    def work() -> None:
        source, target = here, there
        for _ in range(EVENTS // 5):
            with trail.locked() as held:
                moves.move(held, source, target, Observed(), request_id="r", actor="bench")
            source, target = target, source

    return per_second(EVENTS // 5, work)


def bare_verify(path: Path) -> float:
    count = 0
    began = time.perf_counter()
    with open(path, "rb") as file:
        for line in file:
            hashlib.sha256(line).digest()
            hashlib.sha256(line).digest()
            orjson.loads(line)
            count += 1
    return count / (time.perf_counter() - began)


class Measured(NamedTuple):
    """One command in a process of its own."""

    clock: float
    cpu: float
    """In seconds: what the clock would say on a free processor."""
    peak: int
    """MiB."""


def measured(root: Path, *command: str) -> Measured:
    """Run one threegate command."""
    program = (
        "import resource,sys,os;from threegate.cli import execute as run;"
        "code=run(sys.argv[1:]);"
        "own=resource.getrusage(resource.RUSAGE_SELF);"
        "print('PEAK',own.ru_maxrss//1024,own.ru_utime+own.ru_stime,code,file=sys.stderr)"
    )
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program, "-w", str(root), *command], capture_output=True, text=True, check=True
    )
    clock = time.perf_counter() - began
    peak = next(line for line in done.stderr.splitlines() if line.startswith("PEAK"))
    assert peak.endswith(" 0"), done.stdout[-500:] + done.stderr[-500:]
    return Measured(clock, float(peak.split()[2]), int(peak.split()[1]))


def tell(what: str, lines: int, found: Measured) -> None:
    print(
        f"  {what:<35} {lines / found.clock:10,.0f} lines/s by the clock, {lines / found.cpu:10,.0f} by CPU   "
        f"{found.clock:.1f} s, peak {found.peak} MiB",
        flush=True,
    )


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
            ("1 producer, announcing", our_appends(trail, 1, 0)),
            ("8 producers, announcing", our_appends(trail, 8, 0)),
            ("1 producer, under the lock", our_appends(trail, 1)),
            ("8 producers, under the lock", our_appends(trail, 8)),
            ("1 producer, 8 events a sync", our_appends(trail, 1, 8)),
            ("whole transitions", transitions(base, trail)),
        ):
            print(f"trail, {name:<29} {rate:10,.0f} /s   {rate / bare:5.2f} x bare")
        os.environ["XDG_STATE_HOME"] = str(base / "state2")
        for share in (10, 1):
            root = base / f"big{share}"
            os.environ["XDG_STATE_HOME"] = str(base / f"state{share}-big")
            workspace, _ = populate(root, int(wanted / 5.4 / share))
            lines = workspace.trail_file.read_bytes().count(b"\n") if share > 1 else None
            bare_rate = bare_verify(workspace.trail_file)
            if lines is None:
                with open(workspace.trail_file, "rb") as file:
                    lines = sum(1 for _ in file)
            print(f"{lines:,} lines ({workspace.trail_file.stat().st_size / 1e6:.0f} MB)")
            print(f"  bare: two sha256 and a json parse   {bare_rate:10,.0f} lines/s")
            tell("audit verify", lines, measured(root, "audit", "verify"))
            with open(workspace.trail_file, "rb") as file:
                for _ in range(30):
                    line = file.readline()
            request_id = json.loads(line)["request_id"]
            tell("audit show --request", lines, measured(root, "audit", "show", "--request", request_id))
            tell("audit checkpoint, reading all", lines, measured(root, "audit", "checkpoint"))
            tell("audit checkpoint, from the index", lines, measured(root, "audit", "checkpoint"))
            tell("audit report", lines, measured(root, "audit", "report", "--out", str(base / "report.html")))
            out = str(base / "statements")
            command = ("audit", "export", "--format", "in-toto", "--out", out, "--request", request_id)
            tell("audit export in-toto, of one run", lines, measured(root, *command))
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(f"this process: peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


if __name__ == "__main__":
    main()
