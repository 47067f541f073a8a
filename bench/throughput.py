"""500 Monty requests approved beforehand, through the whole daemon, beside a bare loop; the median of nine rounds.

    python bench/throughput.py [--requests N] [--rounds N]

Ours: `threegate run --once` as a process of its own with `runners.monty.workers = 2` and everything durable: judged,
claimed, run, recorded, told. Counted is from the first `cleared` to the last `finished` of the trail.
The reference: two threads, each in a loop: one `ssh-keygen -Y verify`, and a fresh worker that is started through the
same wrapper for the same code. It runs half before and half after ours. Aim: at least 0.6 of its rate.

Each round has a copy of the one approved workspace, and all of them stay until the end: ext4 makes files slowly for
minutes where thousands were just removed, so a round that cleaned up would slow the next one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support import Place, make_place, monty_draft
from threegate.acts.approve import promote, seal, sign
from threegate.core.workspace import Workspace
from threegate.launch.context import open_context
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft
from threegate.runners.monty.program import worker_binary
from threegate.runners.monty.worker import Worker, find_isolation

CODE = "total = 0\nfor i in range(1000):\n    total += i\ntotal"
THREADS = 2


def approve_all(place: Place, count: int) -> None:
    """Drafts, approved in this process as the command does it, one signature each."""
    context = open_context(Workspace(place.root))
    for number in range(count):
        draft = place.drop(monty_draft(f"TR-rate-{number:04d}", CODE))
        with open_reviewed_draft(context, read_draft(context.workspace, draft)) as reviewed:
            sealed = seal(context, reviewed, "operator")
            promote(context, reviewed, sealed, sign(sealed, place.key), actor="operator:operator")


def ours(place: Place, count: int) -> float:
    """Requests a second, by the trail."""
    done = place.once(timeout=1800)
    finished = [event["time"] for event in place.events("finished")]
    first = place.events("cleared")[0]["time"]
    if len(finished) != count:
        sys.exit(f"bench: {len(finished)} of {count} finished\n{done.err[-2000:]}")
    return count / (_moment(max(finished)) - _moment(first))


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def reference(folder: Path, key: Path) -> Callable[[], None]:
    """One turn of the bare loop."""
    (folder / "signers").write_text(f"me {Path(f'{key}.pub').read_text()}")
    (folder / "data").write_text("data")
    keygen = ["ssh-keygen", "-q", "-Y"]
    made = [*keygen, "sign", "-f", str(key), "-n", "t", str(folder / "data")]
    subprocess.run(made, check=True, capture_output=True)
    signed = ["-f", str(folder / "signers"), "-I", "me", "-n", "t", "-s", str(folder / "data.sig")]
    binary = worker_binary()
    isolation = find_isolation(binary)

    def turn() -> None:
        subprocess.run([*keygen, "verify", *signed], input=b"data", check=True, capture_output=True)
        worker = Worker(isolation, binary)
        try:
            with worker.pool.checkout() as session:
                session.feed_run(CODE)
        finally:
            worker.close()

    return turn


def rate(turn: Callable[[], None], count: int) -> float:
    """Turns a second by THREADS threads."""
    left = iter(range(count))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                if next(left, None) is None:
                    return
            turn()

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count / (time.perf_counter() - begin)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    count = options.requests
    found: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        approved, here = Path(name, "approved"), Path(name, "here")
        here.mkdir()
        os.environ["XDG_STATE_HOME"] = f"{here}/state"
        place = make_place(here, settings={"runners.monty.workers": THREADS})
        approve_all(place, count)
        turn = reference(here, place.key)
        turn()
        here.rename(approved)
        for number in range(options.rounds):
            shutil.copytree(approved, here, symlinks=True)
            os.sync()
            before = rate(turn, count // 2)
            mine = ours(place, count)
            theirs = 2 / (1 / before + 1 / rate(turn, count // 2))
            found.append((mine, theirs))
            print(f"  {mine:6.1f} a second, the bare loop {theirs:6.1f}: {mine / theirs:.2f}", flush=True)
            here.rename(Path(name, f"round-{number}"))
    mine, theirs, ratio = (statistics.median(column) for column in zip(*((a, b, a / b) for a, b in found), strict=True))
    print(f"the whole daemon, {count} requests, 2 workers   {mine:7.1f} a second")
    print(f"fresh worker and one ssh-keygen verify each  {theirs:7.1f} a second")
    print(f"ratio, median of {len(found)}: {ratio:.2f} (aim: at least 0.6)")


if __name__ == "__main__":
    main()
