"""Dialogs on top of the lists: a yes or no, a reason, lines to read.

Invariant: every text passed to the toolkit is a `Text`, so that nothing in it is parsed as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Input, Static

from threegate.approval.shown.escaped_lines import LEAST_WIDTH, WIDTH, shown
from threegate.plugins.tui.lines import Lines

_REASON_CHARS = 500


class Confirm(ModalScreen[bool]):
    """A yes or a no, each with its own key; no other key answers."""

    BINDINGS = [Binding("y", "answer(True)", "Yes"), Binding("n,escape", "answer(False)", "No")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """The question."""
        with Vertical(id="box"):
            yield Static(Text(f"{shown(self._question)}  [y/n]"), markup=False)

    def action_answer(self, answer: bool) -> None:
        """Return the answer."""
        self.dismiss(answer)


class ReasonScreen(ModalScreen[str | None]):
    """A reason in words; None if the dialog was left."""

    BINDINGS = [Binding("escape", "leave", "Go back")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """The question and the field."""
        with Vertical(id="box"):
            yield Static(Text(shown(self._question)), markup=False)
            yield Input(id="reason", max_length=_REASON_CHARS)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the reason."""
        self.dismiss(event.value.strip())

    def action_leave(self) -> None:
        """Close without doing anything."""
        self.dismiss(None)


class TextScreen(Screen[None]):
    """Lines to read, made for the available width."""

    BINDINGS = [Binding("escape,d,question_mark", "leave", "Back"), Binding("q", "app.quit", "Quit")]

    def __init__(self, title: str, lines: Callable[[int], Sequence[str]]) -> None:
        super().__init__()
        self._title, self._lines = title, lines

    def compose(self) -> ComposeResult:
        """A bar, the lines, the keys."""
        yield Static(Text(shown(self._title)), classes="bar", markup=False)
        yield Lines()
        yield Footer()

    def on_mount(self) -> None:
        """The keys move the lines."""
        self.query_one(Lines).focus()

    def on_resize(self) -> None:
        """Lines are made for the available width."""
        self.call_after_refresh(self._put)

    def _put(self) -> None:
        lines = self.query_one(Lines)
        lines.put(self._lines(max(LEAST_WIDTH, min(WIDTH, lines.size.width))))

    def action_leave(self) -> None:
        """Back."""
        self.dismiss()
