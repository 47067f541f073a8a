"""What the rest of ThreeGate knows about a backend apart from running it: one frozen value, `BACKEND`, in its
folder.

Invariant: no room above this one branches on a backend's name to learn what it can do. Creating a description
imports no engine and no interpreter: a function that needs them imports them when it is called.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Literal, Protocol

from threegate.core.errors import ThreeGateError
from threegate.core.plugins import OFF, PLUGINS
from threegate.core.settings import RunnersSettings, SecretReference, Settings
from threegate.request.model import Backend
from threegate.runners.interface import Runner

LineState = Literal["ok", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class DoctorLine:
    """One finding of `threegate doctor`: what was checked, its state, what was found, and how to fix it."""

    name: str
    state: LineState
    seen: str
    fix: str = ""


def guarded(name: str, check: Callable[[], Iterable[DoctorLine]], failure: LineState = "failure") -> list[DoctorLine]:
    """A check's lines; a check that fails to run yields a line with state `failure`."""
    lines: list[DoctorLine] = []
    try:
        lines.extend(check())
    except (ThreeGateError, OSError, ValueError, subprocess.SubprocessError) as error:
        lines.append(DoctorLine(name, failure, str(error) or type(error).__name__))
    return lines


def plugin_lines(settings: Settings) -> Iterator[DoctorLine]:
    """Which plugins are on, off or absent. A section that is not read because its plugin is absent is a warning."""
    on = []
    for plugin in PLUGINS:
        absent = plugin.why_absent()
        if plugin.name in settings.plugins.off:
            yield DoctorLine("plugins", "ok", f"{plugin.name} {OFF}")
        elif plugin.name in settings.unread():
            fix = f'install it, remove the section, or set plugins.off = ["{plugin.name}"]'
            yield DoctorLine("plugins", "warning", f"{absent}; [{plugin.name}] in threegate.toml is not read", fix)
        elif absent is not None:
            yield DoctorLine("plugins", "ok", f"{plugin.name} is absent: {absent}")
        else:
            on.append(plugin.name)
    if on:
        yield DoctorLine("plugins", "ok", f"on: {', '.join(on)}")


class MakeRunner(Protocol):
    """Makes a backend's runner. It starts nothing until it is used."""

    def __call__(
        self,
        settings: Settings,
        *,
        secrets: Mapping[str, SecretReference],
        once: bool,
    ) -> Runner:
        """`secrets`: those that runs may get, by name. `once`: for a single run, so nothing is kept ready."""


class RemoveOrphans(Protocol):
    """Removes what the runs of a killed process left behind."""

    def __call__(self, workspace_id: str, boot_nonce: str, settings: RunnersSettings, runs_folder: Path) -> list[str]:
        """One line for each thing that was removed. Raises Unavailable for a leftover that cannot be
        removed.
        """


@dataclass(frozen=True, slots=True)
class BackendDescription:
    """One backend: how its runner is made, what resources a run needs, and what the machine reports about
    it.
    """

    name: Backend
    make: MakeRunner
    rows: Callable[[RunnersSettings], int]
    """How many of its runs may run at once."""
    overhead_mb: int
    """MiB that a run needs in addition to its job's memory limit."""
    doctor: Callable[[Settings, bool], list[DoctorLine]]
    """Its lines of `threegate doctor`; with True, also those of short runs that test each restriction."""
    answers: Callable[[Settings], DoctorLine] | None = None
    """Whether the service that its runs depend on answers now, within seconds; None: they depend on none."""
    most_cpus: Decimal | None = None
    """The most cores that a run can use, whatever its limit is; None: as many as the limit says."""
    remove_orphans: RemoveOrphans | None = None
    """For recovery; None for a backend whose runs cannot outlive the daemon."""
    policy_facts: Callable[[], Mapping[str, str]] = dict
    """The facts of the backend's own version that decide what a run may do. They are part of the policy
    digest: an approval given under other facts is no longer valid. Names are the backend's own.
    """
    has_program: Callable[[RunnersSettings, str], bool | None] = lambda settings, program: True
    """Whether a run would find the program that it starts, if it starts one; None if that is not known."""
    waits_for: str = "no_backend"
    """The code of a waiting request while none of its runs can start."""
    on_workers: bool = False
    """Whether the workers of a cluster run it; with a cluster, a request for any other backend waits."""
