"""The backend monty: Python code that is in the request runs in the embedded sandbox."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from threegate.core.errors import InvalidInput
from threegate.request.action import Script
from threegate.request.backend import Reading
from threegate.runners.backend import DoctorLine, RunningBackend, guarded

if TYPE_CHECKING:
    from threegate.core.settings import RunnersSettings, SecretReference, Settings
    from threegate.runners.interface import Runner


class Monty(RunningBackend):
    """What each member is for is said where it is defined."""

    name = "monty"
    sections = ("Code", "Inputs (JSON)", "Output Expectations", "Risk Assessment")
    optional_sections = ("Inputs (JSON)",)
    closely = ("Code", "Inputs (JSON)")
    language = "python"
    overhead_mb = 32  # an idle worker and the copy of one frame; measured: 10 MiB resident
    most_cpus = Decimal(1)  # the interpreter has one thread
    on_workers = True

    def read(self, reading: Reading) -> Script | None:
        from threegate.request.code import read_script
        from threegate.runners.monty.guarded_parse import parse_problem

        # What was approved had passed as a draft, and a worker that does not start must not void it.
        return read_script(reading, parse_problem if reading.stage == "draft" else None)

    def drafted(self, command: str, code: str, variables: str | None) -> Script:
        if not code:
            raise InvalidInput(f"backend {self.name} runs code; name the file with --code FILE")
        if command:
            raise InvalidInput(
                f"backend {self.name} runs code, not a command; leave --command out or use --backend ERA"
            )
        return Script(_ended(code), None if variables is None else _ended(variables))

    def make(self, settings: Settings, *, secrets: Mapping[str, SecretReference], once: bool) -> Runner:
        from threegate.runners.monty.runner import MontyRunner

        return MontyRunner(0 if once else settings.runners.monty.workers)

    def rows(self, settings: RunnersSettings) -> int:
        """One for each worker."""
        return settings.monty.workers

    def doctor(self, settings: Settings, probes: bool) -> list[DoctorLine]:
        def lines() -> Iterator[DoctorLine]:
            from threegate.runners.monty.monty_doctor import monty_lines

            yield from monty_lines(probes)

        return guarded("monty", lines)

    def policy_facts(self) -> dict[str, str]:
        from pydantic_monty import __version__

        return {"monty": __version__}


def _ended(text: str) -> str:
    return f"{text.rstrip(chr(10))}\n"


BACKEND = Monty()
