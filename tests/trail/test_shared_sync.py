"""Threads that announce at the same time share a sync, and none goes on before its own event is on disk."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.trail.workspaces import make_workspace
from threegate.core import durable
from threegate.core.errors import TrailError
from threegate.trail.event import Event
from threegate.trail.payloads import Observed, Rotated
from threegate.trail.trail import Trail
from threegate.trail.verify import verify_trail

THREADS, EACH = 8, 12


@pytest.fixture(name="trail")
def a_trail(tmp_path: Path) -> Trail:
    return make_workspace(tmp_path / "ws")[1]


def everybody(trail: Trail, announce) -> list[BaseException]:
    """Each of the threads announces its events; what they ended with."""
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(EACH):
                announce(trail, number, turn)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return errors


def slow_disk(seconds: float) -> None:
    time.sleep(seconds)


def test_one_sync_for_many_and_none_too_early(trail: Trail) -> None:
    on_disk, syncs, early, whole = [0], [0], [], 1 + THREADS * EACH
    here = threading.local()

    def watch(moment: str, operation: str, path: str) -> None:
        if operation != "sync" or not path.endswith("trail.jsonl"):
            return
        if moment == "before":
            if not here.holds_the_lock:  # the first sync of all begins when each thread has appended its first event
                wait_until(lambda: Path(path).read_bytes().count(b"\n") >= THREADS)
            slow_disk(0.02)
            here.size = os.stat(path).st_size
        else:
            syncs[0] += 1
            on_disk[0] = max(on_disk[0], here.size)

    def announce(trail: Trail, number: int, turn: int) -> None:
        here.holds_the_lock = number == 0 and turn % 3 == 0
        if here.holds_the_lock:
            with trail.locked() as held:
                event: Event = held.append(Observed.from_data({"turn": turn}), actor="t")
                held.sync()
        else:
            event = trail.announce(Observed.from_data({"number": number, "turn": turn}), actor="t")
        synced = on_disk[0]
        with trail.workspace.trail_file.open("rb") as file:
            if event.line not in file.read(synced).splitlines():
                early.append(event.seq)

    forget = durable.observe(watch)
    try:
        assert everybody(trail, announce) == []
    finally:
        forget()
    assert early == []
    assert syncs[0] <= THREADS * (EACH - 1) + 3, "at least the first events of the threads have one sync"
    trail.close()
    result = verify_trail(trail.workspace)
    assert result.ok and result.lines == whole


def test_nobody_goes_on_after_a_sync_that_failed(trail: Trail) -> None:
    went_on: list[int] = []

    def fail(moment: str, operation: str, path: str) -> None:
        if (moment, operation) == ("before", "sync"):
            slow_disk(0.003)
            raise OSError(5, "Input/output error", path)

    def announce(trail: Trail, number: int, turn: int) -> None:
        went_on.append(trail.announce(Observed(), actor="t").seq)

    forget = durable.observe(fail)
    try:
        errors = everybody(trail, announce)
    finally:
        forget()
    assert went_on == [] and len(errors) == THREADS and all(isinstance(error, TrailError) for error in errors)
    with pytest.raises(TrailError, match="stop this process"):
        trail.announce(Observed(), actor="t")
    trail.close()


def test_a_rotation_in_between(trail: Trail) -> None:
    """The file is closed under the threads that wait for its sync."""

    def announce(trail: Trail, number: int, turn: int) -> None:
        if number == 0:
            with trail.locked() as held:
                tree = held.index.frontier
                held.rotate(Rotated(size=tree.size, root=tree.root().hex()), actor="t")
        else:
            trail.announce(Observed(), actor="t")

    assert everybody(trail, announce) == []
    trail.close()
    assert verify_trail(trail.workspace).ok
