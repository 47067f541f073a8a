"""Whatever is in the inbox, and however much of it: the daemon goes on, and what was approved runs."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.support import Place, make_place, monty_draft, request_id, wait_until
from threegate.core import limits
from threegate.core.errors import TrailError
from threegate.core.workspace import Workspace
from threegate.daemon import drafts
from threegate.daemon.drafts import Inbox
from threegate.daemon.input_hashes import PENDING, InputHashes
from threegate.daemon.log import Log


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workspace."""
    return make_place(tmp_path)


def test_broken_settings_and_a_proposal_do_not_end_the_daemon(place: Place) -> None:
    """The proposal is judged by the settings in force; the broken file stops launches and nothing else."""
    daemon = place.daemon()
    try:
        rid = request_id("first")
        place.approve(place.drop(monty_draft(rid, "1")))
        place.wait_for(f"results/TS-*-{rid}.md")
        settings = (place.root / "threegate.toml").read_text()
        (place.root / "threegate.toml").write_text("nonsense = [\n")
        (place.root / "inbox" / "AP-x.json").write_text(
            json.dumps({"tool": "memory.propose", "args": {"content": "x"}})
        )
        place.wait_for("verdicts/AP-x.json.json")
        assert daemon.poll() is None
        (place.root / "threegate.toml").write_text(settings)
        again = request_id("second")
        place.approve(place.drop(monty_draft(again, "2")))
        place.wait_for(f"results/TS-*-{again}.md")
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(30) == 0
    finally:
        daemon.kill()


def test_an_approved_request_runs_while_a_thousand_drafts_are_looked_at(place: Place) -> None:
    for number in range(1500):
        (place.root / "inbox" / f"TR-{number:05}.md").write_bytes(b"")
    rid = request_id("approved")
    place.approve(place.drop(monty_draft(rid, "1")))
    daemon = place.daemon()
    try:
        place.wait_for(f"results/TS-*-{rid}.md", 120)
        looked_at = sum(1 for _ in (place.root / "tool-exec" / "verdicts").glob("TR-0*.md.json"))
        assert looked_at < 1500, "the whole inbox was looked through first"
    finally:
        daemon.kill()
        daemon.wait()


@pytest.mark.slow
def test_large_inputs_are_hashed_beside_the_loop(place: Place) -> None:
    """Twelve sparse inputs of a gibibyte: their draft has no verdict for a while, and everybody else's request runs."""
    names = [f"big-{number}" for number in range(12)]
    for name in names:
        with (place.root / "inbox" / "files" / name).open("wb") as stream:
            stream.truncate(limits.INPUT_FILE_BYTES)
    big = place.drop(monty_draft(request_id("big"), "1", inputs=dict.fromkeys(names, "0" * 64)))
    daemon = place.daemon()
    try:
        rid = request_id("small")
        place.approve(place.drop(monty_draft(rid, "1")))
        place.wait_for(f"results/TS-*-{rid}.md")
        assert not (place.root / "tool-exec" / "verdicts" / f"{big.name}.json").exists()
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(30) == 0, "hashing stops with the daemon"
    finally:
        daemon.kill()


@pytest.mark.root
def test_owners_take_turns_when_inputs_are_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file of one owner is not behind the large ones of another."""
    workspace = Workspace(make_place(tmp_path).root)
    monkeypatch.setattr(limits, "HASH_PIECE_BYTES", 4096)
    order: list[str] = []
    known = threading.Event()
    hashes = InputHashes(workspace, lambda: (order.append("done"), known.set()))  # type: ignore[func-returns-value]
    with (workspace.files / "large").open("wb") as stream:
        stream.truncate(256 << 20)
    (workspace.files / "small").write_bytes(b"x")
    os.chown(workspace.files / "small", 1234, -1)
    try:
        assert hashes.sha256(workspace.files / "large") is PENDING
        assert hashes.sha256(workspace.files / "small") is PENDING
        assert known.wait(60)
        assert hashes.sha256(workspace.files / "small") == hashlib.sha256(b"x").hexdigest()
        assert hashes.sha256(workspace.files / "large") is PENDING
    finally:
        hashes.close()


def test_an_input_that_changes_while_it_is_hashed_is_hashed_again(tmp_path: Path) -> None:
    workspace = Workspace(make_place(tmp_path).root)
    hashes = InputHashes(workspace)
    place = workspace.files / "a"
    try:
        for content in (b"one", b"three"):
            place.write_bytes(content)
            wait_until(lambda: hashes.sha256(place) is not PENDING, "a digest", 30)
            assert hashes.sha256(place) == hashlib.sha256(content).hexdigest()
        place.unlink()
        assert hashes.sha256(place) is None
        os.mkfifo(place)
        assert hashes.sha256(place) is None
    finally:
        hashes.close()


def inbox_of(bench: Bench, **more: object) -> Inbox:
    """An inbox in this process."""
    return Inbox(bench.workspace, bench.context.trail, Log(quiet=True), **more)  # type: ignore[arg-type]


def look_through(inbox: Inbox, bench: Bench) -> None:
    """Look until nothing is new."""
    until = time.monotonic() + 60
    while True:
        did = inbox.scan(bench.context.policy)
        if not did and not inbox.unfinished:
            return
        assert time.monotonic() < until


def test_a_file_that_makes_gate_1_fail_is_its_own_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make_bench(tmp_path)
    real = drafts.read_request

    def fails(data: bytes, **more: object) -> object:
        if b"poison" in data:
            raise RuntimeError("never to be shown: s3cret")
        return real(data, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(drafts, "read_request", fails)
    (bench.workspace.inbox / "TR-a.md").write_bytes(b"poison")
    good = bench.draft()
    inbox = inbox_of(bench)
    try:
        look_through(inbox, bench)
    finally:
        inbox.close()
    said = (bench.workspace.verdicts / "TR-a.md.json").read_text()
    assert "internal error: RuntimeError at" in said and "s3cret" not in said
    assert json.loads((bench.workspace.verdicts / f"{good.name}.json").read_text())["state"] == "draft"


def test_a_trail_that_fails_is_nobodys_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make_bench(tmp_path)

    def fails(*words: object, **more: object) -> object:
        raise TrailError("the trail does not verify")

    monkeypatch.setattr(drafts, "read_request", fails)
    (bench.workspace.inbox / "TR-a.md").write_bytes(b"x")
    inbox = inbox_of(bench)
    try:
        with pytest.raises(TrailError):
            inbox.scan(bench.context.policy)
    finally:
        inbox.close()


def test_proposals_count_against_their_owners_budget_of_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make_bench(tmp_path)
    monkeypatch.setattr(limits, "TRAIL_EVENTS_PER_OWNER_MINUTE", 5)
    monkeypatch.setattr(drafts.EventBudget, "has_room", lambda self, owner: self._used.get(owner, 0) < 5)
    monkeypatch.setattr("threegate.daemon.event_budget.time.monotonic", lambda: 600.0)
    taken: list[str] = []
    for number in range(12):
        (bench.workspace.inbox / f"AP-{number:02}.json").write_text("{}")
    inbox = inbox_of(bench, takers={"proposals": ("AP-*.json", lambda path, data, owner: taken.append(path.name))})
    try:
        for _ in range(3):
            inbox.scan(bench.context.policy, seconds=1e9)
    finally:
        inbox.close()
    assert len(taken) == 5, "the others are looked at again in the next minute"


def test_a_slice_ends_and_the_next_one_goes_on(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    for number in range(5):
        (bench.workspace.inbox / f"TR-{number}.md").write_bytes(b"")
    inbox = inbox_of(bench)
    try:
        looks = [inbox.scan(bench.context.policy, seconds=0.0) for _ in range(6)]
        assert looks[:5] == [1, 1, 1, 1, 1] and inbox.in_between is False
    finally:
        inbox.close()


def test_a_digest_that_is_known_before_the_look_ends_is_not_forgotten(tmp_path: Path) -> None:
    """A draft that waits for two inputs gets its verdict, however the looks and the hashing fall together."""
    bench = make_bench(tmp_path)
    digests = {}
    for number in range(4):
        (bench.workspace.files / f"in-{number}").write_bytes(b"%d" % number)
        digests[f"in-{number}"] = hashlib.sha256(b"%d" % number).hexdigest()
    rid = request_id("four")
    (bench.workspace.inbox / f"{rid}.md").write_text(monty_draft(rid, "1", inputs=digests))
    inbox = inbox_of(bench)
    try:
        # Each digest is known before the next look, and before this one forgot what is gone.
        wait_until(lambda: inbox.scan(bench.context.policy) is not None and not inbox.unfinished, "a verdict", 30)
    finally:
        inbox.close()
    assert json.loads((bench.workspace.verdicts / f"{rid}.md.json").read_text())["state"] == "draft"
