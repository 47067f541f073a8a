"""What a run's container is made of: pure, from the job to the words that the engine takes.

Invariant: every wall of docs/spec/6-runners.md is asked for here and nowhere else, and read back by `era_readback`.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import docker
from docker.types import LogConfig, Mount, Ulimit

from threegate.core import limits
from threegate.request.job import Job, JobLimits
from threegate.runners.era.container_engine import BOOT_LABEL, LABEL, REQUEST_LABEL
from threegate.runners.era.seccomp import SECCOMP_JSON
from threegate.runners.interface import Control

RUN_USER = 65534
KEEPER = "/usr/local/libexec/threegate-keeper"
"""`timeout` under a name that nobody may read, so that the run can neither trace it nor write to its memory."""
_GO = 'IFS= read -r go && [ "$go" = go ] || exit 125; exec "$@" </dev/null'
_WAIT = """
import os, signal
def take(count):
    data = b""
    while len(data) < count:
        part = os.read(0, count - len(data))
        if not part:
            os._exit(125)
        data += part
    return data
words = take(int(take(8))).split(b"\\0")
for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
    signal.signal(number, signal.SIG_DFL)
os.execve(words[0], words, {})
"""


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


def waiting_words() -> list[str]:
    """The words of PID 1 of a container that is prepared ahead: it waits for `told` words and becomes them by exec.

    It reads no byte more than those, so that the go byte is left for what it became. At the end of its input (the
    daemon is gone) it ends.
    """
    return ["/usr/bin/python3", "-I", "-S", "-c", _WAIT]


def told(words: list[str]) -> bytes:
    """The words of `container_words` as a waiting PID 1 takes them. Raises ValueError where none can hold them."""
    data = "\0".join(words).encode()
    if data.count(b"\0") != len(words) - 1 or len(data) > 99_999_999:
        raise ValueError("a word has a NUL in it, or they are too long")
    return b"%08d" % len(data) + data


def tmp_bytes(bounds: JobLimits) -> int:
    """The size of /tmp: half of the memory, which it counts against, between 4 and 512 MiB."""
    return min(max(bounds.memory_mb // 2, 4), 512) * limits.MIB


def labels(request_id: str, control: Control) -> dict[str, str]:
    """How our containers are known again."""
    return {LABEL: control.workspace_id, BOOT_LABEL: control.boot_nonce, REQUEST_LABEL: request_id}


def host_config(
    api: docker.APIClient, bounds: JobLimits, folder: Path, *, network: str, runtime: str
) -> dict[str, Any]:
    """The walls. `folder` holds in/ and out/; `network` is ``none`` or ``container:<relay>``."""
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
        shm_size=limits.RUN_SHM_BYTES,
        oom_score_adj=500,
        log_config=LogConfig(type=LogConfig.types.NONE),
        ulimits=[
            Ulimit(name="nofile", soft=bounds.open_files, hard=bounds.open_files),
            Ulimit(name="fsize", soft=bounds.file_bytes, hard=bounds.file_bytes),
            Ulimit(name="core", soft=0, hard=0),
            Ulimit(name="memlock", soft=0, hard=0),
            Ulimit(name="msgqueue", soft=0, hard=0),
        ],
        tmpfs={"/tmp": f"rw,noexec,nosuid,nodev,size={tmp_bytes(bounds)},nr_inodes=8192,mode=1777"},
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


def create(
    api: docker.APIClient,
    image: str,
    words: list[str],
    host: dict[str, Any],
    marks: dict[str, str],
    name: str,
) -> str:
    """Create a container that will run `words` and return its id. Raises docker errors."""
    made = api.create_container(
        image=image,
        command=words,
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
