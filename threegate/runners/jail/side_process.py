"""A process that serves a jail from outside: it answers on one socket in the jail.

Invariant: the kernel kills it with its parent. Its socket has mode 0600 and belongs to the jailed account; it
inherits only the descriptors it was given. One that holds what the jail sends is in the jail's cgroups.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from threegate.core.errors import Unavailable
from threegate.core.own_process import own_process
from threegate.runners.egress.secret_header import SecretHeader
from threegate.runners.jail.host_log import unlisted_line
from threegate.runners.jail.jail import Account

_BACKLOG: Final = 64
_END_SECONDS: Final = 3.0
ANSWER_SECONDS: Final = 5.0


def listen(path: Path, account: Account) -> socket.socket:
    """A listening socket at a path, to which only the agent's account may connect. Raises Unavailable."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    held = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        # What `bind` gives the socket's name, from the first moment. (An umask would be every thread's.)
        os.fchmod(listener.fileno(), 0o600)
        # A socket's name can have at most 107 bytes; a workspace's path may be longer.
        listener.bind(f"/proc/self/fd/{held}/{path.name}")
        os.chown(path.name, account.uid, account.gid, dir_fd=held, follow_symlinks=False)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise Unavailable(f"{path}: cannot listen ({error.strerror})") from None
    finally:
        os.close(held)
    return listener


class SideProcess:
    """One such process. `end` waits for it and kills it if it does not exit."""

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        self._process = process

    def says(self, line: bytes) -> bytes:
        """Write a line to its stdin and read its answer, a line of its stdout; empty if it has exited, or answers
        nothing for ANSWER_SECONDS.
        """
        if self._process.stdin is None or self._process.stdout is None:
            return b""
        with suppress(OSError, ValueError):  # it was killed, or is being ended
            self._process.stdin.write(line)
            self._process.stdin.flush()
            if select.select([self._process.stdout], [], [], ANSWER_SECONDS)[0]:
                return self._process.stdout.readline()
        return b""

    def died(self) -> str | None:
        """How it exited by itself; None while it is running."""
        code = self._process.poll()
        if code is None:
            return None
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def end(self) -> None:
        """Ask it to exit: by closing its pipe, or with a signal."""
        if self._process.stdout:
            self._process.stdout.close()
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


def start_host_proxy(
    listener: socket.socket,
    targets: Sequence[str],
    cgroups: Sequence[Path] = (),
    secret: SecretHeader | None = None,
    hint: str = "",
) -> tuple[SideProcess, int]:
    """The proxy to allowed pairs ``host:port``, and a descriptor of its log, which the caller closes. Raises
    Unavailable. With a `hint`, which is part of its refusals, `allow_hosts` may change the list.
    """
    log = os.memfd_create("hosts", os.MFD_CLOEXEC)
    os.write(log, unlisted_line(0))
    descriptors = (listener.fileno(), log)
    words = [*map(str, descriptors), *targets]
    if secret is not None:
        authorities = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
        words += ["secret", secret.method, secret.host, str(secret.port), secret.path, authorities]
    elif hint:
        words += ["hint", hint]
    kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    command = own_process("threegate.runners.jail.host_proxy", *words)
    stdout = subprocess.PIPE if hint else subprocess.DEVNULL
    try:
        process = start_side_process(command, descriptors, kept, stdout=stdout, cgroups=cgroups)
    except Unavailable:
        os.close(log)
        raise
    if secret is not None and process.stdin is not None:
        with suppress(OSError):  # a proxy that ended already is found by `died`
            process.stdin.write(f"{secret.value}\n".encode("ascii"))
            process.stdin.flush()
    return SideProcess("host proxy", process), log


def allow_hosts(proxy: SideProcess, targets: Sequence[str]) -> bool:
    """Give the proxy a new list, and whether it is in force: connections to what is not in it any more are broken off
    then.
    """
    line = " ".join(targets).encode("ascii") + b"\n"
    return proxy.says(line) == line


def start_side_process(
    command: Sequence[str],
    descriptors: Sequence[int],
    environment: Mapping[str, str],
    *,
    stdin: int = subprocess.PIPE,
    stdout: int = subprocess.DEVNULL,
    cgroups: Sequence[Path] = (),
) -> subprocess.Popen[bytes]:
    """Start it with this environment and these descriptors, in these cgroups (the files that a process id is written
    into). Raises Unavailable.
    """
    try:
        process = subprocess.Popen(
            ["/usr/bin/setpriv", "--pdeathsig", "KILL", *command],
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            pass_fds=descriptors,
            env=environment,
            start_new_session=True,  # Ctrl-C ends the agent, not what serves it
        )
    except OSError as error:
        raise Unavailable(f"{command[0]}: cannot be started ({error.strerror})") from None
    try:
        for file in cgroups:
            file.write_text(str(process.pid))
    except OSError as error:
        process.kill()
        process.wait()
        raise Unavailable(f"{file}: a helper process of the jail cannot enter it ({error.strerror})") from None
    return process
