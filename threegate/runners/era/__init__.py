"""ERA: a request's command in its own hardened container.

The engine's client library is the extra `era`. Without it, requests wait as they do without an engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from threegate.core.extras import has_extra, install_line, missing_extra
from threegate.core.settings import RunnersSettings, SecretReference, Settings
from threegate.jail.seccomp import SECCOMP_SHA256
from threegate.runners.description import BackendDescription, DoctorLine, guarded
from threegate.runners.interface import Control, Outcome, Runner
from threegate.runners.streams import nothing_ran

if TYPE_CHECKING:
    from threegate.judgement.judge import Clearance
    from threegate.request.job import Job

OVERHEAD_MB = 32
"""The container's shim and our side of its streams."""


class _NoLibrary:
    """The runner of a machine without the extra: nothing can run, and it says so."""

    starts_late = False

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def available(self, job: Job | None = None) -> str | None:
        """The line about the missing extra; one that is installed later is used after the daemon restarts."""
        return self._problem

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        """Nothing runs."""
        return nothing_ran(self._problem)

    def close(self) -> None:
        """Nothing was started."""


def _make(settings: Settings, *, secrets: Mapping[str, SecretReference], once: bool) -> Runner:
    if (problem := missing_extra("ERA", "era")) is not None:
        return _NoLibrary(problem)
    from threegate.runners.era.runner import EraRunner

    return EraRunner(settings.runners.era, secret_references=secrets)


def _doctor(settings: Settings, probes: bool) -> list[DoctorLine]:
    if not has_extra("era"):
        return [_without_library()]
    from threegate.runners.era.engine_answer import engine_line, engine_url

    url = engine_url(settings.runners.era.engine)
    if url.startswith("unix://") and not Path(url.removeprefix("unix://")).exists():
        return [engine_line(url)]  # no engine to query: the client library is not loaded

    def lines() -> Iterator[DoctorLine]:
        from threegate.runners.era.era_doctor import era_lines

        yield from era_lines(settings.runners.era, probes)

    # A machine without a container engine is a valid setup: its ERA requests wait.
    return guarded("engine", lines, failure="warning")


def _without_library() -> DoctorLine:
    seen = "the extra era is not installed: ERA requests wait"
    return DoctorLine("engine", "warning", seen, f"{install_line('era')}, then restart the daemon")


def _answers(settings: Settings) -> DoctorLine:
    if not has_extra("era"):
        return _without_library()
    from threegate.runners.era.engine_answer import engine_line

    return engine_line(settings.runners.era.engine)


def _remove_orphans(workspace_id: str, boot_nonce: str, settings: RunnersSettings, runs_folder: Path) -> list[str]:
    from threegate.runners.era.orphans import remove_orphans

    return remove_orphans(workspace_id, boot_nonce, url=settings.era.engine, runs_folder=runs_folder)


def _has_program(settings: RunnersSettings, program: str) -> bool | None:
    from threegate.runners.era.image_programs import has_program

    return has_program(settings.era, program)


BACKEND = BackendDescription(
    name="ERA",
    make=_make,
    rows=lambda settings: settings.era.parallel,
    overhead_mb=OVERHEAD_MB,
    doctor=_doctor,
    answers=_answers,
    remove_orphans=_remove_orphans,
    policy_facts=lambda: {"seccomp": SECCOMP_SHA256},
    has_program=_has_program,
    on_workers=True,
)
