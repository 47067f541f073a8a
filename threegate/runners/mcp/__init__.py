"""MCP: calls of the tools of servers that the operator added."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from threegate.core import limits
from threegate.core.settings import SecretReference, Settings
from threegate.runners.description import BackendDescription, DoctorLine
from threegate.runners.interface import Runner


def _make(settings: Settings, *, secrets: Mapping[str, SecretReference], once: bool) -> Runner:
    from threegate.runners.mcp.runner import CallRunner

    return CallRunner(settings)


def _doctor(settings: Settings, probes: bool) -> list[DoctorLine]:
    return []


BACKEND = BackendDescription(
    name="mcp",
    make=_make,
    rows=lambda settings: limits.CALLS_AT_ONCE,
    overhead_mb=256,
    doctor=_doctor,
    most_cpus=Decimal(1),
)
