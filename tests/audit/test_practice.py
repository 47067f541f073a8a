"""Records of practice: what the trail says of the people at the gate, and nothing that it does not say."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.adversarial.approval.test_terminal import terminal_environment, under_a_terminal
from threegate.audit.practice import Practice, practice_lines
from threegate.cli import execute as run
from threegate.trail import payloads
from threegate.trail.trail import Trail


def command(bench: Bench, *words: str) -> list[str]:
    root = ["-m", "threegate", "--workspace", str(bench.workspace.root)]
    return [sys.executable, *root, *words, "--key", str(bench.keys["alice"])]


class Told:
    """An event as `take` sees it."""

    def __init__(self, payload: payloads.Payload, at: float = 0.0, actor: str = "operator:alice", about: str = "r"):
        self.payload, self.actor, self.request_id = payload, actor, about
        self.when = datetime(2026, 11, 22, 10, tzinfo=UTC) + timedelta(seconds=at)
        self.time = f"{self.when:%Y-%m-%dT%H:%M:%S.000000Z}"
        self.type = getattr(payload, "kind", "of a plugin")


def told(*events: Told, first: str = "") -> Practice:
    practice = Practice(first)
    for event in events:
        practice.take(event)  # type: ignore[arg-type]
    return practice


def approved(**data: Any) -> payloads.Approved:
    return payloads.Approved(approved_by="alice", approval_sha256="0" * 64, **data)


def test_decisions_are_told_for_each_operator() -> None:
    practice = told(
        Told(approved(asked=True, read_seconds=10, read_whole=True)),
        Told(approved(asked=True, read_seconds=30, read_whole=False)),
        Told(approved(asked=False)),
        Told(approved()),
        Told(payloads.Rejected(reason="rejected", message="too wide", read_seconds=20, read_whole=True)),
        Told(payloads.Rejected(reason="rejected", message="too wide")),
        Told(payloads.Rejected(reason="changes_requested", message="2 places", read_seconds=20, read_whole=True)),
        Told(payloads.Rejected(reason="superseded", message="1 of 2 paths")),
        Told(payloads.Countersigned(countersigned_by="bob", read_seconds=5, read_whole=True), actor="operator:bob"),
    )  # fmt: skip
    assert practice.to_json()["operators"] == {
        "alice": {"approved": 4, "approved_in_groups": 0, "rejected": 2, "changes_requested": 1, "taken_in_part": 1,
                  "countersigned": 0, "not_asked": 1, "measured": 4, "median_seconds": 20, "share_read_whole": 0.75},
        "bob": {"approved": 0, "approved_in_groups": 0, "rejected": 0, "changes_requested": 0, "taken_in_part": 0,
                "countersigned": 1, "not_asked": 0, "measured": 1, "median_seconds": 5, "share_read_whole": 1.0},
    }  # fmt: skip
    assert practice.to_json()["rejection_reasons"] == {"too wide": 2}
    lines = practice_lines(practice)
    assert ("rejected because", "too wide (2)") in lines
    assert dict(lines)["decisions of alice"].startswith(
        "4 approved, 2 rejected, 0 countersigned, 1 sent back for changes, 1 taken in part; 20 s from"
    )


def test_a_group_was_read_once() -> None:
    group = [Told(approved(batch_sha256="a" * 64, batch_index=at, read_seconds=40, read_whole=True)) for at in range(3)]
    word = payloads.Countersigned(countersigned_by="bob", nonce="1" * 32, read_seconds=9, read_whole=True)
    practice = told(*group, Told(approved(read_seconds=10, read_whole=False)), *[Told(word)] * 3)
    alice, bob = practice.operators["alice"], practice.operators["bob"]
    assert (alice.approved, alice.grouped, alice.measured, alice.seconds) == (4, 3, 2, [40, 10])
    assert (bob.countersigned, bob.seconds) == (3, [9])
    assert "4 approved (3 in groups)" in dict(practice_lines(practice))["decisions of alice"]


def test_stops_say_how_long_they_took_and_which_came_too_late() -> None:
    cancelled = payloads.Cancelled(status="cancelled")
    practice = told(
        Told(payloads.CancelRequested(message=""), 0, about="a"),
        Told(payloads.CancelRequested(message=""), 0.5, about="a"),
        Told(cancelled, 2, about="a"),
        Told(cancelled, 3, about="never asked by an event"),
        Told(payloads.CancelRequested(message=""), 4, about="b"),
        Told(payloads.Finished(status="succeeded"), 5, about="b"),
        Told(payloads.SessionKilled(scope="subtree", name="s")),
        Told(payloads.SessionKilled(scope="close", name="s")),
    )
    found = practice.to_json()
    assert found["stops"] == {"cancelled": 2, "killed subtree": 1} and found["cancelled_too_late"] == 1
    assert found["stop_seconds"] == {"median": 2.0, "longest": 2.0}


def test_what_ran_under_a_grant_is_nobodys_decision() -> None:
    practice = told(
        Told(payloads.Covering(grant="g" * 32, max_uses=3)),
        Told(payloads.Approved(approved_by="alice", grant="g" * 32)),
        Told(payloads.CoveringEnded(grant="g" * 32)),
        Told(payloads.Approved(approved_by="alice", grant="unknown")),
    )
    found = practice.to_json()
    assert found["operators"] == {}
    assert found["grants"] == {"g" * 32: {"given_by": "alice", "max_uses": 3, "revoked": True, "approved_under_it": 1}}


def test_only_what_is_young_enough_counts_but_an_old_grant_keeps_its_giver() -> None:
    old, young = Told(approved(), 0), Told(approved(), 100)
    practice = told(Told(payloads.Covering(grant="g", max_uses=1), 0), old, young, first=young.time)
    assert practice.to_json()["operators"]["alice"]["approved"] == 1 and "g" in practice.grants


def test_a_person_who_reads_and_signs_is_measured(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    path = bench.draft()
    _, status = under_a_terminal(command(bench, "approve", str(path)), [b"y\n"], terminal_environment())
    assert status == 0
    (event,) = [event for event in Trail(bench.workspace).events() if event.type == "approved"]
    assert event.data["asked"] is True and event.data["read_whole"] is True
    assert 0 <= event.data["read_seconds"] < 60


def test_data_that_is_cut_was_not_read_whole(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    path = bench.draft(data=b"1\n" * 300)
    _, status = under_a_terminal(command(bench, "approve", str(path)), [b"y\n"], terminal_environment())
    assert status == 0
    (event,) = [event for event in Trail(bench.workspace).events() if event.type == "approved"]
    assert event.data["asked"] is True and event.data["read_whole"] is False


def test_nothing_decided_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = make_bench(tmp_path)
    assert run(["--workspace", str(bench.workspace.root), "audit", "stats"]) == 0
    assert "no decisions yet" in capsys.readouterr().out
