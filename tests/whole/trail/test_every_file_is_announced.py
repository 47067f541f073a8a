"""For every file below tool-exec/: changed, removed, replaced by something that is not a file, or given a sibling, it
is found.

No list of cases: the files are those that are there. What is not found has to be on the documented list of exempt
files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acts.bench_workspace import DATA, Bench, make_bench
from tests.conftest import soak
from tests.whole.trail.everything import Caller, leave_claimed, make_everything
from threegate.audit.audit_verify import verify_workspace
from threegate.audit.folder_audit import EXEMPT
from threegate.core import file_locks
from threegate.core.user_state import UserState
from threegate.core.workspace import Workspace
from threegate.trail.event import make_event
from threegate.trail.trail import Trail

_KINDS = {
    "approved", "audit", "audit/checkpoints", "contracts", "drafts", "drafts/files", "finished", "grants", "inputs", "memory",  # noqa: E501
    "refused", "results", "runs/*", "runs/*/out", "runs/*/replay-1", "runs/*/replay-1/out",
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """The workspace, made once: every test leaves it as it was."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("everything")
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.delenv("THREEGATE_WORKSPACE", raising=False)
        yield make_everything(folder)


@pytest.fixture
def workspace(made: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("XDG_STATE_HOME", str(made.root.parent / "state"))
    return made


def files(workspace: Workspace) -> list[str]:
    """Every file below tool-exec/ that is not exempt."""
    found = [path for path in workspace.tool_exec.rglob("*") if not path.is_dir()]
    names = sorted(str(path.relative_to(workspace.tool_exec)) for path in found)
    return [name for name in names if not name.startswith(EXEMPT)]


def named(workspace: Workspace, names: Iterable[str]) -> set[str]:
    """Those of the paths that verification names; for contracts, which operators edit by hand, in a note.

    What a file of the trail that ends too early is missed by may be another file, which nothing announces any more.
    """
    result = verify_workspace(workspace)
    problems = {item.place for item in result.problems}
    places = problems | {item.place for item in result.notes if "/contracts/" in item.place}
    return {
        name
        for name in names
        if str(workspace.tool_exec / name) in places or (name.startswith("audit/trail") and problems)
    }


def found(workspace: Workspace, name: str) -> bool:
    return bool(named(workspace, [name]))


def test_the_untouched_workspace_has_no_problems(workspace: Workspace) -> None:
    result = verify_workspace(workspace)
    assert [str(item) for item in result.problems] == [] and [str(item) for item in result.notes] == []
    folders = {str(Path(name).parent) for name in files(workspace)}
    runs = {folder.partition("/")[2].partition("/")[0] for folder in folders if folder.startswith("runs/")}
    assert {_any_run(folder, runs) for folder in folders} - {"."} >= _KINDS


def _any_run(folder: str, runs: set[str]) -> str:
    parts = folder.split("/")
    return "/".join(["runs", "*", *parts[2:]]) if len(parts) > 1 and parts[1] in runs else folder


@contextmanager
def put_back(path: Path) -> Iterator[None]:
    """Whatever happens to a file in the block, it is as it was afterwards."""
    data, mode = path.read_bytes(), stat.S_IMODE(path.stat().st_mode)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        path.chmod(mode)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[len(data) // 2] ^= 1
    else:
        data += b"x"
    path.unlink()
    path.write_bytes(data)


def flip_last(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if data else b"\n")


def empty(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(b"" if data else b"no longer empty")


def link(path: Path) -> None:
    """A link to the very same bytes."""
    shutil.copy(path, _outside(path))
    path.unlink()
    path.symlink_to(_outside(path))


def hard_link(path: Path) -> None:
    """The very same bytes, which somebody else can change under another name."""
    _outside(path).unlink(missing_ok=True)
    os.link(path, _outside(path))


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _outside(path: Path) -> Path:
    root = next(parent for parent in path.parents if parent.name == "ws")
    return root.parent / "outside"


CHANGES = (flip, flip_last, empty, Path.unlink, link, hard_link, fifo)


@pytest.mark.parametrize("every", [12, soak(1)])
@pytest.mark.parametrize("change", CHANGES)
def test_no_changed_or_removed_file_passes(workspace: Workspace, change: Callable[[Path], None], every: int) -> None:
    """Some files in each way; the slow form every other one, the long form each."""
    missed = []
    for name in files(workspace)[CHANGES.index(change) * 5 % every :: every]:
        path = workspace.tool_exec / name
        with put_back(path):
            change(path)
            if not found(workspace, name):
                missed.append(name)
        _outside(path).unlink(missing_ok=True)
    assert missed == []
    assert verify_workspace(workspace).ok


def _copy_of(path: Path) -> Path:
    """The same bytes, under the name that ThreeGate would give a further one."""
    stem, dot, rest = path.name.partition(".")
    target = path.with_name(f"{stem}.9{dot}{rest}")
    shutil.copy(path, target)
    return target


def _other(path: Path) -> Path:
    target = path.with_name(f"planted-{path.name}")
    target.write_bytes(b"planted\n")
    return target


def _hidden(path: Path) -> Path:
    target = path.with_name(f".{path.name}")
    shutil.copy(path, target)
    return target


def _signature(path: Path) -> Path:
    target = path.with_name(f"{path.name}.sig.mallory")
    target.write_bytes(b"planted\n")
    return target


def _linked(path: Path) -> Path:
    target = path.with_name(f"{path.name}.link")
    target.symlink_to(path)
    return target


@pytest.mark.parametrize("plant", [_copy_of, _other, _hidden, _signature, _linked])
def test_no_planted_file_passes(workspace: Workspace, plant: Callable[[Path], Path]) -> None:
    """Each is named, though all are there at once; what is beside the trail may hide others, and comes one by one."""
    names = files(workspace)
    beside = [name for name in names if not name.startswith("audit/")]
    missed = []
    for group in (beside, *([name] for name in names if name not in beside)):
        planted = {str(plant(workspace.tool_exec / name).relative_to(workspace.tool_exec)) for name in group}
        assert len(planted) == len(group)
        missed += planted - named(workspace, planted)
        for name in planted:
            (workspace.tool_exec / name).unlink()
    assert missed == []


def test_no_planted_folder_passes(workspace: Workspace) -> None:
    """Nor a file in it; below the outputs of a run only the file counts."""
    missed = []
    folders = {str(Path(name).parent) for name in files(workspace)} - {"contracts"}
    for folder in sorted(folders):
        planted = workspace.tool_exec / folder / "planted"
        planted.mkdir()
        (planted / "file").touch()
        within = verify_workspace(workspace).problems
        if not any(item.place.startswith(str(planted)) for item in within):
            missed.append(folder)
        shutil.rmtree(planted)
    assert missed == []


class TestInFlight:
    """What a request that runs now may have, and nothing else may."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> Bench:
        return make_bench(tmp_path)

    def test_only_the_folder_of_the_run_itself_is_free(self, bench: Bench) -> None:
        folder = leave_claimed(bench, "runs")
        workspace = bench.workspace
        assert problems(workspace) == []
        (running,) = workspace.running.glob("*.md")
        (reserved,) = workspace.results.glob(".reserved-*")
        for path in (running, running.with_name(f"{running.name}.sig"), workspace.inputs / INPUT):
            with put_back(path):
                flip(path)
                assert found(workspace, str(path.relative_to(workspace.tool_exec))), path
        for planted in (
            workspace.runs / "waits" / "out" / "x",
            workspace.running / f"{running.name}.sig.mallory",
            reserved.with_name(".reserved-" + "0" * 32),
            workspace.runs / ".prepared-0123456789ab" / "x",
            workspace.runs / ".pruned-runs" / "x",
        ):
            planted.parent.mkdir(parents=True, exist_ok=True)
            planted.write_text("planted")
            assert problems(workspace), planted
            planted.unlink()
            if planted.parent.parent == workspace.runs:
                planted.parent.rmdir()
            elif planted.parent.name == "out":
                shutil.rmtree(planted.parents[1])
        (folder / "out").symlink_to("/etc")
        assert problems(workspace) == [], "nothing is opened in the folder of a run that goes on"

    def test_a_run_that_was_interrupted_leaves_nothing(self, bench: Bench) -> None:
        folder = leave_claimed(bench, "runs")
        call = Caller(bench)
        call("run", "--once")
        assert not folder.exists() and problems(bench.workspace) == []
        (folder / "work").mkdir(parents=True)
        assert problems(bench.workspace)

    def test_a_replay_that_goes_on_is_known_by_its_lock(self, bench: Bench) -> None:
        bench.approve(bench.draft("ran", slug="ran"))
        Caller(bench)("run", "--once")
        folder = bench.workspace.run_folder("ran") / "replay-1"
        folder.mkdir()
        (folder / "stdout").write_text("half")
        with file_locks.folder_locked(folder):
            assert problems(bench.workspace) == []
        assert problems(bench.workspace)


INPUT = hashlib.sha256(DATA).hexdigest()


def problems(workspace: Workspace) -> list[str]:
    return [str(item) for item in verify_workspace(workspace).problems]


def rewritten(workspace: Workspace, change: Callable[[dict[str, Any]], None]) -> None:
    """The trail with changed data in it and all hashes made again, and nothing outside that knows better."""
    UserState.of(Trail(workspace).events().__next__().prev).head_file.unlink()
    lines, prev = [], ""
    for number, line in enumerate(workspace.trail_file.read_bytes().rstrip(b"\0").splitlines(), start=1):
        value = json.loads(line)
        change(value)
        event = make_event(
            seq=number,
            time=value["time"],
            type=value["type"],
            request_id=value["request_id"],
            actor=value["actor"],
            data=value["data"],
            prev=prev or value["prev"],
        )
        prev = event.hash
        lines.append(event.line + b"\n")
    workspace.trail_file.write_bytes(b"".join(lines))


@pytest.mark.parametrize("at_the_beginning", [False, True])
def test_digests_that_were_stripped_from_an_event_are_missed(tmp_path: Path, at_the_beginning: bool) -> None:
    """Whoever can make all hashes again cannot pass off a file as one that no event had to name."""
    bench = make_bench(tmp_path)
    bench.approve(bench.draft())

    def strip(value: dict[str, Any]) -> None:
        if at_the_beginning or value["type"] == "approved":
            value["data"].pop("files", None)

    rewritten(bench.workspace, strip)
    assert any("names no digest of this file" in item for item in problems(bench.workspace))


def test_a_contract_that_nobody_took_up_yet_is_a_note(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    call = Caller(bench)
    contract = bench.workspace.contracts / "threegate.monty.yaml"
    contract.write_text(call("contracts", "new", "threegate.monty"))
    (bench.workspace.contracts / "README.md").write_text("ours")
    assert [item.message.partition(":")[0] for item in verify_workspace(bench.workspace).notes] == [
        "is not a contract",
        "is not what the trail recorded",
    ]
    call("run", "--once")
    (bench.workspace.contracts / "README.md").unlink()
    assert verify_workspace(bench.workspace).notes == []
    call("run", "--once")
    assert sum(event.type == "settings_changed" for event in Trail(bench.workspace).events()) == 1
    contract.unlink()
    (note,) = verify_workspace(bench.workspace).notes
    assert "is not there any more: not yet taken up by a daemon" in note.message
    call("run", "--once")
    result = verify_workspace(bench.workspace)
    assert result.ok and result.notes == []
