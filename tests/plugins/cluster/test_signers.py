"""Whose signatures a worker asks for, over a real broker: several operators of one request, and a standing grant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import missing
from tests.plugins.cluster.machines import Cluster, missing_parts
from tests.plugins.cluster.test_machines import Count, approve
from tests.support import make_key, monty_draft, request_id, wait_until
from threegate.setup.settings_file import set_values

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

WORKER = "[runners]\nmemory_budget_mb = 2048\ncpu_budget = 4.0\n[runners.monty]\nworkers = 2\n"
STRICT = "[grants]\nallow = {grants}\n[approval.quorum]\nlow = {low}\nmedium = 2\nhigh = 2\n"


def restart(cluster: Cluster, *, grants: bool, low: int) -> None:
    """The worker again, with other settings of its own."""
    worker = cluster.workers["w1"]
    worker.stop()
    (worker.home / "worker.toml").write_text(WORKER + STRICT.format(grants=str(grants).lower(), low=low))
    said = worker.log.count("connected to the broker")
    worker.start()
    while worker.log.count("connected to the broker") == said:
        worker.wait_said("connected to the broker")


def why(cluster: Cluster, name: str) -> str:
    """Why a request waits, as the daemon says; it is cancelled then."""

    def told() -> str:
        lines = cluster.daemon_log.splitlines()
        return next((line for line in lines if f"request={name}" in line and "w1 refused it" in line), "")

    text = wait_until(told, lambda: cluster.daemon_log[-2000:], 90)
    cluster.place.run("cancel", name, expect=0)
    return text


@pytest.mark.soak
def test_grants_and_several_operators(tmp_path: Path) -> None:
    """A worker judges both by its own settings and its own operators file, whatever the daemon's say."""
    if (reason := missing_parts()) is not None:
        missing(reason)
    cluster = Cluster(
        tmp_path,
        ("w1",),
        settings={"grants.allow": True},
        worker_settings=WORKER + STRICT.format(grants="true", low=1),
    )
    count = Count(cluster)
    try:
        cluster.start()
        cluster.daemon()
        under_a_grant(cluster, count)
        two_operators(cluster, count)
        assert max(count.runs.values()) == 1
        assert cluster.place.run("audit", "verify").code == 0
    finally:
        count.close()
        cluster.close()


def under_a_grant(cluster: Cluster, count: Count) -> None:
    """What a grant covers runs once, without a signature of its own, where the worker knows grants, and nowhere
    else.
    """
    place, code = cluster.place, "sum(range(10))"
    first = approve(cluster, "first", code)
    assert cluster.wait_end(first)[first] == "succeeded"
    words = ["grant", "new", first, "--max-uses", "2", "--expires", "1h"]
    place.run(*words, "--as", "operator", "--key", str(place.key), "--yes", expect=0)

    def again(slug: str) -> str:
        name = request_id(slug)
        place.drop(monty_draft(name, code, memory_mb=64))
        return name

    covered = again("covered")
    assert cluster.wait_end(covered)[covered] == "succeeded"
    assert "not signed individually" in place.result(covered) and count.runs[covered] == 1
    restart(cluster, grants=False, low=1)
    unknown = again("unknown")
    told = why(cluster, unknown)
    assert "grants_off" in told and count.runs[unknown] == 0


def two_operators(cluster: Cluster, count: Count) -> None:
    """The daemon asks for one signature, the worker for two; then both ask for two, and the second is known or not."""
    place, worker = cluster.place, cluster.workers["w1"]
    restart(cluster, grants=False, low=2)
    alone = approve(cluster, "alone", "1 + 1")
    told = why(cluster, alone)
    assert "quorum_missing" in told and count.runs[alone] == 0

    second = make_key(cluster.folder / "second_key")
    words = ["operator", "add", "second", "--key", f"{second}.pub"]
    place.run(*words, expect=0)
    set_values(place.root / "threegate.toml", {"approval.quorum.low": 2})

    def both(slug: str) -> str:
        name = approve(cluster, slug, "2 + 2")
        path = place.root / "tool-exec" / "approved" / f"{name}.md"
        place.run("approve", str(path), "--as", "second", "--key", str(second), "--yes", expect=0)
        return name

    stranger = both("stranger")
    told = why(cluster, stranger)
    assert "signer_unknown" in told and count.runs[stranger] == 0, told
    worker.operators.write_bytes((place.root / "tool-exec" / "operators").read_bytes())
    known = both("known")
    assert cluster.wait_end(known)[known] == "succeeded" and count.runs[known] == 1
