"""Reads a started container's walls back from the host, before a byte of the request's code runs.

Invariant: what is written into a result was found here, in the kernel's own files and the engine's own words; one
difference to what the job asks for and the run is refused (`limits_not_enforced`).
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from threegate.core import limits
from threegate.request.job import Job
from threegate.runners.cgroup import CgroupFiles
from threegate.runners.era.out_volume import OutVolume
from threegate.runners.era.spec import RUN_USER, container_words

_PAGE = 4096
_EXEC_SECONDS = 3.0
_NAMESPACES = ("net", "pid", "ipc", "mnt", "uts")


@dataclass(slots=True)
class Walls:
    """What was found (`effective`, for the result) and what differs from what was asked for."""

    effective: dict[str, str] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)

    def expect(self, name: str, found: object, wanted: object) -> None:
        """Note one value, and whether it is the one that must be."""
        self.effective[name] = str(found)
        if found != wanted:
            self.differences.append(f"{name} is {found}, not {wanted}")


def is_keeper(pid: int, words: list[str], seconds: float) -> bool:
    """Whether PID 1 becomes exactly these words within `seconds`, as the kernel tells them.

    Raises OSError when it is gone. The engine may answer before the program was executed.
    """
    wanted = [word.encode() for word in words]
    end = time.monotonic() + seconds
    while Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1] != wanted:
        if time.monotonic() >= end:
            return False
        time.sleep(0.001)
    return True


def read_back(
    walls: Walls, job: Job, state: dict[str, Any], out: OutVolume, *, relay_pid: int | None, runtime: str
) -> None:
    """Note the walls of the container that `inspect` describes in `state`; in/ lies beside `out`.

    Raises OSError when its process is gone.
    """
    pid = int(state["State"]["Pid"])
    _cgroups(walls, job, CgroupFiles.of(pid))
    _out(walls, job, out)
    _asked(walls, job, state, runtime)
    # gVisor's processes live in its own kernel; what the host sees of them is one sandbox in the host's pid namespace.
    kinds = tuple(kind for kind in _NAMESPACES if kind != "pid" or runtime != "runsc")
    _namespaces(walls, pid, relay_pid, kinds)
    if runtime == "runsc":
        walls.effective["kernel"] = "gVisor: processes, files and system calls are its own"
    else:
        _words(walls, job, pid, runtime)
        _process(walls, job, pid)
        _mounts(walls, pid)
        _folders(walls, pid, out.path.parent)
        _interfaces(walls, pid)


def _cgroups(walls: Walls, job: Job, files: CgroupFiles) -> None:
    wanted = job.limits.memory_mb * limits.MIB
    memory = files.memory()
    walls.effective["memory"] = "not enforced" if memory is None else f"{memory} bytes"
    if memory is None or not wanted - _PAGE < memory <= wanted:
        walls.differences.append(f"memory is {memory}, not {wanted}")
    walls.expect("swap", "none" if files.no_swap() else "not enforced", "none")
    walls.expect("processes", files.pids(), job.limits.processes)
    cpus = files.cpus()
    walls.effective["cpu"] = "not enforced" if cpus is None else f"{cpus.normalize():f} cores"
    if cpus is None or abs(cpus - Decimal(job.limits.cpu)) > Decimal("0.011"):
        walls.differences.append(f"cpu is {cpus}, not {job.limits.cpu}")


def _out(walls: Walls, job: Job, out: OutVolume) -> None:
    size, names = out.limits()
    walls.effective["out_bytes"], walls.effective["out_files"] = str(size), str(names)
    if size > job.limits.out_bytes + _PAGE or names > job.limits.out_files:
        walls.differences.append(f"/out takes {size} bytes and {names} names")


def _asked(walls: Walls, job: Job, state: dict[str, Any], runtime: str) -> None:
    """What only the engine knows."""
    host = state["HostConfig"]
    if runtime == "runsc":
        walls.expect("keeper", f"{state['Config']['Cmd'][2]} s", f"{job.limits.time_sec + 1} s")
    walls.effective["wall"] = f"{job.limits.time_sec} s (our watch), {job.limits.time_sec + 1} s (PID 1)"
    walls.expect("runtime", host["Runtime"], runtime)
    walls.expect("image", state["Image"], job.image)
    walls.expect("user", state["Config"]["User"], f"{RUN_USER}:{RUN_USER}")
    walls.expect("root", "read-only" if host["ReadonlyRootfs"] else "writable", "read-only")
    walls.expect("log", host["LogConfig"]["Type"], "none")
    if host["Privileged"] or host["CapAdd"] or host["Devices"] or host["Binds"] or host["VolumesFrom"]:
        walls.differences.append("the engine gave privileges, devices or volumes that nobody asked for")
    places = sorted(mount["Destination"] for mount in state["Mounts"])
    walls.expect("mounts", " ".join(places), "/in /out")


def _namespaces(walls: Walls, pid: int, relay_pid: int | None, kinds: tuple[str, ...]) -> None:
    for kind in kinds:
        own = Path(f"/proc/{pid}/ns/{kind}").readlink()
        if own == Path(f"/proc/self/ns/{kind}").readlink():
            walls.differences.append(f"the {kind} namespace is the host's")
        if kind == "net" and relay_pid and own != Path(f"/proc/{relay_pid}/ns/net").readlink():
            walls.differences.append("the network namespace is not the relay's")
    walls.effective["namespaces"] = "own: " + " ".join(kinds)


def _words(walls: Walls, job: Job, pid: int, runtime: str) -> None:
    """PID 1 is the keeper with the job's time, and waits to become the job's environment, workdir and argv."""
    words = container_words(job, runtime)
    if is_keeper(pid, words, _EXEC_SECONDS):
        walls.effective["keeper"] = f"{words[2]} s"
    else:
        walls.differences.append("PID 1 is not the deadline keeper with the command of the request")


def _folders(walls: Walls, pid: int, folder: Path) -> None:
    """What the run sees as /in and /out is this run's folder and this run's volume."""
    for name in ("in", "out"):
        seen, ours = Path(f"/proc/{pid}/root/{name}").stat(), (folder / name).stat()
        if (seen.st_dev, seen.st_ino) != (ours.st_dev, ours.st_ino):
            walls.differences.append(f"/{name} is not the folder of this run")


def _process(walls: Walls, job: Job, pid: int) -> None:
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    status = {key: value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    walls.expect("uid", status["Uid"].split()[0], str(RUN_USER))
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
        value = next(line[len(words) :].split()[1] for line in rlimits.splitlines() if line.startswith(words))
        walls.expect(name, value, str(wanted))


def _mounts(walls: Walls, pid: int) -> None:
    wanted = {
        "/": {"ro"},
        "/in": {"ro"},
        "/out": {"noexec", "nosuid", "nodev"},
        "/tmp": {"noexec", "nosuid", "nodev"},
    }
    for line in Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        fields = line.split(" ")
        missing = wanted.pop(fields[4], set()) - set(fields[5].split(","))
        if missing:
            walls.differences.append(f"{fields[4]} is mounted without {' '.join(sorted(missing))}")
    if wanted:
        walls.differences.append(f"not mounted: {' '.join(sorted(wanted))}")


def _interfaces(walls: Walls, pid: int) -> None:
    names = []
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii", errors="replace").splitlines()[2:]
        names = [line.split(":")[0].strip() for line in lines]
    # Tunnel templates that the kernel puts into every new namespace are down and have no address.
    names = [
        name
        for name in names
        if name
        not in ("tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6gre0")
    ]
    walls.expect("network", " ".join(names), "lo")
