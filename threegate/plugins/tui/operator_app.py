"""The operator's application: the list of requests, and the open request next to it or instead of it.

Invariant: what is signed is the request all of whose lines were on the screen; only an open request can be
decided on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static
from textual.worker import get_current_worker

from threegate.acts.approve import known_operators, promote, seal, sign
from threegate.acts.cancel import CANCEL, cancel_about, cancel_request
from threegate.acts.reject import REJECT, reject_about, reject_draft
from threegate.acts.signed_acts import decide
from threegate.acts.signing_key import Acting, acting_operator
from threegate.approval.shown.escaped_lines import LEAST_WIDTH, WIDTH, Title, own, quoted, shown
from threegate.approval.shown.messages import say
from threegate.cli.application import Decided
from threegate.core.errors import InvalidInput, Refused, ThreeGateError, TrailError, Unavailable
from threegate.core.workspace import Workspace
from threegate.launch.context import Context, open_context
from threegate.plugins.tui.input_screen import InputScreen
from threegate.plugins.tui.lines import LEAST_HEIGHT, Lines
from threegate.plugins.tui.opened import Opened, open_request
from threegate.plugins.tui.reading_pane import ReadingPane
from threegate.plugins.tui.request_list import RequestList, is_undecided
from threegate.plugins.tui.screens import Confirm, ReasonScreen, TextScreen
from threegate.plugins.tui.typed_ahead import TypedAhead, drop_pending
from threegate.request.model import Delivery
from threegate.review.compare import compare_with_last
from threegate.review.countersign import countersign
from threegate.review.draft_sources import PlacedDraft
from threegate.review.readiness import Readiness
from threegate.review.reviewed_draft import Draft
from threegate.review.screen import render_comparison
from threegate.review.status import Line, health_rows, is_draft_folder, output_row
from threegate.runners.live_output import OutputLine, live_output
from threegate.setup.init import account
from threegate.trail.trail import Trail

EVERY_SECONDS: Final = 1.0
SPLIT_COLUMNS: Final = 120
"""From this many columns on, the list stays visible next to the open request."""
_CANCEL_SECONDS: Final = 2.0
"""How long the screen waits for the daemon to stop a run."""
_Result = TypeVar("_Result")

_KEYS: Final = (
    ("Enter", "open the request under the cursor; after a search: the next hit"),
    ("/", "list: filter by words, Esc shows all again; open request: search"),
    ("u", "list: undecided only, or everything; open request: the next undecided"),
    ("space", "read on: the page that begins with the next unseen line"),
    ("PgDn", "page down; PgUp, arrows, j, k, Home and End move too"),
    ("n, p", "the next file, the previous one"),
    ("], [", "the next line that is marked (!), the previous one"),
    ("t", "all files: * read, ~ read in part, ! marked"),
    ("v", "all equal lines of files, or few; > is where some are left out"),
    ("f", "show everything; again: the short form"),
    ("i", "page through all inputs"),
    ("d", "differences from the last approved request of the same shape"),
    ("a", "approve a draft; asks y or n, then ssh-keygen asks"),
    ("o", "the next way to deliver a change: files, one commit, all commits"),
    ("c", "countersign a request that waits for further operators"),
    ("r", "reject a draft, with a reason for the agent"),
    ("x", "cancel what is approved or runs"),
    ("Esc, s", "back to the list, undecided"),
    ("q", "quit"),
)


def run_operator(
    workspace: Workspace, *, undecided: bool, name: str = "", key: Path | None = None, ended: int = 20
) -> Decided:
    """Show the requests until the operator quits. `undecided`: start with those to decide on, which needs a
    key.

    Raises InvalidInput before anything is shown, TrailError.
    """
    app = OperatorApp(workspace, undecided=undecided, name=name, key=key, ended=ended)
    try:
        app.go()
    finally:
        app.held.close()
    return app.done


class OperatorApp(App[None]):
    """The requests of a workspace, for one operator with one key, or for viewing only."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: $background; }
    .opened #health { display: none; }
    .bar { height: 1; background: $primary-darken-2; color: $text; padding: 0 1; }
    #say { height: auto; max-height: 8; padding: 0 1; }
    #health { height: auto; max-height: 3; padding: 0 1; }
    #say.silent { display: none; }
    #more { height: auto; max-height: 8; padding: 0 1; }
    #filter, #find { display: none; height: 3; }
    #filter.asked, #find.asked { display: block; }
    DataTable { height: 1fr; }
    Lines { height: 1fr; scrollbar-size: 0 0; overflow-x: hidden; }
    #list { width: 1fr; }
    #open { width: 80; display: none; }
    .split #open { display: block; }
    .opened #open { display: block; width: 1fr; }
    .opened #list { display: none; }
    .split.opened #open { width: 80; }
    .split.opened #list { display: block; }
    .split.tree #list { display: none; }
    .split.tree #open { width: 1fr; }
    #files { height: 1fr; border-right: vkey $primary-darken-2; }
    #total { height: 1; padding: 0 1; text-style: bold; }
    FileTree { height: 1fr; scrollbar-size: 0 0; overflow-x: hidden; }
    ModalScreen { align: center middle; background: $background 60%; }
    #box { width: 76; max-width: 100%; height: auto; border: heavy $warning; padding: 1 2; background: $surface; }
    """

    def __init__(
        self, workspace: Workspace, *, undecided: bool, name: str = "", key: Path | None = None, ended: int = 20
    ) -> None:
        """Determine who decides. Raises InvalidInput, TrailError."""
        super().__init__()
        self.animation_level = "none"
        self.workspace = workspace
        self.trail = Trail(workspace)
        self.undecided, self.ended = undecided, ended
        self.acting: Acting | None = None
        self.nobody = ""
        """Why no one can sign here."""
        try:
            self.acting = acting_operator(known_operators(self.fresh_context()), name=name, key=key)
        except (InvalidInput, Refused) as error:
            if undecided:
                raise
            self.nobody = str(error)
        self.done = Decided()
        self.stopped: TrailError | None = None
        """Why everything must stop."""
        self.held = ExitStack()
        """The copies of the open request's inputs."""
        self.typed_ahead = TypedAhead()

    async def on_event(self, event: events.Event) -> None:
        """Notice each key before it does anything."""
        if isinstance(event, events.Key):
            self.typed_ahead.key(event.time)
        await super().on_event(event)

    def fresh_context(self) -> Context:
        """Current settings and contracts."""
        return open_context(self.workspace, trail=self.trail)

    def on_mount(self) -> None:
        """There is one screen; others are pushed on top of it."""
        self.push_screen(RequestsScreen())

    def _fatal_error(self) -> None:
        """Exit without Textual's report, which prints the values of variables, including those of
        requests.
        """
        self.panic()

    def go(self) -> None:
        """Run until the operator quits. Raises TrailError, and internal errors unchanged."""
        for name in ("COLUMNS", "LINES"):  # with a size the terminal does not have, cut lines would count as seen
            os.environ.pop(name, None)
        self.run()
        if self.stopped is not None:
            raise self.stopped
        if self._exception is not None:
            raise self._exception

    def stop(self, error: TrailError) -> None:
        """Exit at once: the trail does not verify."""
        self.stopped = error
        self.exit()

    def at_terminal(self, says: str, act: Callable[[], _Result]) -> _Result:
        """Release the terminal, print a line there, call `act`, and take the terminal back in any case.

        Raises what `act` raises (ThreeGateError, OSError); Unavailable if the terminal cannot be released.
        """
        if self.is_headless:
            return act()
        result: list[_Result] = []
        failed: ThreeGateError | OSError | None = None
        try:
            with self.suspend():
                say(says, err=True)
                try:
                    result.append(act())
                except (ThreeGateError, OSError) as error:  # the toolkit would not recover from an exception here
                    failed = error
        except SuspendNotSupported:
            raise Unavailable("ssh-keygen cannot ask on this terminal; use: threegate review --plain") from None
        if failed is not None:
            raise failed
        return result[0]


class RequestsScreen(Screen[None]):
    """The list, and the request that is open."""

    BINDINGS = [
        Binding("question_mark", "help", "Help"),
        Binding("a", "approve", "Approve"),
        Binding("c", "countersign", "Countersign"),
        Binding("o", "deliver", "Or deliver"),
        Binding("r", "reject", "Reject"),
        Binding("x", "cancel", "Cancel"),
        Binding("i", "inputs", "Inputs"),
        Binding("d", "difference", "Differs"),
        Binding("u", "undecided", "Undecided"),
        Binding("slash", "ask_filter", "Filter"),
        Binding("escape,s", "leave", "Back"),
        Binding("q", "app.quit", "Quit"),
    ]
    app: OperatorApp

    def __init__(self) -> None:
        super().__init__()
        self._line: Line | None = None
        """The request that is open or being read."""
        self._opened: Opened | None = None
        self._output: OutputLine | None = None
        self._health = Readiness(self.app.workspace)

    def compose(self) -> ComposeResult:
        """Whether anything can run, the list, the request, our messages, the keys."""
        yield Static(id="health", markup=False)
        with Horizontal():
            yield RequestList(self.app.workspace, undecided=self.app.undecided, ended=self.app.ended)
            yield ReadingPane()
        yield Static(id="say", classes="silent", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Fill the list, and refresh it periodically."""
        self.query_one(DataTable).focus()
        self._renew()
        self.set_interval(EVERY_SECONDS, self._renew)

    def _renew(self) -> None:
        words = [f"{line.name}: {line.seen.partition(',')[0].partition(':')[0]}" for line in self._health.look(0)]
        self.query_one("#health", Static).update(Text(shown("   ".join(words))))
        if self.is_current and (self._line is None or self.has_class("split")):
            listed = self.query_one(RequestList)
            listed.renew()
            self.app.done.left = sum(map(is_undecided, listed.lines()))
        if self._line is not None and self._line.entry.folder == "running":
            self._renew_output(self._line)

    def _renew_output(self, line: Line) -> None:
        """The last line of the open run, below it; the request's own lines do not change while they are
        read.
        """
        output = live_output(self.app.workspace, line.request_id or "")
        if output is not None and output != self._output:
            self._output = output
            row = Text(output_row(output, width=max(LEAST_WIDTH, min(WIDTH, self.size.width - 2))))
            self._tell(row)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only the keys that have an effect now."""
        folder = self._line.entry.folder if self._line is not None else ""
        needs = {
            "approve": is_draft_folder(folder),
            "reject": is_draft_folder(folder),
            "deliver": len(self._ways()) > 1,
            "countersign": self._opened is not None and self._opened.approved is not None,
            "cancel": folder in ("approved", "running"),
            "ask_filter": not folder,
            **dict.fromkeys(("inputs", "difference"), bool(folder)),
        }
        return needs.get(action, True)

    # ---- opening and closing

    def on_request_list_opened(self, event: RequestList.Opened) -> None:
        """Read it completely."""
        self._open(event.line)

    def _open(self, line: Line, deliver: Delivery | None = None, *, told: str = "", itself: bool = False) -> None:
        """Read it; `told` is what to say then, `itself` whether nobody chose it."""
        self._close("")
        self._line, self._output = line, None
        self.app.typed_ahead.opened(itself=itself)
        self.add_class("opened")
        self._pane.begin(line.state, line.shown_file)
        self.say(told or "reading …")
        self.refresh_bindings()
        # Copying inputs may take a while, so the screen does not wait for it.
        self.run_worker(partial(self._read, line, deliver, told), thread=True, exclusive=True)

    def _read(self, line: Line, deliver: Delivery | None, told: str) -> None:
        worker = get_current_worker()
        held = ExitStack()
        operator = self.app.acting.name if self.app.acting else ""
        try:
            opened = held.enter_context(open_request(self.app.fresh_context(), line.entry, operator, deliver))
        except TrailError as error:
            self.app.call_from_thread(self.app.stop, error)
            return
        except ThreeGateError as error:  # settings or contracts cannot be read
            self.app.call_from_thread(self._close, str(error))
            return
        if worker.is_cancelled:
            held.close()
            return
        self.app.held.enter_context(held)
        self.app.call_from_thread(self._show, opened, told)

    def _show(self, opened: Opened, told: str) -> None:
        self._opened = opened
        self.say(told)
        self._pane.open(opened)
        self.refresh_bindings()

    def _close(self, told: str) -> None:
        """Close the request and remove copies of its inputs."""
        self.workers.cancel_node(self)
        self.app.held.close()
        self._pane.close()
        self._line = self._opened = None
        self.remove_class("opened")
        self.query_one(DataTable).focus()
        self.say(told)
        self.refresh_bindings()
        self._renew()

    @property
    def _pane(self) -> ReadingPane:
        return self.query_one(ReadingPane)

    def on_resize(self) -> None:
        """Lines are made for the available width."""
        self.set_class(self.size.width >= SPLIT_COLUMNS, "split")
        self._pane.resized()

    def on_screen_resume(self) -> None:
        """What a dialog covered is visible again."""
        self.query_one(Lines).look()
        self._renew()

    def on_reading_pane_painted(self) -> None:
        """From now on, keys may be meant for this request."""
        if self.app.typed_ahead.painted(time.monotonic()) and not self.app.is_headless:
            drop_pending()

    def on_reading_pane_told(self, event: ReadingPane.Told) -> None:
        """Show what a key of the pane did."""
        self.say(event.text)

    def say(self, text: str) -> None:
        """Show a message below the request."""
        self._tell(Text(shown(text)))

    def _tell(self, text: Text) -> None:
        below = self.query_one("#say", Static)
        below.update(text)
        below.set_class(not text.plain, "silent")

    # ---- keys that only look

    def action_help(self) -> None:
        """All keys, and how the workspace is."""
        self.app.push_screen(TextScreen("HELP", self._help))

    def _help(self, width: int) -> list[str]:
        lines: list[str] = [Title("== KEYS")]
        for key, does in _KEYS:
            first, *rest = own(does, width=width, indent=10)
            lines += [f"  {key:<8}{first[10:]}", *rest]
        who = (
            f"you sign as {self.app.acting.name}" if self.app.acting else f"signing is not possible: {self.app.nobody}"
        )
        lines += ["", Title("== THIS WORKSPACE"), *health_rows(self._health.look(0), width=width)]
        return [
            *lines,
            *own(who, width=width, indent=0),
            "",
            *own("Text behind the bar | is foreign: it is not from ThreeGate.", width=width, indent=0),
        ]

    def action_undecided(self) -> None:
        """In the list: show undecided requests only, or everything; in a request: leave it and open the next
        undecided one.
        """
        listed = self.query_one(RequestList)
        if self._line is None:
            listed.undecided = not listed.undecided
            listed.renew()
            return
        following = self._following()
        if following:
            self._open(following[0])
        else:
            self._close("nothing else is undecided")

    def _following(self) -> list[Line]:
        """What is undecided besides the open request: what is below it in the list, then what is above it."""
        if self._line is None:
            return []
        here, listed = self._line.entry, self.query_one(RequestList)
        listed.renew()
        lines = listed.lines()
        at = next((number for number, line in enumerate(lines) if line.entry.path == here.path), -1)
        return [line for line in (*lines[at + 1 :], *lines[: max(at, 0)]) if is_undecided(line)]

    def action_ask_filter(self) -> None:
        """Open the filter."""
        self.query_one(RequestList).ask_filter()

    def action_leave(self) -> None:
        """Decide nothing; in the list: clear the filter."""
        if self._pane.searches:
            self._pane.end_search()
        elif self._line is not None:
            self._close("")
        else:
            self.query_one(RequestList).no_filter()

    def action_inputs(self) -> None:
        """Page through all of its inputs."""
        reviewed = self._opened.reviewed if self._opened is not None else None
        if reviewed is None or not reviewed.inputs:
            self.say("there are no inputs to read")
        else:
            self.app.push_screen(InputScreen(reviewed.request.inputs, reviewed.inputs))

    def action_difference(self) -> None:
        """Show the differences from the last approved request of the same shape."""
        reviewed = self._opened.reviewed if self._opened is not None else None
        if reviewed is None:
            self.say("only requests you can decide on are compared here; for others: threegate show ID --against last")
            return
        try:
            found = compare_with_last(self.app.workspace, reviewed.draft.path, reviewed.request)
        except ThreeGateError as error:  # settings that are being edited
            self.say(str(error))
            return
        if found is None:
            self.say("no request of this shape was approved before")
            return
        self.app.push_screen(TextScreen("DIFFERENCE", lambda width: render_comparison(found, width=width, full=True)))

    def _ways(self) -> tuple[Delivery, ...]:
        """What the change of the open draft may become."""
        opened = self._opened
        if opened is None or opened.draft is None or opened.reviewed is None:
            return ()
        return opened.reviewed.bound.ways

    def action_deliver(self) -> None:
        """Open the draft again, with the next choice of what its change becomes."""
        reviewed = self._opened.reviewed if self._opened is not None else None
        if self._line is not None and reviewed is not None and reviewed.bound.ways:
            self._open(self._line, reviewed.bound.next_way)

    # ---- keys that decide

    def _meant(self) -> bool:
        """Whether a key that decides can have been meant for the open request; reports why not."""
        if self.app.typed_ahead.waits:
            self.say("this request opened by itself: pause, then press the key again")
        return not self.app.typed_ahead.waits

    def _ready(self) -> bool:
        """Whether every line was shown to an operator who can sign; reports why not."""
        lines = self.query_one(Lines)
        if self.app.acting is None:
            self.say(f"signing is not possible here: {self.app.nobody}")
        elif self._opened is None or self._opened.reviewed is None:
            self.say("this cannot be approved")
        elif self.size.width < LEAST_WIDTH or self.size.height < LEAST_HEIGHT:
            self.say(f"the terminal is too small: make it {LEAST_WIDTH} columns and {LEAST_HEIGHT} rows or more")
        elif not lines.lines:
            self.say("read it first: its lines are not on the screen yet")
        elif lines.unseen:
            self.say(f"read it first: {lines.unseen} lines have not been on the screen; space shows the next of them")
        else:
            return True
        return False

    def action_approve(self) -> None:
        """Ask, once every line has been on the screen."""
        self._sign_after("Sign as {} and let it run once?", self._approve)

    def action_countersign(self) -> None:
        """The same for a request that another operator approved."""
        self._sign_after("Countersign as {}?", self._countersign)

    def _sign_after(self, question: str, act: Callable[[Opened, Acting], str]) -> None:
        if self._meant() and self._ready() and self._opened is not None and self.app.acting is not None:
            acting = self.app.acting
            asked = Confirm(question.format(acting.name))
            self.app.push_screen(asked, partial(self._answered, partial(act, self._opened, acting)))

    def _answered(self, act: Callable[[], str], yes: bool | None) -> None:
        if yes:
            self._do(act)
        else:
            self.say("not approved; nothing was changed")

    def _do(self, act: Callable[[], str], *, decides: bool = True) -> None:
        """Carry it out, and close the request with the result; after a decision the next undecided one opens. An error
        is reported, and the request stays open.
        """
        following = self._following() if decides else []
        try:
            told = act()
        except TrailError as error:
            self.app.stop(error)
        except ThreeGateError as error:
            self.say(str(error))
        except OSError as error:
            self.say(f"{error.filename or ''}: {error.strerror or error}")
        else:
            there = [line for line in following if line.entry.path.exists()]
            if there:
                self._open(there[0], told=told, itself=True)
            else:
                self._close(told)

    def _approve(self, opened: Opened, acting: Acting) -> str:
        """Seal, sign and promote what was on the screen; ssh-keygen may ask on the terminal."""
        context, reviewed = opened.context, opened.reviewed
        assert reviewed is not None  # _ready
        if (placed := reviewed.draft.placed) is not None:
            return self._reveal(opened, reviewed.draft, placed, f"operator:{acting.name}", yes=True)
        self._refuse_other_policy(context)
        sealed = seal(context, reviewed, acting.name)
        says = f"threegate: {reviewed.request.file_name} as {acting.name}; ssh-keygen may ask now"
        signed = self.app.at_terminal(says, lambda: sign(sealed, acting.key))
        actor = f"operator:{acting.name}"
        done = promote(context, reviewed, sealed, signed, actor=actor, reading=self._pane.reading())
        self.app.done.approved.append(done)
        waits = "; waiting for further operators" if done.waits_for_quorum else ""
        return f"approved {done.path.name}{waits}{self._no_daemon()}"

    def _countersign(self, opened: Opened, acting: Acting) -> str:
        approved = opened.approved
        assert approved is not None  # the key is only available for these
        self._refuse_other_policy(opened.context)
        says = f"threegate: {approved.path.name} as {acting.name}; ssh-keygen may ask now"
        done = self.app.at_terminal(
            says, lambda: countersign(opened.context, approved, acting.name, acting.key, reading=self._pane.reading())
        )
        missing = "waiting for another operator" if done.missing else "the quorum is met"
        return f"countersigned {approved.path.name}; {missing}{self._no_daemon()}"

    def _refuse_other_policy(self, context: Context) -> None:
        if self.app.fresh_context().policy.standing != context.policy.standing:
            raise ThreeGateError("settings, contracts or images changed since this was shown: open it again")

    def _no_daemon(self) -> str:
        return "" if self.app.workspace.daemon_lock_held() else "; no daemon is running: threegate run"

    def action_reject(self) -> None:
        """Ask for a reason."""
        if not self._meant():
            return
        if self._opened is None or self._opened.draft is None:
            why = f"deciding is not possible here: {self.app.nobody}" if self.app.nobody else "it could not be read"
            self.say(f"{why}; it cannot be rejected")
        else:
            question = "Reject for good. Reason (sent to the agent); Enter rejects, Esc goes back:"
            self.app.push_screen(ReasonScreen(question), partial(self._reasoned, self._reject, self._opened))

    def action_cancel(self) -> None:
        """Ask for a reason."""
        view = self._opened.view if self._opened is not None else None
        if view is None or view.line.request_id is None:
            self.say("it cannot be read, so its id is not known; cancel it with: threegate cancel FILE")
        else:
            question = "Cancel it. Reason (for the trail); Enter cancels it, Esc goes back:"
            self.app.push_screen(
                ReasonScreen(question), partial(self._reasoned, self._cancel, view.line.request_id, decides=False)
            )

    def _reasoned(
        self, act: Callable[[_Result, str], str], about: _Result, reason: str | None, *, decides: bool = True
    ) -> None:
        if reason is None:
            self.say("nothing was changed")
        else:
            self._do(lambda: act(about, reason), decides=decides)

    def _reject(self, opened: Opened, reason: str) -> str:
        draft = opened.draft
        assert draft is not None  # action_reject
        if (placed := draft.placed) is not None:
            who = f"operator:{self.app.acting.name}" if self.app.acting else account()
            return self._reveal(opened, draft, placed, who, yes=False, reason=reason)
        by = decide(opened.context, REJECT, reject_about(draft, reason), account=account(), acting=self.app.acting)
        done = reject_draft(opened.context, draft, reason=reason, by=by, reading=self._pane.reading())
        self.app.done.rejected.append(done.path)
        return f"rejected {done.path.name}"

    def _reveal(
        self, opened: Opened, draft: Draft, placed: PlacedDraft, who: str, *, yes: bool, reason: str = ""
    ) -> str:
        """End a draft that is never signed, and say what it was before anything else can be done."""
        answer = placed.answer(
            opened.context, draft.data, yes=yes, actor=who, reading=self._pane.reading(), reason=reason
        )

        def lines(width: int) -> list[str]:
            head = own(answer.says, width=width, indent=0)
            return [*head, "", *own(f"{answer.label}:", width=width), *quoted(answer.line, width=width)]

        self.app.push_screen(TextScreen(answer.title, lines))
        return answer.says

    def _cancel(self, request_id: str, reason: str) -> str:
        context = self.app.fresh_context()
        by = decide(context, CANCEL, cancel_about(request_id, reason), account=account(), acting=self.app.acting)
        return str(cancel_request(context, request_id, by=by, reason=reason, wait_seconds=_CANCEL_SECONDS))
