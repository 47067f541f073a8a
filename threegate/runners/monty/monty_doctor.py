"""Monty's lines of `threegate doctor`: which privileges a worker loses here, and what the probe measures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from threegate.core.errors import Unavailable
from threegate.runners.backend import DoctorLine
from threegate.runners.monty.runner import MontyRunner
from threegate.runners.probe import Wall, read_walls, scratch_control


def monty_lines(probes: bool) -> Iterator[DoctorLine]:
    runner = MontyRunner(0)  # none ahead: a worker is started for the probe, if it runs
    try:
        missing = runner.isolation_missing()
        yield DoctorLine(
            "monty worker",
            "warning" if missing else "ok",
            f"not restricted: {'; '.join(missing)}" if missing else "own user, no capabilities, own namespaces",
            "run the daemon as root" if missing else "",
        )
        for wall in prove_monty(runner) if probes else ():
            # Of a try that failed, as it should, the probe has only Python's name for the error.
            seen = f"refused ({wall.seen})" if wall.held else wall.seen
            yield DoctorLine(f"monty: {wall.name}", "ok" if wall.held else "failure", seen)
    finally:
        runner.close()


def prove_monty(runner: MontyRunner) -> list[Wall]:
    """Run the probe in a Monty worker and return its measurements. Raises Unavailable, OSError."""
    with scratch_control() as control:
        outcome = runner.prove(control)
        if outcome.status == "unavailable":
            raise Unavailable(outcome.detail)
        text = b""
        with suppress(OSError):
            text = (control.run_folder / "out" / "result.json").read_bytes()
        return read_walls(text, outcome)
