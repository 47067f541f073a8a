"""`threegate review` as an application: a list of drafts, and each one whole before it is decided."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Footer, Static
from textual.worker import get_current_worker

from threegate.acts.approve import Promoted, known_operators, promote, seal, sign
from threegate.acts.list_drafts import drafts_of
from threegate.acts.reject import REJECT, reject_about, reject_draft
from threegate.acts.signed_acts import decide
from threegate.acts.signing_key import Acting, acting_operator
from threegate.core.errors import ThreeGateError, TrailError
from threegate.core.workspace import Workspace
from threegate.launch.context import Context, open_context
from threegate.review.overview import Entry, row
from threegate.review.reviewed_draft import (
    Draft,
    InvalidDraft,
    ReviewedDraft,
    open_reviewed_draft,
    read_draft,
)
from threegate.review.screen import render_invalid, render_reviewed_draft
from threegate.setup.init import account
from threegate.shown.escaped_lines import LEAST_WIDTH, WIDTH, quoted, shown
from threegate.shown.time_read import Reader, Reading
from threegate.trail import Trail
from threegate.tui.input_screen import InputScreen
from threegate.tui.lines import LEAST_HEIGHT, Lines
from threegate.tui.screens import Confirm, ListScreen, OperatorApp, Reason, Row, changed_of


@dataclass
class Reviewed:
    """What was decided, in order."""

    approved: list[Promoted] = field(default_factory=list)
    rejected: list[Path] = field(default_factory=list)
    left: int = 0


def run_review(workspace: Workspace, *, name: str = "", key: Path | None = None) -> Reviewed:
    """Walk through the drafts until the operator quits. Raises InvalidInput before anything is shown, TrailError."""
    app = ReviewApp(workspace, name=name, key=key)
    try:
        app.go()
    finally:
        app.held.close()
    app.done.left = len(drafts_of(workspace))
    return app.done


class ReviewApp(OperatorApp):
    """The drafts of a workspace, for one operator with one key."""

    def __init__(self, workspace: Workspace, *, name: str = "", key: Path | None = None) -> None:
        """Find out who reviews. Raises InvalidInput, TrailError."""
        super().__init__()
        self.workspace = workspace
        self.trail = Trail(workspace)
        self.acting: Acting = acting_operator(known_operators(self.fresh_context()), name=name, key=key)
        self.done = Reviewed()
        self.held = ExitStack()
        """The copies of the inputs of the draft that is open."""

    def fresh_context(self) -> Context:
        """Settings and contracts as they are now."""
        return open_context(self.workspace, trail=self.trail)

    def on_mount(self) -> None:
        """Begin with the list."""
        self.push_screen(DraftList())


class DraftList(ListScreen):
    """All drafts."""

    TITLE_OF = "DRAFTS"
    EMPTY = "no drafts: nothing waits for you"
    app: ReviewApp

    def rows(self) -> list[Row]:
        """The drafts with what their verdicts say."""
        found = []
        for path in drafts_of(self.app.workspace):
            folder = path.parent.name
            try:
                line = row(self.app.workspace, Entry(folder, path, changed_of(path)))
            except FileNotFoundError:
                continue
            found.append(Row(path, folder, line.state, path.name, line.reason or "", line.for_whom))
        return found

    def open(self, row: Row) -> None:
        """Read it whole."""
        self.app.push_screen(DraftScreen(row.path), self._came_back)

    def _came_back(self, told: str | None) -> None:
        self.renew()
        self.say(told or "")


class DraftScreen(Screen[str]):
    """One draft: the lines of the plain review, and the decision. Gives back what to say in the list."""

    BINDINGS = [
        Binding("a", "approve", "Approve"),
        Binding("r", "reject", "Reject"),
        Binding("f", "full", "Full"),
        Binding("i", "inputs", "Inputs"),
        Binding("escape,s", "leave", "Skip"),
        Binding("q", "app.quit", "Quit"),
    ]
    app: ReviewApp

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._draft: tuple[Context, Draft] | None = None
        """What was read, and under which policy."""
        self._reviewed: tuple[Context, ReviewedDraft] | None = None
        """The same, where it is valid."""
        self._problem: ThreeGateError | None = None
        self._full = False
        self._width = 0
        self._reader = Reader()

    def compose(self) -> ComposeResult:
        """A bar of ours above, the lines, what we have to say, the keys."""
        yield Static(id="bar", classes="bar", markup=False)
        yield Lines(id="lines")
        yield Static(id="say", classes="say", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Read it: copying inputs may take a while, so the screen does not wait for it."""
        self.say("reading …")
        self.run_worker(self._read, thread=True, exclusive=True)

    def _read(self) -> None:
        worker = get_current_worker()
        held = ExitStack()
        try:
            context = self.app.fresh_context()
            draft = read_draft(context.workspace, self._path)
            self._draft = context, draft
            self._reviewed = context, held.enter_context(open_reviewed_draft(context, draft))
        except TrailError as error:
            self.app.call_from_thread(self.app.stop, error)
        except ThreeGateError as error:
            self._problem = error
        if worker.is_cancelled:
            held.close()
            return
        self.app.held.enter_context(held)
        self.app.call_from_thread(self._show)

    def _show(self) -> None:
        self.say("")
        self._put()
        self.query_one(Lines).focus()

    def on_resize(self) -> None:
        """Lines are made for the width that there is; they begin anew when it changes."""
        if self._reviewed is not None or self._problem is not None:
            self.call_after_refresh(self._put_for_width)

    def _put_for_width(self) -> None:
        if self._width != self._fitting():
            self._put()

    def _fitting(self) -> int:
        return max(LEAST_WIDTH, min(WIDTH, self.query_one(Lines).size.width))

    def _put(self) -> None:
        self._width = self._fitting()
        lines = self._lines(self._width)
        self._reader.shows(lines)
        self.query_one(Lines).put(lines)
        self._tell_place()

    def _lines(self, width: int) -> list[str]:
        if self._reviewed is not None:
            context, reviewed = self._reviewed
            settings, name = context.policy.settings, self.app.acting.name
            return render_reviewed_draft(reviewed, settings, operator=name, width=width, full=self._full)
        if isinstance(self._problem, InvalidDraft):
            return render_invalid(self._problem, width=width)
        return quoted(str(self._problem or ""), width=width)

    def on_screen_resume(self) -> None:
        """What a dialog covered is there again."""
        self.query_one(Lines).look()

    def on_lines_seen(self) -> None:
        """Count what is left."""
        self._tell_place()

    def _tell_place(self) -> None:
        lines = self.query_one(Lines)
        left = f"{lines.unseen} not seen yet" if lines.unseen else "all seen"
        kind = "full" if self._full else "short"
        self.query_one("#bar", Static).update(Text(f"DRAFT, {kind}: lines {lines.place}, {left}"))

    def say(self, text: str) -> None:
        """A line of ours below."""
        self.query_one("#say", Static).update(Text(shown(text)))

    def action_full(self) -> None:
        """Leave nothing out; again: the short screen."""
        if self._reviewed is not None:
            self._full = not self._full
            self._put()

    def action_inputs(self) -> None:
        """Page through all of its inputs."""
        if self._reviewed is None or not self._reviewed[1].inputs:
            self.say("there are no inputs to read")
        else:
            _, reviewed = self._reviewed
            self.app.push_screen(InputScreen(reviewed.request.inputs, reviewed.inputs))

    def action_approve(self) -> None:
        """Ask, once every line has been on the screen."""
        lines = self.query_one(Lines)
        if self._reviewed is None:
            self.say("this draft cannot be approved as it is")
        elif self.size.width < LEAST_WIDTH or self.size.height < LEAST_HEIGHT:
            self.say(
                f"the terminal is too small: make it {LEAST_WIDTH} columns and {LEAST_HEIGHT} rows or more"
            )
        elif lines.unseen:
            self.say(f"read it first: {lines.unseen} lines have not been on the screen; page down with space")
        else:
            self.app.push_screen(
                Confirm(f"Sign as {self.app.acting.name} and let it run once?"),
                partial(self._answered, *self._reviewed),
            )

    def _answered(self, context: Context, reviewed: ReviewedDraft, yes: bool | None) -> None:
        if not yes:
            self.say("not approved; nothing was changed")
            return
        try:
            done = self._sign(context, reviewed)
        except TrailError as error:
            self.app.stop(error)
        except ThreeGateError as error:
            self.say(str(error))
        except OSError as error:
            self.say(f"{error.filename or ''}: {error.strerror or error}")
        else:
            self.app.done.approved.append(done)
            waits = "; waits for further operators" if done.waits_for_quorum else ""
            daemon = "" if context.workspace.daemon_lock_held() else "; no daemon runs: threegate run"
            self._close(f"approved {done.path.name}{waits}{daemon}")

    def _sign(self, context: Context, reviewed: ReviewedDraft) -> Promoted:
        """Seal, sign and deliver what was on the screen; ssh-keygen may ask on the terminal."""
        acting = self.app.acting
        if self.app.fresh_context().policy.digest != context.policy.digest:
            raise ThreeGateError("settings, contracts or images changed since this was shown: open it again")
        sealed = seal(context, reviewed, acting.name)
        says = f"threegate: {reviewed.request.file_name} as {acting.name}; ssh-keygen may ask now"
        signed = self.app.at_terminal(says, lambda: sign(sealed, acting.key))
        return promote(
            context, reviewed, sealed, signed, actor=f"operator:{acting.name}", reading=self._reading()
        )

    def _reading(self) -> Reading:
        return self._reader.read(unseen=self.query_one(Lines).unseen)

    def action_reject(self) -> None:
        """Ask for a reason."""
        if self._draft is None:
            self.say("it could not be read, so it cannot be rejected")
        else:
            self.app.push_screen(Reason(), self._rejected)

    def _rejected(self, reason: str | None) -> None:
        if reason is None or self._draft is None:
            self.say("not rejected; nothing was changed")
            return
        try:
            context, draft = self._draft
            about = reject_about(draft, reason)
            by = decide(context, REJECT, about, account=account(), acting=self.app.acting)
            done = reject_draft(context, draft, reason=reason, by=by, reading=self._reading())
        except TrailError as error:
            self.app.stop(error)
        except ThreeGateError as error:
            self.say(str(error))
        except OSError as error:
            self.say(f"{error.filename or ''}: {error.strerror or error}")
        else:
            self.app.done.rejected.append(done.path)
            self._close(f"rejected {done.path.name}")

    def action_leave(self) -> None:
        """Decide nothing."""
        self._close("")

    def _close(self, told: str) -> None:
        self.workers.cancel_node(self)
        self.app.held.close()
        self.dismiss(told)
