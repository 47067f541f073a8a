"""A backend as its folder below threegate/runners/ would be: what test_registry.py registers with one line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from threegate.core.settings import RunnersSettings, SecretReference, Settings
from threegate.judgement.judge import Clearance
from threegate.request.job import Job
from threegate.runners.backend import DoctorLine
from threegate.runners.interface import Control, Outcome, Runner, StreamMeter
from threegate.runners.monty.backend import Monty


class ToyRunner:
    """Says the code in capitals."""

    starts_late = False

    def __init__(self, secrets: Mapping[str, SecretReference], once: bool) -> None:
        self.made_with = (dict(secrets), once)
        self.closed = False

    def available(self, job: Job | None = None) -> str | None:
        return None

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        clearance.must_cover(job)
        out, err = StreamMeter(), StreamMeter()
        out.write((job.action.source).upper().encode())
        (control.run_folder / "out").mkdir()
        return Outcome(
            "succeeded",
            "It was said.",
            out.result(),
            err.result(),
            exit_code=0,
            wall_ms=1,
        )

    def close(self) -> None:
        self.closed = True


class Toy(Monty):
    """Its requests are as Monty's, but an input may be code."""

    name = "toy"
    data_inputs = False
    overhead_mb = 5
    most_cpus = None
    on_workers = False

    def make(self, settings: Settings, *, secrets: Mapping[str, SecretReference], once: bool) -> Runner:
        return ToyRunner(secrets, once)

    def rows(self, settings: RunnersSettings) -> int:
        return 3

    def doctor(self, settings: Settings, probes: bool) -> list[DoctorLine]:
        return [DoctorLine("toy", "ok", "with probes" if probes else "without probes")]

    def remove_orphans(
        self, workspace_id: str, boot_nonce: str, settings: RunnersSettings, runs_folder: Path
    ) -> list[str]:
        return [f"removed a toy of {workspace_id} in {runs_folder.name}"]

    def policy_facts(self) -> dict[str, str]:
        return {"toy": "1.0"}


BACKEND = Toy()
