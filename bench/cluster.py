"""What a run on another machine costs beside a run on this one: overhead, throughput, and bytes in and out.

    .venv/bin/python bench/cluster.py [--requests 1000] [--alone 40] [--mib 50 256]     (root; rabbitmq-server,
    iproute2)

A real RabbitMQ and workers in network namespaces of the bench's own, all on this one machine: the workers share its
cores, so the throughput of three says what the way costs and not what three machines would do. Every configuration
starts from the same snapshot of a workspace with the same signed requests. The large files need the engine (`eval
"$(scripts/engine status)"`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.plugins.cluster.machines import Cluster, inside, missing_parts
from tests.support import era_draft, monty_draft, request_id
from threegate.cli import execute
from threegate.setup.settings_file import set_values

WORKER = "[runners]\nmemory_budget_mb = 4096\ncpu_budget = 8.0\n[runners.monty]\nworkers = {rows}\n"


def quietly(words: list[str]) -> int:
    """A command in this process, without its output."""
    out = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    try:
        return execute(words)
    finally:
        sys.stdout.flush()
        os.dup2(out, 1)
        os.close(out)
        os.close(null)


def approve(cluster: Cluster, text: str) -> None:
    """Drop and approve, in this process."""
    draft = cluster.place.drop(text)
    words = ["approve", str(draft), "--as", "operator", "--key", str(cluster.place.key), "--yes"]
    assert quietly(["--workspace", str(cluster.place.root), *words]) == 0


class Snapshot:
    """Workspace and outside state as they were, to start every configuration from."""

    def __init__(self, cluster: Cluster, state: Path) -> None:
        self._pairs = [
            (cluster.place.root, cluster.folder / "kept-ws"),
            (state, cluster.folder / "kept-state"),
        ]
        for source, kept in self._pairs:
            shutil.copytree(source, kept, symlinks=True)

    def back(self) -> None:
        """Put it back in place; inodes may differ, nothing depends on them."""
        for source, kept in self._pairs:
            shutil.rmtree(source)
            shutil.copytree(kept, source, symlinks=True)


def serve(cluster: Cluster, space: str | None, count: int, seconds: float = 1800) -> list[dict[str, Any]]:
    """Run a daemon until `count` requests have ended; the trail's events."""
    words = [sys.executable, "-m", "threegate", "run", "-q"]
    trail = cluster.place.root / "tool-exec" / "audit" / "trail.jsonl"
    daemon = subprocess.Popen(inside(space, *words) if space else words, cwd=cluster.place.root)
    until = time.monotonic() + seconds
    try:
        while trail.read_bytes().count(b'"type":"finished"') < count:
            assert daemon.poll() is None and time.monotonic() < until
            time.sleep(0.2)
    finally:
        daemon.terminate()
        daemon.wait(60)
    return [json.loads(line) for line in trail.read_text().splitlines()]


def moment(event: dict[str, Any]) -> float:
    """Seconds."""
    return datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()


def told(name: str, events: list[dict[str, Any]]) -> tuple[float, float]:
    """Print one configuration: per-request milliseconds beyond the run, and requests a second. Returns both."""
    claimed = {event["request_id"]: moment(event) for event in events if event["type"] == "claimed"}
    ended = [event for event in events if event["type"] == "finished"]
    beyond = sorted((moment(event) - claimed[event["request_id"]]) * 1000 - event["data"]["wall_ms"] for event in ended)
    span = max(map(moment, ended)) - min(claimed.values())
    rate = len(ended) / span if span else float("inf")
    median = statistics.median(beyond)
    p95 = beyond[int(len(beyond) * 0.95) - 1]
    print(
        f"{name:<34} {len(ended):5} requests  {rate:7.1f} a second   claim to end beyond the run: "
        f"p50 {median:7.1f} ms  p95 {p95:7.1f} ms",
        flush=True,
    )
    return median, rate


def restart_workers(cluster: Cluster, names: list[str], rows: int) -> None:
    """Exactly these workers, with a clean state."""
    for worker in cluster.workers.values():
        worker.stop()
        shutil.rmtree(worker.state, ignore_errors=True)
        (worker.home / "log").unlink(missing_ok=True)
    for name in names:
        (cluster.workers[name].home / "worker.toml").write_text(WORKER.format(rows=rows))
        cluster.workers[name].start()
    for name in names:
        cluster.workers[name].wait_said("connected to the broker", 120)


def short_requests(cluster: Cluster, state: Path, count: int, alone: int) -> None:
    """Overhead one at a time, then throughput with 1, 2 and 3 workers, beside the local runner, in turn."""
    for number in range(count):
        approve(cluster, monty_draft(request_id(f"n{number:05}"), "1 + 1", memory_mb=16))
    snapshot = Snapshot(cluster, state)
    broker = cluster.place.root / "threegate.toml"
    one: dict[str, float] = {}
    for name, workers, rows, number in (
        ("local, one at a time", [], 1, alone),
        ("1 worker, one at a time", ["w1"], 1, alone),
        ("local, 4 rows", [], 4, count),
        ("1 worker, 4 rows", ["w1"], 4, count),
        ("2 workers, 4 rows each", ["w1", "w2"], 4, count),
        ("3 workers, 4 rows each", ["w1", "w2", "w3"], 4, count),
    ):
        snapshot.back()
        approved = sorted((cluster.place.root / "tool-exec" / "approved").glob("*.md"))
        for path in approved[number:]:
            path.with_name(path.name + ".sig").unlink()
            path.unlink()
        if workers:
            restart_workers(cluster, workers, rows)
        else:
            set_values(broker, {"cluster.broker": "", "runners.monty.workers": rows})
            restart_workers(cluster, [], rows)
        one[name] = told(name, serve(cluster, cluster.daemon_space if workers else None, number))[0]
    ours, theirs = one["1 worker, one at a time"], one["local, one at a time"]
    print(f"overhead of a worker over the local runner: {ours - theirs:.1f} ms a request (ratio {ours / theirs:.2f})")


def large_files(cluster: Cluster, sizes: list[int]) -> None:
    """One file in, the same file out, through an ERA run; beside the bare copy of as many bytes."""
    engine, image = os.environ.get("THREEGATE_TEST_ENGINE", ""), os.environ.get("THREEGATE_TEST_IMAGE", "")
    if not engine:
        print("large files: left out, no engine (scripts/engine status)")
        return
    era = (
        f'[runners]\nmemory_budget_mb = 8192\ncpu_budget = 4.0\n[runners.era]\nengine = "{engine}"\nimage = "{image}"\n'
    )
    set_values(cluster.place.root / "threegate.toml", {"runners.era.engine": engine, "runners.era.image": image})
    for mib in sizes:
        size = min(mib << 20, (256 << 20) - (1 << 20))  # a little of /out is its file system's own
        data = os.urandom(1 << 20) * (size >> 20)
        digest = cluster.place.input(f"f{mib}", data)
        begin = time.perf_counter()
        for _ in range(2):
            hashlib.sha256(data).hexdigest()
        bare = time.perf_counter() - begin
        for name, broker in (("local", ""), ("worker", cluster.url)):
            set_values(cluster.place.root / "threegate.toml", {"cluster.broker": broker})
            restart_workers(cluster, [], 1)
            if broker:
                worker = cluster.workers["w1"]
                (worker.home / "worker.toml").write_text(era)
                worker.start()
                worker.wait_said("connected to the broker", 240)
            asked = request_id(f"{name}-{mib}")
            text = era_draft(
                asked,
                f"cp /in/f{mib} /out/f",
                inputs={f"f{mib}": digest},
                outputs=["/out/f"],
                memory_mb=1024,
                time_sec=300,
            )
            approve(cluster, text)
            before = len(list((cluster.place.root / "tool-exec" / "finished").glob("*.md")))
            events = serve(cluster, cluster.daemon_space if broker else None, before + 1, 600)
            mine = [event for event in events if event["request_id"] == asked]
            took = moment(next(e for e in mine if e["type"] == "finished")) - moment(
                next(e for e in mine if e["type"] == "claimed")
            )
            status = next(e for e in mine if e["type"] == "finished")["data"]["status"]
            print(
                f"{size >> 20} MiB in and out, {name:<7} {took:6.1f} s  ({2 * (size >> 20) / took:6.0f} MiB/s both "
                f"ways, {status}); hashing as much twice: {bare:.2f} s",
                flush=True,
            )


def main() -> None:
    """Everything, in turn."""
    words = argparse.ArgumentParser()
    words.add_argument("--requests", type=int, default=1000)
    words.add_argument("--alone", type=int, default=40)
    words.add_argument("--mib", type=int, nargs="*", default=[50, 256])
    given = words.parse_args()
    if (reason := missing_parts()) is not None:
        sys.exit(f"cannot run here: {reason}")
    folder = Path(tempfile.mkdtemp(prefix="threegate-cluster-", dir="/var/tmp"))
    state = folder / "state"
    os.environ["XDG_STATE_HOME"] = str(state)
    cluster = Cluster(folder)
    try:
        cluster.rabbit.start()
        if given.requests:
            short_requests(cluster, state, given.requests, min(given.alone, given.requests))
        large_files(cluster, given.mib)
    finally:
        cluster.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
