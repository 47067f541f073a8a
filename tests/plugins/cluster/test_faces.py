"""What people see of a real cluster: workers that judge otherwise, an alarm, a daemon that starts again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing
from tests.plugins.cluster.machines import Cluster, inside, missing_parts
from tests.support import make_key, monty_draft, request_id, wait_until
from threegate.plugins.cluster.capacity import NO_DAEMON

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]


@pytest.fixture
def cluster(tmp_path: Path):
    """Two workers; w2 has another [request] than the daemon."""
    if (reason := missing_parts()) is not None:
        missing(reason)
    made = Cluster(tmp_path, ("w1", "w2"))
    try:
        settings = made.workers["w2"].home / "worker.toml"
        settings.write_text(settings.read_text() + "[request]\nmax_time_sec = 5\n")
        made.workers["w1"].more = ["--take-operators"]
        made.start()
        yield made
    finally:
        made.close()


def rows(cluster: Cluster) -> dict[str, Any]:
    """The workers by name, as `threegate status` has them now."""
    return {row["worker"]: row for row in cluster.place.run("status", "--json").json()["workers"]}


def doctor(cluster: Cluster) -> dict[str, Any]:
    """The doctor's lines about the cluster by name, looked at from the daemon's machine."""
    words = inside(cluster.daemon_space, sys.executable, "-m", "threegate", "doctor", "--no-probes", "--json")
    done = subprocess.run(words, cwd=cluster.place.root, capture_output=True, text=True, timeout=60)
    lines = {line["name"]: line for line in json.loads(done.stdout)["lines"]}
    return {name: line for name, line in lines.items() if name.startswith(("cluster", "workers"))}


@pytest.mark.soak
def test_what_people_see_of_a_cluster(cluster: Cluster) -> None:
    """Without a request; each line is about what was tried or heard just now."""
    assert {row["reason"] for row in rows(cluster).values()} == {NO_DAEMON}
    cluster.daemon()
    wait_until(lambda: rows(cluster)["w1"]["live"], lambda: cluster.daemon_log, 60)
    wait_until(lambda: "[request]" in rows(cluster)["w2"]["reason"], lambda: str(rows(cluster)), 30)
    lines = doctor(cluster)
    assert lines["cluster: broker"]["state"] == lines["cluster: w1"]["state"] == "ok", lines
    assert lines["cluster: w2"]["state"] == "warning" and "copy [request]" in lines["cluster: w2"]["seen"]
    assert all("ends in" in line["seen"] for name, line in lines.items() if name.endswith("certificate"))
    assert lines["workers"]["seen"] == "1 of 2 accept work: w1"

    names = [approve(cluster, f"n{number}") for number in range(4)]
    assert set(cluster.wait_end(*names).values()) == {"succeeded"}
    assert "what=refused" not in cluster.workers["w2"].log, "it was sent nothing that it would have refused"

    other = make_key(cluster.folder / "bob")
    added = cluster.place.run("operator", "add", "bob", "--key", f"{other}.pub", expect=0)
    assert f"copy {cluster.place.root / 'tool-exec' / 'operators'}" in added.out and "w1, w2" in added.out
    assert rows(cluster)["w1"]["operators"] == rows(cluster)["w2"]["operators"] == "other"
    assert "operators differ" in doctor(cluster)["cluster: w1"]["seen"]
    cluster.place.run("operator", "distribute", "--as", "operator", "--key", str(cluster.place.key), expect=0)
    cluster.workers["w1"].wait_said("took operators files that an operator signed; operators are now: bob, operator")
    wait_until(lambda: rows(cluster)["w1"]["operators"] == "same", lambda: str(rows(cluster)), 30)
    assert rows(cluster)["w2"]["operators"] == "other", "its owner has not said that it takes any"
    name = request_id("bobs")
    draft = cluster.place.drop(monty_draft(name, "1 + 1", memory_mb=64))
    cluster.place.run("approve", str(draft), "--as", "bob", "--key", str(other), "--yes", expect=0)
    assert cluster.wait_end(name)[name] == "succeeded"
    assert cluster.place.run("audit", "verify").code == 0

    cluster.rabbit.control("set_vm_memory_high_watermark", "0.00001")
    wait_until(lambda: "alarm" in doctor(cluster)["cluster: broker"]["seen"], lambda: str(doctor(cluster)), 30)
    wait_until(lambda: "the broker takes nothing: it has an alarm" in cluster.daemon_log, lambda: cluster.daemon_log)
    wait_until(lambda: not rows(cluster)["w1"]["live"], lambda: str(rows(cluster)), 30)
    cluster.rabbit.control("set_vm_memory_high_watermark", "0.6")
    wait_until(lambda: "the broker's alarm is over" in cluster.daemon_log, lambda: cluster.daemon_log, 60)
    wait_until(lambda: rows(cluster)["w1"]["live"], lambda: cluster.daemon_log, 60)

    os.kill(cluster.workers["w1"].pid, signal.SIGSTOP)
    wait_until(lambda: not rows(cluster)["w1"]["live"], lambda: str(rows(cluster)), 60)
    cluster.stop_daemons()
    heard = rows(cluster)["w1"]["heard_utc"]
    assert heard is not None and rows(cluster)["w1"]["reason"] == NO_DAEMON
    cluster.daemon()
    wait_until(lambda: rows(cluster)["w1"]["version"] == "", "the new daemon's first look at its workers", 60)
    wait_until(lambda: "[request]" in rows(cluster)["w2"]["reason"], lambda: str(rows(cluster)), 60)
    row = rows(cluster)["w1"]
    assert (row["live"], row["heard_utc"], row["version"]) == (False, heard, ""), "nothing of it but when it was heard"
    os.kill(cluster.workers["w1"].pid, signal.SIGCONT)
    wait_until(lambda: rows(cluster)["w1"]["live"], lambda: cluster.daemon_log, 60)

    cluster.rabbit.kill()
    line = doctor(cluster)["cluster: broker"]
    assert line["state"] == "failure" and "does not answer (Connection refused)" in line["seen"]


def approve(cluster: Cluster, slug: str) -> str:
    """An approved request; its id."""
    name = request_id(slug)
    draft = cluster.place.drop(monty_draft(name, "1 + 1", memory_mb=64))
    cluster.place.run("approve", str(draft), "--as", "operator", "--key", str(cluster.place.key), "--yes", expect=0)
    return name
