"""The kept index of a long trail: it spares reading, and nothing that somebody else wrote into it is ever believed."""

from __future__ import annotations

import errno
import os
import shutil
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trail.operated import make_operated
from tests.trail.populated import populate
from tests.trail.test_index import STEPS, events_of
from tests.trail.workspaces import WORKSPACE_ID, approve, grow, make_workspace, run
from threegate.audit.prune import prune
from threegate.audit.trail_checkpoints import rotate, write_trail_checkpoint
from threegate.core import limits
from threegate.core.errors import TrailError, Unavailable
from threegate.core.workspace import Workspace
from threegate.launch.completion import still_open
from threegate.trail import chain, kept_index
from threegate.trail.index import TrailIndex
from threegate.trail.payloads import Observed
from threegate.trail.spilled_index import SpilledIndex
from threegate.trail.trail import Trail
from threegate.trail.verify import verify_trail
from threegate.trail.workspace_key import load_key, make_key


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRAIL_INDEX_LINES", 20)


@pytest.fixture(name="long")
def a_long_one(tmp_path: Path) -> Workspace:
    """A trail with a kept index in the middle: before it one request ran and one waits, behind it come some lines."""
    workspace, trail = make_workspace(tmp_path / "ws")
    with trail.locked() as held:
        approve(held, "ran")
    run(trail, "ran")
    with trail.locked() as held:
        approve(held, "waits")
    grow(trail, 60)
    with trail.locked() as held:
        write_trail_checkpoint(held, actor="me")
        assert held.index.kept is not None and held.index.kept.seq == 61
    grow(trail, 70)
    with trail.locked() as held:
        held.keep_head()
    trail.close()
    return workspace


def lines_read(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many lines a command that takes the lock checks one after the other."""
    taken = []
    take = chain.Chain.take
    with monkeypatch.context() as patch:
        patch.setattr(chain.Chain, "take", lambda self, line: taken.append(line) or take(self, line))
        with Trail(workspace).locked() as held:
            assert held.index.head.seq >= 70
    return len(taken)


def answers(index: TrailIndex, requests: list[str], names: list[str], nonces: list[str]) -> object:
    return (
        index.head, index.frontier.size, index.frontier.root(), index.epoch, index.operators, index.vkey, index.counts,
        index.workspace_id, index.last_checkpoint, index.session_events_after(0), index.session_events_after(4),
        [(index.history(item), index.id_used(item)) for item in requests],
        [(index.name_used(item), index.request_of(item)) for item in names],
        [(index.nonce_used(item), index.nonce_known(item)) for item in nonces],
        [index.is_void(item) for item in (*nonces, "a1", "a2", "q1", "q2")],
        [index.hash_at(seq) for seq in range(index.head.seq + 2)],
    )  # fmt: skip


@pytest.mark.slow
@settings(max_examples=150)
@given(STEPS, st.data())
def test_it_answers_as_the_whole_trail_does(tmp_path_factory, steps, data) -> None:
    """Kept after any number of events, and again later, or moved to disk: every answer is that of an index of all
    events.
    """
    events = events_of(steps)
    lines = {1000 * event.seq: event.line for event in events}
    whole = TrailIndex()
    index = TrailIndex()
    spilled = TrailIndex()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "kept-state"))
        shutil.rmtree(kept_index.place(WORKSPACE_ID).parent, ignore_errors=True)
        key = make_key(WORKSPACE_ID)
        cuts = data.draw(st.sets(st.integers(1, len(events)), max_size=2))
        for event in events:
            whole.add(event)
            index.add(event, 1000 * event.seq)
            spilled.add(event, 1000 * event.seq)
            if event.seq in cuts:
                spilled = spilled.spilled(lambda history: history.end is None, lines.__getitem__)
                rows = index.to_rows()
                assert rows is not None
                header = {**index.to_header(), "segments": [], "open": []}
                before = index.kept.items if index.kept else tuple
                kept_index.write_kept_index(key, header, rows, before, index.to_table())
                kept = kept_index.read_kept_index(WORKSPACE_ID, key.public)
                assert kept is not None
                index = TrailIndex(kept, lines.__getitem__)
        asked = (["r-0", "r-1", "r-2", "none"], ["TR-a.md", "TR-b.md", "none"], ["n1", "n2", "none"])
        assert answers(index, *asked) == answers(whole, *asked) == answers(spilled, *asked)


def test_read_in_bounded_memory_a_checkpoint_is_byte_for_byte_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoint, trail, outside head and kept index, with requests and segments across the pieces that are moved to
    disk.
    """
    monkeypatch.setattr(limits, "TRAIL_INDEX_LINES", 50)
    workspace, trail = populate(tmp_path / "ws", 120)
    with trail.locked() as held:
        rotate(held, actor="me")
        approve(held, "waits")
    grow(trail, held.index.head.seq + 120)
    run(trail, "waits")
    with trail.locked() as held:
        approve(held, "waits too")
    grow(trail, held.index.head.seq + 70)
    trail.close()
    state = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(shutil.copytree(os.environ["XDG_STATE_HOME"], state)))
    shutil.copytree(workspace.root, tmp_path / "before")
    shutil.copytree(state, tmp_path / "state-before")
    made = []
    moved: list[int] = []
    take = SpilledIndex.take
    monkeypatch.setattr(SpilledIndex, "take", lambda self, *given: moved.append(len(given[1])) or take(self, *given))
    for spill in (None, partial(still_open, workspace)):
        for now, kept in ((workspace.root, "before"), (state, "state-before")):
            shutil.rmtree(now)
            shutil.copytree(tmp_path / kept, now)
        late = datetime(2027, 1, 1, tzinfo=UTC)
        with Trail(workspace, clock=lambda: late, spill=spill).locked() as held:
            path, note = write_trail_checkpoint(held, actor="me")
        files = [path, workspace.trail_file, state / "threegate" / WORKSPACE_ID / "head.json"]
        made.append([note.render(), *(file.read_bytes() for file in (*files, kept_index.place(WORKSPACE_ID)))])
        assert bool(moved) == (spill is not None)
    assert len(moved) > 10 and max(moved) <= 51 * 40
    assert made[0] == made[1] and kept_index.KeptIndex(made[0][-1]).header["open"] == ["waits too"]
    with Trail(workspace).locked() as held:
        assert held.index.kept is not None and held.index.history("waits").end.type == "finished"


def full(**_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_temporary_folder_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRAIL_INDEX_LINES", 20)
    workspace, trail = populate(tmp_path / "ws", 20)
    trail.close()
    monkeypatch.setattr("tempfile.TemporaryFile", full)
    spilling = Trail(workspace, spill=partial(still_open, workspace))
    with (
        pytest.raises(Unavailable, match="No space left on device.*; make room, or set TMPDIR"),
        spilling.locked(),
    ):
        pass


def test_only_what_came_since_is_read(long: Workspace, monkeypatch) -> None:
    assert lines_read(long, monkeypatch) == 9
    with Trail(long).locked() as held:
        index = held.index
        assert index.history("ran").end.type == "finished" and index.history("waits").claimed is None
        assert (
            index.nonce_used("nonce-ran") and not index.nonce_used("nonce-waits") and index.nonce_known("nonce-waits")
        )
        assert [history.request_id for history in index.open_histories()][0] == "waits"
        assert "ran" not in [history.request_id for history in index.open_histories()]
        assert held.outside_problem() is None
        assert held.whole_index().history("ran") == index.history("ran")


def test_a_request_of_before_goes_on(long: Workspace) -> None:
    trail = Trail(long)
    run(trail, "waits")
    with trail.locked() as held:
        assert held.index.history("waits").end.type == "finished"
    trail.close()
    with Trail(long).locked() as held:
        assert held.index.history("waits").end.type == "finished" and held.index.id_used("waits")


@pytest.mark.parametrize(
    "what", ["every 97th byte", "another key", "empty", "cut", "older form", "of another workspace"]
)
def test_what_somebody_else_wrote_is_not_believed(long: Workspace, tmp_path: Path, monkeypatch, what: str) -> None:
    path = kept_index.place(WORKSPACE_ID)
    good = path.read_bytes()
    forged: list[bytes] = []
    if what == "every 97th byte":
        forged = [good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] for at in range(0, len(good), 97)]
    elif what == "cut":
        forged = [good[:-1], good[: len(good) // 2], good + b"x"]
    elif what == "empty":
        forged = [b"", kept_index.MAGIC]
    elif what == "older form":
        forged = [good.replace(kept_index.MAGIC, b"threegate-index/1\n")]
    else:
        header, rows, table = parts(good)
        name = "ws-" + "6" * 32 if what == "of another workspace" else WORKSPACE_ID
        with monkeypatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(tmp_path / "forger"))
            make_key(name)
            key = load_key(name) if what == "another key" else None
            if key:
                kept_index.write_kept_index(key, header, rows, tuple, table)
                forged = [kept_index.place(name).read_bytes()]
        if not forged:
            kept_index.place(name).parent.mkdir()
            kept_index.write_kept_index(load_key(WORKSPACE_ID), {**header, "workspace_id": name}, rows, tuple, table)
            forged = [kept_index.place(name).read_bytes()]
    assert lines_read(long, monkeypatch) == 9
    for data in forged:
        path.write_bytes(data)
        assert lines_read(long, monkeypatch) == 70, "then the whole trail is read"


def parts(data: bytes) -> tuple[dict, bytes, dict]:
    kept = kept_index.KeptIndex(data)
    return kept.header, list(kept.row_blocks()), dict(kept.items())


def test_a_used_nonce_cannot_be_taken_out(long: Workspace) -> None:
    """The attack that it is about: an index in which the claim never happened, signed with a key that is not the
    workspace's.
    """
    path = kept_index.place(WORKSPACE_ID)
    header, rows, table = parts(path.read_bytes())
    del table[b"nnonce-ran"], table[b"rran"]
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    real = load_key(WORKSPACE_ID)
    forger = type(real)(real.name, Ed25519PrivateKey.generate())
    kept_index.write_kept_index(forger, header, rows, tuple, table)
    with Trail(long).locked() as held:
        assert held.index.nonce_used("nonce-ran") and held.index.id_used("ran")


@pytest.mark.parametrize("what", ["the last line", "the first line", "cut off before it", "another trail"])
def test_a_trail_that_does_not_fit_is_read_whole_and_refused(long: Workspace, what: str) -> None:
    data = long.trail_file.read_bytes()
    lines = data.splitlines(keepends=True)
    if what == "the last line":
        lines[60] = lines[60].replace(b'"actor":"me"', b'"actor":"it"')
    elif what == "the first line":
        lines[0] = lines[0].replace(b"account", b"nobody1")
    elif what == "cut off before it":
        lines = lines[:50]
    else:
        lines[30] = lines[30].replace(b'"valid":true', b'"valid":fals')
        lines[60] = lines[59]
    long.trail_file.write_bytes(b"".join(lines))
    if what == "cut off before it":
        with Trail(long).locked() as held:
            assert "cut or restored" in str(held.outside_problem())
        return
    with pytest.raises(TrailError), Trail(long).locked():
        pass


def test_a_changed_line_before_it_is_never_believed(long: Workspace) -> None:
    """It is not looked at, until somebody asks for it: then it is named. `audit verify` names it at once."""
    lines = long.trail_file.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b'"request_id":"waits"' in line)
    value = orjson.loads(lines[at])
    value["data"]["owner_uid"] = 2000
    lines[at] = orjson.dumps(value, option=orjson.OPT_SORT_KEYS) + b"\n"
    assert len(lines[at]) == len(long.trail_file.read_bytes().splitlines(keepends=True)[at]), "nothing else moved"
    long.trail_file.write_bytes(b"".join(lines))
    assert not verify_trail(long).ok
    with pytest.raises(TrailError), Trail(long).locked() as held:
        held.index.history("waits")


def test_over_rotations(long: Workspace, monkeypatch) -> None:
    """Kept in one file, read on in the next ones; a missing or cut closed file means reading all, and that names it."""
    with Trail(long).locked() as held:
        rotate(held, actor="me")
    grow(Trail(long), 80)
    assert lines_read(long, monkeypatch) == 19
    with Trail(long).locked() as held:
        assert held.index.history("ran").end.type == "finished"
        write_trail_checkpoint(held, actor="me")
        rotate(held, actor="me")
    grow(Trail(long), 120)
    trail = Trail(long)
    with trail.locked() as held:
        write_trail_checkpoint(held, actor="me")
        assert held.index.kept.header["seq"] == 121 and len(held.index.kept.header["segments"]) == 2
        assert held.index.history("ran").end.type == "finished"
    assert lines_read(long, monkeypatch) == 0
    (first, second) = chain.segment_paths(long.audit)
    kept = first.read_bytes()
    for change in (b"", kept[:-10]):
        first.write_bytes(change)
        with pytest.raises(TrailError, match="trail-"), Trail(long).locked():
            pass
    first.unlink()
    with pytest.raises(TrailError), Trail(long).locked():
        pass
    first.write_bytes(kept)
    assert lines_read(long, monkeypatch) == 0
    assert second.exists()


def test_a_torn_end_is_looked_at_with_the_whole_trail(long: Workspace) -> None:
    with long.trail_file.open("ab") as file:
        file.write(b'{"torn')
    trail = Trail(long)
    with trail.locked() as held:
        assert held.index.head.seq == 71 and trail.fixed
    unannounced = long.refused / "nobody.md"
    unannounced.write_bytes(b"x")
    with long.trail_file.open("ab") as file:
        file.write(b'{"torn')
    with pytest.raises(TrailError, match="ahead of what remains"), Trail(long).locked():
        pass


def test_what_a_crash_left_open_stays_open(long: Workspace) -> None:
    """A request whose end was announced and whose file never moved is still looked at by the next recovery."""
    trail = Trail(long)
    run(trail, "waits")
    (path,) = (path for path in long.finished.glob("*.md") if "waits" in path.name)
    path.rename(long.running / path.name)
    grow(trail, 200)
    with trail.locked() as held:
        write_trail_checkpoint(held, actor="me")
        assert held.index.kept.seq == 201
        assert held.index.kept.header["open"] == ["waits"]
        assert [still_open(long, history) for history in held.index.open_histories()] == [True]


def test_prune_and_a_disk_that_has_no_space_for_it(long: Workspace, monkeypatch) -> None:
    gone = prune(long, before=datetime.now(UTC) + timedelta(hours=1), actor="me")
    assert gone.runs == ("ran",)
    grow(Trail(long), 120)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with Trail(long).locked() as held:
        monkeypatch.setattr(kept_index.durable, "overwrite", full)
        assert held.keep_index(load_key(WORKSPACE_ID), lambda history: True) is False
    assert lines_read(long, monkeypatch) > 40


def test_a_checkpoint_does_not_hide_that_the_workspace_was_restored(tmp_path: Path) -> None:
    """Signing one keeps the head outside: in a restored backup that would make launches go on without an adoption."""
    workspace, _ = make_operated(tmp_path)
    shutil.copytree(workspace.root, tmp_path / "backup")
    with Trail(workspace).locked() as held:
        held.append(Observed(), actor="x")
        held.keep_head()
    shutil.rmtree(workspace.root)
    shutil.copytree(tmp_path / "backup", workspace.root)
    for act in (write_trail_checkpoint, rotate):
        with pytest.raises(Unavailable, match="workspace adopt"), Trail(workspace).locked() as held:
            act(held, actor="x")
    with Trail(workspace).locked() as held:
        assert "cut or restored" in str(held.outside_problem())
        with pytest.raises(Unavailable):
            held.keep_head()
