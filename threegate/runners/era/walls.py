"""What is read back of a run before a byte of its code runs, in a container or in bubblewrap.

Invariant: a value in `Walls.effective` was found in the kernel's own files (or in an answer of the engine, `readback`);
what differs from the job is in `differences`, and what could not be read is named, never taken for enforced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Final

from threegate.core import limits
from threegate.request.job import Job, JobLimits
from threegate.runners.cgroup import CgroupFiles

RUN_USER: Final = 65534
"""User and group of a run, inside."""
PAGE: Final = 4096
NOT_READ: Final = "not read back"
NOT_ENFORCED: Final = "not enforced"
NO_INTERFACES: Final = frozenset("tunl0 sit0 ip6tnl0 gre0 gretap0 erspan0 ip_vti0 ip6_vti0 ip6gre0".split())
"""Tunnel templates that the kernel adds to every new network namespace: they are down and have no address."""
_SCRATCH: Final = frozenset({"noexec", "nosuid", "nodev"})
RUN_MOUNTS: Final[Mapping[str, frozenset[str]]] = {
    "/": frozenset({"ro"}),
    "/in": frozenset({"ro"}),
    "/out": _SCRATCH,
    "/tmp": _SCRATCH,
}
"""Mounts of a run and the options that each must have."""


def command_words(job: Job) -> list[str]:
    """What is executed: the exact environment, the workdir, the argv itself; no shell parses it."""
    environment = [f"{name}={value}" for name, value in sorted(job.environment.items())]
    return ["/usr/bin/env", "-i", f"--chdir={job.workdir}", *environment, *job.action.words]


def tmp_bytes(bounds: JobLimits) -> int:
    """The size of /tmp: half of the memory, against which it counts, between 4 and 512 MiB."""
    return min(max(bounds.memory_mb // 2, 4), 512) * limits.MIB


@dataclass(slots=True)
class Walls:
    """What was found (`effective`, for the result) and what differs from what was requested."""

    effective: dict[str, str] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """What this user may not read on this machine."""

    @contextmanager
    def readable(self, *names: str) -> Iterator[None]:
        """Mark these as not read back if the kernel hides their files (another user's, hidepid)."""
        try:
            yield
        except (PermissionError, FileNotFoundError):
            self.unread += names
            self.effective.update(dict.fromkeys(names, NOT_READ))

    def expect(self, name: str, found: object, wanted: object) -> None:
        """Record one value, and whether it is as required."""
        self.effective[name] = str(found)
        if found != wanted:
            self.differences.append(f"{name} is {found}, not {wanted}")


def process_status(pid: int) -> dict[str, str]:
    """/proc/PID/status. Raises OSError."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    return {key: value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}


def holds_memory(files: CgroupFiles, memory_mb: int) -> bool:
    """Whether the kernel enforces this limit, which it rounds down to a page."""
    wanted, memory = memory_mb * limits.MIB, files.memory()
    return memory is not None and wanted - PAGE < memory <= wanted


def expect_cgroups(walls: Walls, job: Job, files: CgroupFiles) -> None:
    """Memory, swap, processes and CPU time, as the run's cgroups enforce them."""
    memory = files.memory()
    walls.effective["memory"] = NOT_ENFORCED if memory is None else f"{memory} bytes"
    if not holds_memory(files, job.limits.memory_mb):
        walls.differences.append(f"memory is {memory}, not {job.limits.memory_mb * limits.MIB}")
    walls.expect("swap", "none" if files.no_swap() else NOT_ENFORCED, "none")
    processes = files.pids()
    walls.expect("processes", NOT_ENFORCED if processes is None else processes, job.limits.processes)
    cpus = files.cpus()
    walls.effective["cpu"] = NOT_ENFORCED if cpus is None else f"{cpus.normalize():f} cores"
    if cpus is None or abs(cpus - Decimal(job.limits.cpu)) > Decimal("0.011"):
        walls.differences.append(f"cpu is {cpus}, not {job.limits.cpu}")


def namespace(pid: int | str, kind: str) -> str:
    """Which namespace a process is in. Raises OSError."""
    return str(Path(f"/proc/{pid}/ns/{kind}").readlink())


def expect_namespaces(walls: Walls, found: Mapping[str, str]) -> None:
    """None of the namespaces is this process's."""
    for kind, own in found.items():
        if own == namespace("self", kind):
            walls.differences.append(f"the {kind} namespace is the host's")
    walls.effective["namespaces"] = "own: " + " ".join(found)


def expect_process(walls: Walls, job: Job, pid: int, status: Mapping[str, str]) -> None:
    """Privileges and the limits that each of its processes inherits. Raises OSError."""
    for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb"):
        if int(status[name], 16):
            walls.differences.append(f"capabilities are left ({name})")
    walls.expect("capabilities", "none" if not int(status["CapBnd"], 16) else status["CapBnd"], "none")
    walls.expect("no_new_privs", status["NoNewPrivs"], "1")
    walls.expect("seccomp", "filter" if status["Seccomp"] == "2" else "none", "filter")
    rlimits = Path(f"/proc/{pid}/limits").read_text(encoding="ascii", errors="replace")
    for name, words, wanted in (
        ("open_files", "Max open files", job.limits.open_files),
        ("file_bytes", "Max file size", job.limits.file_bytes),
        ("core", "Max core file size", 0),
    ):
        walls.expect(name, hard_limit(rlimits, words), str(wanted))


def hard_limit(rlimits: str, words: str) -> str:
    """One hard limit of /proc/PID/limits: a process may raise its soft limit up to that."""
    return next(line[len(words) :].split()[1] for line in rlimits.splitlines() if line.startswith(words))


def mounts_of(pid: int) -> Iterator[tuple[str, frozenset[str]]]:
    """Place and options of each mount, in their order. Raises OSError.

    One that another one covers at the same place is left out, since nothing can be opened in it: systemd mounts
    binfmt_misc over its own writable automount point in /proc/sys.
    """
    lines = Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    mounts = [line.split(" ") for line in lines]
    covered = {(parent, place) for own, parent, _, _, place, *_ in mounts if own != parent}
    for own, _, _, _, place, options, *_ in mounts:
        if (own, place) not in covered:
            yield place, frozenset(options.split(","))


def expect_mounts(
    walls: Walls, found: Iterable[tuple[str, frozenset[str]]], wanted: Mapping[str, frozenset[str]]
) -> None:
    """Each of these places is mounted, with at least these options."""
    left = dict(wanted)
    for place, options in found:
        if missing := left.pop(place, frozenset()) - options:
            walls.differences.append(f"{place} is mounted without {' '.join(sorted(missing))}")
    if left:
        walls.differences.append(f"not mounted: {' '.join(sorted(left))}")


def expect_out(walls: Walls, job: Job, size: int, names: int, used: int) -> None:
    """/out has room for so many bytes and names, and is empty."""
    walls.effective["out_bytes"], walls.effective["out_files"] = str(size), str(names)
    # The kernel rounds the size up to a page.
    if size > job.limits.out_bytes + PAGE or names > job.limits.out_files or used:
        walls.differences.append(f"/out takes {size} bytes and {names} names, and has {used}")


def expect_interfaces(walls: Walls, pid: int) -> None:
    """No network interface but lo. Raises OSError."""
    lines = Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii", errors="replace").splitlines()[2:]
    names = [line.split(":")[0].strip() for line in lines]
    walls.expect("network", " ".join(name for name in names if name not in NO_INTERFACES), "lo")
