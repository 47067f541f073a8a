"""Reads a started container's restrictions back, before a byte of the request's code runs.

Invariant: what is written into a result was found here: in the kernel's own files, which any user of this machine may
read, in the engine's answers, or in the report of PID 1, which is ours, from inside. On any difference from the job the
run is refused (`limits_not_enforced`); what could not be read is named, and never taken for an enforced restriction.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from threegate.core import limits
from threegate.request.job import Job
from threegate.runners.cgroup import CgroupFiles
from threegate.runners.era.container_stream import Greeting
from threegate.runners.era.spec import KEEPER_WORDS, RUN_USER

_PAGE = 4096
_NAMESPACES = ("net", "pid", "ipc", "mnt", "uts")
NOT_READ = "not read back"
NO_INTERFACES = frozenset("tunl0 sit0 ip6tnl0 gre0 gretap0 erspan0 ip_vti0 ip6_vti0 ip6gre0".split())
"""Tunnel templates that the kernel adds to every new network namespace: they are down and have no address."""


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
    return memory is not None and wanted - _PAGE < memory <= wanted


def read_back(
    walls: Walls,
    job: Job,
    state: dict[str, Any],
    said: Greeting,
    inputs: Path,
    *,
    relay: tuple[str, int] | None,
    runtime: str,
) -> None:
    """Record the restrictions of the container that `inspect` describes in `state` and whose PID 1 `said` what it sees.

    `inputs` is the folder of its /in, `relay` the container and process whose network it shares. Raises OSError if its
    process is gone.
    """
    pid = int(state["State"]["Pid"])
    os.close(os.pidfd_open(pid))  # raises if it is gone, before anything is reported as not readable
    _asked(walls, job, state, runtime, relay)
    _out(walls, job, said)
    with walls.readable("memory", "swap", "processes", "cpu"):
        _cgroups(walls, job, CgroupFiles.of(pid))
    if runtime == "runsc":
        # The host sees gVisor's processes as one sandbox; they run in its own kernel.
        walls.effective["kernel"] = "gVisor: processes, files and system calls are its own"
        with walls.readable("namespaces"):
            _namespaces(walls, {kind: _namespace(pid, kind) for kind in _NAMESPACES if kind != "pid"})
        return
    _namespaces(walls, {kind: said.namespaces[kind] for kind in _NAMESPACES})
    if relay is not None:
        with walls.readable("relay"):
            walls.expect("relay", said.namespaces["net"] == _namespace(relay[1], "net"), True)
    facts = inputs.stat()
    if said.inputs != (facts.st_dev, facts.st_ino):
        walls.differences.append("/in is not this run's folder")
    with walls.readable("keeper"):
        _keeper(walls, job, pid)
    with walls.readable("capabilities", "no_new_privs", "seccomp", "open_files", "file_bytes", "core"):
        _process(walls, job, pid, said)
    with walls.readable("mount options"):
        _mounts(walls, pid)
    with walls.readable("network"):
        _interfaces(walls, pid)


def _cgroups(walls: Walls, job: Job, files: CgroupFiles) -> None:
    memory = files.memory()
    walls.effective["memory"] = "not enforced" if memory is None else f"{memory} bytes"
    if not holds_memory(files, job.limits.memory_mb):
        walls.differences.append(f"memory is {memory}, not {job.limits.memory_mb * limits.MIB}")
    walls.expect("swap", "none" if files.no_swap() else "not enforced", "none")
    processes = files.pids()
    walls.expect("processes", "not enforced" if processes is None else processes, job.limits.processes)
    cpus = files.cpus()
    walls.effective["cpu"] = "not enforced" if cpus is None else f"{cpus.normalize():f} cores"
    if cpus is None or abs(cpus - Decimal(job.limits.cpu)) > Decimal("0.011"):
        walls.differences.append(f"cpu is {cpus}, not {job.limits.cpu}")


def _out(walls: Walls, job: Job, said: Greeting) -> None:
    size, names = said.out_bytes, said.out_files
    walls.effective["out_bytes"], walls.effective["out_files"] = str(size), str(names)
    # The kernel rounds the size up to a page.
    if size > job.limits.out_bytes + _PAGE or names > job.limits.out_files or said.out_used:
        walls.differences.append(f"/out takes {size} bytes and {names} names, and has {said.out_used}")


def _asked(walls: Walls, job: Job, state: dict[str, Any], runtime: str, relay: tuple[str, int] | None) -> None:
    """What only the engine knows."""
    host = state["HostConfig"]
    if tuple(state["Config"]["Cmd"]) != KEEPER_WORDS:
        walls.differences.append("the engine is running a PID 1 that is not ours")
    network = f"container:{relay[0]}" if relay else "none"
    if host["NetworkMode"] != network:
        walls.differences.append(f"the engine's network is {host['NetworkMode']}, not {network}")
    walls.effective["wall"] = f"{job.limits.time_sec} s (our watch), {job.limits.time_sec + 1} s (PID 1)"
    walls.expect("runtime", host["Runtime"], runtime)
    walls.expect("image", state["Image"], job.image)
    walls.expect("user", state["Config"]["User"], f"{RUN_USER}:{RUN_USER}")
    walls.expect("root", "read-only" if host["ReadonlyRootfs"] else "writable", "read-only")
    walls.expect("log", host["LogConfig"]["Type"], "none")
    if host["Privileged"] or host["CapAdd"] or host["Devices"] or host["Binds"] or host["VolumesFrom"]:
        walls.differences.append("the engine added privileges, devices or volumes that were not requested")
    places = sorted(mount["Destination"] for mount in state["Mounts"])
    walls.expect("mounts", " ".join(places), "/in /out")


def _namespace(pid: int | str, kind: str) -> str:
    return str(Path(f"/proc/{pid}/ns/{kind}").readlink())


def _namespaces(walls: Walls, found: dict[str, str]) -> None:
    for kind, own in found.items():
        if own == _namespace("self", kind):
            walls.differences.append(f"the {kind} namespace is the host's")
    walls.effective["namespaces"] = "own: " + " ".join(found)


def _keeper(walls: Walls, job: Job, pid: int) -> None:
    """PID 1 is our program, and only root may inspect it (the kernel gives the files of such a process to root)."""
    if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1] != [word.encode() for word in KEEPER_WORDS]:
        walls.differences.append("PID 1 is not the keeper of the run")
    elif Path(f"/proc/{pid}/status").stat().st_uid == RUN_USER:
        walls.differences.append("PID 1 can be inspected")
    else:
        walls.effective["keeper"] = f"{job.limits.time_sec + 1} s"


def _process(walls: Walls, job: Job, pid: int, said: Greeting) -> None:
    status = process_status(pid)
    walls.expect("uid", str(said.uid), str(RUN_USER))
    seen = status["Uid"].split()[0]
    # A rootless engine has a user namespace: the host sees another number there.
    if seen != str(RUN_USER) and (
        seen in ("0", str(os.getuid())) or said.namespaces["user"] == _namespace("self", "user")
    ):
        walls.differences.append(f"the host sees uid {seen}")
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
        # The hard limit: a process may raise its soft limit up to that.
        value = next(line[len(words) :].split()[1] for line in rlimits.splitlines() if line.startswith(words))
        walls.expect(name, value, str(wanted))


def _mounts(walls: Walls, pid: int) -> None:
    wanted = {"/": {"ro"}, "/in": {"ro"}, "/out": {"noexec", "nosuid", "nodev"}, "/tmp": {"noexec", "nosuid", "nodev"}}
    for line in Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        fields = line.split(" ")
        missing = wanted.pop(fields[4], set()) - set(fields[5].split(","))
        if missing:
            walls.differences.append(f"{fields[4]} is mounted without {' '.join(sorted(missing))}")
    if wanted:
        walls.differences.append(f"not mounted: {' '.join(sorted(wanted))}")


def _interfaces(walls: Walls, pid: int) -> None:
    lines = Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii", errors="replace").splitlines()[2:]
    names = [line.split(":")[0].strip() for line in lines]
    walls.expect("network", " ".join(name for name in names if name not in NO_INTERFACES), "lo")
