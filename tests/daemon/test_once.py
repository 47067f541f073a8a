"""`run --once` ends, whatever changes in the inbox meanwhile; what keeps changing has its finding."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from threegate.core.user_state import UserState
from threegate.daemon.log import Log
from threegate.daemon.loop import Daemon


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


@contextmanager
def changing(change: Callable[[int], object], seconds: float = 0.005) -> Iterator[None]:
    """Somebody who changes something again and again."""
    stop = threading.Event()

    def work() -> None:
        number = 0
        while not stop.wait(seconds):
            number += 1
            change(number)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def ends(bench: Bench) -> bool:
    """Run a pass; whether it ended by itself."""
    daemon = Daemon(bench.workspace, Log(quiet=True), once=True)
    overdue = threading.Timer(40, daemon.stop.set)
    overdue.start()
    try:
        assert daemon.run() == 0
        return not daemon.stop.is_set()
    finally:
        overdue.cancel()


def rules(bench: Bench, path: Path) -> list[str]:
    verdict = bench.workspace.verdicts / f"{path.name}.json"
    return [word for word in ("TG902", "TG903") if word in verdict.read_text()]


@pytest.mark.parametrize("size", [10, 64 * 1024 * 1024], ids=["hashed in time", "changed while it is hashed"])
def test_an_input_that_keeps_changing_is_a_finding_and_the_pass_ends(bench: Bench, size: int) -> None:
    path = bench.draft()
    other = bench.draft("req-2", slug="other", data=None)
    place = bench.workspace.files / "data.csv"
    place.write_bytes(bytes(size))

    def change(number: int) -> None:
        with place.open("r+b") as stream:
            stream.write(b"%9d" % number)

    with changing(change):
        assert ends(bench)
    assert rules(bench, path) and '"state": "draft"' in (bench.workspace.verdicts / f"{other.name}.json").read_text()


def test_a_draft_that_keeps_changing_does_not_keep_the_pass(bench: Bench) -> None:
    path = bench.draft(data=None)
    text = path.read_text()
    part = path.with_name(".part")

    def change(number: int) -> None:
        part.write_text(text.replace("Sum a column.", f"Sum column {number}."))
        part.rename(path)

    with changing(change):
        assert ends(bench)
    assert (bench.workspace.verdicts / f"{path.name}.json").is_file()


def test_what_a_crash_left_in_the_users_state_folder_is_swept_at_the_start(bench: Bench) -> None:
    folder = UserState.of(bench.workspace.load_settings().workspace.id).folder
    kept = {path.name for path in folder.iterdir()}
    (folder / f".tmp-{'0' * 16}").write_text("half a head")
    (folder / ".tmp-mine").write_text("of somebody else")
    assert ends(bench)
    assert {path.name for path in folder.iterdir()} - {"index", "head.lock"} == (kept | {".tmp-mine"}) - {
        "index",
        "head.lock",
    }
