"""Changes of many files as drafts, and how many presses of space it takes to read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from textual.pilot import Pilot

from tests.plugins.changes.branches import Branching, branching
from tests.plugins.tui.terminal import drive, open_first, until
from threegate.core.workspace import Workspace
from threegate.plugins.tui.lines import Lines
from threegate.plugins.tui.operator_app import OperatorApp

LINES: Final = 300
"""Of each file."""
EDITS: Final = ((20, 3, 3), (60, 1, 1), (100, 8, 9), (150, 5, 5), (200, 2, 2), (240, 6, 6))
"""Of each file: from which line on, how many are removed, and how many added."""
SCATTERED: Final = (*((10 + 11 * number, 1, 1) for number in range(25)), (290, 0, 1))
"""As many lines, each far from the next."""
_FOLDERS: Final = ("src/store", "src/store/index", "src/web", "tests/store", "docs")
_WORDS: Final = (
    "    return self._rows[key{}]",
    "    if key{} not in self._rows:",
    "        raise LookupError(key{})",
    "def find_{}(self, key: str, *, most: int = 20) -> list[Row]:",
    '    """The rows of a key, newest first, and none of those that were removed: {}"""',
    "    rows = [row for row in self._rows.get(key{}, ()) if row.kept]",
    "    pass  # {}",
    "    for row in sorted(rows, key=self.when_{}, reverse=True)[:most]:",
    "        found.append(row.copy({}))",
    "    self.counts[key{}] += 1",
)
"""One of ten is longer than 70 columns, as in the standard library of Python one of fourteen."""


def _line(file: int, number: int, new: str = "") -> str:
    return _WORDS[(file * 7 + number * 3) % len(_WORDS)].format(f"{new}{number}")


@dataclass(frozen=True)
class ManyFiles:
    """A change of so many files: for ten of them +260 and -252 lines."""

    count: int
    edits: tuple[tuple[int, int, int], ...] = EDITS

    def path(self, file: int) -> str:
        folder = _FOLDERS[file % len(_FOLDERS)]
        return f"{folder}/part_{file}.{'md' if folder == 'docs' else 'py'}"

    def before(self) -> dict[str, str]:
        return {
            self.path(file): "".join(f"{_line(file, number)}\n" for number in range(LINES))
            for file in range(self.count)
        }

    def edit(self, work: Path) -> None:
        for file in range(self.count):
            place = work / self.path(file)
            lines = place.read_text().splitlines()
            edits = [*self.edits, *([(270, 2, 0)] if file == 0 else [])]
            for start, removed, added in sorted(edits, reverse=True):
                lines[start : start + removed] = [_line(file, start + number, "n") for number in range(added)]
            place.write_text("\n".join(lines) + "\n")

    @contextmanager
    def drafted(self) -> Iterator[Branching]:
        """The change as a draft in a workspace."""
        with branching(self.before(), deliver="tree") as here:
            here.propose(self.edit)
            yield here


def app_of(here: Branching) -> OperatorApp:
    return OperatorApp(Workspace(here.place.root), undecided=True, key=here.place.key)


@dataclass
class Read:
    """How a change was read whole."""

    presses: int = 0
    rows: int = 0
    pages: tuple[str, ...] = ()
    """What was on the screen before each press, and after the last."""


async def space_to_the_end(pilot: Pilot[None], lines: Lines) -> int:
    """Press space until every line that must be read was on the screen; how often."""
    presses = 0
    while lines.unseen:
        left = lines.unseen
        await pilot.press("space")
        presses += 1
        await until(pilot, lambda: lines.unseen < left)  # noqa: B023 - waited for here
    return presses


def read_whole(here: Branching, size: tuple[int, int]) -> Read:
    """Open the draft on a screen of this size, and press space until everything was seen."""
    app, found = app_of(here), Read()

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        await until(pilot, lambda: lines.unseen < len(lines.lines))
        found.presses = await space_to_the_end(pilot, lines)
        found.rows = len(lines.lines)

    drive(app, script, size)
    app.held.close()
    return found
