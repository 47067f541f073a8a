"""Agents: what the jail adds to a start, and how long a work copy of 20,000 files takes to make and to read.

Run as an ordinary account for the overlay, as root for the plain copy: python -m bench.agents [--files 20000]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from threegate.agents.names_layer import names_work
from threegate.agents.work_changes import read_changes
from threegate.agents.work_copy import SCRATCH, UPPER, CopyKind, WorkCopy
from threegate.core.workspace import Workspace
from threegate.jail.jail import Account, Jail

ROUNDS = 9


def median_ms(act: Callable[[], object]) -> float:
    """Milliseconds of the middle one of some rounds."""
    spent = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        act()
        spent.append((time.perf_counter() - begun) * 1000)
    return statistics.median(spent)


def in_jail(copy: WorkCopy, *words: str, begin: bool) -> None:
    """Run a program in the copy to its end."""
    jail = Jail(copy.account, copy.bound, copy.layered, cwd=str(copy.root))
    process = jail.start(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, begin=begin
    )
    if process.wait() != 0:
        raise SystemExit("bench: the jail did not start")


def main() -> None:
    """Print one line a measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    count = parser.parse_args().files
    with tempfile.TemporaryDirectory(prefix="threegate-bench-") as name:
        root = Path(name)
        project = root / "project"
        for number in range(count):
            place = project / f"d{number // 200}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"f{number}").write_bytes(b"%d\n" % number * 50)
        (root / "tool-exec").mkdir()
        run = Workspace(root).agent_run("ar-20260101-000000z-00000000").make()
        for part in (UPPER, SCRATCH):
            (run.work / part).mkdir()
        ordinary = os.geteuid() != 0
        overlay = ordinary and names_work(Account.own(), project, run.work, run.work)
        kind: CopyKind = "overlay" if overlay else "plain"
        for what in ("first", "again"):
            begun = time.perf_counter()
            where = Workspace(root).agent_run(f"ar-20260101-000000z-0000000{1 + (what == 'again')}").make()
            copy = WorkCopy.make(where, project, account=Account.own(), kind=kind, cache=root / "cache")
            print(f"{kind} work copy of {count} files, {what}: {(time.perf_counter() - begun) * 1000:.0f} ms")
        bare = median_ms(lambda: subprocess.run(["/bin/true"], check=True))
        jailed = median_ms(lambda: in_jail(copy, "/bin/true", begin=False))
        print(f"start of a program: bare {bare:.1f} ms, in the jail {jailed:.1f} ms (+{jailed - bare:.1f})")
        in_jail(
            copy,
            "/bin/sh",
            "-c",
            "for n in $(seq 0 999); do echo changed >>d$((n / 200))/f$n; done",
            begin=False,
        )
        begun = time.perf_counter()
        rows = len(read_changes(copy).rows)
        print(f"change set of {rows} files: {(time.perf_counter() - begun) * 1000:.0f} ms")
        for place in root.glob("tool-exec/agents/*/work/scratch/*"):
            place.chmod(0o700)


if __name__ == "__main__":
    main()
