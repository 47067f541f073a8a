"""Lines on the screen, one row each, and which of them have been shown.

Invariant: a line is drawn unchanged, cell by cell, without the toolkit's markup and wrapping. A line counts
as seen once it was painted in full, in a row that nothing covered, on a terminal that is large enough to
read.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from threegate.approval.shown.escaped_lines import LEAST_HEIGHT as LEAST_HEIGHT
from threegate.approval.shown.escaped_lines import LEAST_WIDTH, CodeLine, Title

_TITLE = Style(bold=True)
_OWN = Style(dim=True)
_PLAIN = Style.null()  # never None: without colors (NO_COLOR) Textual inspects each style


class Lines(ScrollView, can_focus=True):
    """A list of lines that can be paged through."""

    BINDINGS = [
        Binding("space", "page_down", "Page down", show=False),
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
        self._told: tuple[int, str] | None = None
        """The last reported state of the lines: how many are unseen, and which are on the screen."""

    def put(self, lines: Sequence[str]) -> None:
        """Show other lines, starting with the first; none of them counts as seen."""
        self.lines = lines
        self._unseen = set(range(len(lines)))
        self._told = None
        self.virtual_size = Size(max((cell_len(line) for line in lines), default=1), len(lines))
        self.scroll_to(0, 0, animate=False, force=True)
        self.refresh()
        self.look()

    @property
    def unseen(self) -> int:
        """How many lines have not been on the screen yet."""
        return len(self._unseen)

    @property
    def place(self) -> str:
        """Which lines are on the screen."""
        top = self.scroll_offset.y
        return f"{min(top + 1, len(self.lines))}-{min(top + self.size.height, len(self.lines))} of {len(self.lines)}"

    def next_unseen(self) -> bool:
        """Scroll to the first line that has not been on the screen; return whether there was one."""
        if self._unseen:
            self.scroll_to(0, min(self._unseen), animate=False, force=True)
        return bool(self._unseen)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Report that other lines are shown now."""
        super().watch_scroll_y(old_value, new_value)
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
            for row in range(self.size.height):
                if left == 0 and top + row in self._unseen and self._uncovered(row):
                    self._unseen.discard(top + row)
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
            return Strip.blank(width, _PLAIN)
        line = self.lines[number]
        return Strip(segments_of(line)).crop_extend(left, left + width, _PLAIN)


def segments_of(line: str) -> list[Segment]:
    """A line with its weights: headings bold, heads of code lines dim. The texts together are the line."""
    if isinstance(line, Title):
        return [Segment(str(line), _TITLE)]
    if isinstance(line, CodeLine):
        return [Segment(line[: line.start], _OWN), Segment(line[line.start :], _PLAIN)]
    return [Segment(str(line), _PLAIN)]
