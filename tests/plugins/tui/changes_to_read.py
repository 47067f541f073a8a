"""Changes of many files as drafts, and how many presses of space it takes to read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final

from textual.pilot import Pilot

from tests.plugins.changes.branches import Branching, branching
from tests.plugins.tui.terminal import drive, open_first, rows, until
from threegate.core.workspace import Workspace
from threegate.plugins.tui.lines import Lines
from threegate.plugins.tui.operator_app import OperatorApp

LINES: Final = 300
"""Of each file."""
EDITS: Final = ((20, 3, 3), (60, 1, 1), (100, 8, 9), (150, 5, 5), (200, 2, 2), (240, 6, 6))
"""Of each file: from which line on, how many are removed, and how many added."""
SCATTERED: Final = (*((3 + 11 * number, 1, 1) for number in range(25)), (290, 0, 1))
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

    @property
    def changed(self) -> str:
        """Added and removed lines."""
        return (
            f"+{self.count * sum(added for _, _, added in self.edits)}"
            f"/-{self.count * sum(removed for _, removed, _ in self.edits) + 2}"
        )

    def before(self) -> dict[str, str]:
        return {
            self.path(file): "".join(f"{_line(file, number)}\n" for number in range(LINES))
            for file in range(self.count)
        }

    def edit(self, work: Path) -> None:
        for file in range(self.count):
            place = work / self.path(file)
            place.write_text("\n".join(self.edited(place.read_text().splitlines(), file)) + "\n")

    def edited(self, lines: Sequence[str], file: int) -> list[str]:
        """A file's lines after the change."""
        made = list(lines)
        edits = [*self.edits, *([(270, 2, 0)] if file == 0 else [])]
        for start, removed, added in sorted(edits, reverse=True):
            made[start : start + removed] = [_line(file, start + number, "n") for number in range(added)]
        return made

    def differing(self, project: Path) -> set[tuple[str, str, int]]:
        """Path, mark and number of each line that differs, as difflib finds them."""
        found = set()
        for file in range(self.count):
            old = (project / self.path(file)).read_text().splitlines()
            new = self.edited(old, file)
            for kind, low, high, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
                if kind != "equal":
                    found |= {(self.path(file), "-", number + 1) for number in range(low, high)}
                    found |= {(self.path(file), "+", number + 1) for number in range(start, end)}
        return found

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
    shown: set[tuple[str, str, int]] = field(default_factory=set)
    """Path, mark and number of each line that differs and was on the screen, read from its rows."""


async def space_to_the_end(pilot: Pilot[None], lines: Lines, each: Callable[[], None] = lambda: None) -> int:
    """Press space until every line that must be read was on the screen; how often. `each` is called for each page."""
    presses = 0
    await until(pilot, lambda: lines.unseen < len(lines.lines))
    each()
    while lines.unseen:
        left = lines.unseen
        await pilot.press("space")
        presses += 1
        await until(pilot, lambda: lines.unseen < left)  # noqa: B023 - waited for here
        each()
    return presses


_NUMBERS: Final = re.compile(r"[ !][ >] *(\d+) +([-+]) \| ")
"""The head of a line that differs: what is marked or left out before it, its number, and what it is."""


def read_whole(here: Branching, size: tuple[int, int]) -> Read:
    """Open the draft on a screen of this size, and press space until everything was seen."""
    app, found = app_of(here), Read()

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        files = {line.partition("| ")[2]: row for row, line in enumerate(lines.lines) if line.startswith("  MODIFIED")}

        def page() -> None:
            """Which lines are in the rows of the screen, told by their numbers and marks there."""
            region, top = lines.region, lines.scroll_offset.y
            for number, row in enumerate(rows(app)[region.y : region.bottom]):
                path = max(
                    (path for path, at in files.items() if at <= top + number), key=files.__getitem__, default=""
                )
                for start in (0, (region.width - 1) // 2 + 1):
                    head = row[region.x + start : region.x + start + 20]
                    if match := _NUMBERS.match(head):
                        found.shown.add((path, match[2], int(match[1])))

        found.presses = await space_to_the_end(pilot, lines, page)
        found.rows = len(lines.lines)

    drive(app, script, size)
    app.held.close()
    return found
