"""The parts of a cluster without a broker: ledger, outcomes, store, outbox, definitions, and the envelope's maker."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.engine_fixtures import era_job, monty_job
from tests.support import make_key
from threegate.approval.operators import load_operators
from threegate.core import limits
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.core.settings import Settings, parse_settings
from threegate.plugins.cluster.job_envelope import make_envelope
from threegate.plugins.cluster.ledger import Ledger
from threegate.plugins.cluster.notes import Rules
from threegate.plugins.cluster.outcome import read_outcome, write_outcome
from threegate.plugins.cluster.runner import enrolled
from threegate.plugins.cluster.seal import seal
from threegate.plugins.cluster.section import ClusterSettings
from threegate.plugins.cluster.worker.health import judges_by, quick_look
from threegate.plugins.cluster.worker.identity import signing_key
from threegate.plugins.cluster.worker.operators_file import read_operators_file
from threegate.plugins.cluster.worker.outbox import Outbox
from threegate.plugins.cluster.worker.store import Store
from threegate.request.job import JobLimits, Platform
from threegate.runners.interface import Artifact, Destination, Evidence, Outcome, Stream
from threegate.setup.certificates import certificate_pem, certify, common_name, new_key
from threegate.trail.workspace_key import SigningKey, VerifierKey

BOUNDS = JobLimits("1", 64, 5)


RULES = Rules.of(Settings())


def told(monty: Any = 2, era: Any = 0, **more: Any) -> dict[str, Any]:
    """A status note's value, of a worker that judges by the daemon's rules."""
    return {
        **asdict(RULES),
        "operators_sha256": "1" * 64,
        "certificate_end": 2_000_000_000,
        "cores": "4",
        "memory_mb": 1024,
        "rows": {"monty": monty, "era": era},
        "images": [],
        "healthy": True,
        "reason": "",
        "machine": "m",
        "boot": "1",
        "running": [],
        **more,
    }


def test_jobs_go_where_most_is_free_and_never_beyond_it() -> None:
    """Cores, memory and rows are each a wall; a lease gives its place back once."""
    ledger = Ledger(("a", "b"), None)
    assert ledger.missing(None) == "no worker accepts work (a: no report yet; b: no report yet)"
    ledger.hear("a", told())
    ledger.hear("b", told(cores="2", monty=1))
    jobs = [monty_job("1", memory_mb=64) for _ in range(4)]
    leases = [ledger.try_take(job) for job in jobs]
    assert [ledger.place_of(job) for job in jobs] == ["a", "a", "b", None]
    assert leases[3] is None and not ledger._has_row(jobs[3]) and ledger.never(jobs[3]) is None
    assert leases[0] is not None
    leases[0].release()
    leases[0].release()
    assert ledger.try_take(jobs[3]) is not None and ledger.place_of(jobs[3]) == "a"
    memory, cores = ledger.free()
    assert cores == 3 and memory == 2048 - 3 * 96
    big = monty_job("1", memory_mb=2000)
    assert "no live worker has" in str(ledger.missing(big)) and ledger.missing(jobs[0]) is None


def test_a_round_keeps_the_oldest_first() -> None:
    """Through the dispatcher's own round: what lacks memory now keeps younger ones from taking it."""
    ledger = Ledger(("a",), None)
    ledger.hear("a", told(memory_mb=300, monty=4))
    first = ledger.round().try_take(monty_job("1", memory_mb=128))
    turn = ledger.round()
    assert first is not None and turn.try_take(monty_job("1", memory_mb=128)) is None
    assert turn.try_take(monty_job("1", memory_mb=8)) is None
    assert ledger.round().try_take(monty_job("1", memory_mb=8)) is not None


def test_an_unfit_or_silent_worker_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed doctor, a silence beyond the fence, an image that is not there."""
    ledger = Ledger(("a",), None)
    ledger.hear("a", told(healthy=False, reason="disk: full"))
    assert ledger.missing(None) == "no worker accepts work (a: disk: full)" and not ledger.heard.is_set()
    ledger.hear("a", told(era=1, images=["sha256:1"]))
    job = replace(era_job("true"), image="sha256:1", egress_image="")
    assert ledger.missing(job) is None and ledger.reserve(job) == "a"
    assert "image" in str(ledger.missing(replace(job, image="sha256:2")))
    assert ledger.missing(replace(job, egress_image="sha256:3")) is not None
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + limits.CLUSTER_LIVE_SECONDS + 1)
    assert ledger.reserve(job) is None and not ledger.seats()[0].live()
    assert ledger.silent_for("a") > limits.CLUSTER_LIVE_SECONDS
    assert Ledger(("a",), None).silent_for("a") == float("inf")
    shown = ledger.seats()[0].to_json()
    assert shown["live"] is False and shown["era"] == "1/1"


def test_a_worker_that_refuses_three_jobs_in_a_row_is_unfit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says why, and what to do; a status that differs, a start, or a minute makes it fit again."""
    ledger = Ledger(("a", "b"), None)
    ledger.hear("a", told(cores="8"))
    ledger.hear("b", told())
    jobs = [monty_job(str(number)) for number in range(3)]

    def refuse() -> None:
        for job in jobs:
            ledger.refused("a", job, "signer_unknown: core is not an operator here")

    ledger.refused("a", jobs[0], "signer_unknown: core is not an operator here")
    ledger.refused("a", jobs[0], "signer_unknown: core is not an operator here")
    assert ledger.seats()[0].live() and ledger.reserve(jobs[1]) == "a", "one job is one refusal"
    assert ledger.reserve(jobs[0]) == "b"
    ledger.move(jobs[0])
    assert ledger.place_of(jobs[0]) == "b", "and goes elsewhere"
    refuse()
    shown = ledger.seats()[0].to_json()
    assert not shown["live"] and "refused 3 jobs: signer_unknown" in shown["reason"]
    assert "copy tool-exec/operators" in shown["reason"]
    ledger.hear("a", told(cores="8", running=[["1" * 32, "TR-a"]]))
    assert not ledger.seats()[0].live(), "the same status again"
    ledger.hear("b", told(healthy=False))
    assert "no worker accepts work (a: refused 3 jobs" in str(ledger.missing(None))
    for fit in (lambda: ledger.hear("a", told(cores="8", boot="c")), lambda: ledger.started("a")):
        refuse()
        fit()
        assert ledger.seats()[0].live() and ledger.missing(jobs[0]) is None
    ledger.refused("a", jobs[0], "odd: why")
    assert ledger.missing(jobs[0]) == "worker a refused it: odd: why" and ledger.reserve(jobs[0]) is None
    assert ledger.seats()[0].to_json()["reason"] == "refused a job: odd: why"
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + limits.CLUSTER_REFUSED_SECONDS + 1)
    ledger.hear("a", told(cores="8", boot="c"))
    assert ledger.missing(jobs[0]) is None
    ledger.refused("a", jobs[1], "odd: why")
    assert len(ledger.seats()[0].refused) == 1, "what is over is forgotten"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"version": "0.0.9"}, f"it has ThreeGate 0.0.9, the daemon {RULES.version}; install the same version on both"),
        ({"version": ""}, f"it has ThreeGate of an older version, the daemon {RULES.version}; install"),
        ({"request_sha256": "0" * 64}, "[request] of its settings is not the daemon's; copy [request] of the daemon's"),
        ({"aana_sha256": ""}, "[aana] of its settings is not the daemon's; copy [aana] of"),
        ({"aana_sha256": "0" * 64, "request_sha256": ""}, "[request] and [aana] of its settings is not the daemon's"),
        ({"request_sha256": "0" * 64, "healthy": False, "reason": "disk: full"}, "[request] of its settings"),
        ({"healthy": False, "reason": "disk: full"}, "disk: full"),
    ],
)
def test_a_worker_that_judges_by_other_rules_gets_nothing_and_says_why(more: dict[str, Any], reason: str) -> None:
    """It would refuse each request; the next one that is the same gets them."""
    ledger = Ledger(("a",), RULES)
    ledger.hear("a", told())
    job = monty_job("1")
    assert ledger.reserve(job) == "a"
    ledger.hear("a", told(**more))
    [seat] = ledger.seats()
    assert not seat.live() and seat.reason.startswith(reason)
    assert ledger.reserve(monty_job("2")) is None and reason in str(ledger.missing(None))
    ledger.hear("a", told())
    assert ledger.missing(None) is None and seat.live()


def test_a_worker_of_an_older_version_that_says_nothing_of_its_rules_gets_nothing() -> None:
    ledger = Ledger(("a",), RULES)
    ledger.hear("a", {name: value for name, value in told().items() if name not in asdict(RULES)})
    assert not ledger.seats()[0].live() and not ledger.heard.is_set()


def test_other_operators_are_no_refusal() -> None:
    """A worker's own file may be narrower on purpose: what it does not allow it refuses itself."""
    ledger = Ledger(("a",), RULES)
    ledger.hear("a", told(operators_sha256="2" * 64))
    assert ledger.reserve(monty_job("1")) == "a"


def test_the_rules_are_those_of_the_policy_digest() -> None:
    """Spelled otherwise, or another setting: the same. A value that a request is judged by: not."""
    same = parse_settings(b'[request]\nmax_cpu = 8\n[runners.era]\nparallel = 3\n[approval]\nttl = "1h"\n')
    again = parse_settings(b"[request]\nmax_cpu = 8.0\n")
    assert Rules.of(same) == Rules.of(again)
    assert Rules.of(again).request_sha256 != RULES.request_sha256 and Rules.of(again).aana_sha256 == RULES.aana_sha256
    domain = parse_settings(b'[aana]\nrisk_domain = "finance"\n')
    assert Rules.of(domain).aana_sha256 != RULES.aana_sha256


def test_a_worker_says_by_what_it_judges(tmp_path: Path) -> None:
    """The digests of its operators files change with each of them; without a certificate its end is not known."""
    operators = tmp_path / "operators"
    told = [judges_by(Settings(), read_operators_file(operators), tmp_path)]
    for name in ("operators", "operators.revoked", "operators.passkeys"):
        (tmp_path / name).write_text("nobody\n")
        told.append(judges_by(Settings(), read_operators_file(operators), tmp_path))
    assert len({str(item["operators_sha256"]) for item in told}) == 4
    assert all(item["certificate_end"] == 0 and item["version"] == RULES.version for item in told)
    key, name = new_key(), common_name("w1")
    certificate = certify(name, key.public_key(), name, key, days=40)
    (tmp_path / "tls.pem").write_bytes(certificate_pem(certificate))
    ends = judges_by(Settings(), read_operators_file(operators), tmp_path)["certificate_end"]
    assert ends == int(certificate.not_valid_after_utc.timestamp()) > time.time() + 39 * 86400


@pytest.mark.parametrize(
    "more",
    [
        {"cores": "many"},
        {"cores": "Infinity"},
        {"cores": "-1"},
        {"monty": 5000},
        {"running": [["x"]]},
        {"era": "x"},
    ],
)
def test_a_malformed_status_changes_nothing(more: dict[str, Any]) -> None:
    """A worker that lies nonsense is as one that was not heard."""
    ledger = Ledger(("a",), None)
    with pytest.raises(ValueError):
        ledger.hear("a", told(**more))
    assert ledger.seats()[0].heard is None


def outcome(**more: Any) -> Outcome:
    """An outcome with a bit of everything."""
    empty = Stream(b"", 0, hashlib.sha256(b"").hexdigest())
    whole = Outcome(
        "succeeded",
        "fine",
        Stream(b"hi\n", 3, "0" * 64),
        empty,
        exit_code=0,
        wall_ms=5,
        cpu_ms=1,
        effective_limits={"memory": "64 MiB"},
        artifacts=(Artifact("a/b.txt", 3, "1" * 64),),
        destinations=(Destination("h", 80, 1, True),),
        image="sha256:x",
    )
    return replace(whole, **more)


def test_an_outcome_comes_back_as_it_was() -> None:
    """Through JSON and back."""
    first = outcome()
    assert read_outcome(json.loads(json.dumps(write_outcome(first))), BOUNDS) == first


@pytest.mark.parametrize(
    "change",
    [
        {"status": "refused"},
        {"artifacts": [{"path": "../x", "size": 1, "sha256": "0" * 64}]},
        {"artifacts": [{"path": "/x", "size": 1, "sha256": "0" * 64}]},
        {"artifacts": [{"path": "a\nb", "size": 1, "sha256": "0" * 64}]},
        {"artifacts": [{"path": "/".join("a" * 40), "size": 1, "sha256": "0" * 64}]},
        {"artifacts": [{"path": "a", "size": 1, "sha256": "0" * 64}] * 2},
        {"artifacts": [{"path": name, "size": 1, "sha256": "0" * 64} for name in ("a", "a/b")]},
        {"artifacts": [{"path": "a", "size": 1 << 40, "sha256": "0" * 64}]},
        {"artifacts": [{"path": str(n), "size": 0, "sha256": "0" * 64} for n in range(2000)]},
        {"stdout": {"kept": "!", "size": 1, "sha256": "0" * 64}},
        {"stdout": {"kept": base64.b64encode(b"long").decode(), "size": 1, "sha256": "0" * 64}},
        {"started": "2026-01-01T00:00:00"},
        {"started": "yesterday"},
        {"more": 1},
        {"wall_ms": -1},
    ],
)
def test_what_no_runner_says_is_refused(change: dict[str, Any]) -> None:
    """A worker that was taken over names paths, sizes and statuses at will: none gets through."""
    with pytest.raises(InvalidInput):
        read_outcome({**write_outcome(outcome()), **change}, BOUNDS)
    with pytest.raises(InvalidInput):
        read_outcome(None, BOUNDS)


def test_the_store_takes_only_what_was_signed(tmp_path: Path) -> None:
    """Chunks by digest; a wrong byte, a short or long answer leaves nothing; what is there is not fetched again."""
    store = Store(tmp_path / "store", most_bytes=30)
    data = b"0123456789"
    digest = hashlib.sha256(data).hexdigest()
    asked: list[int] = []

    def fetch(_: str, offset: int) -> bytes:
        asked.append(offset)
        return data[offset : offset + 4]

    store.take(digest, 10, fetch)
    assert asked == [0, 4, 8] and (store.folder / digest).read_bytes() == data
    store.take(digest, 10, fetch)
    assert asked == [0, 4, 8]
    for answer in (b"", b"x" * 11, b"9876543210"):
        with pytest.raises(Unavailable):
            store.take("0" * 64, 10, lambda *_, answer=answer: answer)
    assert [path.name for path in store.folder.iterdir()] == [digest]
    os.utime(store.folder / digest, (1, 1))
    second = hashlib.sha256(b"y" * 25).hexdigest()
    store.take(second, 25, lambda *_: b"y" * 25, keep={digest})
    assert (store.folder / digest).exists(), "what a run needs is not pushed out"
    third = hashlib.sha256(b"z" * 20).hexdigest()
    store.take(third, 20, lambda *_: b"z" * 20)
    assert not (store.folder / digest).exists()
    (store.folder / third).chmod(0o600)
    (store.folder / third).write_bytes(b"short")
    assert not store.has(third, 20) and not (store.folder / third).exists()
    (store.folder / ".part-left").write_bytes(b"")
    assert not list(Store(store.folder).folder.glob(".part-*"))


def test_the_outbox_keeps_a_result_until_it_is_wanted(tmp_path: Path) -> None:
    """Over a restart; what has no result of this worker's is removed."""
    key = signing_key(tmp_path / "sign.key", "w1")
    runs = tmp_path / "runs"
    good, torn, old = (runs / name for name in ("TR-a." + "1" * 32, "TR-b." + "2" * 32, "TR-c." + "3" * 32))
    for folder in (good, torn, old):
        (folder / "out").mkdir(parents=True)
    sealed = seal(key, "result", {"nonce": "1" * 32, "outcome": write_outcome(outcome())})
    outbox = Outbox(runs, key.public)
    outbox.keep("1" * 32, sealed, good, {"1" * 64: good / "out" / "a/b.txt"})
    outbox.keep("3" * 32, sealed, old, {})
    os.utime(old / "result.sealed", (1, 1))
    (torn / "result.sealed").write_bytes(b"torn")
    again = Outbox(runs, key.public)
    assert len(again.recover()) == 3 and sorted(path.name for path in runs.iterdir()) == [good.name]
    kept = again.find("1" * 32)
    assert kept is not None and again.waiting() == [kept]
    assert kept.outputs == {"1" * 64: good / "out" / "a/b.txt"} and kept.sealed == sealed
    again.drop("1" * 32)
    again.drop("1" * 32)
    assert not good.exists() and kept.done.is_set()


def test_the_outbox_gives_a_result_up_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only when the worker starts again: one that runs for months sent it every five seconds."""
    folder = tmp_path / "runs" / ("TR-a." + "1" * 32)
    folder.mkdir(parents=True)
    outbox = Outbox(tmp_path / "runs", signing_key(tmp_path / "sign.key", "w1").public)
    kept = outbox.keep("1" * 32, b"sealed", folder, {})
    assert outbox.waiting() == [kept]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + limits.CLUSTER_OUTBOX_SECONDS + 1)
    assert outbox.waiting() == [] and outbox.find("1" * 32) is None and not folder.exists()


def test_a_state_folder_that_cannot_be_looked_at_keeps_a_worker_from_work(tmp_path: Path) -> None:
    """The thread that looks ended with an exception, and the worker went on as it was found last."""
    public = Path(f"{make_key(tmp_path / 'alice')}.pub").read_text()
    operators = load_operators(f'alice namespaces="threegate-approval,threegate-act" {public}'.encode(), None)
    assert str(quick_look(operators, tmp_path / "gone")).startswith("disk: ")


def test_enrolment_is_strict() -> None:
    """A verifier key for each, a worker's name, each once."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = SigningKey("w1", Ed25519PrivateKey.generate()).public.render()
    assert set(enrolled(ClusterSettings(workers=(key,)))) == {"w1"}
    bad = VerifierKey("W_1", bytes(32)).render()
    for workers in ((key, key), (bad,), ("w1",)):
        with pytest.raises(InvalidInput):
            enrolled(ClusterSettings(workers=workers))


def test_a_request_that_nobody_signed_makes_no_envelope() -> None:
    """Hand-promoted, unsigned requests run on this machine or not at all."""
    evidence = Evidence("TR.md", b"", None, {}, 1, None, None, "0" * 64, False, None, Platform())
    with pytest.raises(Refused) as caught:
        make_envelope(
            evidence,
            monty_job("1"),
            workspace_id="ws-" + "0" * 32,
            boot="0" * 16,
            worker="w1",
            nonce="0" * 32,
            away_sec=7,
            now=datetime.now(UTC),
        )
    assert caught.value.code == "signature_missing"
