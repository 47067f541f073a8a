"""Monty's worker processes: started ahead, each behind a wrapper that drops its privileges, used once.

Invariant: a worker never serves two requests, its program is named by an absolute path of ours (never
MONTY_BIN or PATH), and what this machine cannot restrict is listed in `Isolation.missing`.
"""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
import os
import queue
import shlex
import shutil
import subprocess
import sysconfig
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pydantic_monty

from threegate.core.errors import Unavailable

_TOOLS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FIRST_UID = 0x70000000
"""User ids above every range that a Linux distribution assigns; each worker has its own."""
_UIDS = 4096
_RLIMITS = ("--core=0", "--fsize=0", "--nofile=64", "--memlock=0", "--msgqueue=0")
_OWN_RLIMITS = ("--nproc=32", *_RLIMITS)
"""With its own user. The kernel counts the processes of a user, not of a worker: with the operator's user it
would count the whole desktop, and a worker that starts a thread would be killed at once.
"""
_uid_numbers = itertools.cycle(range(_FIRST_UID, _FIRST_UID + _UIDS))
VERSION = importlib.metadata.version("pydantic-monty")


@dataclass(frozen=True, slots=True)
class Isolation:
    """How a worker is started here: the words before the program, and what could not be restricted."""

    words: tuple[str, ...]
    has_uid: bool
    missing: tuple[str, ...]


def worker_binary() -> Path:
    """The `monty` program that pip installed next to this interpreter. Raises Unavailable."""
    for scheme in (None, f"{os.name}_user"):
        folder = sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
        if folder and (path := Path(folder) / "monty").is_file():
            return path.resolve()
    raise Unavailable("monty's worker program is not installed; install it: pip install pydantic-monty")


def _tool(name: str) -> str | None:
    return shutil.which(name, path=_TOOLS)


def _candidates() -> list[Isolation]:
    """Ways to start a worker, strongest first."""
    unshare, setpriv, prlimit = _tool("unshare"), _tool("setpriv"), _tool("prlimit")
    limit = (prlimit, *_RLIMITS, "--") if prlimit else ()
    own_limit = (prlimit, *_OWN_RLIMITS, "--") if prlimit else ()
    no_limit = () if prlimit else ("rlimits (prlimit is not installed)",)
    found: list[Isolation] = []
    drop = (setpriv, "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--pdeathsig", "KILL")
    if setpriv and os.geteuid() == 0:
        own_user = (*drop, "--reuid", "@UID@", "--regid", "@UID@", "--clear-groups", "--")
        if unshare:
            words = (unshare, "--net", "--ipc", "--", *own_user, *own_limit)
            found.append(Isolation(_texts(words), True, no_limit))
        words = (*own_user, *own_limit)
        found.append(Isolation(_texts(words), True, ("own network and ipc namespaces", *no_limit)))
    user = ("an unprivileged user of its own, with a limit of processes (needs root)",)
    if setpriv and unshare:
        words = (unshare, "--user", "--net", "--ipc", "--", *drop, "--", *limit)
        found.append(Isolation(_texts(words), False, (*user, *no_limit)))
    namespaces = (*user, "own network and ipc namespaces (needs root or user namespaces)")
    if setpriv:
        words = (setpriv, "--no-new-privs", "--pdeathsig", "KILL", "--", *limit)
        found.append(Isolation(_texts(words), False, (*namespaces, *no_limit)))
    everything = (
        *namespaces,
        "no_new_privs and the end with the daemon (setpriv is not installed)",
        *no_limit,
    )
    found.append(Isolation(_texts(limit), False, everything))
    return found


def _texts(words: tuple[str | None, ...]) -> tuple[str, ...]:
    return tuple(word for word in words if word is not None)


class Wrapper:
    """The program that the pool starts: a script in memory, so that nothing on disk can be replaced."""

    def __init__(self, isolation: Isolation, binary: Path) -> None:
        uid = str(next(_uid_numbers))
        words = [word.replace("@UID@", uid) for word in isolation.words]
        script = f'#!/bin/sh\nexec {shlex.join([*words, str(binary)])} "$@" 2>/dev/null\n'
        self._descriptor = os.memfd_create("threegate-monty", os.MFD_CLOEXEC)
        os.write(self._descriptor, script.encode())
        os.fchmod(self._descriptor, 0o500)

    @property
    def path(self) -> str:
        """A path under which the script can be started while the wrapper is open."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def __enter__(self) -> Wrapper:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


@functools.cache
def find_isolation(binary: Path) -> Isolation:
    """The strongest way to start a worker that works on this machine, tested by starting one, once in the life of this
    process. Raises Unavailable.
    """
    for isolation in _candidates():
        with Wrapper(isolation, binary) as wrapper, suppress(OSError, subprocess.SubprocessError):
            answer = subprocess.run(
                [wrapper.path, "--help"], capture_output=True, timeout=20, env={}, stdin=subprocess.DEVNULL
            )
            if answer.returncode == 0:
                return isolation
    raise Unavailable(f"{binary}: does not start; reinstall it: pip install pydantic-monty=={VERSION}")


class Worker:
    """One worker process, started and waiting for its one request."""

    def __init__(self, isolation: Isolation, binary: Path) -> None:
        self._wrapper = Wrapper(isolation, binary)
        self.pool = pydantic_monty.Monty(
            binary_path=self._wrapper.path, min_processes=1, max_processes=1, checkout_timeout=30.0
        )
        try:
            self.pool.__enter__()
        except BaseException:
            self._wrapper.__exit__(None, None, None)
            raise

    def close(self) -> None:
        """End the process, whatever it is doing."""
        try:
            self.pool.__exit__(None, None, None)
        finally:
            self._wrapper.__exit__(None, None, None)


class WarmWorkers:
    """Keeps `size` workers started ahead. They are started by one thread that lives as long as they do,
    because the kernel's parent-death signal watches the thread, not the process.
    """

    def __init__(self, size: int) -> None:
        self._binary = worker_binary()
        self.isolation = find_isolation(self._binary)
        _close_on_exec()
        self._ready: queue.Queue[Worker | Exception] = queue.Queue()
        self._wanted = threading.Semaphore(size)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._start_workers, name="monty-starter", daemon=True)
        self._thread.start()

    def take(self) -> Worker:
        """A worker of your own; close it after its one request. Raises Unavailable."""
        self._wanted.release()
        try:
            worker = self._ready.get(timeout=60)
        except queue.Empty:
            raise Unavailable("monty: no worker could be started within 60 s") from None
        if isinstance(worker, Exception):
            raise Unavailable(f"monty: a worker could not be started ({worker})")
        return worker

    def close(self) -> None:
        """End all workers that were started ahead."""
        self._closed.set()
        self._wanted.release()
        self._thread.join(timeout=60)
        while True:
            try:
                worker = self._ready.get_nowait()
            except queue.Empty:
                return
            if isinstance(worker, Worker):
                worker.close()

    def _start_workers(self) -> None:
        while True:
            self._wanted.acquire()
            if self._closed.is_set():
                return
            try:
                self._ready.put(Worker(self.isolation, self._binary))
            except (OSError, RuntimeError, pydantic_monty.MontyError) as error:
                self._ready.put(error)


def _close_on_exec() -> None:
    """No file that this process inherited reaches a worker."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with suppress(OSError):
                os.set_inheritable(int(name), False)
