"""What `threegate status` and `threegate doctor` say of workers: only what was heard, and how long ago that is."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509 import IPAddress, SubjectAlternativeName

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.cluster.test_parts import RULES, told
from threegate.approval.statement import format_utc
from threegate.core.settings import Settings
from threegate.daemon.loop import of_dispatcher
from threegate.launch.launch_problem import read_operators
from threegate.plugins.cluster.capacity import NO_DAEMON, worker_lines, worker_rows, workers_file
from threegate.plugins.cluster.cluster_report import report
from threegate.plugins.cluster.ledger import Ledger
from threegate.plugins.cluster.notes import operators_digest
from threegate.plugins.cluster.section import ClusterSettings
from threegate.review import status
from threegate.review.readiness import Readiness
from threegate.runners.machine import workers_answer
from threegate.setup.certificates import certificate_pem, certify, common_name, new_key, private_pem
from threegate.setup.doctor import examine
from threegate.setup.settings_file import set_values

NOW = datetime.now(UTC)
CLUSTER = ClusterSettings(broker="amqps://127.0.0.1:1", identity="/none", workers=("w1+0+a", "w2+0+b"))
SETTINGS = Settings(sections={"cluster": CLUSTER})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def heard_row(bench: Bench, **more: Any) -> dict[str, Any]:
    """The row of w1 as a daemon writes it that has just heard of it."""
    ledger = Ledger(("w1",), RULES)
    ledger.hear("w1", told(operators_sha256=operators_digest(read_operators(bench.workspace))))
    return {**ledger.seats()[0].to_json(), **more}


def rows_of(bench: Bench, rows: Any, *, runs: bool = True) -> list[dict[str, Any]]:
    workers_file(bench.workspace).write_text(json.dumps(rows))
    if not runs:
        return worker_lines(bench.workspace, SETTINGS)
    with bench.workspace.daemon_lock():
        return worker_lines(bench.workspace, SETTINGS)


def at(seconds: float) -> str:
    return format_utc(datetime.now(UTC) + timedelta(seconds=seconds))


def test_a_worker_that_was_heard_just_now_is_live_and_each_enrolled_one_is_listed(bench: Bench) -> None:
    first, second = rows_of(bench, [heard_row(bench)])
    assert first["live"] and first["operators"] == "same" and first["version"] == RULES.version
    assert (second["worker"], second["live"], second["heard_utc"]) == ("w2", False, None)
    assert second["reason"] == "no report yet"


@pytest.mark.parametrize(
    "more",
    [{"heard_utc": at(-60)}, {"heard_utc": at(3600)}, {"heard_utc": None}],
    ids=["a daemon that hangs", "a clock that was set back", "a file of an older version"],
)
def test_what_was_frozen_is_not_shown_as_live(bench: Bench, more: dict[str, Any]) -> None:
    """The file says `live`, and nobody has written it since then."""
    row = rows_of(bench, [heard_row(bench, running=["TR-a"], **more)])[0]
    assert not row["live"] and row["running"] == [] and "written nothing since" in row["reason"]


def test_without_a_daemon_no_worker_gets_anything(bench: Bench) -> None:
    rows = rows_of(bench, [heard_row(bench)], runs=False)
    assert [(row["live"], row["reason"]) for row in rows] == [(False, NO_DAEMON)] * 2
    assert rows[0]["heard_utc"] is not None and rows[1]["heard_utc"] is None


@pytest.mark.parametrize("rows", [None, "x", {"w1": 1}, [1, "w1", None]])
def test_a_file_that_is_not_one_of_workers_is_as_none(bench: Bench, rows: Any) -> None:
    assert [row["heard_utc"] for row in rows_of(bench, rows)] == [None, None]


def test_a_daemon_that_starts_again_knows_when_its_workers_were_last_heard(bench: Bench) -> None:
    """And nothing else of them: what they had is not what they have."""
    workers_file(bench.workspace).write_text(json.dumps([heard_row(bench), {"worker": "w2", "heard_utc": "yesterday"}]))
    before = worker_rows(bench.workspace)
    ledger = Ledger(("w1", "w2"), RULES)
    ledger.remember(before)
    rows = [seat.to_json() for seat in ledger.seats()]
    assert [row["heard_utc"] for row in rows] == [before[0]["heard_utc"], None]
    assert not any(row["live"] or row["version"] or row["cores"] != "0" for row in rows)
    ledger.hear("w1", told())
    ledger.remember([{"worker": "w1", "heard_utc": "2020-01-01T00:00:00Z"}, {"worker": "gone"}])
    assert ledger.seats()[0].heard_utc > NOW - timedelta(seconds=1)


def test_the_screen_says_when_and_why(bench: Bench) -> None:
    """Wrapped to its width; a text of a worker cannot change the terminal."""
    live = heard_row(bench, heard_utc=at(-3), running=["TR-a"], operators="other", machine="m1")
    gone = heard_row(bench, worker="w2", live=False, reason="disk: \x1b[2Jfull", heard_utc=at(-300))
    never = {**gone, "worker": "w3", "machine": "", "version": "", "heard_utc": None, "reason": "no report yet"}
    now = datetime.now(UTC)
    drawn = status.worker_rows([live, gone, never], now=now, width=200)
    assert drawn[0].startswith(f"worker    w1 on m1, version {RULES.version}, heard ")
    assert drawn[0].endswith("s ago: TR-a, 4 of 4 cores and 1024 of 1024 MiB free, era 0/0, monty 0/2, its operators differ from those here")  # fmt: skip # noqa: E501
    assert f"not heard since {gone['heard_utc']} (5 min), gets nothing: disk: " in drawn[1] and "\x1b" not in drawn[1]
    assert drawn[2] == "worker    w3, never heard of, gets nothing: no report yet"
    assert all(len(line) <= 80 for line in status.worker_rows([live, gone, never], now=now, width=80))


def test_nothing_that_runs_need_is_missed_where_nothing_runs(bench: Bench) -> None:
    """With a cluster, `status` and `doctor` speak of workers and not of this machine's engines."""
    set_values(bench.workspace.settings_file, {f"cluster.{name}": getattr(CLUSTER, name) for name in CLUSTER.rules})
    names = {line.name for line in Readiness(bench.workspace).look(20)}
    assert "workers" in names and "engine" not in names
    lines = examine(bench.workspace, probes=False)
    assert lines[-1].name == "workers" and lines[-1].state == "warning"
    assert not {"engine", "monty", "works for you now"} & {line.name for line in lines}
    assert workers_answer([{"worker": "w1", "live": True}, {"worker": "w2", "live": False}]).seen == "1 of 2 accept work: w1"  # fmt: skip # noqa: E501


def test_changed_rules_reach_the_comparison_with_the_workers() -> None:
    """A daemon that took up another [request] must not compare workers with the old one; without workers it goes on."""
    other = Settings().request.but(max_cpu=2.0)
    assert of_dispatcher(SETTINGS) != of_dispatcher(SETTINGS.but(request=other))
    assert of_dispatcher(Settings()) == of_dispatcher(Settings().but(request=other))


def identity(folder: Path, days: int, authority_days: int = 3000) -> Path:
    """A daemon's folder with certificates that end in so many days."""
    for name, number in (("tls", days), ("ca", authority_days)):
        key, subject = new_key(), common_name(name)
        certificate = certify(subject, key.public_key(), subject, key, days=number)
        (folder / f"{name}.pem").write_bytes(certificate_pem(certificate))
        if name == "tls":
            (folder / "tls.key").write_bytes(private_pem(key))
            (folder / "tls.key").chmod(0o600)
    return folder


@pytest.mark.parametrize(
    ("days", "state", "seen"),
    [
        (397, "ok", "ends in 396 days"),
        (12, "warning", "ends in 11 days"),
        (0, "failure", "expired on"),
    ],  # fmt: skip # noqa: E501
)
def test_a_certificate_is_told_with_its_days(bench: Bench, tmp_path: Path, days: int, state: str, seen: str) -> None:
    """And with the command that makes a new one, if its CA is ours; nobody answers there, which is a failure."""
    (tmp_path / "files" / "daemon").mkdir(parents=True)
    home = identity(tmp_path / "files" / "daemon", days)
    settings = Settings(sections={"cluster": CLUSTER.but(identity=str(home))})
    line, authority, broker, *_ = report(bench.workspace, settings, False)
    assert (line.name, line.state) == ("cluster: daemon's certificate", state) and line.seen.startswith(seen)
    assert authority.state == "ok" and "Connection refused" in broker.seen and broker.state == "failure"
    if state != "ok":
        assert line.fix == "get a new one from your CA"
        (tmp_path / "files" / "ca").mkdir()
        (tmp_path / "files" / "ca" / "ca.key").touch()
        line = report(bench.workspace, settings, False)[0]
        assert line.fix == f"threegate settings cluster {tmp_path / 'files'} --renew, then restart the daemon"


def test_what_is_not_a_certificate_is_a_failure(bench: Bench, tmp_path: Path) -> None:
    settings = Settings(sections={"cluster": CLUSTER.but(identity=str(tmp_path))})
    assert "tls.pem" not in report(bench.workspace, settings, False)[1].seen
    assert report(bench.workspace, settings, False)[0].state == "failure"
    identity(tmp_path, 100)
    (tmp_path / "tls.pem").write_text("nothing")
    line = report(bench.workspace, settings, False)[0]
    assert line.state == "failure" and "is not a certificate" in line.seen
    assert report(bench.workspace, Settings(), False) == [] == report(None, settings, False)


def test_each_worker_is_a_line_with_what_to_do(bench: Bench, tmp_path: Path) -> None:
    """Its certificate is one only if it ends soon."""
    settings = Settings(sections={"cluster": CLUSTER.but(identity=str(tmp_path))})
    soon = int(datetime.now(UTC).timestamp()) + 5 * 86400 + 60
    workers_file(bench.workspace).write_text(
        json.dumps([heard_row(bench, certificate_end=soon, operators_sha256="0" * 64)])
    )
    with bench.workspace.daemon_lock():
        lines = {line.name: line for line in report(bench.workspace, settings, False)}
    first, second = lines["cluster: w1"], lines["cluster: w2"]
    assert (first.state, first.seen.partition(" (")[0]) == ("warning", "accepts work, but its operators differ from those here")  # fmt: skip # noqa: E501
    assert first.fix.startswith("copy tool-exec/operators")
    assert lines["cluster: w1's certificate"].seen.startswith("ends in 5 days")
    assert "no report yet (never heard of" in second.seen and second.fix.startswith("start threegate serve worker")


def test_a_broker_with_an_expired_certificate_says_so(bench: Bench, tmp_path: Path) -> None:
    """TLS refuses it before anything is sent; the line about the certificate has the day and the command."""
    home = identity(tmp_path, 100)
    authority, subject = new_key(), common_name("CA")
    own = certify(subject, authority.public_key(), subject, authority, days=9, authority=True)
    (home / "ca.pem").write_bytes(certificate_pem(own))
    key = new_key()
    name = (SubjectAlternativeName([IPAddress(ip_address("127.0.0.1"))]), False)
    expired = certify(common_name("b"), key.public_key(), subject, authority, days=0, extensions=[name])
    (tmp_path / "b.pem").write_bytes(certificate_pem(expired) + private_pem(key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "b.pem")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    plain, _ = server.accept()
                except OSError:
                    return  # the test has ended
                with plain, contextlib.suppress(OSError), context.wrap_socket(plain, server_side=True) as connection:
                    connection.recv(8)

        threading.Thread(target=answer, daemon=True).start()
        url = f"amqps://127.0.0.1:{server.getsockname()[1]}"
        settings = Settings(sections={"cluster": CLUSTER.but(identity=str(home), broker=url)})
        lines = {line.name: line for line in report(bench.workspace, settings, False)}
    assert lines["cluster: CA's certificate"].state == "warning"
    assert lines["cluster: broker's certificate"].seen.startswith("expired on")
    broker = lines["cluster: broker"]
    assert broker.state == "failure" and broker.seen.endswith("no TLS with it: certificate has expired")
