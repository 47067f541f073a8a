"""All inputs of a draft, page by page, whatever their size.

Invariant: the pages are read from the copies that would be pinned, one at a time; viewing this screen decides
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Footer, Static

from threegate.approval.shown.escaped_lines import LEAST_WIDTH, WIDTH, shown
from threegate.plugins.tui.lines import Lines
from threegate.request.model import InputFile
from threegate.request.tar_reader import TarError
from threegate.review.input_copies import InputCopy
from threegate.review.preview import Preview, pages
from threegate.review.screen import render_page


class InputScreen(Screen[None]):
    """The inputs, to read."""

    BINDINGS = [
        Binding("n", "turn(1)", "Next page"),
        Binding("p", "turn(-1)", "Previous page"),
        Binding("escape,i", "leave", "Back"),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, inputs: Sequence[InputFile], copies: Sequence[InputCopy]) -> None:
        super().__init__()
        self._inputs = [(item, copy) for item, copy in zip(inputs, copies, strict=True)]
        self._pages = self._all()
        self._number = 0
        self._page: tuple[str, Preview] | None = None

    def _all(self) -> Iterator[tuple[str, Preview]]:
        return ((item.name, page) for item, copy in self._inputs for page in pages(item, copy))

    def compose(self) -> ComposeResult:
        """A bar on top, the lines, our messages, the keys."""
        yield Static(id="bar", classes="bar", markup=False)
        yield Lines(id="lines")
        yield Static(id="say", classes="say", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Start with the first page."""
        self.call_after_refresh(self.action_turn, 1)
        self.query_one(Lines).focus()

    def action_turn(self, by: int) -> None:
        """The next page, or the previous one, for which the files are read again from their start."""
        if by < 0:
            if self._number < 2:
                self._say("this is the first page")
                return
            self._pages = islice(self._all(), self._number - 2, None)
        try:
            page = next(self._pages, None)
        except (OSError, TarError) as error:
            self._say(f"it cannot be read: {error}")
            return
        if page is None:
            self._say("this is the last page of the last input")
            return
        self._number, self._page = self._number + by, page
        self._say("")
        self._put()

    def on_resize(self) -> None:
        """Lines are made for the available width."""
        if self._page is not None:
            self.call_after_refresh(self._put)

    def _put(self) -> None:
        if self._page is not None:
            lines = self.query_one(Lines)
            width = max(LEAST_WIDTH, min(WIDTH, lines.size.width))
            lines.put(render_page(*self._page, width=width))

    def on_lines_seen(self) -> None:
        """Show the current position."""
        place = self.query_one(Lines).place
        self.query_one("#bar", Static).update(Text(f"INPUTS, page {self._number}: lines {place}"))

    def _say(self, text: str) -> None:
        self.query_one("#say", Static).update(Text(shown(text)))

    def action_leave(self) -> None:
        """Back to the draft."""
        self.dismiss()
