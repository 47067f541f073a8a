"""What the rest of ThreeGate knows of a backend besides how its runs go: one frozen value, `BACKEND`, in its folder.

Invariant: nothing above this floor branches on a backend's name to learn what it can do. Making a description imports no
engine and no interpreter: what needs them is a function that imports them when it is called.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Literal, Protocol

from threegate.core.errors import ThreeGateError
from threegate.core.settings import RunnersSettings, SecretReference, Settings
from threegate.request.model import Backend
from threegate.runners.interface import Runner

LineState = Literal["ok", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class DoctorLine:
    """One finding of `threegate doctor`: what was checked, its state, what was seen, and how to fix it."""

    name: str
    state: LineState
    seen: str
    fix: str = ""


def guarded(
    name: str, check: Callable[[], Iterable[DoctorLine]], failure: LineState = "failure"
) -> list[DoctorLine]:
    """A check's lines; a check that cannot be made is a line as well, with state `failure`."""
    lines: list[DoctorLine] = []
    try:
        lines.extend(check())
    except (ThreeGateError, OSError, ValueError, subprocess.SubprocessError) as error:
        lines.append(DoctorLine(name, failure, str(error) or type(error).__name__))
    return lines


class MakeRunner(Protocol):
    """Makes a backend's runner. It starts nothing before it is asked."""

    def __call__(
        self,
        settings: Settings,
        *,
        secrets: Mapping[str, SecretReference],
        prepared_in: Path | None,
        once: bool,
    ) -> Runner:
        """`secrets`: what runs may be given, by name. `prepared_in`: the folder of what is prepared ahead, which recovery
        looks through; None: nothing is. `once`: for one run only, so nothing more is kept ready."""


class RemoveOrphans(Protocol):
    """Takes away what the runs of a killed process left behind."""

    def __call__(
        self, workspace_id: str, boot_nonce: str, settings: RunnersSettings, runs_folder: Path
    ) -> list[str]:
        """One line for each thing that was removed. Raises Unavailable for what is there and cannot be removed."""


@dataclass(frozen=True, slots=True)
class BackendDescription:
    """One backend: how its runner is made, what a run of it takes, and what the machine says about it."""

    name: Backend
    make: MakeRunner
    rows: Callable[[RunnersSettings], int]
    """How many of its runs may go on at once."""
    overhead_mb: int
    """MiB that a run takes beside its job's memory limit."""
    doctor: Callable[[Settings, bool], list[DoctorLine]]
    """Its lines of `threegate doctor`; with True also those of short runs that try each wall."""
    answers: Callable[[Settings], DoctorLine] | None = None
    """Whether what its runs need besides this machine answers now, within seconds; None: they need nothing."""
    most_cpus: Decimal | None = None
    """Cores that a run can use at most, whatever its limit says; None: as many as the limit says."""
    ahead_mb: Callable[[RunnersSettings], int] = lambda settings: 0
    """MiB that what waits prepared has before any run."""
    remove_orphans: RemoveOrphans | None = None
    """For recovery; None for a backend whose runs cannot outlive the daemon."""
    policy_facts: Callable[[], Mapping[str, str]] = dict
    """What of the backend's own version decides what a run may do. It is part of the policy digest: an approval that was
    given under other facts no longer holds. Names are the backend's own."""
    has_program: Callable[[RunnersSettings, str], bool | None] = lambda settings, program: None
    """Whether a run of it would find this first word of an argv; None when that is not known."""
    waits_for: str = "no_backend"
    """The code with which a request waits while no run of it can start."""
    on_workers: bool = False
    """Whether the workers of a cluster run it; with a cluster, a request for any other one waits."""
