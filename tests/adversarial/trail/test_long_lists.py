"""A run makes so many files, or asks for so many hosts, that its event cannot name all: it says how many more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.acts.bench_workspace import make_bench
from tests.launch.launching import CountingRunner, daemons, events_of, launched, waiting
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.judgement.judge import Clearance
from threegate.request.job import Job
from threegate.runners.interface import Artifact, Control, Destination, Outcome
from threegate.trail.payloads import Finished

FILES = 70


class Loud(CountingRunner):
    """Writes many files, and was refused many hosts before it reached one."""

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        outcome = super().run(clearance, job, control)
        names = [f"{number:03}" for number in range(FILES)]
        for name in names:
            (control.run_folder / "out" / name).write_text(name)
        files = tuple(Artifact(name, len(name), sha256_hex(name.encode())) for name in names)
        noise = [Destination(f"n{number:03}.example", 443, 1, False) for number in range(limits.EGRESS_REFUSED)]
        hosts = (*noise, Destination("z.example", 443, 1, True))
        return replace(outcome, artifacts=files, destinations=hosts)


def test_the_event_says_how_many_more(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    (context,) = daemons(bench, Loud(), 1)
    launched(context, waiting(bench, context))
    finished = Finished.of(events_of(bench.workspace)[-1])
    assert finished is not None and finished.outputs is not None
    assert len(finished.outputs) == limits.TRAIL_OUTPUTS
    assert finished.outputs_unlisted == FILES - limits.TRAIL_OUTPUTS
    assert "and 6 more" in finished.sentence() and "reached z.example:443" in finished.sentence()
    assert finished.blocked is not None and len(finished.blocked) == limits.EGRESS_REFUSED
