"""What the probe of ERA found, the same for both ways that a command runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from threegate.core.errors import Unavailable
from threegate.request.job import WATCHED
from threegate.runners.backend import DoctorLine, LineState
from threegate.runners.era.walls import NOT_ENFORCED, NOT_READ
from threegate.runners.interface import Control, Outcome
from threegate.runners.probe import Wall, read_walls, scratch_control


def measured(prove: Callable[[Control], Outcome]) -> tuple[Outcome, list[Wall]]:
    """Run the probe and return its measurements. Raises Unavailable if it did not start, OSError."""
    with scratch_control() as control:
        outcome = prove(control)
        walls = read_walls(outcome.stdout.kept, outcome)
    if outcome.status == "unavailable":
        raise Unavailable(outcome.detail)
    # The probe ends by exhausting its memory in a child: that this is stopped is the last test.
    walls.append(Wall("the end says what ended it", outcome.status == "out_of_memory", outcome.detail))
    walls.append(
        Wall("the walls are read back", bool(outcome.effective_limits), f"{len(outcome.effective_limits)} values")
    )
    return outcome, walls


def limit_lines(outcome: Outcome) -> Iterator[DoctorLine]:
    """What was not read back, and how each limit is kept."""
    unread = [name for name, value in outcome.effective_limits.items() if value == NOT_READ]
    if unread:
        yield DoctorLine(
            "era: not read back",
            "warning",
            ", ".join(unread),
            "with runners.era.require_readback such a run is refused",
        )
    watched = WATCHED in outcome.effective_limits.get("memory", "")
    for name in ("memory", "processes", "cpu", "swap", "network"):
        seen = outcome.effective_limits.get(name, "not readable")
        state: LineState = "ok"
        if seen == NOT_ENFORCED and not watched:
            state = "failure"
        elif seen in (NOT_READ, NOT_ENFORCED) or WATCHED in seen:
            state = "warning"
        yield DoctorLine(f"era: {name} as the kernel holds it", state, seen)
