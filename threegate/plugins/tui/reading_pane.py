"""The open request: its lines, the tree of its files, and the keys with which it is read.

Invariant: no key makes a line count as read; only what is painted does. No key waits for the colours of code: a thread
asks for them, and each text gets its own once they are there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input, Static
from textual.worker import Worker, get_current_worker

from threegate.approval.shown.escaped_lines import (
    GUTTER,
    LEAST_WIDTH,
    WIDTH,
    CodeLine,
    Coloured,
    FileLines,
    cells,
    colours_of,
    fitted,
    own,
    shown,
    texts_of_code,
)
from threegate.approval.shown.time_read import Reader, Reading
from threegate.core.syntax_colours import LexerProcess
from threegate.plugins.tui.file_tree import LEAST_COLUMNS, FileTree, total, tree_rows
from threegate.plugins.tui.lines import Lines
from threegate.plugins.tui.opened import Opened
from threegate.plugins.tui.request_rows import Key, Progress, RequestRows, code_lines, request_rows
from threegate.plugins.tui.screens import TextScreen

_NOTHING = "Enter opens a request here"
_TREE_PART: Final = 4
"""The tree has one of so many parts of the screen's columns, within its bounds."""
_TREE_COLUMNS: Final = (28, 44)
_ABOVE: Final = 3
"""Rows above a mark or a hit that was jumped to."""


class ReadingPane(Vertical):
    """One request at a time, and what was on the screen of all that were open since the application began."""

    BINDINGS = [
        Binding("n", "file(1)", "File"),
        Binding("p", "file(-1)", "Previous file", show=False),
        Binding("right_square_bracket", "mark(1)", "Next mark", show=False),
        Binding("left_square_bracket", "mark(-1)", "Previous mark", show=False),
        Binding("t", "tree", "Files", show=False),
        Binding("v", "unfold", "Context", show=False),
        Binding("slash", "search", "Search", show=False),
        Binding("enter", "hit", "Next hit", show=False),
        Binding("f", "full", "Full"),
    ]

    class Told(Message):
        """Something to say below the lines."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Lexed(Message):
        """The rows of a text, and the colours of each."""

        def __init__(self, rows: Sequence[CodeLine], colours: Sequence[Sequence[Coloured]]) -> None:
            super().__init__()
            self.rows, self.colours = rows, colours

    class Painted(Message):
        """Other lines of the open request are on the screen."""

    def __init__(self) -> None:
        super().__init__(id="open")
        self._opened: Opened | None = None
        self._state = ""
        self._rows = RequestRows((), ())
        self._seen: set[Key] = set()
        self._progress = Progress(self._rows, self._seen)
        self._must: Counter[int] = Counter()
        self._seconds: dict[str, int] = {}
        """How long each request has been open before."""
        self._reader = Reader()
        self._full = self._unfolded = False
        self._words = ""
        self._made_for = (0, 0)
        """For which width of text and of files the lines were made."""
        self._lexers = LexerProcess()
        """Those of the lines on the screen."""

    def compose(self) -> ComposeResult:
        """Where it is in the request, the tree and the lines, and the field for a search."""
        yield Static(Text(_NOTHING), id="place", classes="bar", markup=False)
        with Horizontal():
            with Vertical(id="files"):
                yield Static(id="total", markup=False)
                yield FileTree(id="tree")
            yield Lines(id="lines")
        yield Input(placeholder="words of this request; Enter goes to the next line that has them", id="find")

    @property
    def lines(self) -> Lines:
        """The lines on the screen."""
        return self.query_one(Lines)

    # ---- opening and closing

    def begin(self, state: str, file: str) -> None:
        """A request is being read."""
        self._state = state
        self.query_one("#place", Static).update(Text(shown(f"{state.upper()}  {GUTTER}{file}")))

    def open(self, opened: Opened) -> None:
        """Show a request, from its first line; what was on the screen before counts."""
        self._opened, self._full, self._unfolded, self._words = opened, False, False, ""
        self._reader = Reader(self._seconds.get(opened.digest, 0))
        self._fit()
        self.lines.focus()
        self.call_after_refresh(self._put)  # the pane has its width then

    def close(self) -> None:
        """Show none."""
        if self._opened is not None:
            self._seconds[self._opened.digest] = self.reading().seconds
        self._opened = None
        self._rows = RequestRows((), ())
        self._lexers.stop()
        self._fit()
        self._end_search()
        self.query_one("#place", Static).update(Text(_NOTHING))
        self.lines.put(())

    def reading(self) -> Reading:
        """How it was read until now."""
        return self._reader.read(unseen=self.lines.unseen)

    @property
    def shows_tree(self) -> bool:
        """Whether the tree is beside the lines."""
        return self._opened is not None and self._opened.has_files and self.app.size.width >= LEAST_COLUMNS

    def _fit(self) -> None:
        least, most = _TREE_COLUMNS
        columns = max(least, min(most, self.app.size.width // _TREE_PART))
        files = self.query_one("#files")
        files.display = self.shows_tree
        files.styles.width = columns
        self.screen.set_class(self.shows_tree, "tree")

    def resized(self) -> None:
        """Lines are made for the available width; they start from the top when it changes."""
        self._fit()
        if self._opened is not None:
            self.call_after_refresh(self._put_for_width)

    def _put_for_width(self) -> None:
        if self._made_for != self._fitting():
            self._put()

    def _fitting(self) -> tuple[int, int]:
        columns = max(LEAST_WIDTH, self.lines.size.width)
        return min(WIDTH, columns), columns if self._opened is not None and self._opened.has_files else 0

    def _put(self, here: Key | None = None) -> None:
        """Make the lines; `here` is what to begin with."""
        if self._opened is None:
            return
        width, columns = self._made_for = self._fitting()
        self._rows = request_rows(
            partial(self._lines, self._opened, width),
            request=self._opened.digest,
            width=width,
            columns=columns,
            height=self.app.size.height,
            unfolded=self._unfolded,
        )
        self._progress = progress = Progress(self._rows, self._seen)
        self._must = Counter(self._rows.file_at(row) for row, keys in enumerate(self._rows.keys) if keys)
        self._reader.shows(self._rows.lines)
        top = (self._rows.row_of(here) or 0) if here is not None else 0
        self.lines.put(self._rows.lines, unseen=progress.unseen, painted=progress.painted, top=max(0, top - _ABOVE))
        self._colour()

    # ---- colours of code

    def _colour(self) -> None:
        """Ask for the colours of these lines, and no more for those of the lines before."""
        self._lexers.stop()
        if not self.app.no_color:
            self._lexers = lexers = LexerProcess()
            self.run_worker(partial(self._lex, lexers, self._rows.lines), thread=True, group="colours", exclusive=True)

    def _lex(self, lexers: LexerProcess, lines: Sequence[str]) -> None:
        worker: Worker[None] = get_current_worker()
        with lexers:
            for rows in texts_of_code(code_lines(lines)):
                colours = colours_of(lexers, rows)
                if worker.is_cancelled:
                    return
                if colours:
                    self.post_message(self.Lexed(rows, colours))

    def on_reading_pane_lexed(self, event: Lexed) -> None:
        """Draw the rows of a text in colour; rows that are no longer shown keep them to themselves."""
        event.stop()
        for row, colours in zip(event.rows, event.colours, strict=True):
            row.colours[:] = colours
        self.lines.refresh()

    def on_unmount(self) -> None:
        """Leave no process behind."""
        self._lexers.stop()

    def _lines(self, opened: Opened, width: int, files: FileLines) -> list[str]:
        return opened.lines(width=width, full=self._full, files=files)

    def on_lines_seen(self) -> None:
        """Show the current position, count the unseen lines, and mark the file in the tree."""
        lines = self.lines
        if self._opened is None or not lines.lines:  # just opened: no line was seen
            return
        self.query_one("#place", Static).update(Text(self._place(), no_wrap=True))
        files, here = self._rows.files, self._here
        if self.shows_tree:
            self.query_one("#total", Static).update(Text(total(files)))
            self.query_one(FileTree).put(tree_rows(files, self._progress.unread, self._must), here)
        self.post_message(self.Painted())

    def _place(self) -> str:
        """Where it is, for the bar; of a long path the end is shown."""
        lines, files, here = self.lines, self._rows.files, self._here
        left = f"{lines.unseen} not seen yet" if lines.unseen else "all seen"
        kind = "full" if self._full else "short"
        if not files:
            return f"{self._state.upper()}, {kind}: lines {lines.place}, {left}"
        text = f"{self._state.upper()}, {kind}: {lines.place}, {left}; "
        if here < 0:
            return f"{text}{total(files)}"
        text = f"{text}file {here + 1} of {len(files)} {GUTTER}"
        path = shown(files[here].item.path)
        room = self.size.width - 2 - len(text)
        if cells(path) > room:
            while path and cells(path) > max(room - 3, 0):
                path = path[1:]
            path = f"...{path}"
        return text + path

    @property
    def _here(self) -> int:
        """The file that is being read; -1 above the first."""
        return self._rows.file_at(self.lines.at)

    # ---- keys

    def _say(self, text: str) -> None:
        self.post_message(self.Told(text))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only the keys that have an effect now."""
        if self._opened is None:
            return False
        if action in ("file", "tree", "unfold", "mark"):
            return self._opened.has_files
        return action != "hit" or bool(self._words)

    def action_file(self, by: int) -> None:
        """The next or the previous file."""
        at = self.lines.at
        firsts = [place.first for place in self._rows.files]
        self._go(firsts, at, by, "file", above=0)

    def action_mark(self, by: int) -> None:
        """The next or the previous line that is marked."""
        self._go(self._rows.marks, self.lines.at, by, "mark")

    def _go(self, rows: tuple[int, ...] | list[int], at: int, by: int, what: str, *, above: int = _ABOVE) -> None:
        found = [row for row in rows if (row > at if by > 0 else row < at)]
        if found:
            self._say("")
            self.lines.jump(found[0] if by > 0 else found[-1], above=above)
        else:
            self._say(f"there is no {what} {'below' if by > 0 else 'above'}" if rows else f"it has no {what}")

    def action_tree(self) -> None:
        """All files, with their whole paths as far as the screen is wide."""
        rows = tree_rows(self._rows.files, self._progress.unread, self._must)
        head = f"{total(self._rows.files)}; * read, ~ read in part, ! marked"

        def lines(width: int) -> list[str]:
            return [*own(head, width=width, indent=0), *(piece for row in rows for piece in fitted(row, width=width))]

        self.app.push_screen(TextScreen("FILES", lines))

    def action_unfold(self) -> None:
        """Show all equal lines of the files, or only some around what differs; go on at the same line."""
        here = next((keys[0] for keys in self._rows.keys[self.lines.at :] if keys), None)
        self._unfolded = not self._unfolded
        self._put(here)
        self._say("all lines of the files: v shows fewer" if self._unfolded else "")

    def action_full(self) -> None:
        """Show everything; again: the short form."""
        self._full = not self._full
        self._put()

    def on_file_tree_chosen(self, event: FileTree.Chosen) -> None:
        """Go to the file."""
        self.lines.jump(self._rows.files[event.number].first)

    # ---- search

    def action_search(self) -> None:
        """Open the field."""
        find = self.query_one("#find", Input)
        find.value = ""
        find.add_class("asked")
        find.focus()

    @property
    def searches(self) -> bool:
        """Whether the field is open."""
        return self.query_one("#find", Input).has_class("asked")

    def end_search(self) -> None:
        """Back to the lines."""
        self._end_search()
        self.lines.focus()

    def _end_search(self) -> None:
        self.query_one("#find", Input).remove_class("asked")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The first hit from here on."""
        event.stop()
        self._words = event.value
        self.end_search()
        self.action_hit()

    def action_hit(self) -> None:
        """The next line that has the words; after the last one, the first."""
        hits = self._rows.hits(shown(self._words))
        if not hits:
            self._say(f"no line that is shown here has that{'; v unfolds equal lines' * self._folds}")
            return
        at = self.lines.at
        number = next((number for number, row in enumerate(hits) if row > at), 0)
        self.lines.jump(hits[number], above=_ABOVE)
        self._say(f"{number + 1} of {len(hits)} lines that have it; Enter goes on")

    @property
    def _folds(self) -> bool:
        return bool(self._rows.files) and not self._unfolded
