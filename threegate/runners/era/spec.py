"""The definition of a run's container: a pure function from the job to the engine's parameters.

Invariant: every restriction of docs/spec/6-runners.md is requested here and nowhere else, and read back by `readback`.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import docker
from docker.types import DriverConfig, LogConfig, Mount, Ulimit

from threegate.core import limits
from threegate.request.job import Job, JobLimits
from threegate.runners.era import keeper
from threegate.runners.era.container_engine import BOOT_LABEL, LABEL, REQUEST_LABEL
from threegate.runners.era.walls import RUN_USER, command_words, tmp_bytes
from threegate.runners.interface import Control
from threegate.runners.seccomp import SECCOMP_JSON

KEEPER_WORDS = ("/usr/bin/python3", "-I", "-S", "-c", Path(keeper.__file__).read_text(encoding="utf-8"))
"""PID 1 of every run: it gets the run over its standard input, after the restrictions were read back."""


def told(mark: str, job: Job, lease_sec: float | None) -> bytes:
    """The message with which PID 1 starts the run. Raises ValueError if it cannot be encoded."""
    lease = "inf" if lease_sec is None else str(lease_sec)
    words = [mark, str(job.limits.time_sec + 1), lease, *command_words(job)]
    data = "\0".join(words).encode()
    if data.count(b"\0") != len(words) - 1 or len(data) > 99_999_999:
        raise ValueError("a word has a NUL in it, or they are too long")
    return b"%08d" % len(data) + data


def labels(request_id: str, control: Control) -> dict[str, str]:
    """Labels by which our containers are recognized."""
    return {LABEL: control.workspace_id, BOOT_LABEL: control.boot_nonce, REQUEST_LABEL: request_id}


def host_config(
    api: docker.APIClient, bounds: JobLimits, inputs: Path, *, network: str, runtime: str, marks: dict[str, str]
) -> dict[str, Any]:
    """The restrictions. `inputs` is the folder of /in; /out is a volume that the engine creates and removes
    with the container.

    `network` is ``none`` or ``container:<relay>``.
    """
    # One more name, for the root of the file system itself.
    out = (
        f"size={bounds.out_bytes},nr_inodes={bounds.out_files + 1},uid={RUN_USER},gid={RUN_USER},mode=0700,"
        "noexec,nosuid,nodev"
    )
    driver = DriverConfig("local", {"type": "tmpfs", "device": "tmpfs", "o": out})
    return bounded_host(
        api,
        network=network,
        runtime=runtime,
        memory_mb=bounds.memory_mb,
        cpus=Decimal(bounds.cpu),
        processes=bounds.processes,
        rlimits={"nofile": bounds.open_files, "fsize": bounds.file_bytes},
        tmp_bytes=tmp_bytes(bounds),
        mounts=[
            bind("/in", inputs, read_only=True),
            Mount("/out", None, type="volume", no_copy=True, labels=marks, driver_config=driver),
        ],
    )


def bounded_host(
    api: docker.APIClient,
    *,
    network: str,
    runtime: str,
    memory_mb: int,
    cpus: Decimal,
    processes: int,
    rlimits: Mapping[str, int],
    tmp_bytes: int,
    mounts: list[Mount],
) -> dict[str, Any]:
    """The restrictions of a container that runs what is not ours: a request's command, or a tool server."""
    none = {"core": 0, "memlock": 0, "msgqueue": 0}
    config: dict[str, Any] = api.create_host_config(
        **hardened(memory_mb, {**rlimits, **none}),
        network_mode=network,
        nano_cpus=int(cpus * 1_000_000_000),
        pids_limit=processes,
        shm_size=limits.RUN_SHM_BYTES,
        oom_score_adj=500,
        tmpfs={"/tmp": f"rw,noexec,nosuid,nodev,size={tmp_bytes},nr_inodes=8192,mode=1777"},
        mounts=mounts,
        auto_remove=False,
        runtime=runtime,
    )
    return config


def hardened(memory_mb: int, rlimits: Mapping[str, int]) -> dict[str, Any]:
    """What all containers have, those of our helpers too. Without swap: memory and swap have one limit."""
    memory = memory_mb * limits.MIB
    return {
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true", f"seccomp={SECCOMP_JSON}"],
        "mem_limit": memory,
        "memswap_limit": memory,
        "ipc_mode": "private",
        "cgroupns": "private",
        "init": False,
        "restart_policy": {"Name": "no"},
        "log_config": LogConfig(type=LogConfig.types.NONE),
        "ulimits": [Ulimit(name=name, soft=limit, hard=limit) for name, limit in rlimits.items()],
    }


def bind(place: str, source: str | Path, *, read_only: bool) -> Mount:
    """A folder of this machine in a container; mounts made later on one side do not appear on the other."""
    return Mount(place, str(source), type="bind", read_only=read_only, propagation="rprivate")


def create(api: docker.APIClient, image: str, host: dict[str, Any], marks: dict[str, str], name: str) -> str:
    """Create a container that waits for a run and return its id. Raises docker errors."""
    made = api.create_container(
        image=image,
        command=list(KEEPER_WORDS),
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
    # The first attach is the only one: when it closes, the run's input is closed.
    return str(made["Id"])
