"""A disk that is full, or a trail that cannot be written, stops new launches and says so; nothing is lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support import Place, make_place, monty_draft, request_id
from threegate.core.errors import Unavailable
from threegate.core.workspace import Workspace
from threegate.launch.results.render import render_result
from threegate.launch.results.result_facts import ResultFacts
from threegate.launch.results.space import deliver_result, reserve_result

pytestmark = pytest.mark.root


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Use up every last block."""
    path = folder / "filler"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    for size in (1 << 20, 4096, 1):
        try:
            while os.write(descriptor, b"x" * size):
                pass
        except OSError:
            continue
    os.close(descriptor)
    return path


def test_a_full_disk_stops_launches_and_loses_nothing(small_disk: Path) -> None:
    place: Place = make_place(small_disk)
    rid = request_id("full")
    draft = place.drop(monty_draft(rid, "1 + 1"))
    place.approve(draft)
    filler = fill(small_disk)
    done = place.once(expect=3)
    assert "full " in done.err and "make room: threegate agent remove RUN, threegate audit prune" in done.err
    assert place.events("started") == []
    assert (place.root / "tool-exec" / "approved" / draft.name).exists()
    filler.unlink()
    place.once()
    assert "status: succeeded" in place.result(rid)
    place.run("audit", "verify", expect=0)


def test_a_full_disk_refuses_an_approval_whole(small_disk: Path) -> None:
    place = make_place(small_disk)
    rid = request_id("full")
    draft = place.drop(monty_draft(rid, "1 + 1"))
    filler = fill(small_disk)
    done = place.run("approve", str(draft), "--key", str(place.key), "--yes")
    assert done.code == 3, done.err
    assert draft.exists()
    assert not list((place.root / "tool-exec" / "approved").iterdir())
    filler.unlink()
    place.once()
    place.approve(draft)
    place.once()
    assert "status: succeeded" in place.result(rid)
    place.run("audit", "verify", expect=0)


def test_a_read_only_trail_stops_everything(small_disk: Path) -> None:
    place = make_place(small_disk)
    place.approve(place.drop(monty_draft(request_id("ro"), "1 + 1")))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    try:
        done = place.run("run", "--once")
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert done.code == 3, done.err
    assert place.events("started") == []
    place.once()
    assert len(place.events("started")) == 1


def test_a_result_that_was_promised_finds_its_space(small_disk: Path) -> None:
    """Others fill the disk while a request runs: its result was reserved before the claim, and fits."""
    workspace = Workspace(make_place(small_disk).root)
    facts = ResultFacts("promised", "refused", datetime.now(UTC), 3, detail="x" * 1000)
    other = ResultFacts("not-promised", "refused", datetime.now(UTC), 4)
    reserve_result(workspace, "promised")
    filler = fill(small_disk)
    with pytest.raises(Unavailable, match="the disk is full"):
        reserve_result(workspace, "not-promised")
    with pytest.raises(OSError, match="No space left"):
        deliver_result(workspace, other)
    path = deliver_result(workspace, facts)
    assert path.read_bytes() == render_result(facts) and path.stat().st_mode & 0o777 == 0o600
    assert [item.name for item in workspace.results.iterdir()] == [path.name]
    filler.unlink()
    reserve_result(workspace, "promised")
    assert deliver_result(workspace, facts) == path, "as recovery does"
    assert [item.name for item in workspace.results.iterdir()] == [path.name]


def test_a_refusal_waits_for_the_space_of_its_result(small_disk: Path) -> None:
    """There is room for an event, none for a result: nothing is announced, and later it is refused with its result."""
    place = make_place(small_disk)
    rid = request_id("full")
    place.approve(place.drop(monty_draft(rid, "1 + 1")))
    path = next((place.root / "tool-exec" / "approved").glob("*.md"))
    path.write_bytes(path.read_bytes() + b"\n")
    place.run("audit", "checkpoint", expect=0)  # the trail has its megabyte now
    filler = fill(small_disk)
    assert place.run("run", "--once").code == 3
    assert place.events("refused") == [] and path.exists()
    filler.unlink()
    place.once()
    assert "status: refused" in place.result(rid)
    place.run("audit", "verify", expect=0)
