"""The index of a long trail on disk: it spares reading, fits the trail byte for byte or is not used, and is never ahead
of what is synced.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
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
from threegate.core import durable, limits
from threegate.core.errors import TrailError, Unavailable
from threegate.core.user_state import UserState
from threegate.core.workspace import Workspace
from threegate.trail import chain
from threegate.trail.history import still_open
from threegate.trail.index import TrailIndex
from threegate.trail.index_file import IndexFile
from threegate.trail.payloads import Observed
from threegate.trail.trail import Trail
from threegate.trail.verify import verify_trail


def place() -> Path:
    return UserState.of(WORKSPACE_ID).index_file


def in_the_file(trail: Trail) -> int:
    with trail.locked() as held:
        return held.index.saved


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRAIL_INDEX_LINES", 20)


@pytest.fixture(name="long")
def a_long_one(tmp_path: Path) -> Workspace:
    """A trail with an index of its first lines: in them one request ran and one waits; nine lines come behind it."""
    workspace, trail = make_workspace(tmp_path / "ws")
    with trail.locked() as held:
        approve(held, "ran")
    run(trail, "ran")
    with trail.locked() as held:
        approve(held, "waits")
    grow(trail, 61)
    assert in_the_file(trail) == 61
    trail.close()
    trail = Trail(workspace)
    grow(trail, 70)
    with trail.locked() as held:
        held.keep_head()
    assert in_the_file(trail) == 61
    trail.close()
    return workspace


def lines_read(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, *, save: bool = False) -> int:
    """How many lines a command that takes the lock checks one after the other."""
    taken = []
    take = chain.Chain.take
    with monkeypatch.context() as patch:
        patch.setattr(chain.Chain, "take", lambda self, line: taken.append(line) or take(self, line))
        if not save:
            patch.setattr(TrailIndex, "save", lambda *_: False)
        with Trail(workspace).locked() as held:
            assert held.index.head.seq >= 70
    return len(taken)


def answers(index: TrailIndex, requests: list[str], names: list[str], nonces: list[str]) -> object:
    return (
        index.head, index.frontier.size, index.frontier.root(), index.epoch, index.operators, index.vkey, index.counts,
        index.workspace_id, index.last_checkpoint, index.session_events_after(0), index.session_events_after(4),
        [(index.history(item), index.id_used(item)) for item in requests],
        sorted(history.request_id for history in index.histories()),
        [(index.name_used(item), index.request_of(item)) for item in names],
        [(index.nonce_used(item), index.nonce_known(item)) for item in nonces],
        [index.is_void(item) for item in (*nonces, "a1", "a2", "q1", "q2")],
        [index.hash_at(seq) for seq in range(index.head.seq + 2)],
    )  # fmt: skip


@pytest.mark.slow
@settings(max_examples=150)
@given(STEPS, st.data())
def test_it_answers_as_the_whole_trail_does(tmp_path_factory, steps, data) -> None:
    """Saved after any number of events, and again later, and opened again: every answer is that of an index of all
    events.
    """
    events = events_of(steps)
    lines = {1000 * event.seq: event.line for event in events}
    path = tmp_path_factory.getbasetemp() / "index.sqlite"
    path.unlink(missing_ok=True)
    whole, index, opened = TrailIndex(), TrailIndex(), TrailIndex()
    cuts = data.draw(st.sets(st.integers(1, len(events)), max_size=2))
    for event in events:
        for each in (whole, index, opened):
            each.add(event, 1000 * event.seq)
        if event.seq in cuts:
            assert index.save(path, [], lambda history: history.end is None, lines.__getitem__)
            assert index.saved == event.seq
            found = IndexFile.open(path)
            assert found is not None
            opened = TrailIndex(*found, lines.__getitem__)
    asked = (["r-0", "r-1", "r-2", "none"], ["TR-a.md", "TR-b.md", "none"], ["n1", "n2", "none"])
    assert answers(index, *asked) == answers(whole, *asked) == answers(opened, *asked)


def test_whoever_reads_a_long_trail_saves_its_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With requests and segments across the pieces: checkpoint, trail and outside head are those without an index."""
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
    place().unlink()
    state = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(shutil.copytree(os.environ["XDG_STATE_HOME"], state)))
    shutil.copytree(workspace.root, tmp_path / "before")
    shutil.copytree(state, tmp_path / "state-before")
    made = []
    sizes: list[int] = []
    save = IndexFile.save
    monkeypatch.setattr(IndexFile, "save", lambda self, *given: sizes.append(len(given[1])) or save(self, *given))
    for lines in (1_000_000, 50):
        monkeypatch.setattr(limits, "TRAIL_INDEX_LINES", lines)
        for now, kept in ((workspace.root, "before"), (state, "state-before")):
            shutil.rmtree(now)
            shutil.copytree(tmp_path / kept, now)
        late = datetime(2027, 1, 1, tzinfo=UTC)
        with Trail(workspace, clock=lambda: late).locked() as held:
            path, note = write_trail_checkpoint(held, actor="me")
        files = [path, workspace.trail_file, state / "threegate" / WORKSPACE_ID / "head.json"]
        made.append([note.render(), *(file.read_bytes() for file in files)])
        assert bool(sizes) == (lines == 50)
    assert len(sizes) > 10 and max(sizes) <= 51 and made[0] == made[1]
    with Trail(workspace).locked() as held:
        assert held.index.saved and held.index.history("waits").end.type == "finished"
        assert [one.request_id for one in held.index.unended_histories() if one.approved] == ["waits too"]
    assert place().stat().st_mode & 0o777 == 0o600


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
        assert "ran" in [history.request_id for history in index.histories()]


def test_a_request_of_before_goes_on(long: Workspace) -> None:
    trail = Trail(long)
    run(trail, "waits")
    with trail.locked() as held:
        assert held.index.history("waits").end.type == "finished"
    trail.close()
    with Trail(long).locked() as held:
        assert held.index.history("waits").end.type == "finished" and held.index.id_used("waits")


def rewrite(statement: str, *values: object) -> Callable[[Path], None]:
    """A change of the file through sqlite."""

    def change(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            assert connection.execute(statement, values).rowcount

    return change


def with_header(**changed: object) -> Callable[[Path], None]:
    """A header of which some values are others."""

    def change(path: Path) -> None:
        found = IndexFile.open(path)
        assert found is not None
        file, header = found
        file.save(header | changed, [], {})
        file.close()

    return change


def a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


WRONG = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "no database": lambda path: path.write_bytes(b"threegate-index/3\n" * 1000),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "a link": a_link,
    "a fifo": a_fifo,
    "without a table": rewrite("DROP TABLE event"),
    "another form": rewrite("PRAGMA user_version = 7"),
    "no header": rewrite("DELETE FROM entry WHERE key = ?", b"h"),
    "a header of another form": rewrite("UPDATE entry SET value = ? WHERE key = ?", b"[1]", b"h"),
    "a header without a name": rewrite("UPDATE entry SET value = ? WHERE key = ?", b"{}", b"h"),
    "other plugins": with_header(kinds=["probe.did"]),
    "another segment": with_header(segments=[["trail-000000000010.jsonl", 77]]),
    "no last line": rewrite("DELETE FROM event WHERE seq = 61"),
    "another last line": rewrite("UPDATE event SET hash = ? WHERE seq = 61", bytes(32)),
    "another first line": rewrite("UPDATE event SET hash = ? WHERE seq = 1", bytes(32)),
    "another place": rewrite("UPDATE event SET position = position + 1 WHERE seq = 61"),
    "behind its rows": with_header(head=[60, "0" * 64, "2026-01-01T00:00:00.000Z"]),
}


@pytest.mark.parametrize("what", [name for name in WRONG if name not in ("without a table", "another form")])
def test_what_does_not_fit_is_rebuilt(long: Workspace, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    assert lines_read(long, monkeypatch) == 9
    WRONG[what](place())
    assert lines_read(long, monkeypatch, save=True) == 70, "the whole trail is read"
    assert lines_read(long, monkeypatch) == 10, "and its index saved"
    with Trail(long).locked() as held:
        assert held.index.nonce_used("nonce-ran") and held.index.history("waits") is not None


@pytest.mark.parametrize("what", ["without a table", "another form"])
def test_other_tables_are_rebuilt(long: Workspace, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    statement = {"without a table": "DROP TABLE event", "another form": "PRAGMA user_version = 7"}[what]
    with closing(sqlite3.connect(place())) as connection:
        connection.execute(statement)
    assert lines_read(long, monkeypatch, save=True) == 70 and lines_read(long, monkeypatch) == 10


def test_an_index_that_is_ahead_of_the_trail_is_rebuilt(long: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a restored workspace beside a newer state folder is: the index knows events that are not there."""
    data = b"".join(long.trail_file.read_bytes().splitlines(keepends=True)[:50])
    long.trail_file.write_bytes(data)
    with Trail(long).locked() as held:
        assert held.index.head.seq == 50 and "cut or restored" in str(held.outside_problem())
        assert held.index.hash_at(51) is None and held.index.hash_at(61) is None


def test_the_trail_is_synced_before_the_index_is_saved(long: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what another process wrote and did not sync yet."""
    trail = Trail(long)
    with trail.locked():
        pass
    with Trail(long).locked() as held:
        for _ in range(15):
            held.append(Observed(), actor="x")
        held.write()
    done: list[str] = []
    save = TrailIndex.save
    monkeypatch.setattr(TrailIndex, "save", lambda *given: done.append("save") or save(*given))
    forget = durable.observe(lambda moment, what, path: done.append(what) if moment == "after" else None)
    try:
        with trail.locked() as held:
            assert held.index.saved == 81
    finally:
        forget()
    assert done == ["sync", "save"]


def test_two_processes_go_on_from_each_other(long: Workspace) -> None:
    one, other = Trail(long), Trail(long)
    for number in range(6):
        trail = (one, other)[number % 2]
        run_id = f"req-{number}"
        with trail.locked() as held:
            approve(held, run_id)
        run((one, other)[number % 3 == 0], run_id)
        grow(trail, 90 + 17 * number)
    for trail in (one, other, Trail(long)):
        with trail.locked() as held:
            index = held.index
            assert all(index.history(f"req-{number}").end is not None for number in range(6))
            assert all(index.nonce_used(f"nonce-req-{number}") for number in range(6))
            assert [history.request_id for history in index.unended_histories() if history.approved] == ["waits"]


SAVING = """
import os, sys
from threegate.trail import index_file
from threegate.trail.trail import Trail
from threegate.core import limits
from threegate.core.workspace import Workspace
from tests.trail.workspaces import grow
limits.TRAIL_INDEX_LINES = 20
class Dying(dict):
    def items(self):
        yield from super().items()
        os.kill(os.getpid(), 9)
save = index_file.IndexFile.save
def dying(self, header, rows, table):
    self._connection.execute("PRAGMA cache_size = 1")
    save(self, header, rows, Dying(table))
index_file.IndexFile.save = dying
grow(Trail(Workspace(__import__("pathlib").Path(sys.argv[1]))), 1000)
"""


@pytest.mark.parametrize("there", [True, False])
def test_a_crash_while_it_is_saved_leaves_all_or_nothing(long: Workspace, monkeypatch, there: bool) -> None:
    """Its pages were written already (the cache is one page): the journal takes them back, or it is rebuilt."""
    if not there:
        place().unlink()
    ended = subprocess.run([sys.executable, "-c", SAVING, str(long.root)], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL and place().with_name("index.sqlite-journal").exists()
    with Trail(long).locked() as held:
        assert held.index.nonce_used("nonce-ran") and held.index.history("ran").end.type == "finished"
        assert not held.index.nonce_used("nonce-waits")
    with closing(sqlite3.connect(place())) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_page_that_cannot_be_read_is_one_line(long: Workspace) -> None:
    with Trail(long).locked() as held:
        with closing(sqlite3.connect(place(), isolation_level=None)) as connection:
            connection.execute("DROP TABLE entry")
        with pytest.raises(TrailError, match=r"index.sqlite: cannot be read \(.*\); remove it: it is rebuilt"):
            held.index.nonce_used("nonce-ran")
        with closing(sqlite3.connect(place(), isolation_level=None)) as connection:
            connection.execute("DELETE FROM event WHERE seq = 3")
        with pytest.raises(TrailError, match=r"index.sqlite: has no event 3; remove it"):
            held.index.hash_at(3)


def test_without_the_key_nothing_is_saved(long: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user's workspace: only beside a key is a place where nobody else can write."""
    place().unlink()
    UserState.of(WORKSPACE_ID).key_file.rename(long.root / "key")
    grow(Trail(long), 200)
    assert not place().exists()


@pytest.mark.parametrize("what", ["the last line", "the first line", "cut off before it", "another trail"])
def test_a_trail_that_does_not_fit_is_read_whole_and_refused(long: Workspace, what: str) -> None:
    data = long.trail_file.read_bytes()
    lines = data.splitlines(keepends=True)
    if what == "the last line":
        lines[60] = lines[60].replace(b'"actor":"daemon"', b'"actor":"nobody"')
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
    """Saved in one file, read on in the next ones; a missing or cut closed file means reading all, which names it."""
    with Trail(long).locked() as held:
        rotate(held, actor="me")
    grow(Trail(long), 80)
    assert lines_read(long, monkeypatch) == 19
    with Trail(long).locked() as held:
        assert held.index.history("ran").end.type == "finished"
        rotate(held, actor="me")
    grow(Trail(long), 120)
    with Trail(long).locked() as held:
        assert held.index.saved == 120 and held.index.history("ran").end.type == "finished"
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
    assert lines_read(long, monkeypatch, save=True) == 120 and lines_read(long, monkeypatch) == 0
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
    trail.close()
    with Trail(long).locked() as held:
        assert held.index.saved == 200
        assert [(history.request_id, still_open(long, history)) for history in held.index.open_histories()] == [
            ("waits", True)
        ]


def test_prune_and_a_disk_that_has_no_space_for_it(long: Workspace, monkeypatch) -> None:
    gone = prune(long, before=datetime.now(UTC) + timedelta(hours=1), actor="me")
    assert gone.runs == ("ran",)


@pytest.mark.parametrize("there", [True, False])
def test_a_disk_without_space_for_it_stops_nothing(long: Workspace, monkeypatch, there: bool) -> None:
    """Everything stays in memory, and it is tried again."""
    if not there:
        place().unlink()

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    trail = Trail(long)
    with monkeypatch.context() as patch:
        patch.setattr(IndexFile, "save", full)
        grow(trail, 130)
        assert in_the_file(trail) == (61 if there else 0)
        with trail.locked() as held:
            assert held.index.nonce_used("nonce-ran") and held.index.hash_at(130) == held.index.head.hash
    grow(trail, 160)
    assert in_the_file(trail) == 160 and lines_read(long, monkeypatch) == 0


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
        with pytest.raises(Unavailable, match="settings adopt"), Trail(workspace).locked() as held:
            act(held, actor="x")
    with Trail(workspace).locked() as held:
        assert "cut or restored" in str(held.outside_problem())
        with pytest.raises(Unavailable):
            held.keep_head()
