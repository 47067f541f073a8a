"""The list of requests: those that need someone first, refreshed on changes, with a filter; a group is one row, until
Enter shows each of its drafts below it.

Invariant: rows are those of review/status_screen.py, unchanged; foreign text is behind the gutter.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import DataTable, Input, Static

from threegate.approval.shown.escaped_lines import LEAST_WIDTH, own, shown
from threegate.core.workspace import Workspace
from threegate.review.asked import AskedReader
from threegate.review.status import NOTHING_HERE, TITLES, Line, is_draft_folder, status_lines, worker_rows
from threegate.review.status_screen import folded, in_turn, list_rows, member_rows
from threegate.runners.machine import worker_lines

_Drawn = dict[str, tuple[str, ...]]


class RequestList(Vertical):
    """The requests of a workspace: only the undecided ones, or everything open and the last that have
    ended.
    """

    class Opened(Message):
        """A request was chosen."""

        def __init__(self, line: Line) -> None:
            super().__init__()
            self.line = line

    def __init__(self, workspace: Workspace, *, undecided: bool, ended: int) -> None:
        super().__init__(id="list")
        self.undecided = undecided
        self._workspace, self._ended = workspace, ended
        self._reader = AskedReader(workspace)
        self._lines: dict[str, Line] = {}
        """By the key of their rows, in the order of the list."""
        self._unfolded: set[str] = set()
        """The names of the groups whose drafts are shown."""
        self._drawn: _Drawn | None = None

    def compose(self) -> ComposeResult:
        """A bar, the filter, the table, and messages about the list."""
        yield Static(id="bar", classes="bar", markup=False)
        yield Input(placeholder="words of the name or the state; Enter applies, Esc closes", id="filter")
        yield DataTable(cursor_type="row", show_header=False, cell_padding=0)
        yield Static(id="more", markup=False)

    def renew(self) -> None:
        """Refresh; the cursor stays on its request."""
        lines = status_lines(self._workspace, ended=self._ended, reader=self._reader)
        if self.undecided:
            lines = [line for line in lines if is_undecided(line)]
        self._lines = {_key(line): line for entry in in_turn(folded(lines)) for line in entry.members}
        self._fill()

    def on_resize(self) -> None:
        """Rows are made for the available width."""
        self.call_after_refresh(self._fill)

    def lines(self) -> list[Line]:
        """All of the list, in its order."""
        return list(self._lines.values())

    @property
    def chosen(self) -> Line | None:
        """The request under the cursor; None if there is none, or a group."""
        table = self.query_one(DataTable)
        if not table.row_count:
            return None
        return self._lines.get(str(table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value))

    def _fill(self) -> None:
        words = self.query_one("#filter", Input).value.lower().split()
        found = [
            line
            for line in self._lines.values()
            if all(word in f"{line.state} {shown(line.file)}".lower() for word in words)
        ]
        now, drawn, part = datetime.now(UTC), _Drawn(), ""
        entries = in_turn(folded(found))
        titles = {turn: f"{TITLES[turn]} ({sum(line.next == turn for line in found)})" for turn in TITLES}
        height = self.size.height - 1 - len({line.next for line in found})
        width = max(LEAST_WIDTH, self.size.width) - 1
        listed = list_rows(entries, now=now, width=width, height=height)
        if sum(map(len, listed)) > height:  # the scroll bar takes one more column
            width -= 1
            listed = list_rows(entries, now=now, width=width, height=height)
        for entry, rows in zip(entries, listed, strict=True):
            if entry.line.next != part:
                part = entry.line.next
                rows = [titles[part], *rows]
            drawn[entry.name or _key(entry.line)] = tuple(rows)
            if entry.name in self._unfolded:
                members = member_rows(entry, now=now, width=width)
                drawn |= {_key(line): (row,) for line, row in zip(entry.members, members, strict=True)}
        self._draw(drawn, width)
        kind = "UNDECIDED" if self.undecided else "REQUESTS"
        shown_of = f" of {len(self._lines)}" if words else ""
        alike = "; Enter on drafts alike shows each" if any(entry.name for entry in entries) else ""
        self.query_one("#bar", Static).update(Text(f"{kind}: {len(found)}{shown_of}{alike}"))
        more = worker_rows(worker_lines(self._workspace) or [], now=now, width=width)
        if not self._lines:
            more = own(
                "nothing is waiting for you; u shows everything" if self.undecided else NOTHING_HERE, width=width
            )
        self.query_one("#more", Static).update(Text("\n".join(shown(text) for text in more)))

    def _draw(self, drawn: _Drawn, width: int) -> None:
        table = self.query_one(DataTable)
        before, self._drawn = self._drawn, drawn
        column = table.columns.get("request")  # type: ignore[call-overload]
        if before is not None and column is not None and column.width == width and _shape(before) == _shape(drawn):
            for key, rows in drawn.items():
                if rows != before[key]:
                    table.update_cell(key, "request", Text("\n".join(rows)))
            return
        here = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value if table.row_count else None
        table.clear(columns=True)
        table.add_column("request", key="request", width=width)
        for key, rows in drawn.items():
            table.add_row(Text("\n".join(rows)), key=key, height=len(rows))
        if here is not None and here in drawn:
            table.move_cursor(row=table.get_row_index(here), animate=False)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Enter on a row: open the request under the cursor when the key was pressed; show or hide a group's drafts."""
        key = str(event.row_key.value)
        if (line := self._lines.get(key)) is not None:
            self.post_message(self.Opened(line))
        else:
            self._unfolded ^= {key}
            self._fill()

    def ask_filter(self) -> None:
        """Open the filter."""
        field = self.query_one("#filter", Input)
        field.add_class("asked")
        field.focus()

    def no_filter(self) -> None:
        """Show all again."""
        field = self.query_one("#filter", Input)
        field.value = ""
        field.remove_class("asked")
        self.query_one(DataTable).focus()
        self._fill()

    def on_input_changed(self, _event: Input.Changed) -> None:
        """Filter while typing."""
        self._fill()

    def on_input_submitted(self, _event: Input.Submitted) -> None:
        """Back to the table, filtered."""
        self.query_one(DataTable).focus()


def is_undecided(line: Line) -> bool:
    """Whether an operator could decide on it now: a draft, or a request waiting for an operator."""
    return line.next == "operator" or (is_draft_folder(line.entry.folder) and line.entry.path.suffix == ".md")


def _key(line: Line) -> str:
    return f"{line.entry.folder}/{line.file}"


def _shape(drawn: _Drawn) -> Sequence[tuple[str, int]]:
    return [(key, len(rows)) for key, rows in drawn.items()]
