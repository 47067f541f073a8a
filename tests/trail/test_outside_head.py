"""The head outside while several threads advance it: whole, the latest one, and of this trail at this place alone."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from threegate.core.errors import Unavailable
from threegate.core.user_state import UserState

HEAD: dict[str, str | int] = {"id": "ws-1", "path": "/ws", "epoch": 1, "seq": 5, "hash": "5"}


@pytest.fixture
def outside(tmp_path: Path) -> UserState:
    made = UserState(tmp_path)
    made.write_head(HEAD)
    return made


def at(seq: int) -> dict[str, str | int]:
    return {**HEAD, "seq": seq, "hash": str(seq)}


def test_it_goes_forward_and_never_back(outside: UserState) -> None:
    outside.advance_head(at(7))
    outside.advance_head(at(6))
    assert outside.read_head() == at(7)
    outside.write_head(at(2))
    assert outside.read_head() == at(2), "an adoption says what holds from now on"


@pytest.mark.parametrize("other", [{"id": "ws-2"}, {"path": "/elsewhere"}, {"epoch": 2}])
def test_the_head_of_another_trail_or_place_is_left_alone(outside: UserState, other: dict) -> None:
    outside.write_head({**HEAD, **other})
    with pytest.raises(Unavailable, match="another trail or place"):
        outside.advance_head(at(9))
    assert outside.read_head() == {**HEAD, **other}


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b"[" * 60_000])
def test_what_is_no_head_is_named(outside: UserState, data: bytes) -> None:
    outside.head_file.write_bytes(data)
    with pytest.raises(Unavailable, match="head.json: "):
        outside.read_head()


def test_a_head_that_is_gone_is_not_made_anew(outside: UserState) -> None:
    outside.head_file.unlink()
    with pytest.raises(Unavailable):
        outside.advance_head(at(9))
    assert outside.read_head() is None


def test_many_at_once_leave_the_latest(outside: UserState) -> None:
    seqs = list(range(6, 206))
    random.Random(8).shuffle(seqs)
    seen: list[dict] = []
    done = threading.Event()

    def advance(part: list[int]) -> None:
        for seq in part:
            UserState(outside.folder).advance_head(at(seq))

    def read() -> None:
        while not done.is_set():
            seen.append(dict(outside.read_head() or {}))

    reader = threading.Thread(target=read)
    threads = [threading.Thread(target=advance, args=(seqs[number::4],)) for number in range(4)]
    for thread in (reader, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    reader.join()
    assert outside.read_head() == at(205)
    assert len(seen) > 1 and all(value == at(value["seq"]) for value in seen), "each was read whole"
