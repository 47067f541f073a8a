"""The trail on disk: its lock, its index, what happens to its end, and what is kept outside."""

from __future__ import annotations

import errno
import json
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.trail.workspaces import WORKSPACE_ID, TickingClock, approve, grow, make_workspace, run
from threegate.core import durable
from threegate.core.errors import TrailError, Unavailable
from threegate.core.user_state import UserState
from threegate.trail import moves
from threegate.trail.payloads import ApprovalAbandoned, Observed, Quarantined, Rotated
from threegate.trail.trail import Trail


def test_a_new_trail_has_its_first_event_key_and_outside_head(tmp_path: Path) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")
    (first,) = trail.events()
    assert (first.seq, first.type, first.prev) == (1, "workspace_created", WORKSPACE_ID)
    assert first.data["vkey"] == (workspace.audit / "workspace.pub").read_text().strip()
    outside = UserState.of(WORKSPACE_ID)
    assert outside.key_file.stat().st_mode & 0o777 == 0o600
    assert outside.read_head() == {
        "id": WORKSPACE_ID, "path": str(workspace.root), "epoch": 1, "seq": 1, "hash": first.hash,
    }  # fmt: skip
    with pytest.raises(TrailError, match="already"):
        Trail.create(workspace, workspace_id=WORKSPACE_ID, actor="x")


def test_the_index_knows_what_was_used(tmp_path: Path) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")
    with trail.locked() as held:
        path = approve(held, "r-1")
        index = held.index
        history = index.history("r-1")
        assert history is not None and history.approved is not None
        assert (history.state, history.file, history.owner) == ("approved", path.name, 1000)
        assert index.id_used("r-1") and index.name_used(path.name) and not index.nonce_used("nonce-r-1")
        assert index.nonce_known("nonce-r-1") and not history.interrupted
        assert not index.id_used("r-2") and index.history("r-2") is None
    run(trail, "r-1")
    with Trail(workspace).locked() as held:
        history = held.index.history("r-1")
        assert history is not None and history.end is not None and history.end.type == "finished"
        assert history.state == "finished" and held.index.nonce_used("nonce-r-1")
        before = (history.end, history.state)
        moves.announce(
            held, Quarantined.from_data({"reason": "replayed", "state": "refused", "file": "TR-x.2.md"}), request_id="r-1", actor="daemon",  # noqa: E501
        )  # fmt: skip
        after = held.index.history("r-1")
        assert after is not None and (after.end, after.state) == before
        assert (history.last.type, after.last.type) == ("finished", "quarantined"), "a history is a value"


def test_an_abandoned_approval_frees_id_and_name(tmp_path: Path) -> None:
    _, trail = make_workspace(tmp_path / "ws")
    with trail.locked() as held:
        path = approve(held, "r-1")
        moves.announce(held, ApprovalAbandoned(), request_id="r-1", actor="daemon")
        assert not held.index.id_used("r-1") and not held.index.name_used(path.name)
        history = held.index.history("r-1")
        assert history is not None and history.abandoned and history.state is None
        durable.unlink(path)
        durable.unlink(path.with_name(path.name + ".sig"))
        approve(held, "r-1")
        again = held.index.history("r-1")
        assert held.index.id_used("r-1") and again is not None and not again.abandoned


def test_two_readers_see_each_others_events(tmp_path: Path) -> None:
    workspace, one = make_workspace(tmp_path / "ws")
    two = Trail(workspace)
    for number in range(20):
        with (one, two)[number % 2].locked() as held:
            assert held.index.head.seq == number + 1
            moves.announce(held, Observed(), actor="x")
    assert [event.seq for event in one.events()] == list(range(1, 22))


def test_many_threads_never_share_a_number(tmp_path: Path) -> None:
    workspace, trail = make_workspace(tmp_path / "ws", clock=TickingClock())
    other = Trail(workspace)

    def work(which: Trail) -> None:
        for _ in range(15):
            with which.locked() as held:
                moves.announce(held, Observed(), actor="thread")

    threads = [threading.Thread(target=work, args=(which,)) for which in (trail, other) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [event.seq for event in trail.events()] == list(range(1, 122))


def test_several_events_share_one_sync(tmp_path: Path) -> None:
    _, trail = make_workspace(tmp_path / "ws")
    seen: list[str] = []
    with trail.locked() as held:
        stop = durable.observe(lambda moment, operation, path: seen.append(operation) if moment == "after" else None)
        try:
            for _ in range(10):
                held.append(Observed(), actor="x")
            assert "write" not in seen
            held.sync()
        finally:
            stop()
    assert seen.count("sync") == 1 and seen.count("write") == 1


def test_what_was_appended_is_written_even_when_the_block_raises(tmp_path: Path) -> None:
    _, trail = make_workspace(tmp_path / "ws")
    with pytest.raises(RuntimeError), trail.locked() as held:
        held.append(Observed(), actor="x")
        raise RuntimeError
    assert len(list(trail.events())) == 2
    with pytest.raises(TrailError, match="given back"):
        held.append(Observed(), actor="x")


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_after_a_failed_write_the_trail_is_never_used_again(tmp_path: Path, operation: str) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")

    def fail(moment: str, what: str, path: str) -> None:
        if moment == "before" and what == operation and path.endswith("trail.jsonl"):
            raise OSError(errno.EIO, "Input/output error")

    stop = durable.observe(fail)
    try:
        with pytest.raises(TrailError, match="stops"), trail.locked() as held:
            moves.announce(held, Observed(), actor="x")
    finally:
        stop()
    with pytest.raises(TrailError, match="stop this process"), trail.locked():
        pass
    with Trail(workspace).locked() as held:
        assert held.index.head.seq == (2 if operation == "sync" else 1)


def test_a_full_disk_stops_before_anything_is_promised(tmp_path: Path) -> None:
    _, trail = make_workspace(tmp_path / "ws")

    def full(moment: str, what: str, path: str) -> None:
        if moment == "before" and what == "reserve":
            raise OSError(errno.ENOSPC, "No space left on device")

    stop = durable.observe(full)
    try:
        with pytest.raises(Unavailable, match="disk is full"), trail.locked() as held:
            moves.announce(held, Observed(), actor="x")
    finally:
        stop()
    with trail.locked() as held:
        assert moves.announce(held, Observed(), actor="x").seq == 2


def test_a_torn_end_is_set_aside_and_told(tmp_path: Path) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")
    grow(trail, 5)
    whole = workspace.trail_file.read_bytes()
    with trail.locked() as held:
        held.append(Observed(), actor="x")
    torn = workspace.trail_file.read_bytes()[len(whole) :]
    for length in (1, len(torn) // 2, len(torn) - 1):
        workspace.trail_file.write_bytes(whole + torn[:length])
        fresh = Trail(workspace)
        with fresh.locked() as held:
            assert held.index.head.seq == 6
            assert held.index.counts["quarantined"] == 1
        (line,) = fresh.fixed
        assert "set aside" in line
        kept = [path for path in workspace.audit.iterdir() if path.name.startswith("torn-")]
        assert torn[:length] in [path.read_bytes() for path in kept]


@pytest.mark.parametrize("what", ["outside", "state", "result"])
def test_an_end_that_something_is_ahead_of_was_cut_and_stops_everything(tmp_path: Path, what: str) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")
    with trail.locked() as held:
        approve(held, "r-1")
    short = workspace.trail_file.read_bytes()
    if what == "outside":
        with trail.locked() as held:
            held.append(Observed(), actor="x")
            held.keep_head()
    elif what == "state":
        with trail.locked() as held:
            approve(held, "r-2")
    else:
        with trail.locked() as held:
            moves.announce(held, Observed(), actor="x")
        (workspace.results / "TS-x.md").write_text("---\ntrail_seq: 3\n---\n")
    workspace.trail_file.write_bytes(short + b'{"torn')
    with pytest.raises(TrailError, match="ahead of what remains"), Trail(workspace).locked():
        pass


def test_whole_lines_after_a_bad_one_are_no_torn_end(tmp_path: Path) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")
    grow(trail, 5)
    lines = workspace.trail_file.read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b'"valid":true', b'"valid":false')
    workspace.trail_file.write_bytes(b"\n".join(lines))
    with pytest.raises(TrailError, match="not a torn end"), Trail(workspace).locked():
        pass


def test_the_clock_that_goes_back_never_makes_an_event_older(tmp_path: Path) -> None:
    clock = TickingClock()
    _, trail = make_workspace(tmp_path / "ws", clock=clock)
    clock.moment -= timedelta(hours=1)
    with trail.locked() as held:
        assert 3590 < held.clock_behind_seconds < 3601
        assert held.now >= datetime(2026, 1, 1, tzinfo=UTC)
        event = moves.announce(held, Observed(), actor="x")
    assert [item.time for item in trail.events()] == sorted(item.time for item in trail.events())
    assert event.when.year == 2026


class TestOutsideHead:
    """What a restored, copied, moved or cut workspace looks like."""

    def problem(self, workspace) -> str | None:
        with Trail(workspace).locked() as held:
            return held.outside_problem()

    def test_agrees(self, tmp_path: Path) -> None:
        workspace, trail = make_workspace(tmp_path / "ws")
        grow(trail, 10)
        assert self.problem(workspace) is None

    def test_a_restored_backup(self, tmp_path: Path) -> None:
        workspace, trail = make_workspace(tmp_path / "ws")
        backup = workspace.trail_file.read_bytes()
        with trail.locked() as held:
            held.append(Observed(), actor="x")
            held.keep_head()
        workspace.trail_file.write_bytes(backup)
        assert "cut or restored" in str(self.problem(workspace))

    def test_a_backup_that_went_on(self, tmp_path: Path) -> None:
        workspace, trail = make_workspace(tmp_path / "ws")
        backup = workspace.trail_file.read_bytes()
        with trail.locked() as held:
            held.append(Observed(), actor="x")
            held.keep_head()
        workspace.trail_file.write_bytes(backup)
        with Trail(workspace).locked() as held:
            held.append(Observed(), actor="somebody else")
            held.append(Observed(), actor="somebody else")
        assert "was replaced" in str(self.problem(workspace))

    def test_a_copy_elsewhere(self, tmp_path: Path) -> None:
        workspace, _ = make_workspace(tmp_path / "ws")
        (tmp_path / "ws").rename(tmp_path / "other")
        workspace = type(workspace)(tmp_path / "other")
        assert "copied or moved" in str(self.problem(workspace))

    def test_no_head_here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        workspace, _ = make_workspace(tmp_path / "ws")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
        assert "no head" in str(self.problem(workspace))

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"id": "ws-x"}, "another workspace"),
            ({"epoch": 2}, "epoch"),
            ({"seq": "1"}, "no event"),
            ({"hash": "0"}, "replaced"),
        ],
    )
    def test_a_head_that_says_something_else(self, tmp_path: Path, change, words: str) -> None:
        workspace, _ = make_workspace(tmp_path / "ws")
        outside = UserState.of(WORKSPACE_ID)
        outside.head_file.write_text(json.dumps({**outside.read_head(), **change}))
        assert words in str(self.problem(workspace))


def test_a_trail_that_another_program_appended_to_is_not_believed(tmp_path: Path) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")
    grow(trail, 4)
    line = workspace.trail_file.read_bytes().split(b"\n")[2] + b"\n"
    with open(workspace.trail_file, "ab") as file:
        file.write(line)
    with pytest.raises(TrailError, match="seq"), trail.locked():
        pass
    with pytest.raises(TrailError, match=":5:"):
        list(trail.events())


def test_a_shorter_a_changed_and_a_replaced_file_are_named(tmp_path: Path) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")
    grow(trail, 6)
    whole = workspace.trail_file.read_bytes()
    os.truncate(workspace.trail_file, len(whole) - 10)
    with pytest.raises(TrailError, match="shorter"), trail.locked():
        pass
    workspace.trail_file.write_bytes(whole.replace(b"TR-5.md", b"TR-6.md"))
    with pytest.raises(TrailError, match="last line was changed"), trail.locked():
        pass
    workspace.trail_file.write_bytes(whole)
    with trail.locked():
        pass
    other = workspace.audit / "other"
    other.write_bytes(whole)
    other.replace(workspace.trail_file)
    with pytest.raises(TrailError, match="another file"), trail.locked():
        pass


@pytest.mark.parametrize("kind", ["missing", "link", "hard link", "folder", "empty"])
def test_a_trail_that_is_no_plain_file(tmp_path: Path, kind: str) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")
    path = workspace.trail_file
    if kind == "hard link":
        os.link(path, tmp_path / "second")
    else:
        path.rename(tmp_path / "away")
        if kind == "link":
            path.symlink_to(tmp_path / "away")
        elif kind == "folder":
            path.mkdir()
        elif kind == "empty":
            path.touch()
    with pytest.raises(TrailError), Trail(workspace).locked():
        pass


class TestRotation:
    """Several files, one chain."""

    def test_two_processes_go_on_over_a_rotation(self, tmp_path: Path) -> None:
        workspace, one = make_workspace(tmp_path / "ws")
        two = Trail(workspace)
        grow(two, 3)
        for _ in range(3):
            with one.locked() as held:
                moves.announce(held, Observed(), actor="x")
                held.rotate(Rotated(size=0, root=""), actor="x")
            grow(two, held.index.head.seq + 2)
        fresh = Trail(workspace)
        with fresh.locked() as held:
            assert held.index.head.seq == len(list(fresh.events())) == 3 + 3 * 4
        assert len(list(workspace.audit.glob("trail*.jsonl"))) == 4

    @pytest.mark.parametrize("operation", ["rename", "deliver"])
    def test_a_crash_in_the_middle_is_finished_by_the_next_one(self, tmp_path: Path, operation: str) -> None:
        workspace, trail = make_workspace(tmp_path / "ws")
        with trail.locked() as held:
            event = held.append(Rotated.from_data({}), actor="x")
        if operation == "deliver":
            workspace.trail_file.rename(workspace.audit / f"trail-{event.seq:012d}.jsonl")
        with Trail(workspace).locked() as held:
            assert moves.announce(held, Observed(), actor="x").seq == 3
        assert [item.seq for item in Trail(workspace).events()] == [1, 2, 3]
        assert (workspace.audit / "trail-000000000002.jsonl").exists()

    def test_a_missing_segment_is_named(self, tmp_path: Path) -> None:
        workspace, trail = make_workspace(tmp_path / "ws")
        for _ in range(2):
            grow(trail, 4)
            with trail.locked() as held:
                held.rotate(Rotated(size=None, root=None), actor="x")
        (workspace.audit / "trail-000000000005.jsonl").rename(tmp_path / "gone")
        with pytest.raises(TrailError, match="beginning of a trail"), Trail(workspace).locked():
            pass


def test_the_lock_is_not_taken_twice_by_one_thread_and_events_can_be_read_under_it(tmp_path: Path) -> None:
    _, trail = make_workspace(tmp_path / "ws")
    with trail.locked():
        assert len(list(trail.events())) == 1
        with pytest.raises(RuntimeError, match="hand the LockedTrail on"), trail.locked():
            pass
