"""A server of tools in a container: a process between the pipes of whoever asks the server and the container's streams.

Invariant: nothing of the server runs before its walls were read back; PID 1 is a shell of the image that waits for one line
until then. When our standard input ends, also because the process that started us was killed, the container is removed before
we end. What is left when we are killed ourselves has this workspace's label, and the next start of a daemon removes it.

Run as ``python3 -m threegate.runners.mcp.server_container FD``; the descriptor has the JSON that `tools/server_start.py` writes.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import docker
import docker.errors
from docker.types import LogConfig, Mount, Ulimit

from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.jail.seccomp import SECCOMP_JSON
from threegate.runners.cgroup import CgroupFiles
from threegate.runners.era import container_engine as engine
from threegate.runners.era.waiting_container import FRAME, attach

NOT_STARTED: Final = 3
"""Exit code where there is no container, or it does not have its walls."""
_USER: Final = "65534:65534"
_WAITING: Final = ("/bin/sh", "-c", 'read -r go && exec "$@"', "server")
_PIECE: Final = 1 << 16
_PAGE: Final = 4096
_NO_INTERFACES: Final = frozenset(("lo", "tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6gre0"))  # fmt: skip
"""What a new network namespace has: loopback, and templates of tunnels that are down."""


def main(descriptor: int) -> int:
    """Serve one server until its input or ours ends; the exit code. What goes wrong is one line on standard error."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # who ends us closes our input
        signal.signal(number, signal.SIG_IGN)
    with open(descriptor, "rb") as stream:
        wanted: dict[str, Any] = json.loads(stream.read())
    try:
        with engine.client(engine.engine_url(wanted["engine"])) as api:
            return _serve(api, wanted)
    except Unavailable as error:
        return _say(error)


def _say(error: Unavailable) -> int:
    with suppress(OSError):
        os.write(2, f"{error}\n".encode("utf-8", "backslashreplace"))
    return NOT_STARTED


def _serve(api: docker.APIClient, wanted: Mapping[str, Any]) -> int:
    name = f"threegate-tools-{secrets.token_hex(8)}"
    try:
        runtime = engine.check_runtime(api, wanted["runtime"])
        container = create_container(api, wanted, name, runtime)
        with attach(api, container) as connection:
            api.start(container)
            wrong = list(missing_walls(wanted, api.inspect_container(container), runtime))
            if wrong:
                return _say(Unavailable(f"limits_not_enforced: {'; '.join(wrong)}"))
            connection.sendall(b"go\n")
            _relay(connection)
        return 0
    except docker.errors.ImageNotFound:
        return _say(Unavailable(f"no image: {wanted['image'][:19]}… is not in the engine any more"))
    except (*engine.FAULTS, KeyError, ValueError) as error:
        return _say(Unavailable(f"the container could not be started ({engine.reason(error)})"))
    except Unavailable as error:
        return _say(error)
    finally:
        # Who waits for the server knows at once that it is gone.
        for stream in (0, 1):
            with suppress(OSError):
                os.close(stream)
        # By its name, which is ours alone: the engine may have made it and not said so.
        if not engine.remove_container(api, name):
            engine.remove_container(api, name)


def create_container(api: docker.APIClient, wanted: Mapping[str, Any], name: str, runtime: str) -> str:
    """The container, not started. Raises the engine's faults."""
    memory = limits.TOOLS_MEMORY_MB * limits.MIB
    host = api.create_host_config(
        network_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true", f"seccomp={SECCOMP_JSON}"],
        mem_limit=memory,
        memswap_limit=memory,
        nano_cpus=1_000_000_000,
        pids_limit=limits.TOOLS_PROCESSES,
        ipc_mode="private",
        shm_size=limits.RUN_SHM_BYTES,
        oom_score_adj=500,
        log_config=LogConfig(type=LogConfig.types.NONE),
        ulimits=[
            Ulimit(name="nofile", soft=limits.AGENT_OPEN_FILES, hard=limits.AGENT_OPEN_FILES),
            Ulimit(name="core", soft=0, hard=0),
            Ulimit(name="memlock", soft=0, hard=0),
            Ulimit(name="msgqueue", soft=0, hard=0),
        ],
        tmpfs={"/tmp": f"rw,noexec,nosuid,nodev,size={limits.TOOLS_TMP_BYTES},nr_inodes=8192,mode=1777"},
        mounts=[
            Mount(
                bind["path"],
                bind["path"],
                type="bind",
                read_only=not bind["writable"],
                propagation="rprivate",
            )
            for bind in wanted["binds"]
        ],
        restart_policy={"Name": "no"},
        auto_remove=False,
        init=False,
        runtime=runtime,
        cgroupns="private",
    )
    made = api.create_container(
        image=wanted["image"],
        command=[*_WAITING, *wanted["argv"]],
        entrypoint=[],
        environment=wanted["env"],
        user=_USER,
        hostname="server",
        stdin_open=True,
        tty=False,
        host_config=host,
        labels={
            engine.LABEL: wanted["workspace"],
            engine.BOOT_LABEL: "tools",
            engine.REQUEST_LABEL: f"the server {wanted['server']}",
        },
        name=name,
        use_config_proxy=False,
    )
    return str(made["Id"])


def missing_walls(wanted: Mapping[str, Any], state: Mapping[str, Any], runtime: str) -> Iterator[str]:
    """What the container has otherwise than it was asked for: by the engine's words, and by the kernel's files. Raises OSError,
    KeyError, ValueError where one cannot be read: such a wall does not count."""
    host, config, pid = state["HostConfig"], state["Config"], int(state["State"]["Pid"])
    folders = sorted((bind["path"], bind["path"], bind["writable"]) for bind in wanted["binds"])
    for what, found, asked in (
        ("image", state["Image"], wanted["image"]),
        ("command", config["Cmd"], [*_WAITING, *wanted["argv"]]),
        ("entrypoint", config["Entrypoint"] or [], []),
        ("user", config["User"], _USER),
        ("network", host["NetworkMode"], "none"),
        ("runtime", host["Runtime"], runtime),
        ("root", host["ReadonlyRootfs"], True),
        ("log", host["LogConfig"]["Type"], "none"),
        ("mounts", sorted((item["Source"], item["Destination"], item["RW"]) for item in state["Mounts"]), folders),
    ):  # fmt: skip
        if found != asked:
            yield f"{what} is {found}"
    if host["Privileged"] or host["CapAdd"] or host["Devices"] or host["Binds"] or host["VolumesFrom"]:
        yield "privileges, devices or volumes that nobody asked for"
    files, memory = CgroupFiles.of(pid), limits.TOOLS_MEMORY_MB * limits.MIB
    held = files.memory()
    if held is None or not memory - _PAGE < held <= memory or not files.no_swap():
        yield f"memory is {held}"
    if files.pids() != limits.TOOLS_PROCESSES:
        yield f"processes are {files.pids()}"
    if runtime == "runsc":  # what the host sees are gVisor's own processes
        return
    text = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    if any(int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")):
        yield "capabilities are left"
    if status["NoNewPrivs"] != "1" or status["Seccomp"] != "2":
        yield "new privileges are possible, or system calls are not filtered"
    if status["Uid"].split()[0] in ("0", str(os.getuid())):
        yield "it runs as us"
    with suppress(PermissionError):  # another user's: then the engine's word counts
        devices = Path(f"/proc/{pid}/net/dev").read_text("ascii", "replace").splitlines()[2:]
        if not {line.partition(":")[0].strip() for line in devices} <= _NO_INTERFACES:
            yield "it has a network"


def _relay(connection: socket.socket) -> None:
    """Both ways, until the server ends, or a moment after our input has ended."""
    connection.setblocking(False)
    waiting, parts = b"", _Parts()
    until: float | None = None
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(connection, selectors.EVENT_READ)
        while until is None or time.monotonic() < until:
            left = None if until is None else max(until - time.monotonic(), 0)
            for key, _ in selector.select(left):
                if key.fd == 0:
                    waiting = os.read(0, _PIECE)
                    selector.unregister(0)  # until this piece is sent
                    if not waiting:
                        with suppress(OSError):
                            connection.shutdown(socket.SHUT_WR)
                        until = time.monotonic() + limits.TOOLS_END_SECONDS
                else:
                    try:
                        piece = connection.recv(_PIECE)
                        parts.write(piece)
                    except BlockingIOError:
                        continue
                    except (ConnectionError, BrokenPipeError):
                        return
                    if not piece:
                        return
            if waiting:
                try:
                    waiting = waiting[connection.send(waiting) :]
                except BlockingIOError:
                    pass
                except OSError:
                    return
                selector.modify(connection, selectors.EVENT_READ | (selectors.EVENT_WRITE if waiting else 0))
                if not waiting:
                    selector.register(0, selectors.EVENT_READ)


class _Parts:
    """The engine's stream taken apart: what the server wrote to which of its two streams."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._stream = 1

    def write(self, data: bytes) -> None:
        """Write on what came. Raises BrokenPipeError."""
        while data:
            if self._left == 0:
                self._head, data = (
                    self._head + data[: FRAME.size - len(self._head)],
                    data[FRAME.size - len(self._head) :],
                )
                if len(self._head) == FRAME.size:
                    kind, self._left = FRAME.unpack(self._head)
                    self._stream, self._head = (2 if kind == 2 else 1), b""
                continue
            piece, data = data[: self._left], data[self._left :]
            self._left -= len(piece)
            while piece:
                piece = piece[os.write(self._stream, piece) :]


if __name__ == "__main__":
    code = NOT_STARTED
    try:
        code = main(int(sys.argv[1]))
    finally:
        os._exit(code)  # no text of ours among the server's
