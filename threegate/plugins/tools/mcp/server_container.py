"""A tool server in a container: a process between the caller's pipes and the container's streams.

Invariant: nothing of the server runs before its restrictions were read back; until then PID 1 is a shell of
the image that waits for one line. When our standard input ends, for example because the parent process was
killed, the container is removed before we exit. If we are killed ourselves, what is left has this workspace's
label, and the next start of a daemon removes it.

Run as ``python3 -m threegate.plugins.tools.mcp.server_container FD``; the descriptor has the JSON that
`tools/server_start.py` writes.
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
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import docker
import docker.errors

from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.runners.cgroup import CgroupFiles
from threegate.runners.era import container_engine as engine
from threegate.runners.era import spec
from threegate.runners.era.container_stream import FrameReader, attach
from threegate.runners.era.walls import NO_INTERFACES, holds_memory, process_status

NOT_STARTED: Final = 3
"""Exit code if there is no container, or its restrictions are not in force."""
_USER: Final = "65534:65534"
_WAITING: Final = ("/bin/sh", "-c", 'read -r go && exec "$@"', "server")
_PIECE: Final = 1 << 16


def main(descriptor: int) -> int:
    """Serve one server until its input or ours ends; return the exit code. An error is one line on standard error."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # the parent stops us by closing our input
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
        return _say(Unavailable(f"no image: {wanted['image'][:19]}… is no longer in the engine"))
    except (*engine.FAULTS, KeyError, ValueError) as error:
        return _say(Unavailable(f"the container could not be started ({engine.reason(error)})"))
    except Unavailable as error:
        return _say(error)
    finally:
        # The process waiting for the server learns at once that it is gone.
        for stream in (0, 1):
            with suppress(OSError):
                os.close(stream)
        # By its name, which only we use: the engine may have created it without answering.
        if not engine.remove_container(api, name):
            engine.remove_container(api, name)


def create_container(api: docker.APIClient, wanted: Mapping[str, Any], name: str, runtime: str) -> str:
    """The container, not started. Raises the engine's errors."""
    host = spec.bounded_host(
        api,
        network="none",
        runtime=runtime,
        memory_mb=limits.TOOLS_MEMORY_MB,
        cpus=Decimal(1),
        processes=limits.TOOLS_PROCESSES,
        rlimits={"nofile": limits.AGENT_OPEN_FILES},
        tmp_bytes=limits.TOOLS_TMP_BYTES,
        mounts=[spec.bind(item["path"], item["path"], read_only=not item["writable"]) for item in wanted["binds"]],
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
    """How the container differs from the request, according to the engine and to the kernel's files. Raises
    OSError, KeyError, ValueError if one cannot be read: such a restriction does not count.
    """
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
        yield "privileges, devices or volumes that were not requested"
    files = CgroupFiles.of(pid)
    if not holds_memory(files, limits.TOOLS_MEMORY_MB) or not files.no_swap():
        yield f"memory is {files.memory()}"
    if files.pids() != limits.TOOLS_PROCESSES:
        yield f"processes are {files.pids()}"
    if runtime == "runsc":  # what the host sees are gVisor's own processes
        return
    status = process_status(pid)
    if any(int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")):
        yield "capabilities are left"
    if status["NoNewPrivs"] != "1" or status["Seccomp"] != "2":
        yield "new privileges are possible, or system calls are not filtered"
    if status["Uid"].split()[0] in ("0", str(os.getuid())):
        yield "it runs as our own user"
    with suppress(PermissionError):  # another user's: then the engine's answer counts
        devices = Path(f"/proc/{pid}/net/dev").read_text("ascii", "replace").splitlines()[2:]
        if not {line.partition(":")[0].strip() for line in devices} <= {"lo", *NO_INTERFACES}:
            yield "it has a network"


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _relay(connection: socket.socket) -> None:
    """Forward both ways, until the server ends, or shortly after our input has ended."""
    connection.setblocking(False)
    waiting, frames = b"", FrameReader()
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
                        for stream, part in frames.read(piece):
                            _write(stream, part)
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


if __name__ == "__main__":
    code = NOT_STARTED
    try:
        code = main(int(sys.argv[1]))
    finally:
        os._exit(code)  # nothing of our own among the server's output
