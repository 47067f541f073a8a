"""What a run on another machine costs beside a run on this one: overhead, throughput, processor time, memory, the order
of claims, and bytes in and out.

    .venv/bin/python bench/cluster.py [--requests 500] [--alone 40] [--mib 50 256]     (root; rabbitmq-server,
    iproute2)

A real RabbitMQ and workers in network namespaces of the bench's own, all on this one machine: the workers share its
cores, so the throughput of three says what the way costs and not what three machines would do. Processor time depends
less on what else the machine does; `bench/cluster_model.py` takes it from here. Every configuration starts from the
same snapshot of a workspace with the same signed requests. The large files need the engine (`eval "$(scripts/engine
status)"`).
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
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.plugins.cluster.machines import Cluster, inside, missing_parts, peak_mb
from tests.support import era_draft, monty_draft, request_id
from threegate.cli import execute
from threegate.plugins.cluster.broker import LEAD
from threegate.plugins.cluster.cluster_files import VHOST
from threegate.setup.settings_file import set_values

CLAIMED, FINISHED = b'"type":"claimed"', b'"type":"finished"'
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
        self._rabbit = cluster.rabbit
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
        self._rabbit.control("purge_queue", "--vhost", VHOST, LEAD)  # it saw a later state of this workspace


@dataclass(frozen=True)
class Use:
    """What processes took: seconds of a processor, those of their children that have ended, and the most MiB."""

    seconds: float
    children: float
    peak_mb: int

    @classmethod
    def of(cls, pids: list[int]) -> Use:
        """Up to now."""
        ticks = [0, 0]
        for pid in pids:
            utime, stime, cutime, cstime = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[11:15]
            ticks[0] += int(utime) + int(stime)  # proc(5)
            ticks[1] += int(cutime) + int(cstime)
        second = os.sysconf("SC_CLK_TCK")
        return cls(ticks[0] / second, ticks[1] / second, sum(map(peak_mb, pids)))

    def told(self, before: Use, requests: int) -> str:
        """For each request, since an earlier look."""
        own, theirs = ((now - then) * 1000 / requests for now, then in zip(self._both, before._both, strict=True))
        return f"{own:.1f}+{theirs:.1f} ms {self.peak_mb} MiB"

    @property
    def _both(self) -> tuple[float, float]:
        return self.seconds, self.children


@dataclass(frozen=True)
class Served:
    """The trail's events, and what each side took after the first claim."""

    events: list[dict[str, Any]]
    use: dict[str, str]


def serve(cluster: Cluster, space: str | None, count: int, seconds: float = 1800) -> Served:
    """Run a daemon until `count` requests have ended."""
    words = [sys.executable, "-m", "threegate", "run", "-q"]
    trail = cluster.place.root / "tool-exec" / "audit" / "trail.jsonl"
    claimed, ended = trail.read_bytes().count(CLAIMED), 0
    daemon = subprocess.Popen(inside(space, *words) if space else words, cwd=cluster.place.root)
    groups = {
        "daemon": [daemon.pid],
        "broker": cluster.rabbit.pids(),
        "workers": [worker.pid for worker in cluster.workers.values() if worker.alive],
    }
    until, before = time.monotonic() + seconds, dict[str, Use]()
    try:
        while ended < count:
            assert daemon.poll() is None and time.monotonic() < until
            text = trail.read_bytes()
            if not before and text.count(CLAIMED) > claimed:
                before = {name: Use.of(pids) for name, pids in groups.items()}
            ended = text.count(FINISHED)
            time.sleep(0.1)
        use = {name: Use.of(pids).told(before[name], count) for name, pids in groups.items() if pids}
    finally:
        daemon.terminate()
        daemon.wait(60)
    return Served([json.loads(line) for line in trail.read_text().splitlines()], use)


def moment(event: dict[str, Any]) -> float:
    """Seconds."""
    return datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()


def furthest(order: list[str], events: list[dict[str, Any]]) -> int:
    """How many places the claim furthest from its place was off, when the oldest goes first."""
    claimed = [event["request_id"] for event in events if event["type"] == "claimed"]
    place = {name: number for number, name in enumerate(order)}
    return max(abs(place[name] - number) for number, name in enumerate(claimed))


def told(name: str, served: Served, order: list[str]) -> float:
    """Print one configuration; the median of milliseconds beyond the run."""
    events = served.events
    claimed = {event["request_id"]: moment(event) for event in events if event["type"] == "claimed"}
    ended = [event for event in events if event["type"] == "finished"]
    beyond = sorted((moment(event) - claimed[event["request_id"]]) * 1000 - event["data"]["wall_ms"] for event in ended)
    span = max(map(moment, ended)) - min(claimed.values())
    statuses = "/".join(sorted({event["data"]["status"] for event in ended}))
    median, p95 = statistics.median(beyond), beyond[int(len(beyond) * 0.95) - 1]
    use = "  ".join(f"{side} {took}" for side, took in served.use.items())
    print(
        f"{name:<24} {len(ended):5} {statuses}  {len(ended) / span:6.1f}/s  beyond the run: p50 {median:6.1f} ms  p95 "
        f"{p95:6.1f} ms  claims at most {furthest(order, events)} places off  load {os.getloadavg()[0]:.1f}\n"
        f"    a request's processor time (and its children's), peak memory: {use}",
        flush=True,
    )
    return median


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
        approved = cluster.place.root.joinpath("tool-exec", "approved").glob("*.md")
        oldest = sorted(approved, key=lambda path: path.stat().st_mtime_ns)
        for path in oldest[number:]:
            path.with_name(path.name + ".sig").unlink()
            path.unlink()
        if workers:
            restart_workers(cluster, workers, rows)
        else:
            set_values(broker, {"cluster.broker": "", "runners.monty.workers": rows})
            restart_workers(cluster, [], rows)
        served = serve(cluster, cluster.daemon_space if workers else None, number)
        one[name] = told(name, served, [path.stem for path in oldest[:number]])
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
            events = serve(cluster, cluster.daemon_space if broker else None, before + 1, 600).events
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
    words.add_argument("--requests", type=int, default=500)
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
