"""The nonce journal: on disk before it is true, spent over a restart, and broken files start nothing."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from threegate.core import durable, limits
from threegate.core.errors import Refused, Unavailable
from threegate.plugins.cluster.worker import journal as journal_module
from threegate.plugins.cluster.worker.journal import NonceJournal, Spent

NOW = datetime(2026, 5, 1, tzinfo=UTC)
os_open = os.open


def spent(number: int, *, at: datetime = NOW, lives: int = 3600, grant: str | None = None) -> Spent:
    """An entry of its own."""
    second = int(at.timestamp())
    return Spent(f"{number:032x}", f"{number + 1000:032x}", f"TR-{number}", grant, second + lives, second)


def test_spent_stays_spent_over_a_restart(tmp_path: Path) -> None:
    """Nonce, approval and request, each for itself; and a grant's uses."""
    path = tmp_path / "nonces.jsonl"
    journal = NonceJournal(path, now=NOW)
    journal.spend(spent(1, grant="g"))
    journal.spend(spent(2, grant="g"))
    journal.close()
    journal = NonceJournal(path, now=NOW)
    assert journal.used(spent(1).nonce) and journal.used(spent(1).approval) and journal.ran("TR-1")
    assert not journal.used("0" * 32) and not journal.ran("TR-3")
    assert journal.grant_uses("g") == 2 and journal.grant_uses("h") == 0
    for entry in (
        replace(spent(3), nonce=spent(1).nonce),
        replace(spent(3), approval=spent(1).approval),
        replace(spent(3), request_id="TR-1"),
    ):
        with pytest.raises(Refused, match="before"):
            journal.spend(entry)
    journal.close()


def test_what_got_no_token_is_given_back_over_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Approval, request and grant may come again, in another envelope. What cannot be written stays spent."""
    path = tmp_path / "nonces.jsonl"
    journal = NonceJournal(path, now=NOW)
    for number in (1, 2):
        journal.spend(spent(number, grant="g"))
    with monkeypatch.context() as patch:
        patch.setattr(durable, "write_fd", full)
        journal.give_back(spent(2).nonce)
    journal.give_back(spent(1).nonce)
    for _ in range(2):
        assert journal.used(spent(1).nonce), "the envelope stays used up"
        assert not journal.used(spent(1).approval) and not journal.ran("TR-1")
        assert journal.used(spent(2).approval) and journal.ran("TR-2") and journal.grant_uses("g") == 1
        journal.close()
        journal = NonceJournal(path, now=NOW)
    journal.spend(replace(spent(3), approval=spent(1).approval, request_id="TR-1"))
    journal.close()


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_the_entry_is_synced_before_it_is_true(tmp_path: Path) -> None:
    """A power cut at the sync: nobody was told that it may start; the entry counts as spent all the same."""
    journal = NonceJournal(tmp_path / "nonces.jsonl", now=NOW)
    told: list[str] = []

    def fail(moment: str, operation: str, path: str) -> None:
        told.append(f"{moment} {operation}")
        if (moment, operation) == ("before", "sync"):
            raise OSError(5, "Input/output error")

    stop = durable.observe(fail)
    with pytest.raises(Unavailable, match="nothing is started"):
        journal.spend(spent(1))
    stop()
    assert told[-1] == "before sync" and "after write" in told
    assert journal.used(spent(1).nonce)
    journal.close()


def test_what_has_expired_goes_with_a_restart(tmp_path: Path) -> None:
    """Kept until its end, then forgotten; but never when the clock lies behind the journal."""
    path = tmp_path / "nonces.jsonl"
    journal = NonceJournal(path, now=NOW)
    journal.spend(spent(1, lives=60))
    journal.spend(spent(2, lives=7200))
    journal.close()
    journal = NonceJournal(path, now=NOW - timedelta(hours=1))
    assert journal.used(spent(1).nonce)
    assert journal.clock_behind(NOW - timedelta(hours=1)) == 3600
    journal.close()
    journal = NonceJournal(path, now=NOW + timedelta(hours=1))
    assert not journal.used(spent(1).nonce) and journal.used(spent(2).nonce)
    assert journal.clock_behind(NOW + timedelta(hours=2)) == 0
    journal.close()
    journal = NonceJournal(path, now=NOW + timedelta(days=1))
    with pytest.raises(Refused, match="clock"):
        journal.spend(spent(9, at=NOW - timedelta(hours=1)))
    journal.close()


def test_a_clock_that_was_set_back_finds_nothing_forgotten(tmp_path: Path) -> None:
    """What was forgotten had ended by the clock of then: an earlier clock, by which it has not, starts nothing."""
    path = tmp_path / "nonces.jsonl"
    journal = NonceJournal(path, now=NOW)
    journal.spend(spent(1, lives=7200))
    journal.close()
    for late in (timedelta(hours=2, seconds=1), timedelta(hours=3)):
        journal = NonceJournal(path, now=NOW + late)
        journal.close()
        for back in (timedelta(seconds=2), timedelta(minutes=90)):
            now = NOW + late - back
            journal = NonceJournal(path, now=now)
            ended = now >= NOW + timedelta(hours=2)
            assert ended or journal.used(spent(1).nonce) or journal.clock_behind(now) > limits.CLOCK_BEHIND_SECONDS
            journal.close()


def test_what_a_full_disk_left_of_a_line_spoils_no_later_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the line was written behind it: no worker could read its journal again."""
    path = tmp_path / "nonces.jsonl"
    journal = NonceJournal(path, now=NOW)
    journal.spend(spent(1))

    def torn(descriptor: int, data: bytes, _: Path) -> None:
        os.write(descriptor, data[:20])
        raise OSError(28, "No space left on device")

    for fails in (lambda: journal.spend(spent(2)), lambda: journal.give_back(spent(1).nonce)):
        with monkeypatch.context() as patch, contextlib.suppress(Unavailable):
            patch.setattr(durable, "write_fd", torn)
            fails()
        assert b"\n" not in path.read_bytes()[-1:]
        journal.spend(spent(3 + len(path.read_bytes())))
    journal.close()
    journal = NonceJournal(path, now=NOW)
    assert journal.used(spent(1).approval) and journal.used(spent(2).nonce), "what may be on disk is spent"
    journal.close()


def test_a_journal_that_cannot_be_opened_again_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was renamed into place, and then there was no descriptor for it: the entries went into the old file."""
    monkeypatch.setattr(journal_module, "LINES_BEFORE_REWRITE", 2)
    path = tmp_path / "nonces.jsonl"
    journal = NonceJournal(path, now=NOW)
    for number in (1, 2):
        journal.spend(spent(number, lives=60))
    later = NOW + timedelta(hours=1)

    def opened(name: object, *flags: Any, **named: Any) -> int:
        if name == path:
            raise OSError(24, "Too many open files")
        return os_open(name, *flags, **named)

    with monkeypatch.context() as patch, contextlib.suppress(Unavailable):
        patch.setattr(journal_module.os, "open", opened)
        journal.spend(spent(3, at=later))
    journal.spend(spent(4, at=later))
    journal.close()
    journal = NonceJournal(path, now=later)
    assert journal.used(spent(4).nonce)
    journal.close()


def test_a_torn_last_line_was_never_a_start(tmp_path: Path) -> None:
    """What has no newline was not synced; every whole line must be an entry."""
    path = tmp_path / "nonces.jsonl"
    journal = NonceJournal(path, now=NOW)
    journal.spend(spent(1))
    journal.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"nonce":"22')
    journal = NonceJournal(path, now=NOW)
    assert journal.used(spent(1).nonce)
    journal.close()
    for broken in (
        b"{}\n",
        b'{"nonce":1}\n',
        b"x\n",
        b'{"latest":"a"}\n',
        whole.replace(b'"at":', b'"at":1.5,"_":'),
    ):
        path.write_bytes(broken)
        with pytest.raises(Unavailable, match="nothing starts until it is fixed"):
            NonceJournal(path, now=NOW)
    path.write_bytes(whole)
    NonceJournal(path, now=NOW).close()


def test_one_worker_one_journal(tmp_path: Path) -> None:
    """A second worker on the same state folder does not begin; an unreadable journal neither."""
    path = tmp_path / "nonces.jsonl"
    journal = NonceJournal(path, now=NOW)
    with pytest.raises(Unavailable, match="another worker"):
        NonceJournal(path, now=NOW)
    journal.close()
    path.unlink()
    path.mkdir()
    with pytest.raises(Unavailable):
        NonceJournal(path, now=NOW)


def test_it_is_written_anew_when_it_grew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After many lines only what still counts is kept."""
    monkeypatch.setattr(journal_module, "LINES_BEFORE_REWRITE", 3)
    path = tmp_path / "nonces.jsonl"
    journal = NonceJournal(path, now=NOW)
    for number in range(3):
        journal.spend(spent(number, lives=60))
    journal.spend(spent(9, at=NOW + timedelta(hours=1)))
    assert path.read_bytes().count(b"\n") == 2
    journal.spend(spent(10, at=NOW + timedelta(hours=1)))
    journal.close()
    journal = NonceJournal(path, now=NOW + timedelta(hours=1))
    assert journal.used(spent(9).nonce) and journal.used(spent(10).nonce) and not journal.used(spent(0).nonce)
    journal.close()
    assert oct(os.stat(path).st_mode & 0o777) == "0o600"
