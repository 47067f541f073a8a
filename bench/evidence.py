"""Packing and checking a workspace of many runs: time and size, beside the bare parts.

    .venv/bin/python -m bench.evidence [RUNS]        (default 1,000 real Monty runs; they take minutes to make)

Packing, as a process of its own (`threegate audit pack`), beside `tar czf` of tool-exec/. Checking, by the block of the
page in an environment without ThreeGate, beside a bare loop: SHA-256 of every file, and one `ssh-keygen -Y verify` for
each approval.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.plugins.evidence.outside import approve_runs, files_of, make_outside
from tests.support import THREEGATE, Place, make_place


def seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def bare_check(place: Place, pack: Path) -> None:
    """What a check cannot do without."""
    for path in files_of(pack):
        hashlib.sha256(path.read_bytes()).digest()
    for path in pack.glob("requests/*/request.md.sig"):
        statement, _, armor = path.read_bytes().partition(b"\n")
        with tempfile.NamedTemporaryFile() as file:
            file.write(armor)
            file.flush()
            command = ["ssh-keygen", "-Y", "verify", "-n", "threegate-approval", "-I", "operator"]
            command += ["-f", str(place.root / "tool-exec" / "operators"), "-s", file.name]
            subprocess.run(command, input=statement, check=True, capture_output=True)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory(prefix="threegate-bench-") as name:
        base = Path(name)
        os.environ["XDG_STATE_HOME"] = str(base / "state")
        place = make_place(base, settings={"runners.monty.workers": 2})
        approve_runs(place, runs)
        place.once(timeout=3600)
        outside = make_outside(base / "outside")

        def pack(out: str) -> None:
            command = [*THREEGATE, "-w", str(place.root), "audit", "pack", "--out", str(base / out)]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            assert status == 0, status
            peaks.append(usage.ru_maxrss // 1024)

        peaks: list[int] = []

        def tar() -> None:
            command = ["tar", "czf", str(base / "all.tgz"), "-C", str(place.root), "tool-exec"]
            subprocess.run(command, check=True)

        print(f"{runs} runs, tool-exec/ {size_of(place.root / 'tool-exec') / 1e6:.1f} MB")
        packing, taring = seconds(lambda: pack("pack")), seconds(tar)
        zipping = seconds(lambda: pack("pack.zip"))
        print(
            f"  pack, a folder   {packing:6.1f} s   {size_of(base / 'pack') / 1e6:6.1f} MB in "
            f"{len(files_of(base / 'pack'))} files, peak {peaks[0]} MiB"
        )
        print(f"  pack, a zip      {zipping:6.1f} s   {(base / 'pack.zip').stat().st_size / 1e6:6.1f} MB")
        print(
            f"  tar czf          {taring:6.1f} s   {(base / 'all.tgz').stat().st_size / 1e6:6.1f} MB   ratio "
            f"{packing / taring:.1f}"
        )
        checking = seconds(lambda: outside.confirmed(base / "pack"))
        bare = seconds(lambda: bare_check(place, base / "pack"))
        print(
            f"  check            {checking:6.1f} s   bare hashes and ssh-keygen {bare:6.1f} s   ratio "
            f"{checking / bare:.2f}"
        )


if __name__ == "__main__":
    main()
