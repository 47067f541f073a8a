"""What works for a run outside of its jail: the relay to the model, the proxy to allowed hosts, and the door.

Invariant: each is a process of its own that the kernel ends with the launcher. Each gets one listening socket, 0600 and the
agent's account's, and nothing of another run. The key goes to the relay through a pipe and nowhere else.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from threegate.agents.jail import Account
from threegate.agents.model_counts import RelaySettings
from threegate.core.errors import Unavailable
from threegate.core.workspace import AgentRun, Workspace

_BACKLOG: Final = 64
_END_SECONDS: Final = 3.0


def listen(run: AgentRun, path: Path, account: Account) -> socket.socket:
    """A listening socket at a path of the run's folder, which only the agent's account may connect to. Raises Unavailable."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    held = os.open(run.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    before = os.umask(0o177)
    try:
        # A name of a socket has at most 107 bytes, a workspace's path may have more.
        listener.bind(f"/proc/self/fd/{held}/{path.name}")
        os.chown(path.name, account.uid, account.gid, dir_fd=held, follow_symlinks=False)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise Unavailable(f"{path}: cannot listen ({error.strerror})") from None
    finally:
        os.umask(before)
        os.close(held)
    return listener


class SideProcess:
    """One of them. `end` waits for it and kills what does not go."""

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        self._process = process

    def died(self) -> str | None:
        """How it ended by itself; None while it lives."""
        code = self._process.poll()
        if code is None:
            return None
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def end(self) -> None:
        """Ask it to end: by closing its pipe, or by a signal."""
        if self._process.stdin:
            with suppress(OSError):
                self._process.stdin.close()
        else:
            self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def start_model_relay(listener: socket.socket, settings: RelaySettings) -> tuple[SideProcess, int]:
    """The relay, and a descriptor of its counts, which the caller closes. Raises Unavailable."""
    counts = os.memfd_create("counts", os.MFD_CLOEXEC)
    descriptors = (listener.fileno(), counts)
    command = [sys.executable, "-m", "threegate.agents.model_relay", *map(str, descriptors)]
    kept = {name: os.environ[name] for name in ("PYTHONPATH", "SSL_CERT_FILE") if name in os.environ}
    process = _start(command, descriptors, kept)
    assert process.stdin
    try:
        process.stdin.write(json.dumps(asdict(settings)).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise Unavailable("the relay to the model ended at once; try: threegate doctor") from None
    return SideProcess("model relay", process), counts


def start_host_proxy(listener: socket.socket, hosts: Sequence[str]) -> tuple[SideProcess, int]:
    """The proxy to allowed hosts, and a descriptor of what it writes down, which the caller closes. Raises Unavailable."""
    log = os.memfd_create("hosts", os.MFD_CLOEXEC)
    descriptors = (listener.fileno(), log)
    command = [sys.executable, "-m", "threegate.agents.host_proxy", *map(str, descriptors), *hosts]
    kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    return SideProcess("host proxy", _start(command, descriptors, kept)), log


def start_door(workspace: Workspace, run: AgentRun, listener: socket.socket, wait_sec: int) -> SideProcess:
    """`threegate serve mcp --run`, whose stdin is the listening socket (as inetd does for services that wait). Raises Unavailable."""
    command = [sys.executable, "-m", "threegate", "--workspace", str(workspace.root)]
    command += ["serve", "mcp", "--run", run.run_id, "--wait-sec", str(wait_sec)]
    return SideProcess("door", _start(command, (), os.environ, stdin=listener.fileno()))


def _start(
    command: Sequence[str],
    descriptors: Sequence[int],
    environment: Mapping[str, str],
    *,
    stdin: int = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            ["/usr/bin/setpriv", "--pdeathsig", "KILL", *command],
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=descriptors,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise Unavailable(f"{command[0]}: cannot be started ({error.strerror})") from None
