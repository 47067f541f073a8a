"""Monty: a request's Python in the embedded sandbox."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal

from threegate.core.settings import SecretReference, Settings
from threegate.runners.description import BackendDescription, DoctorLine, guarded
from threegate.runners.interface import Runner

OVERHEAD_MB = 32
"""An idle worker and the copy of one frame; measured: 10 MiB resident."""


def _make(settings: Settings, *, secrets: Mapping[str, SecretReference], once: bool) -> Runner:
    from threegate.runners.monty.runner import MontyRunner

    return MontyRunner(0 if once else settings.runners.monty.workers)


def _doctor(settings: Settings, probes: bool) -> list[DoctorLine]:
    def lines() -> Iterator[DoctorLine]:
        from threegate.runners.monty.monty_doctor import monty_lines

        yield from monty_lines(probes)

    return guarded("monty", lines)


def _policy_facts() -> dict[str, str]:
    from pydantic_monty import __version__

    return {"monty": __version__}


BACKEND = BackendDescription(
    name="monty",
    make=_make,
    rows=lambda settings: settings.monty.workers,
    overhead_mb=OVERHEAD_MB,
    doctor=_doctor,
    most_cpus=Decimal(1),  # the interpreter has one thread
    policy_facts=_policy_facts,
    on_workers=True,
)
