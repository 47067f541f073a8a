"""The result of verification: how much was read, the position in the trail, and what is wrong with it.

Invariant: every problem names its file and line, and all of them are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from threegate.core import limits


@dataclass(frozen=True, slots=True)
class TrailProblem:
    """One thing that is wrong: in which file, on which line (0: the file as a whole)."""

    place: str
    line: int
    message: str

    def __str__(self) -> str:
        where = f"{self.place}:{self.line}" if self.line else self.place
        return f"{where}: {self.message}"


@dataclass(slots=True)
class Verification:
    """What verification found. `problems` is cut at limits.VERIFY_PROBLEMS, `problem_count` is not."""

    lines: int = 0
    seq: int = 0
    head: str = ""
    root: bytes = b""
    workspace_id: str = ""
    segments: int = 0
    checkpoints: int = 0
    last_time: str = ""
    problem_count: int = 0
    problems: list[TrailProblem] = field(default_factory=list)
    cosigned: list[tuple[str, int, str]] = field(default_factory=list)
    """Of each witness that was asked for and cosigned the newest checkpoint: name, size, time (UTC)."""
    notes: list[TrailProblem] = field(default_factory=list)
    """Remarks that are worth knowing but not problems; cut at limits.VERIFY_PROBLEMS."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.problem_count == 0

    def note(self, place: str | Path, message: str) -> None:
        """Note what is not a problem."""
        if len(self.notes) < limits.VERIFY_PROBLEMS:
            self.notes.append(TrailProblem(str(place), 0, message))

    def add(self, place: str | Path, line: int, message: str) -> None:
        """Note a problem."""
        self.problem_count += 1
        if len(self.problems) < limits.VERIFY_PROBLEMS:
            self.problems.append(TrailProblem(str(place), line, message))
