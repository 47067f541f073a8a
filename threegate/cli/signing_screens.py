"""What is printed before and after a signature: the screens, what was done, and what is still needed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence

import typer

from threegate.acts.approve import Promoted, Sealed
from threegate.approval.shown.escaped_lines import quoted
from threegate.approval.shown.time_read import Reader, Reading
from threegate.cli.invocation import on_terminal, put, say, screen_width, threegate_here, warn
from threegate.cli.signing_options import NOT_APPROVED
from threegate.core import limits
from threegate.core.errors import EXIT_REFUSED, InvalidInput, Unavailable
from threegate.core.workspace import Workspace
from threegate.launch.context import Context
from threegate.review.draft_sources import PlacedDraft
from threegate.review.follow import follow
from threegate.review.group_screen import Group, render_group
from threegate.review.reviewed_draft import Draft, ReviewedDraft
from threegate.review.screen import render_reviewed_draft
from threegate.review.show import Shown, show_request
from threegate.review.status import WHOM
from threegate.trail.event import class_of
from threegate.trail.payloads.run_events import End


def show(
    reviewed: ReviewedDraft,
    context: Context,
    operator: str,
    *,
    full: bool,
    to_stderr: bool = False,
    paged: bool = False,
) -> Reader:
    """Print the review screen; return a record of when the reader started. `paged`: on a terminal, a page at a time.
    Raises InvalidInput on a small terminal, Exit if the reader left before the end.
    """
    settings = context.policy.settings
    return _show(
        lambda width: render_reviewed_draft(reviewed, settings, operator=operator, width=width, full=full),
        to_stderr=to_stderr,
        paged=paged,
    )


def show_group(
    group: Group, context: Context, operator: str, *, full: bool, to_stderr: bool = False, paged: bool = False
) -> Reader:
    """The same for the screen of a group."""
    settings = context.policy.settings
    return _show(
        lambda width: render_group(group.members, group.left_out, settings, operator=operator, width=width, full=full),
        to_stderr=to_stderr,
        paged=paged,
    )


def _show(render: Callable[[int], list[str]], *, to_stderr: bool, paged: bool) -> Reader:
    reader = Reader()
    width = screen_width(to_stderr=to_stderr)
    if paged and on_terminal() and (not to_stderr or sys.stderr.isatty()):
        from threegate.cli.paged_screen import read_to_end  # late: only a terminal needs it

        if not read_to_end(render, reader, err=to_stderr):
            warn(NOT_APPROVED)
            raise typer.Exit(EXIT_REFUSED)
        return reader
    lines = render(width)
    put(lines, err=to_stderr)
    reader.shows(lines)
    return reader


def promoted_json(done: Promoted, sealed: Sealed) -> dict[str, object]:
    """What `--json` prints."""
    return {
        "file": str(done.path),
        "request_id": sealed.request.request_id,
        "approved_by": sealed.statement.approved_by,
        "approval_sha256": done.approval_sha256,
        "request_sha256": sealed.statement.request_sha256,
        "job_sha256": sealed.statement.job_sha256,
        "policy_sha256": sealed.statement.policy_sha256,
        "shown_sha256": sealed.statement.shown_sha256,
        "key": done.fingerprint,
        "expires_utc": f"{done.expires_utc:%Y-%m-%dT%H:%M:%SZ}",
        "waits_for_quorum": done.waits_for_quorum,
        "draft_removed": done.draft_removed,
    }


def tell(done: Promoted, *, daemon_runs: bool) -> None:
    """Report what was done, and what is still needed before the request can run."""
    say(f"approved  {done.path}")
    say(f"approval  {done.approval_sha256}")
    say(f"key       {done.fingerprint}")
    say(f"until     {done.expires_utc:%Y-%m-%dT%H:%M:%SZ}")
    if done.waits_for_quorum:
        say(f"waits     for further operators: threegate approve {done.path.name}")
    tell_no_daemon(daemon_runs=daemon_runs)
    tell_kept(done)


def tell_no_daemon(*, daemon_runs: bool) -> None:
    """Say that no daemon is running, if none is."""
    if not daemon_runs:
        say("waits     for a daemon: none is running here; start one with: threegate run")


def tell_kept(done: Promoted) -> None:
    """Say that the draft stays, if it does."""
    if not done.draft_removed:
        warn("the draft's file changed after it was read, so it was not moved; what you saw is what was approved")


def tell_outcomes(workspace: Workspace, approved: Sequence[Promoted]) -> None:
    """Wait until the daemon has done what was approved, and print how it went; Ctrl-C leaves it to the daemon."""
    threegate = threegate_here(workspace)
    for promoted in approved:
        if promoted.waits_for_quorum:
            continue
        name, since, told = promoted.path.name, time.monotonic(), False
        try:
            for line in follow(workspace, show_request(workspace, name)):
                others = line.for_whom not in ("", WHOM["approved"])  # a person, or the program that makes the call
                if others or (line.state != "running" and not workspace.daemon_lock_held()):
                    break
                if not told and time.monotonic() - since > limits.DAEMON_END_SECONDS:
                    told = True
                    say(f"waiting for {name}; Ctrl-C leaves it to the daemon", err=True)
            for said in _outcome_lines(show_request(workspace, name), threegate):
                say(said, copied=True)
        except (InvalidInput, Unavailable) as error:
            warn(str(error))
        except KeyboardInterrupt:
            warn(f"what was approved goes on without you; see: {threegate} show {name}")
            return


def _outcome_lines(shown: Shown, threegate: str) -> Iterator[str]:
    """How a request went; if it can be reverted, how. `threegate`: how the program is called."""
    request = shown.report.request if shown.report is not None else None
    status, reason = "waits", ""
    for event in shown.events:
        kind = class_of(event["type"])
        if kind is not None and issubclass(kind, End):
            status, reason = kind.from_data(event["data"]).result_status, event["data"].get("reason") or ""
    if status == "succeeded" and request is not None and request.action.undone_by:
        yield f"applied   {shown.request_id}: it {request.action.does}"
        yield f"undo      {threegate} {request.action.undone_by} {shown.request_id}"
        return
    yield f"{status:<9} {shown.request_id}{f': {reason}' if reason else ''}"
    yield f"see       {threegate} show {shown.request_id}{' --result' if shown.results else ''}"


def reveal(
    context: Context,
    draft: Draft,
    placed: PlacedDraft,
    *,
    yes: bool,
    actor: str,
    paths: Collection[str] | None = None,
    reading: Reading | None = None,
    reason: str = "",
    quiet: bool = False,
) -> dict[str, object]:
    """End a draft that is never signed, on which an operator decided, and, unless `quiet`, print what it was; return
    the same for `--json`. `paths` as in `PlacedDraft.answer`.
    """
    answer = placed.answer(context, draft.data, yes=yes, actor=actor, paths=paths, reading=reading, reason=reason)
    if not quiet:
        say(answer.says)
        put([f"{answer.label}:", *quoted(answer.line, width=screen_width())])
    return dict(answer.told)
