"""Lines on the screen, one row each, and which of them have been shown.

Invariant: a line is drawn unchanged, cell by cell, without the toolkit's markup and wrapping. A line counts
as seen once it was painted in full, in a row that nothing covered, on a terminal that is large enough to
read; a jump over lines does not make them seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from threegate.approval.shown.escaped_lines import LEAST_HEIGHT as LEAST_HEIGHT
from threegate.approval.shown.escaped_lines import LEAST_WIDTH, CodeLine, DiffRow, Title
from threegate.plugins.tui.request_rows import FileHead
from threegate.plugins.tui.side_by_side import PairRow

_TITLE = Style(bold=True)
_OWN = Style(dim=True)
_PLAIN = Style.null()  # never None: without colors (NO_COLOR) Textual inspects each style
_HERE = Style(reverse=True)
_MARKED = Style(bold=True, color="#ffffff", bgcolor="#a03000")
_HEADS: Final = {" ": _OWN, "-": Style(color="#ff9d96"), "+": Style(color="#8ddb8c")}
_BODIES: Final = {
    " ": _PLAIN,
    "-": Style(color="#ffd8d3", bgcolor="#48211f"),
    "+": Style(color="#d5f5d2", bgcolor="#173a1f"),
}
_CHANGED: Final = {
    " ": _PLAIN,
    "-": Style(color="#ffffff", bgcolor="#8c2b25", bold=True, underline=True),
    "+": Style(color="#ffffff", bgcolor="#1f7a36", bold=True, underline=True),
}
"""Words that changed: underlined too, for a screen without colors. They have no syntax colours."""
_CODE: Final = {
    "comment": Style(color="#8fd0d0"),
    "string": Style(color="#f0c674"),
    "number": Style(color="#e5a8f0"),
    "keyword": Style(color="#a8ccff", bold=True),
    "name": Style(color="#8fc1ff"),
}
"""Syntax colours: a foreground only, on our backgrounds. A terminal of 16 or 256 colours gets the nearest ones."""


LEAD: Final = 4
"""Rows that need not be read, such as equal lines of a file, with which a page begins before the first unseen line."""


class Lines(ScrollView, can_focus=True):
    """A list of lines that can be paged through."""

    BINDINGS = [
        Binding("space", "read_on", "Read on", show=False),
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
    ]

    class Seen(Message):
        """Posted when other lines are on the screen than before."""

    def __init__(self, *, id: str | None = None) -> None:
        """Empty, until `put` is called."""
        super().__init__(id=id)
        self.lines: Sequence[str] = ()
        self._unseen: set[int] = set()
        """Lines that must be read and have not been on the screen."""
        self._passed: set[int] = set()
        """Lines that have been on the screen since `put`."""
        self._painted: Callable[[int], None] | None = None
        self._goal: int | None = None
        """The line that was jumped to, until other lines are shown."""
        self._told: tuple[int, str] | None = None
        """The last reported state of the lines: how many are unseen, and which are on the screen."""

    def put(
        self,
        lines: Sequence[str],
        *,
        unseen: Collection[int] | None = None,
        painted: Callable[[int], None] | None = None,
        top: int = 0,
    ) -> None:
        """Show other lines, starting with the line `top`.

        `unseen` are those that must still be read, by default all; `painted` is called once for each of these, as soon
        as it was on the screen.
        """
        self.lines = lines
        self._unseen = set(range(len(lines)) if unseen is None else unseen)
        self._passed = set()
        self._painted = painted
        self._goal = self._told = None
        self.virtual_size = Size(max((cell_len(line) for line in lines), default=1), len(lines))
        self.scroll_to(0, top, animate=False, force=True)
        self.refresh()
        self.look()

    @property
    def unseen(self) -> int:
        """How many lines that must be read have not been on the screen yet."""
        return len(self._unseen)

    @property
    def place(self) -> str:
        """Which lines are on the screen."""
        top = self.scroll_offset.y
        return f"{min(top + 1, len(self.lines))}-{min(top + self.size.height, len(self.lines))} of {len(self.lines)}"

    @property
    def at(self) -> int:
        """The line that was jumped to, if it is on the screen; otherwise the first one there."""
        return self._goal if self._goal is not None else self.scroll_offset.y

    def jump(self, line: int, *, above: int = 0) -> None:
        """Go to a line, with some rows above it."""
        self.scroll_to(0, max(0, line - above), animate=False, force=True, immediate=True)
        self._goal = line
        self.refresh()
        self.post_message(self.Seen())

    def action_read_on(self) -> None:
        """The page that begins with the next unseen line, from the first on the screen; after the last one, with the
        first of all. Once everything was seen, the next page.
        """
        if not self._unseen:
            self.action_page_down()
            return
        top = self.scroll_offset.y
        line = min((line for line in self._unseen if line >= top), default=min(self._unseen))
        for _ in range(LEAD):
            if line - 1 in self._passed or line - 1 in self._unseen or line < 1:
                break
            line -= 1
        self.scroll_to(0, line, animate=False, force=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Report that other lines are shown now."""
        super().watch_scroll_y(old_value, new_value)
        self._goal = None
        self.look()

    def on_resize(self) -> None:
        """Other rows are there now."""
        self.look()

    def look(self) -> None:
        """Determine, once the screen is painted, which lines are on it."""
        self.call_after_refresh(self._look)

    def _look(self) -> None:
        screen = self.screen
        on_top = self.app.screen is screen  # `is_current` is also true below a dialog
        if on_top and screen.size.height >= LEAST_HEIGHT and screen.size.width >= LEAST_WIDTH:
            left, top = self.scroll_offset
            for row in range(min(self.size.height, len(self.lines) - top)):
                line = top + row
                if left == 0 and line not in self._passed and self._uncovered(row):
                    self._passed.add(line)
                    if line in self._unseen:
                        self._unseen.discard(line)
                        if self._painted is not None:
                            self._painted(line)
        if (now := (self.unseen, self.place)) != self._told:
            self._told = now
            self.post_message(self.Seen())

    def _uncovered(self, row: int) -> bool:
        """Whether the line in one of our rows fits, and no other widget covers it."""
        top = self.scroll_offset.y
        if cell_len(self.lines[top + row]) > self.size.width:
            return False
        y = self.region.y + row
        ends = (self.region.x, self.region.right - 1)
        return all(self.screen.region.contains(x, y) and self.screen.get_widget_at(x, y)[0] is self for x in ends)

    def render_line(self, y: int) -> Strip:
        """One row of the screen."""
        left, top = self.scroll_offset
        number = top + y
        width = self.size.width
        if number >= len(self.lines):
            return Strip.blank(width, self.rich_style)
        strip = Strip(segments_of(self.lines[number], here=number == self._goal))
        # On the application's own background: what is behind a colour does not depend on the terminal.
        return strip.crop_extend(left, left + width, _PLAIN).apply_style(self.rich_style)


def segments_of(line: str, *, here: bool = False) -> list[Segment]:
    """A line with its weights: headings and the first line of a file bold, heads of code lines dim, what was removed or
    added in its colors. `here`: it was jumped to. The texts together are the line, and no word of others is dim.
    """
    if isinstance(line, Title):
        return [Segment(str(line), _TITLE)]
    if isinstance(line, FileHead):
        return [Segment(str(line), _HERE if here else _TITLE)]
    if isinstance(line, PairRow):
        halves = [segments_of(half, here=here) if half is not None else [] for half in (line.left, line.right)]
        return [*halves[0], Segment(" " * line.gap, _PLAIN), *halves[1]]
    if isinstance(line, CodeLine):
        mark = line.mark if isinstance(line, DiffRow) else " "
        head = _HERE if here else _HEADS[mark]
        if isinstance(line, DiffRow) and line.said:
            return [Segment(line[:1], _MARKED), Segment(line[1 : line.start], head), *_words(line, mark)]
        return [Segment(line[: line.start], head), *_words(line, mark)]
    return [Segment(str(line), _HERE if here else _PLAIN)]


def _words(line: CodeLine, mark: str) -> Iterator[Segment]:
    """The foreign part in its colours; what changed within it stands out."""
    code = line[line.start :]
    styles = [_BODIES[mark]] * len(code)
    for start, end, name in line.colours:
        styles[start:end] = [_BODIES[mark] + _CODE[name]] * (end - start)
    for start, end in line.changed if isinstance(line, DiffRow) else ():
        styles[start - line.start : end - line.start] = [_CHANGED[mark]] * (end - start)
    for style, places in groupby(range(len(code)), key=styles.__getitem__):
        found = list(places)
        yield Segment(code[found[0] : found[-1] + 1], style)
