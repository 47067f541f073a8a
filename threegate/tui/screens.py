"""The parts that both applications are made of: a list with a filter, a yes, a reason, and how text of ours is shown.

Invariant: every text that is given to the toolkit is a `Text`, so that nothing in it is read as markup.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from rich.text import Text
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Input, Static

from threegate.core.errors import ThreeGateError, TrailError, Unavailable
from threegate.shown.escaped_lines import GUTTER, shown

EVERY_SECONDS = 1.0
_REASON_CHARS = 500
_COLUMNS = ("State", "Request", "Reason", "Who acts")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Row:
    """A request in a list: its file, our words about it, and foreign ones (its name, a reason)."""

    path: Path
    folder: str
    state: str
    name: str
    reason: str
    who: str


class OperatorApp(App[None]):
    """An application of the operator: no palette, no animation, nothing but its screens."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: $background; }
    .bar { height: 1; background: $primary-darken-2; color: $text; padding: 0 1; }
    .say { height: auto; max-height: 8; padding: 0 1; }
    #filter { display: none; height: 3; }
    #filter.asked { display: block; }
    DataTable { height: 1fr; }
    Lines { height: 1fr; scrollbar-size: 0 0; overflow-x: hidden; }
    ModalScreen { align: center middle; background: $background 60%; }
    #box { width: 76; max-width: 100%; height: auto; border: heavy $warning; padding: 1 2; background: $surface; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.animation_level = "none"
        self.stopped: TrailError | None = None
        """Why everything has to stop."""

    def _fatal_error(self) -> None:
        """End without Textual's report: it prints the values of variables, and a request may be among them."""
        self.panic()

    def go(self) -> None:
        """Run until the operator quits. Raises TrailError, and a mistake of ours as it was."""
        self.run()
        if self.stopped is not None:
            raise self.stopped
        if self._exception is not None:
            raise self._exception

    def stop(self, error: TrailError) -> None:
        """End at once: the trail does not verify."""
        self.stopped = error
        self.exit()

    def at_terminal(self, says: str, act: Callable[[], _Result]) -> _Result:
        """Give the terminal back as it was, say a line there, do `act`, and come back whatever became of it.

        Raises what `act` raises (ThreeGateError, OSError); Unavailable where the terminal cannot be given back.
        """
        if self.is_headless:
            return act()
        result: list[_Result] = []
        failed: ThreeGateError | OSError | None = None
        try:
            with self.suspend():
                sys.stderr.write(f"{shown(says)}\n")
                sys.stderr.flush()
                try:
                    result.append(act())
                except (
                    ThreeGateError,
                    OSError,
                ) as error:  # the toolkit would not come back from an exception here
                    failed = error
        except SuspendNotSupported:
            raise Unavailable(
                "ssh-keygen cannot ask on this terminal; use: threegate review --plain"
            ) from None
        if failed is not None:
            raise failed
        return result[0]


class ListScreen(Screen[None]):
    """Requests in a table that is renewed as they change, with a filter."""

    BINDINGS = [
        Binding("slash", "ask_filter", "Filter"),
        Binding("escape", "no_filter", "No filter", show=False),
        Binding("q", "app.quit", "Quit"),
    ]
    TITLE_OF = ""
    EMPTY = ""

    def compose(self) -> ComposeResult:
        """A bar, the filter, the table, a line for what we have to say."""
        yield Static(id="bar", classes="bar", markup=False)
        yield Input(placeholder="words of the name or the state; Enter shows, Esc ends", id="filter")
        yield DataTable(cursor_type="row", zebra_stripes=False)
        yield Static(id="say", classes="say", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Fill it, and look again from time to time."""
        self.query_one(DataTable).focus()
        self._rows: list[Row] = []
        self._shown: list[Row] | None = None
        self.renew()
        self.set_interval(EVERY_SECONDS, self.renew)

    def rows(self) -> list[Row]:
        """What there is now."""
        raise NotImplementedError  # each list of this module tells its own

    def renew(self) -> None:
        """Look again; the cursor stays on its request."""
        if self.is_current or self._shown is None:
            self._rows = self.rows()
            self._fill()

    def say(self, text: str) -> None:
        """Lines of ours below the table."""
        self.query_one("#say", Static).update(Text("\n".join(shown(line) for line in text.split("\n"))))

    def _fill(self) -> None:
        words = self.query_one("#filter", Input).value.lower().split()
        wanted = [
            row
            for row in self._rows
            if all(word in f"{row.state} {shown(row.name)}".lower() for word in words)
        ]
        if wanted == self._shown:
            return
        self._shown = wanted
        table = self.query_one(DataTable)
        here = self.chosen()
        cells = [[Text(text) for text in _cells(row)] for row in wanted]
        table.clear(columns=True)
        for number, name in enumerate(_COLUMNS):
            # Widths of our own: the table's are worked out after a first paint, which it may keep ("appro").
            width = max([len(name), *(row[number].cell_len for row in cells)])
            table.add_column(Text(name), key=name, width=width)
        for row, texts in zip(wanted, cells, strict=True):
            table.add_row(*texts, key=_key(row))
        if here is not None and _key(here) in table.rows:
            table.move_cursor(row=table.get_row_index(_key(here)), animate=False)
        count = f"{len(wanted)}" if not words else f"{len(wanted)} of {len(self._rows)}"
        self.query_one("#bar", Static).update(Text(f"{self.TITLE_OF}: {count}"))
        if not self._rows:
            self.say(self.EMPTY)

    def chosen(self) -> Row | None:
        """The request under the cursor."""
        table = self.query_one(DataTable)
        if not table.row_count:
            return None
        key = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value
        return next((row for row in self._rows if _key(row) == key), None)

    def open(self, row: Row) -> None:
        """Show one of them."""
        raise NotImplementedError  # each list of this module tells its own

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Enter on a row: the one that was under the cursor when the key was pressed."""
        row = next((row for row in self._rows if _key(row) == event.row_key.value), None)
        if row is not None:
            self.open(row)

    def action_ask_filter(self) -> None:
        """Ask for words."""
        field = self.query_one("#filter", Input)
        field.add_class("asked")
        field.focus()

    def action_no_filter(self) -> None:
        """Show all again."""
        field = self.query_one("#filter", Input)
        field.value = ""
        field.remove_class("asked")
        self.query_one(DataTable).focus()
        self._fill()

    def on_input_changed(self, _event: Input.Changed) -> None:
        """Narrow it as it is typed."""
        self._fill()

    def on_input_submitted(self, _event: Input.Submitted) -> None:
        """Back to the table, narrowed."""
        self.query_one(DataTable).focus()


class Confirm(ModalScreen[bool]):
    """A yes or a no, each with its own key; no other key is an answer."""

    BINDINGS = [Binding("y", "answer(True)", "Yes"), Binding("n,escape", "answer(False)", "No")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """The question."""
        with Vertical(id="box"):
            yield Static(Text(f"{shown(self._question)}  [y/n]"), markup=False)

    def action_answer(self, answer: bool) -> None:
        """Give it back."""
        self.dismiss(answer)


class Reason(ModalScreen[str | None]):
    """A reason in words; None when it was thought better of."""

    BINDINGS = [Binding("escape", "leave", "Leave it")]

    def compose(self) -> ComposeResult:
        """The question and the field."""
        with Vertical(id="box"):
            yield Static(
                Text("Reject for good. Reason (told to the agent); Enter rejects, Esc leaves it:"),
                markup=False,
            )
            yield Input(id="reason", max_length=_REASON_CHARS)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give it back."""
        self.dismiss(event.value.strip())

    def action_leave(self) -> None:
        """Nothing is rejected."""
        self.dismiss(None)


def _cells(row: Row) -> tuple[str, ...]:
    reason = f"{GUTTER}{shown(row.reason)}" if row.reason else ""
    return (row.state, f"{GUTTER}{shown(row.name)}", reason, row.who)


def _key(row: Row) -> str:
    return f"{row.folder}/{row.name}"


def changed_of(path: Path) -> datetime:
    """When a file was changed last. Raises OSError."""
    return datetime.fromtimestamp(path.lstat().st_mtime, UTC)
