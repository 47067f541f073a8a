"""The sandbox without an engine: runs a request's argv in bubblewrap, in the jail of `runners/jail`.

The limits are set for the jail's first process before that starts anything, while the jail is still being made. A run
is started up to a gate: a shell in the finished jail that waits for one line. There everything is read back from
outside. Then it becomes the command.

Invariant: no byte of the request's code runs before every restriction was read back; if this process dies, the gate
never opens, or the kernel kills the jail. /out is collected when no process of the run is left, through a descriptor
that was opened before the gate. Nothing of this needs root, a daemon or an engine.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.core.removal import remove_folder
from threegate.core.settings import EraSettings, SecretReference
from threegate.judgement.judge import Clearance
from threegate.request.job import BUBBLEWRAP, WATCHED, Job, JobLimits
from threegate.runners.egress.secret_header import SecretHeader, secret_for
from threegate.runners.era.era_probe import era_probe_job
from threegate.runners.era.jailed_cgroup import RunCgroups
from threegate.runners.era.jailed_egress import Egress, egress_missing, open_egress
from threegate.runners.era.jailed_limits import (
    FOLDER,
    CgroupLimits,
    HeldLimits,
    WatchedLimits,
    whole_cores,
)
from threegate.runners.era.jailed_out import collect_out, full
from threegate.runners.era.jailed_watch import JailedWatch
from threegate.runners.era.root_identity import MASKED, Root, identify
from threegate.runners.era.walls import (
    PAGE,
    RUN_MOUNTS,
    RUN_USER,
    Walls,
    command_words,
    expect_interfaces,
    expect_mounts,
    expect_namespaces,
    expect_out,
    expect_process,
    mounts_of,
    namespace,
    process_status,
    tmp_bytes,
)
from threegate.runners.interface import (
    EMPTY,
    Control,
    Destination,
    Ended,
    Outcome,
    command_ended,
    nothing_ran,
    out_of_memory,
    process_limit,
)
from threegate.runners.jail.jail import (
    Account,
    Bound,
    Jail,
    JailProcess,
    Person,
    Scratch,
    missing_packages,
    set_rlimits,
    why_not,
)
from threegate.runners.jail.seccomp_programs import system_calls
from threegate.runners.seccomp import BUBBLEWRAP_SECCOMP_SHA256
from threegate.runners.staging import Collected, StagingError, fresh_folder, stage_inputs

_PERSON: Final = Person("nobody", RUN_USER, "/nonexistent", "sandbox")
GATE: Final = 'echo >&0 && read -r go <&0 && exec "$@" </dev/null'
"""On its standard input, a socket whose other end only this process has: its end ends the shell, too."""
_SCRATCH: Final = "noexec,nosuid,nodev"
_NAMESPACES: Final = ("net", "pid", "ipc", "mnt", "uts", "user", "cgroup")
_CREDENTIALS: Final = struct.Struct("3i")
_WALLS: Final = {
    **RUN_MOUNTS,
    "/dev/shm": RUN_MOUNTS["/tmp"],
    "/dev": frozenset({"ro"}),
    "/usr": frozenset({"ro"}),
    "/proc/sys": frozenset({"ro"}),
}
_WRITABLE: Final = {"/out", "/tmp", "/dev/shm", "/proc"}
_DEVICES: Final = {f"/dev/{name}" for name in "full null pts random tty urandom zero".split()}
_LOOK_SECONDS: Final = 2.0
_FILTERS: Final = 2
"""Seccomp programs of a jail."""
_SETTLED_SECONDS: Final = 5.0


class BubblewrapRunner:
    """Runs ERA jobs with `Job.runtime` ``bubblewrap`` according to `settings` (``[runners.era]``)."""

    starts_late = False

    def __init__(
        self, settings: EraSettings, *, secret_references: Mapping[str, SecretReference] | None = None
    ) -> None:
        self._settings = settings
        self._secrets = secret_references or {}
        # For root a limit on processes would not hold.
        root = os.geteuid() == 0
        self._account = Account("nobody", RUN_USER, RUN_USER) if root else Account.own()
        self._by_cgroup: bool | None = None
        self._tried: tuple[float, str | None] = (0.0, None)

    @property
    def by_cgroup(self) -> bool:
        """Whether the kernel enforces all limits of a run here; tested once, by making cgroups."""
        if self._by_cgroup is None:
            made = RunCgroups.make(JobLimits("1", 64, 1))
            self._by_cgroup = made is not None
            if made is not None:
                made.close()
        return self._by_cgroup

    def available(self, job: Job | None = None) -> str | None:
        """None if a run (of this job) can start now, else one line."""
        try:
            self._check(job)
        except Unavailable as error:
            return str(error)
        return None

    def _check(self, job: Job | None) -> Root:
        """The root of a run that can start now. Raises Unavailable."""
        if missing := missing_packages(relays=False):
            raise Unavailable(f"{', '.join(missing)}: not installed; on Debian: apt-get install {' '.join(missing)}")
        root = identify(self._settings)
        if not self.by_cgroup and self._settings.require_readback:
            raise Unavailable(
                f"runners.era.require_readback: without a cgroup memory is {WATCHED}; start the daemon as a user "
                "service or with: systemd-run --user --scope -p Delegate=yes"
            )
        if job is not None:
            self._check_job(job, root)
        moment, problem = self._tried
        if moment == 0.0 or (problem is not None and time.monotonic() - moment >= _LOOK_SECONDS):
            problem = self._try(root)
            self._tried = (time.monotonic(), problem)
        if problem is not None:
            raise Unavailable(problem)
        return root

    def _check_job(self, job: Job, root: Root) -> None:
        if job.network and (line := egress_missing()) is not None:
            raise Unavailable(line)
        if job.seccomp_sha256 != BUBBLEWRAP_SECCOMP_SHA256:
            raise Unavailable("the approval names another seccomp profile than this version has; approve it again")
        if job.image != root.digest:
            raise Unavailable("the approval names another root file system than this machine has; approve it again")
        if not self.by_cgroup and whole_cores(job.limits.cpu) < 1:
            raise Unavailable(
                f"cpu_limit {job.limits.cpu} is below one core, which needs a cgroup (a user service, or systemd-run "
                "--user --scope -p Delegate=yes) or a container engine; without them ask for 1"
            )

    def _try(self, root: Root) -> str | None:
        """Whether a jail can be made here at all: once for each process, not before each start."""
        jail = self._jail(root, None, JobLimits("1", 64, 1))
        try:
            process, door, _ = _gated(jail, ["/bin/true"], lambda _: None)
        except Unavailable as error:
            return str(error)
        door.close()
        _end(process)
        return None

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        """Run the command once; see Runner.run. Never raises because of the command."""
        clearance.must_cover(job)
        return self._contained(job, control)

    def prove(self, control: Control, *, network: bool = False) -> Outcome:
        """Run the probe of `era_probe`, which is ours and fixed, instead of a request: it measures the restrictions."""
        try:
            root = identify(self._settings)
        except Unavailable as error:
            return nothing_ran(str(error))
        job = replace(
            era_probe_job(self._settings, network=network, jailed="cgroup" if self.by_cgroup else "watched"),
            image=root.digest,
            egress_image="",
            runtime=BUBBLEWRAP,
            seccomp_sha256=BUBBLEWRAP_SECCOMP_SHA256,
        )
        return self._contained(job, control)

    def close(self) -> None:
        """Nothing is started ahead."""

    def _contained(self, job: Job, control: Control) -> Outcome:
        work = control.run_folder / "work"
        work.mkdir(mode=0o700)
        try:
            if not job.action.words or "=" in job.action.program:  # env(1) would take it for a variable
                raise Unavailable("the job has no command that a sandbox can run")
            root = self._check(job)
            stage_inputs(job.inputs, control.inputs_folder, work / "in")
            with ExitStack() as stack:
                secret = secret_for(job, self._secrets) if job.network else None
                run = JailedRun(job, control, self._account, secret, require_readback=self._settings.require_readback)
                stack.callback(run.close)
                run.start(self._jail(root, work / "in", job.limits), by_cgroup=self.by_cgroup)
                run.execute()
                run.collect(control.run_folder / "out")
                return run.outcome()
        except (StagingError, Unavailable) as error:
            return nothing_ran(str(error))
        finally:
            remove_folder(work)

    def _jail(self, root: Root, inputs: Path | None, bounds: JobLimits) -> Jail:
        owner = "" if self._account.is_own else f"uid={self._account.uid},gid={self._account.gid},"
        return Jail(
            self._account,
            () if inputs is None else (Bound(inputs, "/in"),),
            gated=True,
            person=_PERSON,
            root=Path("/") if root.path is None else root.path,
            masked=MASKED if root.path is None else (),
            scratch=(
                # One more name, for the root of the file system itself.
                Scratch("/out", bounds.out_bytes, bounds.out_files + 1, f"{owner}mode=0700,{_SCRATCH}"),
                Scratch("/tmp", tmp_bytes(bounds), limits.JAILED_TMP_NAMES, f"mode=1777,{_SCRATCH}"),
                Scratch("/dev/shm", limits.RUN_SHM_BYTES, limits.JAILED_SHM_NAMES, f"mode=1777,{_SCRATCH}"),
            ),
            calls=system_calls(engine=False),
            rlimits=_rlimits(bounds),
        )


class JailedRun:
    """One run, from its start to the outcome."""

    def __init__(
        self,
        job: Job,
        control: Control,
        account: Account,
        secret: SecretHeader | None = None,
        *,
        require_readback: bool,
    ) -> None:
        self._secret = secret
        self._job = job
        self._control = control
        self._account = account
        self._require_readback = require_readback
        self._stack = ExitStack()
        self._process: JailProcess | None = None
        self._door: socket.socket | None = None
        self._pid = 0
        self._out = -1
        self._held: HeldLimits | None = None
        self._watch: JailedWatch | None = None
        self._egress: Egress | None = None
        self._walls = Walls()
        self._ended: Ended | None = None
        self._collected = Collected()
        self._full: str | None = None
        self._notes: list[str] = []

    def start(self, jail: Jail, *, by_cgroup: bool) -> None:
        """Start it up to the gate, in its limits. Raises Unavailable: nothing can have run."""

        def limited(first: int) -> None:
            self._held = held = self._limits(by_cgroup=by_cgroup)
            held.enter(first)
            set_rlimits(self._account, first, held.rlimits)

        process, door, pid = _gated(jail, command_words(self._job), limited)
        self._process, self._door, self._pid = process, door, pid
        self._stack.callback(_end, process)
        self._stack.callback(door.close)

    def execute(self) -> None:
        """Read everything back, open the gate, watch until the end. Raises Unavailable."""
        process, door, held = self._process, self._door, self._held
        assert process is not None and door is not None and held is not None
        try:
            command = self._opened(os.pidfd_open(self._pid))
            inside = self._opened(os.open(f"/proc/{self._pid}/root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            self._out = self._opened(os.open("out", FOLDER, dir_fd=inside))
            held.open(inside)
            self._read_back(process)
        except (OSError, ValueError, KeyError, StopIteration) as error:
            self._ended = ("failed", f"limits_not_enforced: the limits could not be read back ({error}).")
            return
        problems = self._walls.differences
        if self._walls.unread and self._require_readback:
            unread = ", ".join(self._walls.unread)
            problems = [*problems, f"not enforced by the kernel: {unread} (runners.era.require_readback)"]
        if problems:
            self._ended = ("failed", f"limits_not_enforced: {'; '.join(problems)}.")
            return
        if self._job.network:
            self._egress = self._stack.enter_context(open_egress(self._pid, self._job, self._secret))
            self._walls.effective["network"] = self._egress.limit
        if (late := self._control.lease_over()) is not None:
            self._ended = ("interrupted", late)
            return
        self._watch = JailedWatch(self._job, self._control, process, command, held)
        self._stack.callback(self._watch.close)
        try:
            door.sendall(b"go\n")
            door.close()
        except OSError:  # nobody has read the word, so the gate stays shut
            self._ended = ("failed", "The jail ended before its gate was opened, so the command did not begin.")
            return
        try:
            self._watch.run()
        except Unavailable as error:
            self._ended = ("interrupted", f"It was told to end, and may still be running: {error}.")

    def _opened(self, descriptor: int) -> int:
        self._stack.callback(os.close, descriptor)
        return descriptor

    def _limits(self, *, by_cgroup: bool) -> HeldLimits:
        groups = RunCgroups.make(self._job.limits) if by_cgroup else None
        return WatchedLimits(self._job.limits, self._account) if groups is None else CgroupLimits(groups)

    def _read_back(self, process: JailProcess) -> None:
        """Everything that holds, as the kernel shows it from outside. Raises OSError."""
        walls, job, pid = self._walls, self._job, self._pid
        assert self._held is not None
        walls.effective["wall"] = f"{job.limits.time_sec} s (our watch)"
        walls.expect("runtime", job.runtime, BUBBLEWRAP)
        walls.effective["image"] = job.image
        expect_namespaces(walls, {kind: namespace(pid, kind) for kind in _NAMESPACES})
        if namespace(pid, "pid") != namespace(process.first_pid, "pid"):
            walls.differences.append("the command is not in the namespace of the jail's first process")
        for one in (process.first_pid, pid):
            status = _settled(one)
            seen = set(status["Uid"].split() + status["Gid"].split())
            if seen != {str(self._account.uid), str(self._account.gid)}:
                walls.differences.append(f"the host sees uid and gid {' '.join(sorted(seen))}")
            expect_process(walls, job, one, status)
            if int(status["Seccomp_filters"]) < _FILTERS:
                walls.differences.append("a seccomp filter is missing")
            self._held.read_back(walls, job, one)
        for kind in ("uid", "gid"):
            inside = Path(f"/proc/{pid}/{kind}_map").read_text(encoding="ascii").split()
            walls.expect(kind, " ".join(inside[::2]), f"{RUN_USER} 1")
            walls.effective[kind] = inside[0]
        facts = os.fstatvfs(self._out)
        used = facts.f_files - facts.f_ffree - 1
        expect_out(walls, job, facts.f_blocks * facts.f_frsize, facts.f_files - 1, used)
        mounts = list(mounts_of(pid))
        expect_mounts(walls, mounts, _WALLS)
        writable = {place for place, options in mounts if "rw" in options} - _DEVICES
        walls.expect("writable", " ".join(sorted(writable)), " ".join(sorted(_WRITABLE)))
        walls.effective["root"] = "read-only"
        expect_interfaces(walls, pid)

    def collect(self, target: Path) -> None:
        """Copy what the run left in /out into the new folder `target`. Raises OSError of our own disk."""
        if self._watch is None or self._ended is not None:
            with fresh_folder(target):
                return
        self._full = full(self._out, self._job.limits)
        self._collected = collect_out(self._out, target, self._job.limits)

    def close(self) -> None:
        """End everything of it; the second call does nothing."""
        with suppress(Unavailable):  # said already: the command has run
            self._stack.close()
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def outcome(self) -> Outcome:
        """The outcome of the run."""
        watch, held, collected = self._watch, self._held, self._collected
        status, detail = self._verdict()
        destinations = self._reached()
        return Outcome(
            status=status,
            detail=detail,
            exit_code=watch.exit_code if watch else None,
            wall_ms=watch.wall_ms if watch else 0,
            cpu_ms=held.cpu_ms if held and watch else None,
            peak_memory_bytes=held.peak if held and watch else None,
            effective_limits=self._walls.effective,
            stdout=watch.meters["stdout"].result() if watch else EMPTY,
            stderr=watch.meters["stderr"].result() if watch else EMPTY,
            artifacts=tuple(collected.artifacts),
            dropped=tuple(collected.dropped),
            destinations=destinations,
            image=self._job.image,
            runtime=BUBBLEWRAP,
            notes=tuple(self._notes),
            retry_after_sec=limits.RETRY_UNKNOWN_SECONDS if any(item.busy for item in destinations) else None,
        )

    def _reached(self) -> tuple[Destination, ...]:
        if self._egress is None:
            return ()
        destinations = self._egress.destinations()
        self._notes += self._egress.notes
        return destinations

    def _verdict(self) -> Ended:
        """Status and one sentence; the order of docs/spec/6-runners.md, Outcome."""
        bounds, watch, held = self._job.limits, self._watch, self._held
        if self._ended is not None or watch is None or held is None:
            return self._ended or ("interrupted", "It was not started.")
        if (over := watch.unheard()) is not None:
            return "interrupted", over
        if watch.ended is not None and watch.ended[0] != "timed_out":
            return watch.ended
        if held.out_of_memory:
            return out_of_memory(bounds)
        if held.refused_forks:
            return process_limit(bounds)
        if watch.ended is not None:
            return watch.ended
        if watch.exit_code is None:
            return "interrupted", "Bubblewrap ended before it passed on how the command did."
        exceeded = self._full or self._collected.exceeded
        if exceeded is not None:  # even with exit code 0: a program may have ignored a failed write
            return "output_exceeded", f"output_exceeded: {exceeded}."
        return command_ended(watch.exit_code)


def _rlimits(bounds: JobLimits) -> dict[str, int]:
    return {"nofile": bounds.open_files, "fsize": bounds.file_bytes, "core": 0, "memlock": 0, "msgqueue": 0}


def _gated(jail: Jail, words: list[str], limited: Callable[[int], None]) -> tuple[JailProcess, socket.socket, int]:
    """Start `words` up to the gate: bubblewrap, our end of the gate's socket, and the process that waits there.
    `limited` is that of `Jail.start`.

    Its number is the kernel's word, not its own: it comes with the line that it writes. Raises Unavailable.
    """
    door, theirs = socket.socketpair()
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        with theirs:
            process = jail.start(
                ["/bin/sh", "-c", GATE, "gate", *words],
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                begin=False,
                limited=limited,
            )
    except BaseException:  # Ctrl-C, too: nobody else knows of this descriptor
        door.close()
        raise
    try:
        door.settimeout(limits.JAILED_START_SECONDS)
        said, extra, _, _ = door.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
        if said == b"\n" and extra and process.first >= 0:
            return process, door, _CREDENTIALS.unpack(extra[0][2])[0]
    except OSError as error:
        problem = f"the jail did not start within {limits.JAILED_START_SECONDS} s ({error})"
    else:
        problem = why_not(_last_line(process))
    door.close()
    _end(process)
    raise Unavailable(problem)


def _settled(pid: int) -> dict[str, str]:
    """Its /proc/PID/status, once it has its filters: the jail's first process starts the gate before it takes them."""
    end = time.monotonic() + _SETTLED_SECONDS
    while True:
        status = process_status(pid)
        if int(status["Seccomp_filters"]) >= _FILTERS or time.monotonic() >= end:
            return status
        time.sleep(0.0005)


def _last_line(process: JailProcess) -> str:
    """What unshare, mount or bubblewrap wrote last before they failed."""
    assert process.stderr is not None
    if not select.select([process.stderr], [], [], 1)[0]:
        return "it ended"
    lines = os.read(process.stderr.fileno(), PAGE).decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {process.wait(1)}"


def _end(process: JailProcess) -> None:
    """Kill what is left of it, and close its pipes. The second call does nothing. Raises Unavailable."""
    try:
        process.wait_empty()
    finally:
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
