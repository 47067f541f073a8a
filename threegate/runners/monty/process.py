"""The worker's process seen from outside: killing it, measuring it, reading its real limits back.

Invariant: a signal goes through a pidfd, so it never hits another process that got the same number.
"""

from __future__ import annotations

import os
import re
import resource
import signal
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from threegate.core import limits
from threegate.runners.cgroup import CpuShare

if TYPE_CHECKING:
    from threegate.request.job import JobLimits

_TICKS = os.sysconf("SC_CLK_TCK")
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


class WorkerProcess:
    """A worker by its process id. Sets the rlimits that depend on the job."""

    def __init__(self, pid: int | None, bounds: JobLimits) -> None:
        if pid is None:
            raise OSError("monty did not report its worker's process")
        self._pid = pid
        self._bounds = bounds
        self._descriptor = os.pidfd_open(pid)
        self.cpu_ms: int | None = None
        self.peak_bytes: int | None = None
        self._begun = self._status()
        """What the kernel reported about it before the job's rlimits."""
        self._set_rlimits()
        share = Decimal(bounds.cpu)
        self._share = CpuShare(pid, share) if share < 1 else None

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
        if self._share is not None:
            self._share.close()

    def kill(self) -> None:
        """Kill the worker at once; does nothing if it is gone."""
        self.measure()
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def measure(self) -> None:
        """Record cpu time and peak memory while the process can still be queried."""
        with suppress(OSError, ValueError, IndexError):
            fields = self._proc("stat").rpartition(") ")[2].split()
            self.cpu_ms = (int(fields[11]) + int(fields[12])) * 1000 // _TICKS
            if (peak := _PEAK.search(self._proc("status"))) is not None:
                self.peak_bytes = int(peak[1]) * limits.KIB

    def read_back(self, missing: tuple[str, ...]) -> dict[str, str]:
        """What the kernel reports about the worker, and what could not be set on this machine."""
        status, held = self._begun, self._limits()
        facts = {
            "user": status.get("Uid", "").split("\t")[0],
            "capabilities": status.get("CapEff", "").lstrip("0") or "none",
            "no_new_privs": "yes" if status.get("NoNewPrivs") == "1" else "not enforced",
            "network_namespace": self._own_namespace("net"),
            "ipc_namespace": self._own_namespace("ipc"),
            "cpu_time": _rlimit(held, "Max cpu time", "s"),
            "address_space": _rlimit(held, "Max address space", "bytes"),
            "open_files": _rlimit(held, "Max open files", ""),
        }
        if self._share is None:
            facts["cpu"] = "1 cores (the interpreter has one thread)"
        elif self._share.held is None:
            facts["cpu"] = f"not enforced (no cgroup could be made for {self._bounds.cpu} cores)"
        else:
            facts["cpu"] = f"{self._share.held.normalize():f} cores (cgroup)"
        if missing:
            facts["not_enforced"] = "; ".join(missing)
        return facts

    def _set_rlimits(self) -> None:
        """A deadline in cpu time and a limit on the address space, which apply without us too. For a worker
        with its own user this needs CAP_SYS_RESOURCE; `read_back` reports what the kernel then enforces.
        """
        base = int(self._begun.get("VmSize", "0 kB").split()[0]) * limits.KIB
        space = base + 2 * self._bounds.memory_mb * limits.MIB + 256 * limits.MIB
        cpu = self._bounds.time_sec + 1
        with suppress(OSError, ValueError):
            resource.prlimit(self._pid, resource.RLIMIT_CPU, (cpu, cpu))
            resource.prlimit(self._pid, resource.RLIMIT_AS, (space, space))

    def _limits(self) -> list[str]:
        with suppress(OSError):
            return self._proc("limits").splitlines()
        return []

    def _own_namespace(self, kind: str) -> str:
        try:
            own = Path(f"/proc/{self._pid}/ns/{kind}").readlink() != Path(f"/proc/self/ns/{kind}").readlink()
        except OSError:
            return "not readable"
        return "own" if own else "not enforced"

    def _status(self) -> dict[str, str]:
        with suppress(OSError):
            lines = (line.partition(":\t") for line in self._proc("status").splitlines())
            return {name: value.strip() for name, _, value in lines}
        return {}

    def _proc(self, name: str) -> str:
        with open(f"/proc/{self._pid}/{name}", "rb", buffering=0) as stream:
            return stream.readall().decode("utf-8", "replace")


def _rlimit(lines: list[str], name: str, unit: str) -> str:
    """A soft limit from the kernel, by its name in /proc/PID/limits."""
    for line in lines:
        if line.startswith(name):
            value = line[len(name) :].split()[0]
            return "not enforced" if value == "unlimited" else f"{value} {unit}".strip()
    return "not readable"
