"""The lines of `threegate doctor` about ERA without an engine: the program, the root, the limits, and the restrictions
as the probe measures them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from threegate.core.settings import EraSettings
from threegate.request.job import WATCHED
from threegate.runners.backend import DoctorLine
from threegate.runners.era.bubblewrap_answer import bubblewrap_line, place_of
from threegate.runners.era.jailed_egress import egress_missing
from threegate.runners.era.jailed_run import BubblewrapRunner
from threegate.runners.era.measured_walls import limit_lines, measured
from threegate.runners.era.root_identity import identify
from threegate.runners.interface import Outcome
from threegate.runners.probe import Wall

_BY_CGROUP: Final = (
    "start the daemon as a user service (threegate settings service install), or: "
    "systemd-run --user --scope -p Delegate=yes"
)


def bubblewrap_lines(settings: EraSettings, probes: bool) -> Iterator[DoctorLine]:
    """Program, root, limits and restrictions; only the first if it cannot run."""
    line = bubblewrap_line(settings)
    runner = BubblewrapRunner(settings)
    if line.state == "ok" and (missing := runner.available()) is not None:
        line = DoctorLine("bubblewrap", "warning", missing)
    yield line
    if line.state != "ok":
        return
    root = identify(settings)
    python = f"Python {root.python}" if root.python else "no Python"
    yield DoctorLine("era root", "ok", f"{place_of(root)}: {root.digest}, {len(root.programs)} programs, {python}")
    if runner.by_cgroup:
        yield DoctorLine("era limits", "ok", "enforced by the kernel (cgroup), as this process is started")
    else:
        seen = f"without a cgroup, as this process is started: memory is {WATCHED}; a run gets whole cores"
        yield DoctorLine("era limits", "warning", seen, _BY_CGROUP)
    if (missing := egress_missing()) is not None:
        yield DoctorLine("era network", "warning", missing)
    if not probes:
        yield DoctorLine("era walls", "warning", "not measured", "threegate doctor --sandbox")
        return
    outcome, walls = prove_bubblewrap(settings)
    for wall in walls:
        yield DoctorLine(f"era: {wall.name}", "ok" if wall.held else "failure", wall.seen)
    yield from limit_lines(outcome)


def prove_bubblewrap(settings: EraSettings, *, network: bool = True) -> tuple[Outcome, list[Wall]]:
    """Run the probe in bubblewrap and return its measurements. Raises Unavailable, OSError."""
    network = network and egress_missing() is None
    return measured(lambda control: BubblewrapRunner(settings).prove(control, network=network))
