"""`threegate status --watch` as an application: everything that waits, runs and has ended, and each one to look at."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Footer, Static

from threegate.cluster.capacity import worker_lines
from threegate.core.errors import ThreeGateError, TrailError
from threegate.core.workspace import Workspace
from threegate.launch.context import open_context
from threegate.review.overview import Entry
from threegate.review.request_view import Look, look_at, look_sections
from threegate.review.status import Line, status_lines, worker_text
from threegate.shown.escaped_lines import LEAST_WIDTH, WIDTH, quoted, shown
from threegate.shown.screen_lines import render_sections
from threegate.trail import Trail
from threegate.tui.lines import Lines
from threegate.tui.screens import ListScreen, OperatorApp, Row, changed_of


def run_status(workspace: Workspace, *, ended: int) -> None:
    """Watch until the operator quits. Raises TrailError."""
    StatusApp(workspace, ended).go()


class StatusApp(OperatorApp):
    """What `threegate status` lists, kept up to date."""

    def __init__(self, workspace: Workspace, ended: int) -> None:
        super().__init__()
        self.workspace, self.ended = workspace, ended
        self.trail = Trail(workspace)

    def on_mount(self) -> None:
        """Begin with the list."""
        self.push_screen(RequestList())


class RequestList(ListScreen):
    """Everything that is open, and the last that have ended."""

    TITLE_OF = "REQUESTS"
    EMPTY = "nothing here: no drafts, nothing approved, nothing ended"
    app: StatusApp

    def rows(self) -> list[Row]:
        """The lines of `threegate status`."""
        lines = status_lines(self.app.workspace, ended=self.app.ended)
        workers = [worker_text(row) for row in worker_lines(self.app.workspace) or []]
        if workers:
            self.say("\n".join(workers))
        return [self._row(line) for line in lines]

    def _row(self, line: Line) -> Row:
        place = (
            self.app.workspace.inbox if line.folder == "inbox" else self.app.workspace.tool_exec / line.folder
        )
        return Row(place / line.file, line.folder, line.state, line.file, line.reason or "", line.for_whom)

    def open(self, row: Row) -> None:
        """Look at it."""
        self.app.push_screen(LookScreen(row))


class LookScreen(Screen[None]):
    """One request, to look at."""

    BINDINGS = [
        Binding("f", "full", "Full"),
        Binding("escape", "leave", "Back"),
        Binding("q", "app.quit", "Quit"),
    ]
    app: StatusApp

    def __init__(self, row: Row) -> None:
        super().__init__()
        self._row = row
        self._look: Look | None = None
        self._problem = ""
        self._full = False

    def compose(self) -> ComposeResult:
        """A bar of ours, the lines, the keys."""
        yield Static(
            Text(f"{self._row.state.upper()}   {shown(self._row.name)}"), classes="bar", markup=False
        )
        yield Lines(id="lines")
        yield Static(Text("to decide on drafts: threegate review"), classes="say", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Read it, without holding up the screen."""
        self.run_worker(self._read, thread=True, exclusive=True)

    def _read(self) -> None:
        try:
            entry = Entry(self._row.folder, self._row.path, changed_of(self._row.path))
            self._look = look_at(open_context(self.app.workspace, trail=self.app.trail), entry)
        except TrailError as error:
            self.app.call_from_thread(self.app.stop, error)
            return
        except ThreeGateError as error:
            self._problem = str(error)
        except OSError as error:
            self._problem = f"it cannot be read now ({error.strerror}); it may have gone on to another folder"
        self.app.call_from_thread(self._put)

    def _put(self) -> None:
        lines = self.query_one(Lines)
        width = max(LEAST_WIDTH, min(WIDTH, lines.size.width))
        if self._look is None:
            lines.put(quoted(self._problem, width=width))
        else:
            lines.put(render_sections(look_sections(self._look), width=width, full=self._full))
        lines.focus()

    def on_resize(self) -> None:
        """Lines are made for the width that there is."""
        if self._look is not None:
            self.call_after_refresh(self._put)

    def action_full(self) -> None:
        """Leave nothing out; again: the short screen."""
        self._full = not self._full
        self._put()

    def action_leave(self) -> None:
        """Back to the list."""
        self.dismiss()
