"""Reads a started container's restrictions back, before a byte of the request's code runs.

Invariant: what is written into a result was found here: in the kernel's own files, which any user of this machine may
read, in the engine's answers, or in the report of PID 1, which is ours, from inside. On any difference from the job the
run is refused (`limits_not_enforced`); what could not be read is named, and never taken for an enforced restriction.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from threegate.request.job import Job
from threegate.runners.cgroup import CgroupFiles
from threegate.runners.era.container_stream import Greeting
from threegate.runners.era.spec import KEEPER_WORDS
from threegate.runners.era.walls import (
    RUN_MOUNTS,
    RUN_USER,
    Walls,
    expect_cgroups,
    expect_interfaces,
    expect_mounts,
    expect_namespaces,
    expect_out,
    expect_process,
    mounts_of,
    namespace,
    process_status,
)

_NAMESPACES = ("net", "pid", "ipc", "mnt", "uts")


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
    expect_out(walls, job, said.out_bytes, said.out_files, said.out_used)
    with walls.readable("memory", "swap", "processes", "cpu"):
        expect_cgroups(walls, job, CgroupFiles.of(pid))
    if runtime == "runsc":
        # The host sees gVisor's processes as one sandbox; they run in its own kernel.
        walls.effective["kernel"] = "gVisor: processes, files and system calls are its own"
        with walls.readable("namespaces"):
            expect_namespaces(walls, {kind: namespace(pid, kind) for kind in _NAMESPACES if kind != "pid"})
        return
    expect_namespaces(walls, {kind: said.namespaces[kind] for kind in _NAMESPACES})
    if relay is not None:
        with walls.readable("relay"):
            walls.expect("relay", said.namespaces["net"] == namespace(relay[1], "net"), True)
    facts = inputs.stat()
    if said.inputs != (facts.st_dev, facts.st_ino):
        walls.differences.append("/in is not this run's folder")
    with walls.readable("keeper"):
        _keeper(walls, job, pid)
    with walls.readable("capabilities", "no_new_privs", "seccomp", "open_files", "file_bytes", "core"):
        _process(walls, job, pid, said)
    with walls.readable("mount options"):
        expect_mounts(walls, mounts_of(pid), RUN_MOUNTS)
    with walls.readable("network"):
        expect_interfaces(walls, pid)


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
        seen in ("0", str(os.getuid())) or said.namespaces["user"] == namespace("self", "user")
    ):
        walls.differences.append(f"the host sees uid {seen}")
    expect_process(walls, job, pid, status)
