"""The backend ERA: one command in a hardened container of its own.

The engine's client library is the extra `era`. Without it, requests wait as they do without an engine.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from threegate.core.errors import InvalidInput
from threegate.core.extras import has_extra, install_line, missing_extra
from threegate.request.action import Command
from threegate.request.backend import Reading
from threegate.runners.backend import DoctorLine, RunningBackend, guarded

if TYPE_CHECKING:
    from threegate.core.settings import RunnersSettings, SecretReference, Settings
    from threegate.judgement.judge import Clearance
    from threegate.request.job import Job
    from threegate.request.sandbox_contents import Contents
    from threegate.runners.interface import Control, Outcome, Runner


class Era(RunningBackend):
    """What each member is for is said where it is defined."""

    name = "ERA"
    sections = ("Command", "Input Files", "Output Expectations", "Risk Assessment")
    closely = ("Command",)
    network = True
    container = True
    # A command can run an input, as `python3 /in/script.py` does.
    data_inputs = False
    overhead_mb = 32  # the container's shim and our side of its streams
    on_workers = True

    def read(self, reading: Reading) -> Command | None:
        from threegate.request.sections import read_input_list

        read_input_list(reading)
        words = reading.command()
        return Command(words) if words else None

    def drafted(self, command: str, code: str, variables: str | None) -> Command:
        if not command:
            raise InvalidInput(f"backend {self.name} runs a command; give it with --command 'python3 /in/script.py'")
        if code or variables is not None:
            raise InvalidInput(f"backend {self.name} runs a command; send code as an --input, or use --backend monty")
        try:
            return Command(tuple(shlex.split(command)))
        except ValueError as error:
            raise InvalidInput(f"--command: {error}; fix the quoting") from None

    def make(self, settings: Settings, *, secrets: Mapping[str, SecretReference], once: bool) -> Runner:
        if (problem := missing_extra("ERA", "era")) is not None:
            return _NoLibrary(problem)
        from threegate.runners.era.runner import EraRunner

        return EraRunner(settings.runners.era, secret_references=secrets)

    def rows(self, settings: RunnersSettings) -> int:
        return settings.era.parallel

    def doctor(self, settings: Settings, probes: bool) -> list[DoctorLine]:
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

    def answers(self, settings: Settings) -> DoctorLine:
        if not has_extra("era"):
            return _without_library()
        from threegate.runners.era.engine_answer import engine_line

        return engine_line(settings.runners.era.engine)

    def remove_orphans(
        self, workspace_id: str, boot_nonce: str, settings: RunnersSettings, runs_folder: Path
    ) -> list[str]:
        from threegate.runners.era.orphans import remove_orphans

        return remove_orphans(workspace_id, boot_nonce, url=settings.era.engine, runs_folder=runs_folder)

    def policy_facts(self) -> dict[str, str]:
        from threegate.runners.seccomp import SECCOMP_SHA256

        return {"seccomp": SECCOMP_SHA256}

    def contents(self, settings: RunnersSettings) -> Contents:
        from threegate.runners.era.contents import contents

        return contents(settings.era)

    def blocked(self, settings: Settings, *, network: bool) -> DoctorLine | None:
        line = self.answers(settings)
        if line.state != "ok":
            return line
        from threegate.runners.era.blocked_runs import why_blocked  # late: it loads the engine's client library

        return why_blocked(settings.runners.era, network=network)


class _NoLibrary:
    """The runner of a machine without the extra: nothing can run, and it says so."""

    starts_late = False

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def available(self, job: Job | None = None) -> str | None:
        """The line about the missing extra; one that is installed later is used after the daemon restarts."""
        return self._problem

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        from threegate.runners.interface import nothing_ran

        return nothing_ran(self._problem)

    def close(self) -> None:
        """Nothing was started."""


def _without_library() -> DoctorLine:
    seen = "the extra era is not installed: ERA requests wait"
    return DoctorLine("engine", "warning", seen, f"{install_line('era')}, then restart the daemon")


BACKEND = Era()
