"""Latencies of the whole way, each beside a reference, both run in turn.

    python bench/spine.py [--runs N]

1. drop to verdict: a draft appears in the inbox of a running daemon, its verdict file appears.
2. approve to result, Monty: beside a worker that is started for the same code through the same wrapper (ours minus
   bare; aim: at most 25 ms more). A worker that a bare pool starts, with the user's own rights, stands below it.
3. approve to result, ERA: beside `docker run` of the same argv (ratio; aim: at most 1.25). Needs an engine
   (eval "$(scripts/engine up)").
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pydantic_monty

from tests.support import Place, era_draft, make_place, monty_draft
from threegate.runners.monty.program import worker_binary
from threegate.runners.monty.worker import Worker, find_isolation

CODE = "total = 0\nfor i in range(1000):\n    total += i\ntotal"


def wait(path: Path, seconds: float = 60) -> float:
    """Wait until a path is there; the moment."""
    until = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > until:
            sys.exit(f"bench: {path.name} did not appear")
        time.sleep(0.0005)
    return time.perf_counter()


def wait_result(place: Place, request_id: str) -> float:
    """Wait for the result of a request; the moment."""
    results = place.root / "tool-exec" / "results"
    until = time.monotonic() + 60
    while not any(request_id in name for name in os.listdir(results) if not name.startswith(".")):
        if time.monotonic() > until:
            sys.exit(f"bench: no result of {request_id}")
        time.sleep(0.0005)
    return time.perf_counter()


def in_turn(runs: int, *measures: Callable[[int], float]) -> list[list[float]]:
    """Run each measure once a round, `runs` rounds; milliseconds."""
    found: list[list[float]] = [[] for _ in measures]
    for number in range(runs):
        for place, measure in zip(found, measures, strict=True):
            place.append(measure(number) * 1000)
    return found


def show(name: str, values: list[float]) -> float:
    """Print p50 and p95; the p50."""
    ordered = sorted(values)
    p50 = statistics.median(ordered)
    print(f"  {name:<34} p50 {p50:8.1f} ms   p95 {ordered[int(len(ordered) * 0.95)]:8.1f} ms")
    return p50


def from_approval(place: Place, request_id: str) -> float:
    """Seconds from the `approved` event to the result's `finished` event, as the trail has them."""
    times = {event["type"]: event["time"] for event in place.events() if event["request_id"] == request_id}
    return _seconds(times["finished"]) - _seconds(times["approved"])


def _seconds(text: str) -> float:
    hours, minutes, seconds = text[11:23].split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        measure_monty(Path(folder), runs)
    engine = os.environ.get("THREEGATE_TEST_ENGINE")
    if not engine:
        print('ERA: no engine (eval "$(scripts/engine up)")')
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        measure_era(Path(folder), runs, engine, os.environ["THREEGATE_TEST_IMAGE"])


def measure_monty(folder: Path, runs: int) -> None:
    """Drop to verdict, and approve to result for Monty."""
    place = make_place(folder)
    daemon = place.daemon()

    def verdict(number: int) -> float:
        draft = place.drop(monty_draft(f"TR-verdict-{number}", CODE))
        started = time.perf_counter()
        return wait(place.root / "tool-exec" / "verdicts" / f"{draft.name}.json") - started

    def ours(number: int) -> float:
        rid = f"TR-monty-{number}"
        place.approve(place.drop(monty_draft(rid, CODE)))
        wait_result(place, rid)
        return from_approval(place, rid)

    binary = worker_binary()
    isolation = find_isolation(binary)

    def wrapped(_number: int) -> float:
        started = time.perf_counter()
        worker = Worker(isolation, binary)
        try:
            with worker.pool.checkout() as session:
                session.feed_run(CODE)
        finally:
            worker.close()
        return time.perf_counter() - started

    def bare(_number: int) -> float:
        started = time.perf_counter()
        with pydantic_monty.Monty(min_processes=1) as pool, pool.checkout() as session:
            session.feed_run(CODE)
        return time.perf_counter() - started

    try:
        time.sleep(1)
        found = in_turn(runs, verdict, ours, wrapped, bare)
    finally:
        daemon.terminate()
        daemon.communicate()
    print("drop to verdict")
    show("running daemon", found[0])
    print("approve to result, Monty")
    mine, theirs = (
        show("threegate (approved → finished)", found[1]),
        show("a fresh worker, same wrapper", found[2]),
    )
    show("a fresh worker without the wrapper", found[3])
    print(f"  ours minus bare: {mine - theirs:.1f} ms (aim: at most 25)")


def measure_era(folder: Path, runs: int, engine: str, image: str) -> None:
    """Approve to result for ERA."""
    settings = {"runners.era.engine": engine, "runners.era.image": image}
    place = make_place(folder, settings=settings)
    daemon = place.daemon()

    def ours(number: int) -> float:
        rid = f"TR-era-{number}"
        place.approve(place.drop(era_draft(rid, "echo hello")))
        wait_result(place, rid)
        return from_approval(place, rid)

    def bare(_number: int) -> float:
        started = time.perf_counter()
        subprocess.run(
            ["docker", "-H", engine, "run", "--rm", "--network", "none", image, "echo", "hello"],
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - started

    try:
        ours(-1)
        found = in_turn(runs, ours, bare)
    finally:
        daemon.terminate()
        daemon.communicate()
    print("approve to result, ERA")
    mine, theirs = show("threegate (approved → finished)", found[0]), show("docker run of the same argv", found[1])
    print(f"  ratio: {mine / theirs:.2f} (aim: at most 1.25)")


if __name__ == "__main__":
    main()
