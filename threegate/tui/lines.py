"""Lines on the screen, one row each, and which of them have been there.

Invariant: a line is drawn as it is, cell by cell, with no markup and no wrapping of the toolkit's; a line counts as seen
when it was drawn, whole.
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

from threegate.review.shown_text import CodeLine, Title

_TITLE = Style(bold=True)
_OWN = Style(dim=True)


class Lines(ScrollView, can_focus=True):
    """A list of lines that can be paged through."""

    BINDINGS = [
        Binding("space", "page_down", "Page down", show=False),
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
    ]

    class Seen(Message):
        """Other lines are on the screen than before."""

    def __init__(self, *, id: str | None = None) -> None:
        """Empty, until `put` is called."""
        super().__init__(id=id)
        self.lines: Sequence[str] = ()
        self._unseen: set[int] = set()

    def put(self, lines: Sequence[str]) -> None:
        """Show other lines, from the first one; none of them counts as seen."""
        self.lines = lines
        self._unseen = set(range(len(lines)))
        self.virtual_size = Size(max((cell_len(line) for line in lines), default=1), len(lines))
        self.scroll_to(0, 0, animate=False, force=True)
        self.refresh()

    @property
    def unseen(self) -> int:
        """How many lines have not been on the screen yet."""
        return len(self._unseen)

    @property
    def place(self) -> str:
        """Which lines are on the screen."""
        top = self.scroll_offset.y
        return f"{min(top + 1, len(self.lines))}-{min(top + self.size.height, len(self.lines))} of {len(self.lines)}"

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Say that others are there now."""
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Seen())

    def render_line(self, y: int) -> Strip:
        """One row of the screen."""
        left, top = self.scroll_offset
        number = top + y
        width = self.size.width
        if number >= len(self.lines):
            return Strip.blank(width)
        line = self.lines[number]
        strip = Strip(segments_of(line))
        if number in self._unseen and left == 0 and strip.cell_length <= width:
            self._unseen.discard(number)
            self.post_message(self.Seen())
        return strip.crop_extend(left, left + width, None)


def segments_of(line: str) -> list[Segment]:
    """A line with its own weight: headings bold, heads of code lines dim. The texts together are the line."""
    if isinstance(line, Title):
        return [Segment(str(line), _TITLE)]
    if isinstance(line, CodeLine):
        return [Segment(line[: line.start], _OWN), Segment(line[line.start :])]
    return [Segment(str(line))]
