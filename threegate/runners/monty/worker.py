"""Monty's worker processes: started ahead, each behind a wrapper that drops its privileges, used once; and each seen
from outside, to kill it, to measure it, and to read its real limits back.

Invariants: a worker never serves two requests, its program is named by our absolute path (never MONTY_BIN or
PATH), and what this machine cannot restrict is listed in `Isolation.missing`. A signal goes through a pidfd, so it
never hits another process that got the same number.
"""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
import os
import queue
import re
import resource
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pydantic_monty

from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.runners.cgroup import CpuShare
from threegate.runners.monty.program import worker_binary

if TYPE_CHECKING:
    from threegate.request.job import JobLimits

_TOOLS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FIRST_UID = 0x70000000
"""User ids above every range that a Linux distribution assigns; each worker has its own."""
_UIDS = 4096
# No size for files: a worker writes none itself, because the daemon serves those of /in and /out.
_RLIMITS = ("--core=0", "--fsize=0", "--nofile=64", "--memlock=0", "--msgqueue=0")
_OWN_RLIMITS = ("--nproc=32", *_RLIMITS)
"""With its own user. The kernel counts the processes of a user, not of a worker: with the operator's user it
would count the whole desktop, and a worker that starts a thread would be killed at once.
"""
_uid_numbers = itertools.cycle(range(_FIRST_UID, _FIRST_UID + _UIDS))
VERSION = importlib.metadata.version("pydantic-monty")
_TICKS = os.sysconf("SC_CLK_TCK")
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Isolation:
    """How a worker is started here: the words before the program, and what could not be restricted."""

    words: tuple[str, ...]
    missing: tuple[str, ...]


def _candidates() -> list[Isolation]:
    """Ways to start a worker, strongest first."""
    unshare, setpriv, prlimit = (shutil.which(name, path=_TOOLS) for name in ("unshare", "setpriv", "prlimit"))
    limit = (prlimit, *_RLIMITS, "--") if prlimit else ()
    own_limit = (prlimit, *_OWN_RLIMITS, "--") if prlimit else ()
    no_limit = () if prlimit else ("rlimits (prlimit is not installed)",)
    found: list[Isolation] = []
    drop = ("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--pdeathsig", "KILL")
    if setpriv and os.geteuid() == 0:
        own_user = (setpriv, *drop, "--reuid", "@UID@", "--regid", "@UID@", "--clear-groups", "--", *own_limit)
        if unshare:
            found.append(Isolation((unshare, "--net", "--ipc", "--", *own_user), no_limit))
        found.append(Isolation(own_user, ("own network and ipc namespaces", *no_limit)))
    user = ("an unprivileged user of its own, with a limit of processes (needs root)",)
    if setpriv and unshare:
        words = (unshare, "--user", "--net", "--ipc", "--", setpriv, *drop, "--", *limit)
        found.append(Isolation(words, (*user, *no_limit)))
    namespaces = (*user, "own network and ipc namespaces (needs root or user namespaces)")
    if setpriv:
        words = (setpriv, "--no-new-privs", "--pdeathsig", "KILL", "--", *limit)
        found.append(Isolation(words, (*namespaces, *no_limit)))
    # Last: the program alone. Better a run that says what is not restricted than none on this machine.
    everything = (*namespaces, "no_new_privs and the end with the daemon (setpriv is not installed)", *no_limit)
    found.append(Isolation(limit, everything))
    return found


@contextmanager
def _wrapper(isolation: Isolation, binary: Path) -> Iterator[str]:
    """The path of the program that the pool starts, until the block ends: a script in memory, so that nothing on disk
    can be replaced.
    """
    uid = str(next(_uid_numbers))
    words = [word.replace("@UID@", uid) for word in isolation.words]
    script = f'#!/bin/sh\nexec {shlex.join([*words, str(binary)])} "$@" 2>/dev/null\n'
    descriptor = os.memfd_create("threegate-monty", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, script.encode())
        os.fchmod(descriptor, 0o500)
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


@functools.cache
def find_isolation(binary: Path) -> Isolation:
    """The strongest way to start a worker that works on this machine, tested by starting one, once in the life of this
    process. Raises Unavailable.
    """
    for isolation in _candidates():
        with _wrapper(isolation, binary) as path, suppress(OSError, subprocess.SubprocessError):
            answer = subprocess.run([path, "--help"], capture_output=True, timeout=20, env={}, stdin=subprocess.DEVNULL)
            if answer.returncode == 0:
                return isolation
    raise Unavailable(f"{binary}: does not start; reinstall it: pip install pydantic-monty=={VERSION}")


class Worker:
    """One worker process, started and waiting for its one request."""

    def __init__(self, isolation: Isolation, binary: Path) -> None:
        with ExitStack() as opened:
            path = opened.enter_context(_wrapper(isolation, binary))
            self.pool = pydantic_monty.Monty(binary_path=path, min_processes=1, max_processes=1, checkout_timeout=30.0)
            opened.enter_context(self.pool)
            self._opened = opened.pop_all()

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._opened.close()


class WarmWorkers:
    """Keeps `size` workers started ahead. They are started by one thread that lives as long as they do,
    because the kernel's parent-death signal watches the thread, not the process.
    """

    def __init__(self, size: int) -> None:
        self._binary = worker_binary()
        self.isolation = find_isolation(self._binary)
        for name in os.listdir("/proc/self/fd"):  # no file that this process inherited reaches a worker
            if int(name) > 2:
                with suppress(OSError):
                    os.set_inheritable(int(name), False)
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


class WorkerProcess:
    """A worker that runs a job, by its process id. Sets the rlimits that depend on the job."""

    def __init__(self, pid: int | None, bounds: JobLimits) -> None:
        if pid is None:
            raise OSError("monty did not report its worker's process")
        self._pid = pid
        self._bounds = bounds
        self.descriptor = os.pidfd_open(pid)
        """Its pidfd."""
        self.cpu_ms: int | None = None
        self.peak_bytes: int | None = None
        self._begun: dict[str, str] = {}
        """What the kernel reported about it before the job's rlimits."""
        with suppress(OSError):
            lines = (line.partition(":\t") for line in self._proc("status").splitlines())
            self._begun = {name: value.strip() for name, _, value in lines}
        # A deadline in cpu time and a limit on the address space, which apply without us too. For a worker with its own
        # user this needs CAP_SYS_RESOURCE; `read_back` reports what the kernel then enforces.
        # The interpreter bounds its own heap; this leaves room for what it needs besides.
        base = int(self._begun.get("VmSize", "0 kB").split()[0]) * limits.KIB
        space = base + 2 * bounds.memory_mb * limits.MIB + 256 * limits.MIB
        cpu = bounds.time_sec + 1
        with suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_CPU, (cpu, cpu))
            resource.prlimit(pid, resource.RLIMIT_AS, (space, space))
        share = Decimal(bounds.cpu)
        self._share = CpuShare(pid, share) if share < 1 else None

    def close(self) -> None:
        """Let the process go; it is not ended by that."""
        os.close(self.descriptor)
        if self._share is not None:
            self._share.close()

    def kill(self) -> None:
        """Kill the worker at once; does nothing if it is gone."""
        self.measure()
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)

    def measure(self) -> None:
        """Record cpu time and peak memory while the process can still be queried."""
        with suppress(OSError, ValueError, IndexError):
            fields = self._proc("stat").rpartition(") ")[2].split()
            self.cpu_ms = (int(fields[11]) + int(fields[12])) * 1000 // _TICKS
            if (peak := _PEAK.search(self._proc("status"))) is not None:
                self.peak_bytes = int(peak[1]) * limits.KIB

    def read_back(self, missing: tuple[str, ...]) -> dict[str, str]:
        """What the kernel reports about the worker, and what could not be set on this machine."""
        status = self._begun
        facts = {
            "user": status.get("Uid", "").split("\t")[0],
            "capabilities": status.get("CapEff", "").lstrip("0") or "none",
            "no_new_privs": "yes" if status.get("NoNewPrivs") == "1" else "not enforced",
        }
        for name, kind in (("network_namespace", "net"), ("ipc_namespace", "ipc")):
            try:
                own = Path(f"/proc/{self._pid}/ns/{kind}").readlink() != Path(f"/proc/self/ns/{kind}").readlink()
                facts[name] = "own" if own else "not enforced"
            except OSError:
                facts[name] = "not readable"
        held: list[str] = []
        with suppress(OSError):
            held = self._proc("limits").splitlines()
        for name, row, unit in (
            ("cpu_time", "Max cpu time", " s"),
            ("address_space", "Max address space", " bytes"),
            ("open_files", "Max open files", ""),
        ):
            soft = next((line[len(row) :].split()[0] for line in held if line.startswith(row)), None)
            facts[name] = "not readable" if soft is None else "not enforced" if soft == "unlimited" else soft + unit
        if self._share is None:
            facts["cpu"] = "1 core (the interpreter has one thread)"
        elif self._share.held is None:
            facts["cpu"] = f"not enforced (no cgroup could be made for {self._bounds.cpu} cores)"
        else:
            facts["cpu"] = f"{self._share.held.normalize():f} cores (cgroup)"
        if missing:
            facts["not_enforced"] = "; ".join(missing)
        return facts

    def _proc(self, name: str) -> str:
        with open(f"/proc/{self._pid}/{name}", "rb", buffering=0) as stream:
            return stream.readall().decode("utf-8", "replace")
