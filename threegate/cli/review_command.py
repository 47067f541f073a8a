"""`threegate review`: go through all drafts one by one; designed for 80 columns and slow connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from threegate.acts.approve import Promoted, promote, seal, sign
from threegate.acts.reject import REJECT, reject_about, reject_draft
from threegate.acts.signed_acts import decide
from threegate.acts.signing_key import Acting
from threegate.approval.shown.time_read import Reading
from threegate.cli.application import Application, application_here
from threegate.cli.invocation import (
    PlainFlag,
    context_here,
    on_terminal,
    put,
    say,
    screen_height,
    screen_width,
    typed_line,
    warn,
    workspace_here,
)
from threegate.cli.signing_options import KeyOption, NameOption, acting_here
from threegate.cli.signing_screens import reveal, show, tell, tell_outcomes
from threegate.core.errors import InvalidInput, ThreeGateError, TrailError
from threegate.core.own_daemon import daemon_at_own_place, starts_by_itself
from threegate.core.workspace import Workspace
from threegate.launch.context import Context
from threegate.request.model import Delivery
from threegate.review.draft_sources import drafts_of
from threegate.review.reviewed_draft import Draft, InvalidDraft, open_reviewed_draft, read_draft
from threegate.review.screen import render_invalid
from threegate.review.status import status_lines
from threegate.review.status_screen import screen_rows
from threegate.setup.init import account

_QUESTION = "[a]pprove  [r]eject  [f]ull  [s]kip  [q]uit > "
_CHANGE_QUESTION = "[a]pprove  [r]eject  [f]ull  [d]eliver otherwise  [s]kip  [q]uit > "
_INVALID = "[r]eject  [s]kip  [q]uit > "


def review(
    name: NameOption = "",
    key: KeyOption = None,
    plain: PlainFlag = False,
) -> None:
    """Walk through all drafts and decide on each.

    Read one, then approve, reject or skip it.

    Example: threegate review --as alice
    """
    if not on_terminal():
        raise InvalidInput("review needs a terminal; elsewhere use: threegate approve FILE --yes")
    if (application := application_here(plain)) is not None:
        return in_application(application, name, key, undecided=True)
    context = context_here()
    acting = acting_here(context, name, key)
    drafts = drafts_of(context.workspace, placed=True)
    _list(context.workspace)
    with daemon_at_own_place(context.workspace, context.policy.settings) as daemon_runs:
        approved = review_drafts(context, acting, drafts, daemon_runs=daemon_runs)
        if starts_by_itself(context.workspace):
            tell_outcomes(context.workspace, approved)


def review_drafts(
    context: Context, acting: Acting, drafts: Sequence[Path], *, daemon_runs: Callable[[], bool]
) -> list[Promoted]:
    """Go through drafts at the prompt, and print what was decided; return what was approved."""
    approved: list[Promoted] = []

    def tell_approved(done: Promoted) -> None:
        approved.append(done)
        tell(done, daemon_runs=daemon_runs())

    counts = Counter(approved=0, rejected=0, skipped=0)
    for number, path in enumerate(drafts, start=1):
        put(["", f"DRAFT {number} of {len(drafts)}"])
        outcome = _one(context, acting, path, tell_approved)
        if outcome == "quit":
            break
        counts[outcome] += 1
    say(", ".join(f"{count} {what}" for what, count in counts.items()))
    return approved


def _list(workspace: Workspace) -> None:
    """Print what needs an operator, before the drafts."""
    lines = [line for line in status_lines(workspace, ended=0) if line.next == "operator"]
    put(screen_rows(lines, now=datetime.now(UTC), width=screen_width(), height=screen_height()))


def in_application(application: Application, name: str, key: Path | None, *, undecided: bool, ended: int = 20) -> None:
    """Show the application until its user quits, then print what was decided."""
    workspace = workspace_here()
    with daemon_at_own_place(workspace, workspace.load_settings()) as daemon_runs:
        done = application(workspace, undecided=undecided, name=name, key=key, ended=ended)
        for promoted in done.approved:
            tell(promoted, daemon_runs=daemon_runs())
        if starts_by_itself(workspace):
            tell_outcomes(workspace, done.approved)
    for path in done.rejected:
        say(f"rejected {path}")
    if undecided or done.approved or done.rejected:
        say(f"{len(done.approved)} approved, {len(done.rejected)} rejected, {done.left} left")


def _one(
    context: Context,
    acting: Acting,
    path: Path,
    tell_approved: Callable[[Promoted], None],
    deliver: Delivery | None = None,
) -> str:
    """Show one draft and carry out the answer; return approved, rejected, skipped or quit. `deliver` is what the person
    chose that its change becomes.
    """
    draft: Draft | None = None
    reading: Reading | None = None
    try:
        draft = read_draft(context.workspace, path)
        with open_reviewed_draft(context, draft, deliver=deliver) as reviewed:
            full, bound = False, reviewed.bound
            more = len(bound.ways) > 1
            question, letters = (_CHANGE_QUESTION, "arfdsq") if more else (_QUESTION, "arfsq")
            while True:
                reader = show(reviewed, context, acting.name, full=full)
                answer = _answer(question, letters)
                full = answer == "f"
                if not full:
                    break
            reading = reader.read()
            if answer == "a" and (placed := draft.placed) is not None:
                reveal(context, draft, placed, yes=True, actor=f"operator:{acting.name}", reading=reading)
                return placed.kind
            if answer == "a":
                sealed = seal(context, reviewed, acting.name)
                signed = sign(sealed, acting.key)
                done = promote(context, reviewed, sealed, signed, actor=f"operator:{acting.name}", reading=reading)
                tell_approved(done)
                return "approved"
        if answer == "d":
            return _one(context, acting, path, tell_approved, bound.next_way)
    except TrailError:
        raise
    except InvalidDraft as error:
        put(render_invalid(error, width=screen_width()))
        answer = _answer(_INVALID, "rsq")
    except ThreeGateError as error:
        warn(str(error))
        answer = _answer(_INVALID, "rsq")
    if answer == "r" and draft is not None and (placed := draft.placed) is not None:
        reveal(context, draft, placed, yes=False, actor=f"operator:{acting.name}", reading=reading)
        return placed.kind
    if answer == "r" and draft is not None:
        return _reject(context, draft, acting, reading)
    return "quit" if answer == "q" else "skipped"


def _reject(context: Context, draft: Draft, acting: Acting, reading: Reading | None) -> str:
    reason = typed_line("reason (sent to the agent) > ").strip()
    by = decide(context, REJECT, reject_about(draft, reason), account=account(), acting=acting)
    done = reject_draft(context, draft, reason=reason, by=by, reading=reading)
    say(f"rejected {done.path}")
    return "rejected"


def _answer(question: str, allowed: str) -> str:
    """Read one letter of `allowed`; end of input means quit."""
    while True:
        line = typed_line(question)
        if not line:
            return "q"
        letter = line.strip().lower()[:1]
        if letter and letter in allowed:
            return letter
