"""The runs of agents in a workspace: what their launchers recorded, whether they are alive, and how they are stopped.

Invariant: a run is alive exactly as long as its launcher holds the lock of its folder, which the kernel releases with
the process. `run.json` is derived; the trail has start and end. If a launcher was killed, the next process to check
records the end of its run in the trail.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from threegate.core import durable, limits, removal
from threegate.core.durable import disk_reserve
from threegate.core.errors import InvalidInput, ThreeGateError, Unavailable
from threegate.core.workspace import AgentRun, Workspace
from threegate.launch.context import Context
from threegate.plugins.agents.held_paths import FOLDER
from threegate.plugins.agents.kinds import AgentEnded
from threegate.plugins.agents.work_copy import SCRATCH, TREE, UPPER, WorkCopy
from threegate.runners.jail.freezer import freeze, is_frozen, remove_freezer, thaw
from threegate.runners.jail.jail import Account
from threegate.runners.jail.jail_cgroup import remove_cgroups
from threegate.trail import moves

T = TypeVar("T")

_STOP_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.02
_QUIET_LOOKS: Final = 40
_CHASES: Final = 10
"""How often the lists of children are followed before each look at all of /proc (a process in D never stops)."""
_RESTLESS: Final = (
    "the agent's processes do not stay stopped while its changes are read; try again, or read them when it has ended"
)
_STILL: Final = "TtZX"
"""States of /proc/PID/stat: stopped, traced, dead."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the launcher of a run recorded."""

    profile: str
    started_utc: str
    root: str = ""
    """The project's real path."""
    project: str = ""
    """Its name."""
    copy: Literal["overlay", "plain"] = "plain"
    account: str = ""
    uid: int = -1
    gid: int = -1
    launcher: int = 0
    """Process id; valid only while the run is alive."""
    jail: int = 0
    """Process id of bubblewrap; valid only while the run is alive."""
    announced: bool = False
    """Whether the trail has its start."""
    ended: bool = False
    exit: int | None = None
    shown: tuple[str, ...] = ()
    """The paths of `--with`."""
    reading: tuple[str, ...] = ()
    """The folders of `--read`, by their real paths."""
    hosts: tuple[str, ...] = ()
    """The hosts of `--allow`."""
    home: str = ""
    """The run whose HOME this one took over."""
    tools: tuple[str, ...] = ()
    """Tools of added servers that it may call; empty: all of them."""
    parent: str = ""
    """The run in whose copy this one continued."""
    continued: str = ""
    """The run that continued in the copy, which is no longer here."""
    used_requests: int = -1
    """What this run and those before it in its copy used of their budgets; -1 until the end is known."""
    used_bytes: int = -1
    used_tokens: int = -1
    start_bytes: int = -1
    """What the copy took when the first of these runs began, in bytes and names."""
    start_names: int = -1

    def write(self, run: AgentRun) -> None:
        """Save the facts. Raises OSError."""
        durable.overwrite(run.facts, json.dumps(asdict(self)).encode() + b"\n")

    @classmethod
    def read(cls, run: AgentRun) -> RunFacts:
        """The facts of a run. Raises Unavailable."""
        try:
            value = json.loads(durable.read_regular(run.facts, max_bytes=limits.USER_STATE_BYTES))
            known: dict[str, Any] = {key: tuple(x) if isinstance(x, list) else x for key, x in value.items()}
            return cls(**known)
        except (OSError, ValueError, TypeError, AttributeError):
            raise Unavailable(f"{run.run_id}: its launcher recorded nothing; the run cannot be used") from None


@contextmanager
def run_lock(run: AgentRun) -> Iterator[None]:
    """Be the launcher of a run until the block ends. Raises Unavailable if another process is."""
    with lock_ended(run) as free:
        if not free:
            raise Unavailable(f"{run.run_id}: another process is running it")
        yield


def lock_ended(run: AgentRun) -> AbstractContextManager[bool]:
    """Keep a run from being anyone's until the block ends; false if its launcher is alive. Raises OSError."""
    return _locked(run.folder)


def is_alive(run: AgentRun) -> bool:
    """Whether the launcher of a run is alive."""
    with suppress(OSError), _locked(run.folder) as free:
        return not free
    return False


@contextmanager
def _locked(folder: Path, seconds: float = 0) -> Iterator[bool]:
    """Hold the lock of a folder; the value is false if another process has it for so long. Raises OSError."""
    descriptor = os.open(folder, FOLDER)
    until = time.monotonic() + seconds
    try:
        while not (free := _takes_lock(descriptor)) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        yield free
    finally:
        os.close(descriptor)


def _takes_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def all_runs(workspace: Workspace) -> list[tuple[AgentRun, RunFacts]]:
    """The runs with facts, oldest first."""
    found = []
    try:
        names = sorted(os.listdir(workspace.agents))[-limits.AGENT_RUNS :]
    except FileNotFoundError:
        return []
    for name in names:
        with suppress(InvalidInput, Unavailable):
            run = workspace.agent_run(name)
            found.append((run, RunFacts.read(run)))
    return found


def find_run(workspace: Workspace, name: str) -> tuple[AgentRun, RunFacts]:
    """The run with an id, or with a unique beginning of one. Raises InvalidInput."""
    found = {run.run_id: (run, facts) for run, facts in all_runs(workspace)}
    return found[only_run(found, name)]


def only_run(ids: Iterable[str], name: str) -> str:
    """The one id that is or begins with a name. Raises InvalidInput."""
    found = [item for item in ids if item.startswith(name)]
    if len(found) != 1 or not name:
        what = "several runs match" if found and name else "no such run"
        raise InvalidInput(f"{name}: {what}; see: threegate agent list")
    return found[0]


def copy_of(run: AgentRun, facts: RunFacts) -> WorkCopy:
    """The work copy of a run. Raises Unavailable."""
    return WorkCopy.of(run, Path(facts.root), facts.copy, Account(facts.account, facts.uid, facts.gid))


def end_dead_runs(context: Context, *, actor: str) -> list[str]:
    """Record the end of each run whose launcher was killed; return their ids. One that was killed before the trail had
    its start returns the copy that it took over. Raises TrailError, Unavailable, OSError.
    """
    ended = []
    for run, facts in all_runs(context.workspace):
        if facts.ended:
            continue
        with lock_ended(run) as free:
            if free and _end_dead(context, run, actor):
                ended.append(run.run_id)
    return ended


def _end_dead(context: Context, run: AgentRun, actor: str) -> bool:
    """The same for one run that nobody has locked; whether its end was recorded now."""
    facts = RunFacts.read(run)
    if facts.ended:
        return False
    with disk_reserve(context.workspace.reserve), context.trail.locked() as held:
        known = held.index.run(run.run_id)
        begun = known is not None and not known.ended
        # It may have been killed between the trail and its own record.
        started = facts.announced or begun
        # Its launcher may have had no disk space to record its end in its facts.
        if started and (known is None or begun):
            moves.announce(held, AgentEnded(run=run.run_id, reason="killed"), actor=actor)
    if not started:
        _close_unstarted(context.workspace, run, facts)
        return False
    clear_ended(run)
    replace(facts, announced=True, ended=True).write(run)
    remove_freezer(run.run_id)
    remove_cgroups(run.run_id)
    return True


def clear_ended(run: AgentRun) -> None:
    """Remove what is not needed after the end: headroom, sockets, what the proxy lets through, and the overlay's work
    folder.
    """
    with suppress(OSError):
        removal.remove_tree(run.headroom)
    for path in (run.door, run.model, run.hosts, run.open_hosts):
        path.unlink(missing_ok=True)
    scratch = run.work / SCRATCH
    with suppress(OSError):
        for place in scratch.iterdir():
            place.chmod(0o700)
        removal.remove_tree(scratch)


def _close_unstarted(workspace: Workspace, run: AgentRun, facts: RunFacts) -> None:
    """Note that a run never started, and give the copy that it took over back to the run before, as far as it was
    taken. Its HOME stays for the next run. Raises Unavailable, OSError.
    """
    if facts.parent and workspace.agent_run(facts.parent).folder.is_dir():
        _return_copy(run, workspace.agent_run(facts.parent))
    replace(facts, parent="", ended=True).write(run)


def _return_copy(run: AgentRun, parent: AgentRun) -> None:
    # Every step may have been done by a process that was killed here too.
    known = RunFacts.read(parent)
    places = [(run.work / name, parent.work / name) for name in (UPPER, TREE)]
    for mine, theirs in (*places, (run.git, parent.git)):
        if mine.is_dir() and not theirs.exists():
            os.rename(mine, theirs)
    if run.manifest.is_file():  # written last of all: the copy has this start now
        shutil.copytree(run.base, parent.base, dirs_exist_ok=True)
        durable.overwrite(parent.manifest, durable.read_regular(run.manifest, max_bytes=limits.AGENT_MANIFEST_BYTES))
    if known.continued == run.run_id:
        replace(known, continued="").write(parent)
    run.manifest.unlink(missing_ok=True)


def stop_run(run: AgentRun, facts: RunFacts) -> bool:
    """Ask a run's launcher to stop, and wait; False if it had ended before. Raises Unavailable if it does not stop."""
    try:
        launcher = os.pidfd_open(facts.launcher)
    except OSError:  # gone, or about to be
        launcher = -1
    try:
        if not is_alive(run):
            return False
        if launcher >= 0:  # the run was alive when this was opened, so it is its launcher and no later process
            for number in (signal.SIGTERM, signal.SIGCONT):
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(launcher, number)
    finally:
        if launcher >= 0:
            os.close(launcher)
    until = time.monotonic() + _STOP_SECONDS
    while is_alive(run):
        if time.monotonic() > until:
            raise Unavailable(f"{run.run_id}: still running; kill it with: kill -9 {facts.launcher}")
        time.sleep(_LOOK_SECONDS)
    return True


def read_frozen(run: AgentRun, read: Callable[[], T]) -> T:
    """What `read` returns of the run's work copy while no process of its jail ran. Raises OSError, Unavailable, and
    what `read` raises. What was read while a process ran is read again.
    """
    for _ in range(limits.AGENT_READS):
        with frozen(run) as stood:
            try:
                value = read()
            except (OSError, ThreeGateError):
                if stood():
                    raise
                continue
            if stood():
                return value
    raise Unavailable(_RESTLESS)


@contextmanager
def frozen(run: AgentRun) -> Iterator[Callable[[], bool]]:
    """Keep every process of a run's jail stopped. The value returns whether all of them have been so since the block
    began. Raises OSError, Unavailable.
    """
    # Only a freezer holds processes against their will. By signals they are stopped too, but a stopped process may have
    # arranged to be resumed (a timer with SIGCONT, a child's death), to write, and to stop itself again; so each
    # thread's count of switches is compared.
    jail = _jail_of(run)
    with _freezing(run, _STOP_SECONDS):
        if freeze(run.run_id, _STOP_SECONDS):
            try:
                yield lambda: is_frozen(run.run_id)
            finally:
                thaw(run.run_id)
            return
        stopped: set[int] = set()
        try:
            _stop_all(jail, stopped)
            before = _moves(jail)
            yield lambda: before is not None and _moves(jail) == before
        finally:
            for pid in stopped:
                _signal(pid, signal.SIGCONT)


def _moves(jail: int) -> dict[tuple[int, int], str] | None:
    """Of each thread of a jail its state and how often it was switched; None if one is neither stopped nor waiting in
    the kernel. A thread that ran at all in between was switched.
    """
    found = {}
    for pid in jail_processes(jail):
        for thread in _threads(pid):
            with suppress(OSError):
                lines = Path(f"/proc/{pid}/task/{thread}/status").read_text("utf-8", "replace").splitlines()
                state, *counts = [line for line in lines if line.startswith("State:") or "ctxt_switches:" in line]
                if state.split()[1] not in f"{_STILL}D":
                    return None
                found[pid, thread] = " ".join([state, *counts])
    return found


def _jail_of(run: AgentRun) -> int:
    """The process of a run's jail; 0 if it has ended. Raises Unavailable.

    An agent may make its first call before its launcher has recorded which process the jail is.
    """
    until = time.monotonic() + _STOP_SECONDS
    while is_alive(run):
        facts = RunFacts.read(run)
        if facts.jail or facts.ended:
            return facts.jail
        if time.monotonic() > until:
            raise Unavailable(f"{run.run_id}: its jail is not known yet; try again")
        time.sleep(_LOOK_SECONDS)
    return 0


def thaw_forgotten(run: AgentRun, jail: int) -> None:
    """Resume a jail whose processes were stopped by a process that was killed meanwhile."""
    if is_frozen(run.run_id):
        with suppress(OSError, Unavailable), _freezing(run, 0):
            thaw(run.run_id)
        return
    first = _first(jail)
    if first is None or _stat(first)[0] != "T":
        return
    with suppress(OSError, Unavailable), _freezing(run, 0):
        for pid in jail_processes(jail):
            _signal(pid, signal.SIGCONT)


@contextmanager
def _freezing(run: AgentRun, seconds: float) -> Iterator[None]:
    """Take the exclusive right to stop and resume the processes of a run. Raises OSError, Unavailable if
    another process has it.
    """
    with _locked(run.work, seconds) as free:
        if not free:
            raise Unavailable(f"{run.run_id}: another process is reading its changes; try again")
        yield


def _stop_all(jail: int, stopped: set[int]) -> None:
    """Stop all processes of a jail; `stopped` receives those that were running. Raises Unavailable."""
    # A process created during one pass is found by the next: it is done when two passes find the same processes, all
    # stopped. A process waiting in the kernel (D) cannot stop before that wait ends, which for the parent of a stopped
    # vfork is not before we are done; so a limited number of passes with nothing else running is enough for any file
    # operation.
    until = time.monotonic() + _STOP_SECONDS
    before: set[int] = set()
    quiet = 0
    while quiet < _QUIET_LOOKS:
        if time.monotonic() > until:
            raise Unavailable(_RESTLESS)
        _stop_family(jail, stopped, until)
        states = _jail_states(jail)
        going = {pid: state for pid, state in states.items() if state not in _STILL}
        for pid in going:
            stopped.add(pid)
            _signal(pid, signal.SIGSTOP)
        if states.keys() != before or any(state != "D" for state in going.values()):
            quiet = 0
        else:
            quiet += 1 if going else _QUIET_LOOKS // 2
        before = set(states)
        time.sleep(0.002)


def _stop_family(jail: int, stopped: set[int], until: float) -> None:
    """Stop a jail's processes from the first to its youngest descendants, as the kernel lists each one's children."""
    # That takes a tenth of a look at all of /proc, in which a process that only makes the next one has long gone. The
    # list of a process whose children end meanwhile may lack some, so it proves nothing.
    for _ in range(_CHASES):
        left, found = _children(jail)[:1], False
        while left and time.monotonic() < until:
            pid = left.pop()
            if _state(pid) not in _STILL:
                found = True
                stopped.add(pid)
                _signal(pid, signal.SIGSTOP)
            left += _children(pid)
        if not found:
            return


def jail_processes(jail: int) -> list[int]:
    """The processes in the pid namespace that bubblewrap (process `jail`) created, without bubblewrap itself."""
    return list(_jail_states(jail))


def _jail_states(jail: int) -> dict[int, str]:
    """The state of each of these processes."""
    # They descend from the namespace's first process, and none can leave it; a program that other accounts may not
    # inspect still has a parent that everyone can read.
    first = _first(jail)
    if first is None:
        return {}
    found = {int(name): _stat(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    children: dict[int, list[int]] = {}
    for pid, (_, parent) in found.items():
        children.setdefault(parent, []).append(pid)
    left, states = [first], {}
    while left:
        pid = left.pop()
        states[pid] = _state(pid)
        left += children.get(pid, [])
    return states


def _state(pid: int) -> str:
    """The state of a process: that of a running thread, if it has one."""
    # The first thread, whose state /proc has for the process, may have ended long before the others.
    states = [_stat(pid, thread)[0] for thread in _threads(pid)]
    return next((state for state in states if state not in _STILL), states[0] if states else "X")


def _threads(pid: int) -> list[int]:
    """The threads of a process; none if it is gone."""
    try:
        return sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    except OSError:
        return []


def _first(jail: int) -> int | None:
    """The first process in a jail."""
    return next(iter(_children(jail)), None)


def _children(pid: int) -> list[int]:
    """The processes that the threads of one have made, as far as they can be seen; none if it is gone."""
    found: list[int] = []
    with suppress(OSError):
        for thread in _threads(pid):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text("ascii").split())
    return found


def _stat(pid: int, thread: int = 0) -> tuple[str, int]:
    """State and parent of a process, or of one of its threads; X and 0 if it is gone."""
    try:
        line = Path(f"/proc/{pid}/task/{thread or pid}/stat").read_text("utf-8", "replace")
        state, parent, *_ = line.rpartition(") ")[2].split(maxsplit=2)  # the program's name may have any character
        return state, int(parent)
    except (OSError, ValueError):
        return "X", 0


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
