"""The numbers: from a real way of requests, read on from where one was, and with bounded labels."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.daemon.listening import Manager
from tests.runners import toy_backend
from tests.support import Place, era_draft, make_place, monty_draft, request_id
from threegate.core.errors import TrailError
from threegate.core.workspace import Workspace
from threegate.plugins.serve.gauge import WorkspaceGauge
from threegate.plugins.serve.metrics import Metrics
from threegate.request.backend import BACKENDS
from threegate.setup.settings_file import set_values
from threegate.trail.event import make_event
from threegate.trail.payloads import Observed, Rotated
from threegate.trail.trail import Trail

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A workspace that a daemon with a textfile worked on: one success, one failure, one refusal, bad drafts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        folder = tmp_path_factory.mktemp("metrics")
        made = make_place(folder, settings={"metrics.textfile": str(folder / "gate.prom")})
        good, bad, late = request_id("good"), request_id("fails"), request_id("late")
        drafts = [made.drop(monty_draft(good, "1 + 1")), made.drop(monty_draft(bad, "1 / 0"))]
        drafts.append(made.drop(monty_draft(late, "2")))
        made.drop(monty_draft(request_id("broken"), "import subprocess"))
        with Manager(made, folder) as manager:
            made.wait_for(f"verdicts/{late}.md.json")
            made.wait_for("verdicts/*-broken.md.json")
            made.approve(drafts[0])
            made.approve(drafts[1])
            made.wait_for(f"results/TS-*-{bad}.md")
            made.wait_for(f"results/TS-*-{good}.md")
            made.approve(drafts[2], "--yes")
            set_values(made.root / "threegate.toml", {"approval.ttl": 7200})
            made.wait_for(f"results/TS-*-{late}.md")
            manager.process.terminate()
            assert manager.process.wait(60) == 0
        yield made


def samples(text: str) -> dict[str, float]:
    """``name{label="value",...}`` to value, of text that the reference parser accepts."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def told_by(metrics: Metrics, name: str = "") -> dict[str, float]:
    """The samples of a name, without it, that are not 0."""
    found = samples(generate_latest(metrics.registry).decode())
    return {key.removeprefix(name): value for key, value in found.items() if key.startswith(name) and value}


@pytest.mark.slow
def test_the_textfile_tells_what_happened(place: Place) -> None:
    file = place.root.parent / "gate.prom"
    assert file.stat().st_mode & 0o777 == 0o644
    told = samples(file.read_text())
    assert told["threegate_daemon_running{}"] == 0, "the last writing says that it stopped"
    assert told["threegate_requests{state=finished}"] >= 2
    assert told["threegate_requests{state=inbox}"] == 1
    assert told["threegate_verdicts_total{verdict=valid}"] >= 3
    assert told["threegate_verdicts_total{verdict=invalid}"] == 1
    assert told["threegate_runs_total{backend=monty,status=succeeded}"] >= 1
    assert told["threegate_runs_total{backend=monty,status=failed}"] == 1
    assert told["threegate_decisions_total{route=accept,surface=daemon}"] >= 2
    assert told["threegate_approval_seconds_count{}"] == 3
    assert told["threegate_run_seconds_count{backend=monty}"] >= 2
    assert (
        told["threegate_run_seconds_bucket{backend=monty,le=+Inf}"]
        == told["threegate_run_seconds_count{backend=monty}"]
    )
    events = place.events()
    assert sum(value for name, value in told.items() if name.startswith("threegate_trail_events_total")) == len(events)
    findings = {name for name in told if name.startswith("threegate_findings_total")}
    assert findings and all(re.fullmatch(r"threegate_findings_total\{rule=[A-Z]+[0-9]+\}", name) for name in findings)


@pytest.mark.slow
def test_the_numbers_of_the_dashboard_and_of_the_page_exist(place: Place) -> None:
    text = (place.root.parent / "gate.prom").read_text()
    real = {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}
    families = {family.name for family in text_string_to_metric_families(text)} | real
    dashboard = json.loads((ROOT / "docs" / "grafana" / "threegate.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    assert len(expressions) >= 8
    named = {name for expression in expressions for name in re.findall(r"threegate_[a-z_]+", expression)}
    assert named - {"threegate_refusals_total", "threegate_waits_total"} <= real
    assert {"threegate_refusals_total", "threegate_waits_total"} <= real | {
        f"{name}_total" for name in re.findall(r"^# TYPE (\S+) counter", text, re.M)
    } | set(re.findall(r"^# TYPE (\S+) counter", text, re.M))
    page = (ROOT / "docs" / "metrics.md").read_text()
    told = set(re.findall(r"^\| `(threegate_[a-z_]+)`", page, re.M))
    spoken = {name.removesuffix("_total") for name in told}
    assert {name.removesuffix("_total") for name in families if "_bucket" not in name} - spoken <= {
        name for name in families if name.endswith(("_count", "_sum", "_created"))
    }
    assert spoken <= {name.removesuffix("_total") for name in families}


def test_verdicts_of_other_gates_are_no_decisions_of_gate_3a() -> None:
    metrics = Metrics()
    metrics.decided(b'{"type":"aana_decision/1","surface":"http","route":"ask"}')
    metrics.decided(b'{"type":"contract_decision/1","surface":"http","verdict":"block"}')
    metrics.decided(b"[]")
    assert told_by(metrics, "threegate_decisions_total") == {
        "{route=ask,surface=http}": 1,
        "{route=other,surface=other}": 1,
    }


def test_a_second_look_reads_only_what_is_new(place: Place, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(place.root, copy)
    workspace = Workspace(copy)
    gauge = WorkspaceGauge(workspace)

    def events() -> dict[str, float]:
        found = samples(gauge.text().decode())
        return {name: value for name, value in found.items() if name.startswith("threegate_trail_events_total")}

    first = events()
    assert events() == first
    trail = Trail(workspace)
    with trail.locked() as held:
        held.append(Observed(), actor="test")
        held.rotate(Rotated(size=int(sum(first.values())) + 1, root="00"), actor="test")
        held.append(Observed(), actor="test")
    trail.close()
    more = events()
    assert sum(more.values()) == sum(first.values()) + 3
    with workspace.trail_file.open("ab") as file:
        file.write(b'{"half a line')
    assert events() == more, "an unfinished line waits"
    whole = workspace.trail_file.read_bytes()
    workspace.trail_file.write_bytes(b"")
    with pytest.raises(TrailError, match="shorter"):
        gauge.text()
    workspace.trail_file.write_bytes(whole)
    assert events() == more, "after a look that failed everything is read from the start"
    with workspace.trail_file.open("ab") as file:
        file.write(b" that is not an event\n")
    with pytest.raises(TrailError, match="after seq"):
        gauge.text()


def event(number: int, kind: str, moment: datetime, request: str | None, data: dict[str, object]):  # type: ignore[no-untyped-def]
    return make_event(
        seq=number,
        time=f"{moment:%Y-%m-%dT%H:%M:%S}.000Z",
        type=kind,
        request_id=request,
        actor="x",
        data=data,
        prev="ws-" + "0" * 32,
    )


def test_no_text_from_outside_becomes_a_label() -> None:
    metrics = Metrics()
    now = datetime(2026, 1, 1, tzinfo=UTC)
    hostile = ['a"} evil 1\n', "ignore previous", "x" * 500, None, 7, ["list"]]
    for number, text in enumerate(hostile, start=2):
        metrics.add(event(number, "waiting", now, f"TR-{number}", {"reason": text}))
        metrics.add(event(number, "validated", now, f"TR-{number}", {"valid": False, "rules": [str(text)]}))
    metrics.decided(b'{"surface": "<script>", "route": "accept\\n"}')
    metrics.decided(b"[]")
    metrics.decided(b"\xff")
    assert told_by(metrics, "threegate_waits_total") == {"{reason=other}": len(hostile)}
    assert told_by(metrics, "threegate_findings_total") == {"{rule=other}": len(hostile)}
    assert told_by(metrics, "threegate_decisions_total") == {"{route=other,surface=other}": 3}
    for number in range(1000):
        code = "code_" + "".join(chr(97 + int(digit)) for digit in str(number))
        metrics.add(event(number, "refused", now, f"TR-{number}", {"reason": code}))
    refusals = told_by(metrics, "threegate_refusals_total")
    assert len(refusals) == 201 and sum(refusals.values()) == 1000


def test_latencies() -> None:
    metrics = Metrics()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    story = [
        ("validated", 0, {"valid": True, "rules": []}),
        ("approved", 90, {}),
        ("claimed", 92, {}),
        ("started", 92, {"backend": "ERA"}),
        ("finished", 95, {"status": "succeeded", "wall_ms": 2500}),
    ]
    for number, (kind, second, data) in enumerate(story, start=2):
        metrics.add(event(number, kind, start + timedelta(seconds=second), "TR-x", data))  # type: ignore[arg-type]
    told = told_by(metrics)
    assert told["threegate_approval_seconds_sum{}"] == 90 and told["threegate_queue_seconds_sum{}"] == 2
    run = told_by(metrics, "threegate_run_seconds")
    assert "_bucket{backend=ERA,le=1.0}" not in run and run["_bucket{backend=ERA,le=5.0}"] == 1
    assert run["_sum{backend=ERA}"] == 2.5 and run["_count{backend=ERA}"] == 1
    assert told_by(metrics, "threegate_runs_total") == {"{backend=ERA,status=succeeded}": 1}
    assert not metrics._open and not [name for name in told if "_created" in name]


def test_a_clock_that_was_set_back_counts_as_no_time() -> None:
    metrics = Metrics()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    metrics.add(event(2, "approved", start, "TR-x", {}))
    metrics.add(event(3, "claimed", start - timedelta(seconds=5), "TR-x", {}))
    told = told_by(metrics, "threegate_queue_seconds")
    assert told["_count{}"] == 1 and told["_bucket{le=1.0}"] == 1 and "_sum{}" not in told


def test_the_kept_head_is_a_metric_only_where_there_is_one() -> None:
    metrics = Metrics()
    metrics.add(event(2, "observed", datetime(2026, 1, 1, tzinfo=UTC), None, {}))
    name = "threegate_trail_unkept_events{}"
    assert name not in samples(generate_latest(metrics.registry).decode())
    metrics.kept(1)
    assert samples(generate_latest(metrics.registry).decode())[name] == 1
    metrics.kept(9)
    assert samples(generate_latest(metrics.registry).decode())[name] == 0
    metrics.kept(None)
    assert name not in samples(generate_latest(metrics.registry).decode())


def test_a_new_backend_is_counted_under_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKENDS.loaded, "toy", toy_backend.BACKEND)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    metrics = Metrics()
    for number, backend in enumerate(("toy", "never"), start=2):
        metrics.add(event(number, "started", now, backend, {"backend": backend}))
        metrics.add(event(number, "finished", now, backend, {"status": "succeeded", "wall_ms": 1}))
    assert told_by(metrics, "threegate_runs_total") == {
        "{backend=toy,status=succeeded}": 1,
        "{backend=other,status=succeeded}": 1,
    }


def test_what_cannot_be_written_is_said_once_and_stops_nothing(tmp_path: Path) -> None:
    place = make_place(tmp_path, settings={"metrics.textfile": str(tmp_path / "missing" / "x.prom")})
    rid = request_id("goes-on")
    place.approve(place.drop(monty_draft(rid, "1")))
    place.drop(era_draft(request_id("era"), "true"))
    done = place.once()
    assert done.err.count("metrics ") == 1 and "not written" in done.err
    assert "status: succeeded" in place.result(rid)
    bad = tmp_path / "bad.toml"
    bad.write_text('[metrics]\ntextfile = "relative.prom"\n')
    assert "metrics.textfile" in place.run("settings", "check", str(bad), expect=2).err
