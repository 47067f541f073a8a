"""The files of an open request as a tree, in the order in which they are read.

Invariant: names are foreign and stand behind the gutter, escaped, one row each; everything before it is ours. What is
cut here is whole at the head of the file's lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from threegate.approval.shown.escaped_lines import GUTTER, cells, shown
from threegate.core.screen_parts import FileDiff
from threegate.plugins.tui.request_rows import FilePlace

LEAST_COLUMNS: Final = 100
"""Of a screen with the tree beside the lines."""
_PLAIN = Style.null()
_OWN = Style(dim=True)
_HERE = Style(reverse=True)
_SIGN = Style(bold=True, color="#ffffff", bgcolor="#a03000")


class TreeRow(str):
    """A row of the tree. `number` is that of the file; -1 for a folder."""

    number: int
    start: int
    """Where the name begins."""


def total(files: Sequence[FilePlace]) -> str:
    """How many files, and their lines."""
    count = f"{len(files)} FILE{'S' * (len(files) != 1)}"
    return f"{count} +{sum(place.item.added for place in files)} -{sum(place.item.removed for place in files)}"


def tree_rows(files: Sequence[FilePlace], unread: Mapping[int, int], must: Mapping[int, int]) -> list[TreeRow]:
    """Folders and files. `unread` and `must`: how many rows of each file, by number, are still to be read, and how many
    must be read in all.
    """
    nodes = list(_nodes(files))
    added = max((len(f"+{plus}") for _, _, _, plus, _ in nodes), default=0)
    removed = max((len(f"-{minus}") for _, _, _, _, minus in nodes), default=0)
    made = []
    for depth, name, number, plus, minus in nodes:
        counts = f"{f'+{plus}':>{added}} {f'-{minus}':>{removed}}"
        head = f"  {counts} {GUTTER}"
        if number >= 0:
            item = files[number].item
            read = " " if unread[number] and unread[number] == must[number] else "~" if unread[number] else "*"
            if item.text is None:
                counts = item.label.partition(" ")[0].lower()[: len(counts)].rjust(len(counts))
            head = f"{'!' if item.marks else ' '}{read}{counts} {GUTTER}"
        row = TreeRow(f"{head}{'  ' * depth}{name}")
        row.number, row.start = number, len(head)
        made.append(row)
    return made


def _nodes(files: Sequence[FilePlace]) -> Iterator[tuple[int, str, int, int, int]]:
    """Depth, escaped name, number of the file or -1, added and removed lines. Folders with nothing else in them share a
    row.
    """
    above: list[tuple[str, ...]] = []
    for number, place in enumerate(files):
        *parts, name = place.item.path.split("/")
        folder = tuple(parts)
        while above and folder[: len(above[-1])] != above[-1]:
            above.pop()
        known = above[-1] if above else ()
        if folder != known:
            inside = list(_below(files, number, folder))
            plus, minus = sum(item.added for item in inside), sum(item.removed for item in inside)
            yield len(above), f"{shown('/'.join(folder[len(known) :]))}/", -1, plus, minus
            above.append(folder)
        yield len(above), shown(name), number, place.item.added, place.item.removed


def _below(files: Sequence[FilePlace], number: int, folder: tuple[str, ...]) -> Iterator[FileDiff]:
    """The files from this one on that follow each other in a folder."""
    for place in files[number:]:
        if tuple(place.item.path.split("/")[:-1][: len(folder)]) != folder:
            return
        yield place.item


def cut(text: str, columns: int) -> str:
    """At most so many columns; three dots end what is cut."""
    if cells(text) <= columns:
        return text
    while text and cells(text) > columns - 3:
        text = text[:-1]
    return f"{text}..."


class FileTree(ScrollView, can_focus=False):
    """The tree beside the lines; a click goes to a file."""

    class Chosen(Message):
        """A file was clicked on."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: Sequence[TreeRow] = ()
        self._here = -1

    def put(self, rows: Sequence[TreeRow], here: int) -> None:
        """Show these rows; `here` is the number of the file that is being read."""
        self._rows, self._here = rows, here
        self.virtual_size = Size(1, len(rows))
        at = next((number for number, row in enumerate(rows) if row.number == here), 0)
        top, height = self.scroll_offset.y, self.size.height
        if not top <= at < top + height:
            self.scroll_to(0, max(0, at - height // 2), animate=False, force=True, immediate=True)
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Go to the file."""
        at = self.scroll_offset.y + event.y
        if at < len(self._rows) and self._rows[at].number >= 0:
            self.post_message(self.Chosen(self._rows[at].number))

    def render_line(self, y: int) -> Strip:
        """One row."""
        at, width = self.scroll_offset.y + y, self.size.width
        if at >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        row = self._rows[at]
        head, name = row[: row.start], cut(row[row.start :], width - row.start - 1)
        here = row.number == self._here and row.number >= 0
        segments = [
            Segment(head[:1], _SIGN if head[:1] == "!" else _OWN),
            Segment(head[1:], _HERE if here else _OWN),
            Segment(name, _HERE if here else _PLAIN),
        ]
        strip = Strip(segments, cell_len(head) + cell_len(name)).adjust_cell_length(width, _PLAIN)
        return strip.apply_style(self.rich_style)
