"""A requester fills the workspace's disk, with bytes or with names: others are still stopped, and served later."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import few
from tests.contracts.test_daemon import lay
from tests.small_disk import FILL, small_disk
from tests.support import THREEGATE, Place, make_key, make_place, monty_draft, request_id, wait_until
from threegate.aana.decision_log import DecisionLog

pytestmark = pytest.mark.root
EACH = pytest.mark.parametrize("what", few(FILL, 1))
ENDLESS = "while True:\n    pass"


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A workspace on a disk of its own, as is what ThreeGate keeps outside of it."""
    folder = Path(tempfile.mkdtemp(prefix="threegate-full-"))
    try:
        with small_disk(folder / "disk") as disk:
            monkeypatch.setenv("XDG_STATE_HOME", str(disk / "state"))
            yield make_place(disk, settings={"runners.monty.workers": 2})
    finally:
        shutil.rmtree(folder)


@contextmanager
def daemon(place: Place) -> Iterator[Path]:
    """A daemon, which may not end before the block does; its log is not on the full disk."""
    log = place.root.parent.parent / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen([*THREEGATE, "run"], cwd=place.root, stdout=stream, stderr=stream)
        try:
            wait_until(lambda: "ready " in log.read_text(), log.read_text)
            yield log
            assert process.poll() is None, "the daemon ended"
        finally:
            process.terminate()
            process.wait(60)
            print(log.read_text())  # shown where a test fails


def seen(place: Place, kind: str, rid: str) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        return [event for event in place.events(kind) if event.get("request_id") == rid]

    return wait_until(found, f"{kind} of {rid}")[0]


@EACH
def test_one_empty_file_does_not_end_the_daemon(place: Place, what: str) -> None:
    """What ended it: a verdict that finds no space. It is written as soon as there is some."""
    empty = place.root / "inbox" / ".empty"
    empty.touch()
    filler = FILL[what](place.root.parent)
    with daemon(place) as log:
        FILL[what](place.root.parent)  # what the start left of the spare files that it took
        empty.rename(empty.with_name("TR-empty.md"))
        wait_until(lambda: "full " in log.read_text(), "the daemon's word that the disk is full")
        assert not list(place.root.glob("tool-exec/verdicts/*"))
        remove(filler)
        place.wait_for("verdicts/TR-empty.md.json")
        rid = request_id("later")
        place.approve(place.drop(monty_draft(rid, "1 + 1")))
        place.wait_for(f"results/TS-*-{rid}.md")
        assert log.read_text().count("\nfull ") == log.read_text().count("\nspace ") == 1
    place.run("audit", "verify", expect=0)


@EACH
def test_cancel_reject_and_kill_work(place: Place, what: str) -> None:
    lay(place, {"threegate.monty": {"timeouts": {"total_ms": 120_000}}})
    place.run("contracts", "open", "mine", expect=0)
    place.run("contracts", "open", "other", expect=0)
    other = make_key(place.root.parent.parent / "other")
    place.run("operator", "add", "other", "--key", f"{other}.pub", expect=0)
    running, waiting, killed = (request_id(name) for name in ("running", "waiting", "killed"))
    for rid, more in ((running, {}), (killed, {"extra": "session_id: mine\n"})):
        place.approve(place.drop(monty_draft(rid, ENDLESS, time_sec=100, **more)))
    refused = [place.drop(monty_draft(request_id(f"draft-{number}"), "1")) for number in range(3)]
    with daemon(place):
        for rid in (running, killed):
            seen(place, "started", rid)
        for draft in refused:
            place.wait_for(f"verdicts/{draft.name}.json")
        place.approve(place.drop(monty_draft(waiting, "1 + 1")))  # both rows are taken
        filler = FILL[what](place.root.parent)
        assert place.run("cancel", waiting, expect=0).out.startswith(f"cancelled {waiting}: it was waiting")
        for draft in refused:
            place.run("reject", str(draft), "--reason", "no", expect=0)
        assert "was running and was killed" in place.run("cancel", running, expect=0).out
        place.run("contracts", "kill", "session", "mine", expect=0)
        assert seen(place, "cancelled", killed)["data"]["contract"]["session"] == "mine"
        place.run("contracts", "kill", "session", "other", expect=0)
        place.run("operator", "revoke", "other", expect=0)
        place.run("audit", "verify", expect=0)
        listed = json.loads(place.run("status", "--json", expect=0).out)["requests"]
        assert len(listed) == len({line["file"] for line in listed}) == 6, listed
        assert {line["state"] for line in listed} == {"refused"}, listed
        remove(filler)
        rid = request_id("another")
        place.approve(place.drop(monty_draft(rid, "1 + 1")))
        place.wait_for(f"results/TS-*-{rid}.md")
        place.wait_for("control/reserve/spare-47")
    place.run("audit", "verify", expect=0)
    for rid in (running, killed):
        assert "status: cancelled" in place.result(rid)


def test_a_rejection_that_finds_no_space_changes_nothing(place: Place) -> None:
    """Without the reserve, and with space for its result only: it was listed as waiting and as refused."""
    draft = place.drop(monty_draft(request_id("draft"), "1"))
    shutil.rmtree(place.root / "tool-exec/control/reserve")
    filler = FILL["names"](place.root.parent)
    (filler / "0").unlink()
    assert "1 files can still be made" in place.run("doctor").out
    done = place.run("reject", str(draft), "--reason", "no", expect=3)
    assert "No space left on device; make room on this disk" in done.err
    [line] = json.loads(place.run("status", "--json", expect=0).out)["requests"]
    assert line["state"] == "draft"
    assert place.events("rejected") == []
    remove(filler)
    place.run("reject", str(draft), "--reason", "no", expect=0)
    [line] = json.loads(place.run("status", "--json", expect=0).out)["requests"]
    assert line["state"] == "refused"
    place.run("audit", "verify", expect=0)


def test_a_decision_that_finds_no_space_leaves_no_part_of_its_line(tmp_path: Path) -> None:
    """The next decision would be appended to that part, and no longer be a line."""
    with small_disk(tmp_path / "disk", mib=1) as disk:
        log = DecisionLog(disk / "decisions.jsonl")
        words: dict[str, Any] = {
            "names": {},
            "verdict": "block",
            "codes": [],
            "surface": "api",
            "now": datetime.now(UTC),
        }
        log.record_verdict("proposal_verdict/1", 1, **words)
        whole = log.path.read_bytes()
        log.path.write_bytes(whole + b" " * (4_086 - len(whole)))  # ten bytes of its last block are left
        filler = FILL["bytes"](disk)
        with pytest.raises(OSError, match="No space"):
            log.record_verdict("proposal_verdict/1", 2, **words)
        assert log.path.stat().st_size == 4_086
        remove(filler)
        log.record_verdict("proposal_verdict/1", 2, **words)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
