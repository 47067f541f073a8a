"""What a run's container is made of: pure, from the job to the words that the engine takes.

Invariant: every wall of spec 6 is asked for here and nowhere else, and read back by `era_readback`.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import docker
from docker.types import LogConfig, Mount, Ulimit

from threegate import limits
from threegate.job import Job
from threegate.runners.engine import BOOT_LABEL, LABEL, REQUEST_LABEL
from threegate.runners.interface import Control
from threegate.runners.seccomp import SECCOMP_JSON

RUN_USER = 65534
KEEPER = "/usr/local/libexec/threegate-keeper"
"""`timeout` under a name that nobody may read, so that the run can neither trace it nor write to its memory."""
_GO = 'IFS= read -r go && [ "$go" = go ] || exit 125; exec "$@" </dev/null'
_SHM_BYTES = 16 * limits.MIB


def container_words(job: Job, runtime: str) -> list[str]:
    """The words of PID 1: the deadline keeper, the wait for the go byte, the exact environment, the argv itself.

    The shell gets the argv as its own words and never reads them as text.
    """
    environment = [f"{name}={value}" for name, value in sorted(job.environment.items())]
    return [
        # gVisor reads a program to load it, and keeps its processes' memory apart by itself.
        *(
            "/usr/bin/timeout" if runtime == "runsc" else KEEPER,
            "--signal=KILL",
            str(job.limits.time_sec + 1),
        ),
        *("/bin/sh", "-c", _GO, "threegate-go"),
        *("/usr/bin/env", "-i", f"--chdir={job.workdir}", *environment),
        *(job.argv or ()),
    ]


def tmp_bytes(job: Job) -> int:
    """The size of /tmp: half of the memory, which it counts against, between 4 and 512 MiB."""
    return min(max(job.limits.memory_mb // 2, 4), 512) * limits.MIB


def labels(request_id: str, control: Control) -> dict[str, str]:
    """How our containers are known again."""
    return {LABEL: control.workspace_id, BOOT_LABEL: control.boot_nonce, REQUEST_LABEL: request_id}


def host_config(
    api: docker.APIClient, job: Job, folder: Path, *, network: str, runtime: str
) -> dict[str, Any]:
    """The walls. `folder` holds in/ and out/; `network` is ``none`` or ``container:<relay>``."""
    bounds = job.limits
    memory = bounds.memory_mb * limits.MIB
    config: dict[str, Any] = api.create_host_config(
        network_mode=network,
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true", f"seccomp={SECCOMP_JSON}"],
        mem_limit=memory,
        memswap_limit=memory,
        nano_cpus=int(Decimal(bounds.cpu) * 1_000_000_000),
        pids_limit=bounds.processes,
        ipc_mode="private",
        shm_size=_SHM_BYTES,
        oom_score_adj=500,
        log_config=LogConfig(type=LogConfig.types.NONE),
        ulimits=[
            Ulimit(name="nofile", soft=bounds.open_files, hard=bounds.open_files),
            Ulimit(name="fsize", soft=bounds.file_bytes, hard=bounds.file_bytes),
            Ulimit(name="core", soft=0, hard=0),
            Ulimit(name="memlock", soft=0, hard=0),
            Ulimit(name="msgqueue", soft=0, hard=0),
        ],
        tmpfs={"/tmp": f"rw,noexec,nosuid,nodev,size={tmp_bytes(job)},nr_inodes=8192,mode=1777"},
        mounts=[
            Mount("/in", str(folder / "in"), type="bind", read_only=True, propagation="rprivate"),
            Mount("/out", str(folder / "out"), type="bind", propagation="rprivate"),
        ],
        restart_policy={"Name": "no"},
        auto_remove=False,
        init=False,
        runtime=runtime,
        cgroupns="private",
    )
    return config


def create(api: docker.APIClient, job: Job, host: dict[str, Any], marks: dict[str, str], name: str) -> str:
    """Create the container and return its id. Raises docker errors."""
    made = api.create_container(
        image=job.image,
        command=container_words(job, str(host["Runtime"])),
        entrypoint=[],
        environment={},
        user=f"{RUN_USER}:{RUN_USER}",
        working_dir="/",
        hostname=None if host["NetworkMode"].startswith("container:") else "sandbox",
        stdin_open=True,
        tty=False,
        host_config=host,
        labels=marks,
        name=name,
        use_config_proxy=False,
    )
    # The first attach is the only one: when it goes, the run's input is closed.
    return str(made["Id"])
