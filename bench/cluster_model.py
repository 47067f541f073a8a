"""A simulation of 10,000 workers and a million requests a day, from costs that were measured; names the first
bottleneck.

    .venv/bin/python bench/cluster_model.py [--workers 10000] [--per-day 1000000] [--peak 5] [--hours 1]

Every part of the way that is one at a time (the trail's lock and sync, the daemon's own thread of gates, its listener
and its publisher, the broker) is a queue with one server; workers are as many as there are. Requests come at random
(Poisson) at `--peak` times the mean rate. Costs are seconds of that server. The defaults are put together from parts
that were measured on two cores (an `ssh-keygen -Y verify` 5.3 ms, append and fdatasync 0.12 ms, a durable delivery 0.36
ms, an Ed25519 check 0.11 ms, a Celery round trip 4.2 ms), not measured as a whole; say your own with --cost
NAME=SECONDS. Beats and statuses are work of the same servers, and come whether or not anything runs.
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
from dataclasses import dataclass, field

COSTS = {
    # seconds of one server, for one request (or one note)
    "judge": 0.0160,  # prepare, ssh-keygen -Y verify, AANA, contracts: threads of the daemon, mostly one interpreter
    "trail": 0.0040,  # cleared, claimed, started, finished: append, fdatasync, rename, two folder syncs
    "publish": 0.0016,  # a confirmed publication: job (to disk), go, done
    "listen": 0.0005,  # a note taken in: unseal (Ed25519), JSON, hand over
    "broker": 0.00025,  # one message through RabbitMQ
    "beat": 0.0013,  # sign and publish, confirmed
    "status": 0.0004,  # unseal and enter into the ledger
    "worker": 0.0250,  # verify again, journal, staging, sandbox, result: on the worker
    "run": 2.0,  # the request's own time
}
BEAT_SECONDS = 2.0
SLOTS = 256


@dataclass
class Server:
    """One at a time, first come first served; with a part of its time taken by work that never ends."""

    name: str
    always: float = 0.0
    """Share of the server that beats and statuses take."""
    free_at: float = 0.0
    busy: float = 0.0
    waited: list[float] = field(default_factory=list)

    def serve(self, now: float, cost: float) -> float:
        """When work that arrives now is done."""
        stretched = cost / max(1e-9, 1.0 - min(self.always, 0.999))
        begin = max(now, self.free_at)
        self.waited.append(begin - now)
        self.free_at = begin + stretched
        self.busy += cost
        return self.free_at


@dataclass(frozen=True)
class Shape:
    """What the cluster does beside requests, and how many of them at once."""

    beat_seconds: float = BEAT_SECONDS
    status_seconds: float = BEAT_SECONDS
    one_beat_for_all: bool = False
    """Published once, delivered to every worker by a fanout exchange."""
    slots: int = SLOTS
    gates: int = 1
    """Processes that judge at once."""


def simulate(
    workers: int,
    per_day: float,
    peak: float,
    hours: float,
    costs: dict[str, float],
    shape: Shape,
    seed: int = 1,
) -> tuple[dict[str, float], list[float], int]:
    """Share of each server that is used, seconds from arrival to end of each request, and how many never ended."""
    rate = per_day / 86400 * peak
    horizon = hours * 3600
    delivered = workers / shape.beat_seconds
    published = (1 if shape.one_beat_for_all else workers) / shape.beat_seconds
    statuses = workers / shape.status_seconds
    broker = (published + delivered) / 2 * costs["broker"] + statuses * costs["broker"]  # half to take, half to give
    servers = {
        "gates": Server("gates"),
        "trail": Server("trail"),
        "publisher": Server("publisher", always=published * costs["beat"]),
        "listener": Server("listener", always=statuses * costs["status"]),
        "broker": Server("broker", always=broker),
    }
    steps = (  # what one request asks of each, in order; None is the worker's own time
        ("gates", costs["judge"] / shape.gates),
        ("trail", costs["trail"] / 2),
        ("publisher", costs["publish"]),
        ("broker", costs["broker"]),
        (None, costs["worker"]),
        ("broker", costs["broker"]),
        ("listener", costs["listen"]),
        ("trail", costs["trail"] / 4),
        ("publisher", costs["publish"]),
        ("broker", costs["broker"]),
        (None, costs["run"]),
        ("broker", costs["broker"]),
        ("listener", costs["listen"]),
        ("trail", costs["trail"] / 4),
    )
    random_ = random.Random(seed)
    events: list[tuple[float, int, int, float]] = []
    number, now = 0, 0.0
    while (now := now + random_.expovariate(rate)) < horizon:
        events.append((now, number, -1, now))
        number += 1
    heapq.heapify(events)
    waiting: list[tuple[float, int, int, float]] = []
    running, most = 0, min(shape.slots, workers)
    took: list[float] = []
    while events:
        when, which, step, since = heapq.heappop(events)
        if when > horizon:
            break
        if step == -1:
            if running >= most:
                waiting.append((when, which, step, since))
                continue
            running += 1
            step = 0
        if step == len(steps):
            took.append(when - since)
            running -= 1
            if waiting:
                _, first, _, arrived = waiting.pop(0)
                heapq.heappush(events, (when, first, -1, arrived))
            continue
        name, cost = steps[step]
        done = when + cost if name is None else servers[name].serve(when, cost)
        heapq.heappush(events, (done, which, step + 1, since))
    used = {name: server.always + server.busy / horizon for name, server in servers.items()}
    used["slots"] = min(1.0, rate * (costs["run"] + costs["worker"]) / most)
    return used, took, number - len(took)


def line(name: str, used: dict[str, float], took: list[float], left: int) -> str:
    """One row: the fullest server, and how long requests took."""
    first = max(used, key=lambda part: used[part])
    p50 = statistics.median(took) if took else float("nan")
    p99 = sorted(took)[int(len(took) * 0.99) - 1] if took else float("nan")
    shares = "  ".join(f"{part} {share:6.0%}" for part, share in used.items())
    return (
        f"{name:<44} {shares}   ended {len(took):7}  left {left:6}  p50 {p50:7.2f} s  p99 {p99:8.2f} s   fullest: "
        f"{first}"
    )


def main() -> None:
    """The asked size, then what would move its first bottleneck, one change after the other."""
    words = argparse.ArgumentParser()
    words.add_argument("--workers", type=int, default=10_000)
    words.add_argument("--per-day", type=float, default=1_000_000)
    words.add_argument("--peak", type=float, default=5.0)
    words.add_argument("--hours", type=float, default=0.5)
    words.add_argument("--cost", action="append", default=[], metavar="NAME=SECONDS")
    given = words.parse_args()
    costs = dict(COSTS)
    for item in given.cost:
        name, _, value = item.partition("=")
        if name not in costs:
            words.error(f"no such cost: {name} (there are {', '.join(costs)})")
        costs[name] = float(value)
    plan = [
        ("as it is", Shape()),
        ("one beat for all (fanout)", Shape(one_beat_for_all=True)),
        ("and a status every 20 s", Shape(one_beat_for_all=True, status_seconds=20)),
        ("and a beat every 5 s (fence 17 s)", Shape(5, 20, True)),
        ("and 4096 slots", Shape(5, 20, True, 4096)),
        ("and gates in 4 processes", Shape(5, 20, True, 4096, 4)),
    ]
    print(
        f"{given.workers} workers, {given.per_day:.0f} requests a day, {given.peak:g} times the mean rate "
        f"({given.per_day / 86400 * given.peak:.0f} a second), {given.hours:g} h simulated"
    )
    for name, shape in plan:
        used, took, left = simulate(given.workers, given.per_day, given.peak, given.hours, costs, shape)
        print(line(name, used, took, left), flush=True)


if __name__ == "__main__":
    main()
