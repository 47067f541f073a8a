"""Apply: the change sets of agents, in the projects of the operator."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from threegate.core import limits
from threegate.core.settings import SecretReference, Settings
from threegate.runners.description import BackendDescription, DoctorLine
from threegate.runners.interface import Runner


def _make(settings: Settings, *, secrets: Mapping[str, SecretReference], once: bool) -> Runner:
    from threegate.runners.apply.runner import ApplyRunner

    return ApplyRunner()


def _doctor(settings: Settings, probes: bool) -> list[DoctorLine]:
    return []


BACKEND = BackendDescription(
    name="apply",
    make=_make,
    rows=lambda settings: limits.APPLY_AT_ONCE,
    overhead_mb=64,
    doctor=_doctor,
    most_cpus=Decimal(1),
    waits_for="project_not_writable",
)
