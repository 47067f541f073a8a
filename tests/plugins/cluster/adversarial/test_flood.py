"""A stolen worker's certificate that takes all it can get of the broker: what it gets is bounded, and others run on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing
from tests.plugins.cluster.machines import Cluster, inside, missing_parts, peak_mb
from tests.plugins.cluster.test_machines import WORKERS, approve, running_on
from threegate.core import limits

pytestmark = [pytest.mark.root, pytest.mark.soak, pytest.mark.timeout(600)]

SLEEP = "import time\nfor i in range(300):\n    time.sleep(0.1)\n"
FLOOD_SECONDS, FLOOD_BYTES = 20, 2 * limits.BROKER_RESULT_BYTES
"""At least, both."""
WATERMARK = "400MiB"
DAEMON_MB = 200
"""How much larger a flood may make the daemon."""
CONNECTIONS, CHANNELS = limits.BROKER_USER_CONNECTIONS, limits.BROKER_USER_CHANNELS
"""What one worker gets of the broker at most."""
FLOOD = """
import json, multiprocessing, sys, time
from pathlib import Path
import amqp
from threegate.plugins.cluster.broker import Broker
from threegate.plugins.cluster.seal import seal
from threegate.plugins.cluster.worker.service import read_identity

broker, folder, seconds = Broker(sys.argv[1], Path(sys.argv[2])), Path(sys.argv[2]), float(sys.argv[3])
held, channels = [], 0
try:
    while len(held) < 100:
        connection = broker.connection()
        connection.connect()
        held.append(connection)
except amqp.exceptions.AMQPError as error:
    print(error, file=sys.stderr)
try:
    while held and channels < 1000:
        held[channels % len(held)].channel()
        channels += 1
except amqp.exceptions.AMQPError as error:
    print(error, file=sys.stderr)
for connection in held:
    connection.collect()
me, until = read_identity(folder), time.monotonic() + seconds
note = {"worker": me.name, "boot": "1", "seq": 1, "nonce": "a" * 32, "envelope_sha256": "b" * 64, "inline": {}}
bodies = (  # a result that costs most to read, many short ones, one that is too long, and chunks
    seal(me.key, "result", {**note, "outcome": {"x": [[]] * 2_600_000}}),
    b"{}" * 50,
    b"x" * (15 << 20),
    b"x" * (1 << 20),
)
sent, most = multiprocessing.Value("Q"), int(sys.argv[4])


def on():
    return time.monotonic() < (until if sent.value > most else until + 60)


def flood(body):
    number = 0
    while on():
        try:
            with broker.connection() as connection:
                channel = connection.channel()
                while on():
                    number += 1
                    exchange = ("res", "out")[number % 2] + "." + me.name
                    channel.basic_publish(amqp.Message(body, channel=channel, delivery_mode=2), exchange, me.name)
                    with sent.get_lock():
                        sent.value += len(body)
        except Exception:
            time.sleep(0.1)  # refused, closed or blocked: once more


work = [multiprocessing.Process(target=flood, args=(body,), daemon=True) for body in bodies]
for one in work:
    one.start()
for one in work:
    one.join(max(0.1, until + 65 - time.monotonic()))
print(json.dumps({"connections": len(held), "channels": channels, "sent": sent.value}), flush=True)
"""


def test_a_flood_ends_nobody_elses_runs(tmp_path: Path) -> None:
    """Connections, channels and messages by one worker's certificate, at a broker with little memory: runs of the two
    other workers succeed, the daemon stays small, and the broker refuses what goes beyond a user's limits.
    """
    if (reason := missing_parts()) is not None:
        missing(reason)
    cluster = Cluster(tmp_path, worker_settings=WORKERS.format(memory=1024, cores="2.0"))
    try:
        stolen = cluster.workers["w3"]
        (stolen.home / "worker.toml").write_text(WORKERS.format(memory=2048, cores="2.0"))
        cluster.start()
        cluster.rabbit.control("set_vm_memory_high_watermark", "absolute", WATERMARK)
        daemon = cluster.daemon()
        on_stolen = approve(cluster, "stolen", SLEEP, memory_mb=1500, time_sec=90)
        assert running_on(cluster, on_stolen) == "w3"
        names = [approve(cluster, f"long{number}", SLEEP, memory_mb=800, time_sec=90) for number in range(2)]
        assert {running_on(cluster, name) for name in names} == {"w1", "w2"}
        stolen.kill()
        before = peak_mb(daemon.pid)
        words = [sys.executable, "-c", FLOOD, cluster.url, str(stolen.home), str(FLOOD_SECONDS), str(FLOOD_BYTES)]
        done = subprocess.run(inside(stolen.space, *words), capture_output=True, text=True, timeout=150)
        assert done.returncode == 0, done.stderr
        got: dict[str, Any] = json.loads(done.stdout)
        ends = cluster.wait_end(*names, on_stolen)
        grown = peak_mb(daemon.pid) - before
        print(f"{got}, daemon {before} MiB and {grown} more, broker {cluster.rabbit.memory_mb()} MiB\n{done.stderr}")
        assert got["sent"] > FLOOD_BYTES, "this was not a flood"
        assert [ends[name] for name in names] == ["succeeded", "succeeded"], cluster.daemon_log[-2000:]
        assert ends[on_stolen] == "interrupted"
        assert grown <= DAEMON_MB
        assert got["connections"] <= CONNECTIONS and got["channels"] <= CHANNELS, done.stderr
        stolen.start()
        after = approve(cluster, "after", "1", memory_mb=1500)
        assert cluster.wait_end(after)[after] == "succeeded", "what the flood left in its queue is soon read"
    finally:
        cluster.close()
