"""A simulation of many workers, and of several daemons on one broker, from costs that were measured; names the first
bottleneck.

    .venv/bin/python bench/cluster_model.py [--workers 100] [--per-minute 1000] [--seconds 15] [--slots 256]
        [--daemons 10] [--minutes 30] [--cost NAME=SECONDS]

Every part of the way that is one at a time (a daemon's interpreter, its trail's lock and sync, its publisher's
confirmed publications) is a queue with one server, the broker one with as many as it has cores; workers have room for
all. Requests come at random (Poisson). Costs are seconds of that server. Those of `daemon` and `broker` are the
processor time of a request that `bench/cluster.py` prints, the others were measured on their own, all on two cores.
Beats and statuses are work of the same servers, and come whether or not anything runs.

Each daemon has a virtual host and workers of its own, and its own slots: of several, one is simulated, and the others
are work that the broker has always.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections import deque
from dataclasses import dataclass, field, replace

COSTS = {
    # seconds of one server, for one request (or one note)
    "daemon": 0.0300,  # gates, trail, notes, threads: the interpreter of a daemon
    "trail": 0.0040,  # cleared, claimed, started, finished: append, fdatasync, rename, two folder syncs
    "publish": 0.0016,  # a confirmed publication to a synced queue: job, lead; go and done take no longer
    "broker": 0.0150,  # all messages of a request: cores of the broker
    "beat": 0.0005,  # sign and publish one beat for all workers
    "copy": 0.00003,  # one more copy of a beat at the broker
    "status": 0.0004,  # at the daemon: verify and enter into the ledger
    "routed": 0.0003,  # at the broker: a status through a synced queue
    "worker": 0.0250,  # verify again, journal, staging, sandbox, result: on the worker
}
BEAT_SECONDS = 2.0
BROKER_CORES = 2


@dataclass
class Server:
    """First come first served, by one or more cores; with a part of its time taken by work that never ends."""

    name: str
    always: float = 0.0
    """Share of the server that beats, statuses and other daemons take."""
    cores: int = 1
    busy: float = 0.0
    free_at: list[float] = field(default_factory=list)

    def serve(self, now: float, cost: float) -> float:
        """When work that arrives now is done."""
        if not self.free_at:
            self.free_at = [0.0] * self.cores
        stretched = cost / max(1e-9, 1.0 - min(self.always, 0.999))
        done = max(now, heapq.heappop(self.free_at)) + stretched
        heapq.heappush(self.free_at, done)
        self.busy += cost / self.cores
        return done


@dataclass(frozen=True)
class Shape:
    """One daemon's workers and requests, and how many such daemons share the broker."""

    workers: int
    per_minute: float
    seconds: float
    slots: int
    daemons: int = 1


def simulate(
    shape: Shape, minutes: float, costs: dict[str, float], seed: int = 1
) -> tuple[dict[str, float], list[float]]:
    """Share of each server that is used, and the seconds that each request took beyond its run."""
    rate, horizon = shape.per_minute / 60, minutes * 60
    statuses = shape.workers / BEAT_SECONDS
    idle = (shape.workers * costs["copy"] / BEAT_SECONDS + statuses * costs["routed"]) / BROKER_CORES
    others = (shape.daemons - 1) * (idle + rate * costs["broker"] / BROKER_CORES)
    servers = {
        "daemon": Server("daemon", always=statuses * costs["status"] + costs["beat"] / BEAT_SECONDS),
        "trail": Server("trail"),
        "publisher": Server("publisher", always=costs["publish"] / BEAT_SECONDS),
        "broker": Server("broker", always=idle + others, cores=BROKER_CORES),
    }
    steps = (  # what one request asks of each, in order; None is the worker's own time
        ("daemon", costs["daemon"] * 0.6),
        ("trail", costs["trail"] / 2),
        ("publisher", costs["publish"]),
        ("broker", costs["broker"] * 0.4),
        (None, costs["worker"]),
        ("daemon", costs["daemon"] * 0.15),
        ("trail", costs["trail"] / 4),
        ("publisher", costs["publish"] * 2),
        ("broker", costs["broker"] * 0.3),
        (None, shape.seconds),
        ("broker", costs["broker"] * 0.3),
        ("daemon", costs["daemon"] * 0.25),
        ("trail", costs["trail"] / 4),
        ("publisher", costs["publish"]),
    )
    chance = random.Random(seed)
    events: list[tuple[float, int, int, float]] = []
    number, now = 0, 0.0
    while (now := now + chance.expovariate(rate)) < horizon:
        events.append((now, number, -1, now))
        number += 1
    heapq.heapify(events)
    waiting: deque[tuple[int, float]] = deque()
    running, beyond = 0, list[float]()
    while events and events[0][0] <= horizon:
        when, which, step, since = heapq.heappop(events)
        if step == -1:
            if running >= shape.slots:
                waiting.append((which, since))
                continue
            running += 1
            step = 0
        if step == len(steps):
            beyond.append(when - since - shape.seconds)
            running -= 1
            if waiting:
                heapq.heappush(events, (when, waiting[0][0], -1, waiting.popleft()[1]))
            continue
        name, cost = steps[step]
        done = when + cost if name is None else servers[name].serve(when, cost)
        heapq.heappush(events, (done, which, step + 1, since))
    used = {name: server.always + server.busy / horizon for name, server in servers.items()}
    used["slots"] = rate * (shape.seconds + costs["worker"]) / shape.slots
    return used, beyond


def line(name: str, used: dict[str, float], beyond: list[float]) -> str:
    """One row: the fullest server, and how long requests waited and were worked on beside their run."""
    first = max(used, key=lambda part: used[part])
    p50, p99 = (sorted(beyond)[int(len(beyond) * share)] for share in (0.5, 0.99)) if beyond else (float("nan"),) * 2
    shares = "  ".join(f"{part} {share:5.0%}" for part, share in used.items())
    return f"{name:<58} {shares}   beyond the run: p50 {p50:6.2f} s  p99 {p99:6.2f} s   fullest: {first}"


def main() -> None:
    """What was asked, then with more slots, then with several daemons on one broker."""
    words = argparse.ArgumentParser()
    words.add_argument("--workers", type=int, default=100)
    words.add_argument("--per-minute", type=float, default=1000)
    words.add_argument("--seconds", type=float, default=15, help="how long a request runs")
    words.add_argument("--slots", type=int, default=256)
    words.add_argument("--daemons", type=int, default=10)
    words.add_argument("--minutes", type=float, default=30, help="how long is simulated")
    words.add_argument("--cost", action="append", default=[], metavar="NAME=SECONDS")
    given = words.parse_args()
    costs = dict(COSTS)
    for item in given.cost:
        name, _, value = item.partition("=")
        if name not in costs:
            words.error(f"no such cost: {name} (there are {', '.join(costs)})")
        costs[name] = float(value)
    asked = Shape(given.workers, given.per_minute, given.seconds, given.slots)
    plan = {"": asked, ", twice the slots": replace(asked, slots=2 * asked.slots)}
    plan[f", {given.daemons} daemons"] = replace(asked, slots=2 * asked.slots, daemons=given.daemons)
    for name, shape in plan.items():
        used, beyond = simulate(shape, given.minutes, costs)
        print(line(f"{shape.workers} workers, {shape.per_minute:g} requests a minute{name}", used, beyond), flush=True)


if __name__ == "__main__":
    main()
