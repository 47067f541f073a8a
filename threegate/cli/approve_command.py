"""`threegate approve`: show the request, ask, sign and promote it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from threegate.acts.approve import Promoted, Sealed, known_operators, promote, read_signature, seal, seal_as, sign
from threegate.acts.approve_group import deliver_group, open_group, seal_group, sign_group
from threegate.acts.signing_key import Acting, acting_operator
from threegate.approval.shown.escaped_lines import quoted
from threegate.approval.shown.time_read import Reader, Reading
from threegate.cli import tab_completion
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    context_here,
    emit_data,
    emit_json,
    put,
    say,
    screen_width,
    wants_json,
    warn,
)
from threegate.cli.signing_options import KeyOption, NameOption, YesOption, acting_here, ask
from threegate.core.canonical import sha256_hex
from threegate.core.errors import EXIT_REFUSED, InvalidInput, NoWorkspace
from threegate.core.own_daemon import daemon_at_own_place
from threegate.launch.context import Context
from threegate.request.model import CHOICES
from threegate.review.countersign import (
    Countersigned,
    countersign,
    countersign_all,
    open_waiting,
    waiting_file,
    waiting_group,
)
from threegate.review.draft_sources import PlacedDraft
from threegate.review.group_screen import Group, render_group
from threegate.review.reviewed_draft import Draft, ReviewedDraft, find_draft, open_reviewed_draft, read_draft
from threegate.review.screen import render_reviewed_draft


def approve(
    which: Annotated[
        str, argument("ID|FILE", "A draft, or a request in approved/: its id or file.", tab_completion.to_sign)
    ],
    name: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
    reason: Annotated[str, typer.Option("--reason", help="A comment for the trail.")] = "",
    full: Annotated[bool, typer.Option("--full", help="Show everything in full.")] = False,
    print_statement: Annotated[
        bool,
        typer.Option("--print-statement", help="Print the statement to sign elsewhere; approve nothing."),
    ] = False,
    signature: Annotated[
        Path | None,
        typer.Option("--signature", metavar="FILE.sig", help="A signature made elsewhere."),
    ] = None,
    deliver: Annotated[
        str,
        typer.Option(
            "--deliver",
            metavar="WAY",
            help="What a change becomes: tree (files), branch (one commit) or commits (each of the agent's).",
        ),
    ] = "",
    group: Annotated[
        bool,
        typer.Option(
            "--group", help="Also sign all drafts of the same shape, or all that were approved with it, at once."
        ),
    ] = False,
    json_: JsonFlag = False,
) -> None:
    """Read a request and sign what it still needs.

    A draft is approved; a request that waits for further operators also gets your signature. With --group, drafts that
    differ only in plain values are signed at once, or waiting requests that were approved at once.

    Examples: threegate approve TR-20261122-101500Z-sum
              threegate approve TR-20261122-101500Z-sum --group --as alice
              threegate approve TR-20261122-101500Z-fix --deliver branch
    """
    chosen = next((way for way in CHOICES if way == deliver), None)
    if chosen != (deliver or None):
        raise InvalidInput(f"--deliver {deliver}: must be {', '.join(CHOICES[:-1])} or {CHOICES[-1]}")
    if group and chosen is not None:
        raise NoWorkspace("--group cannot be combined with --deliver; approve the drafts one by one")
    if print_statement and signature is not None:
        raise NoWorkspace("--print-statement and --signature are separate steps; give one of them")
    if group and (print_statement or signature is not None):
        raise NoWorkspace(
            "--group cannot be combined with --print-statement or --signature; approve the drafts one by one"
        )
    context = context_here()
    quiet = wants_json(json_)
    if (waiting := waiting_file(context, which)) is not None:
        if chosen is not None or print_statement or signature is not None or reason:
            raise NoWorkspace(
                f"{which}: is approved already, and another signature takes none of --deliver, --print-statement, "
                "--signature and --reason"
            )
        _countersign(context, waiting, acting_here(context, name, key), yes=yes, full=full, group=group, quiet=quiet)
        return
    draft = read_draft(context.workspace, find_draft(context.workspace, which))
    if draft.placed is not None and (yes or group or print_statement or signature is not None):
        raise InvalidInput(
            f"{which}: must be decided on its own, at the prompt: threegate approve {which}, without --yes and --group"
        )
    operators = known_operators(context)
    if group:
        acting = acting_operator(operators, name=name, key=key)
        _approve_group(context, draft, acting, yes=yes, reason=reason, full=full, quiet=quiet)
        return
    with open_reviewed_draft(context, draft, deliver=chosen) as reviewed:
        if print_statement:
            if not name:
                raise NoWorkspace("--print-statement needs --as NAME: the statement names who approves")
            acting_operator(operators, name=name, key=Path(name))
            show(reviewed, context, name, full=full, to_stderr=True)
            emit_data(seal(context, reviewed, name).statement.to_bytes())
            return
        if signature is not None:
            statement, signed = read_signature(signature)
            reader = show(reviewed, context, statement.approved_by, full=full, to_stderr=quiet)
            ask("Deliver this approval?", yes)
            reading = None if yes else reader.read()
            sealed = seal_as(context, reviewed, statement)
        else:
            acting = acting_operator(operators, name=name, key=key)
            reader = show(reviewed, context, acting.name, full=full, to_stderr=quiet)
            ask(f"Sign as {acting.name} and let it run once?", yes)
            reading = None if yes else reader.read()
            if draft.placed is not None:
                actor = f"operator:{acting.name}"
                told = reveal(
                    context, draft, draft.placed, yes=True, actor=actor, reading=reading, reason=reason, quiet=quiet
                )
                if quiet:
                    emit_json(told)
                raise typer.Exit(EXIT_REFUSED)
            sealed = seal(context, reviewed, acting.name)
            signed = sign(sealed, acting.key)
        done = finish(context, reviewed, sealed, signed, reason, reading)
    with daemon_at_own_place(context.workspace, context.policy.settings) as daemon_runs:
        if quiet:
            emit_json({**promoted_json(done, sealed), "daemon_runs": daemon_runs()})
        else:
            tell(done, daemon_runs=daemon_runs())


def _approve_group(
    context: Context, draft: Draft, acting: Acting, *, yes: bool, reason: str, full: bool, quiet: bool
) -> None:
    """Show the group of a draft, ask once, sign once, promote each member. After a failure, report those
    already promoted.
    """
    done: list[tuple[Promoted, Sealed]] = []
    with open_group(context, draft) as group:
        reader = show_group(group, context, acting.name, full=full, to_stderr=quiet)
        ask(f"Sign as {acting.name} and let each of the {len(group.members)} run once?", yes)
        reading = None if yes else reader.read()
        sealed = seal_group(context, group, acting.name)
        signed = sign_group(sealed, acting.key)
        batch = sha256_hex(sealed.batch.to_bytes())
        delivered = deliver_group(
            context, group, sealed, signed, actor=f"operator:{acting.name}", reason=reason, reading=reading
        )
        try:
            for one, promoted in zip(sealed.sealed, delivered, strict=True):
                done.append((promoted, one))
        finally:
            with daemon_at_own_place(context.workspace, context.policy.settings) as daemon_runs:
                _tell_group(done, group, batch, len(sealed.sealed), daemon_runs=daemon_runs(), quiet=quiet)


def _tell_group(
    done: Sequence[tuple[Promoted, Sealed]], group: Group, batch: str, of: int, *, daemon_runs: bool, quiet: bool
) -> None:
    if quiet:
        members = [promoted_json(promoted, one) for promoted, one in done]
        left_out = [{"file": file, "why": why} for file, why in group.left_out]
        emit_json({"batch_sha256": batch, "members": members, "left_out": left_out, "daemon_runs": daemon_runs})
        return
    for promoted, _ in done:
        say(f"approved  {promoted.path}")
        if promoted.waits_for_quorum:
            say(f"waits     for further operators: threegate approve {promoted.path.name}")
        _tell_kept(promoted)
    say(f"batch     {batch}, {len(done)} of {of} approved")
    _tell_no_daemon(daemon_runs=daemon_runs)


def _countersign(
    context: Context, path: Path, acting: Acting, *, yes: bool, full: bool, group: bool, quiet: bool
) -> None:
    """Sign a waiting request, or all that were approved with it, as a further operator."""
    if group:
        waiting, opened = waiting_group(context, path, acting.name)
        reader = show_group(opened, context, acting.name, full=full, to_stderr=quiet)
        ask(f"Countersign these {len(waiting)} as {acting.name}?", yes)
        reading = None if yes else reader.read()
        done = countersign_all(context, waiting, acting.name, acting.key, reading=reading)
        rows = [_countersigned(one, quiet=quiet) for one in done]
    else:
        with open_waiting(context, path) as (prepared, reviewed):
            reader = show(reviewed, context, acting.name, full=full, to_stderr=quiet)
            ask(f"Countersign as {acting.name}?", yes)
            reading = None if yes else reader.read()
            one = countersign(context, prepared, acting.name, acting.key, reading=reading)
            rows = [_countersigned(one, quiet=quiet)]
    with daemon_at_own_place(context.workspace, context.policy.settings):
        pass  # the daemon runs what has its quorum now
    if quiet:
        emit_json(rows if group else rows[0])


def _countersigned(done: Countersigned, *, quiet: bool) -> dict[str, object]:
    """Report what was done; with `--json`, return the object to print."""
    if not quiet:
        say(f"countersigned {done.path}")
        say("waiting for another operator" if done.missing else "the quorum is met")
    return {
        "file": str(done.path),
        "countersigned_by": done.name,
        "key": done.fingerprint,
        "quorum_missing": done.missing,
    }


def show(reviewed: ReviewedDraft, context: Context, operator: str, *, full: bool, to_stderr: bool = False) -> Reader:
    """Print the review screen; return a record of when the reader started."""
    width = screen_width(to_stderr=to_stderr)
    lines = render_reviewed_draft(reviewed, context.policy.settings, operator=operator, width=width, full=full)
    put(lines, err=to_stderr)
    reader = Reader()
    reader.shows(lines)
    return reader


def show_group(group: Group, context: Context, operator: str, *, full: bool, to_stderr: bool = False) -> Reader:
    """Print the screen of a group; return a record of when the reader started."""
    lines = render_group(
        group.members,
        group.left_out,
        context.policy.settings,
        operator=operator,
        width=screen_width(to_stderr=to_stderr),
        full=full,
    )
    put(lines, err=to_stderr)
    reader = Reader()
    reader.shows(lines)
    return reader


def finish(
    context: Context,
    reviewed: ReviewedDraft,
    sealed: Sealed,
    signed: bytes,
    reason: str,
    reading: Reading | None,
) -> Promoted:
    """Promote the request in the name of the approver. `reading` records how they read it, if they were
    asked.
    """
    return promote(
        context,
        reviewed,
        sealed,
        signed,
        actor=f"operator:{sealed.statement.approved_by}",
        reason=reason,
        reading=reading,
    )


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
    _tell_no_daemon(daemon_runs=daemon_runs)
    _tell_kept(done)


def _tell_no_daemon(*, daemon_runs: bool) -> None:
    if not daemon_runs:
        say("waits     for a daemon: none is running here; start one with: threegate run")


def _tell_kept(done: Promoted) -> None:
    if not done.draft_removed:
        warn("the draft's file changed after it was read, so it was not moved; what you saw is what was approved")


def reveal(
    context: Context,
    draft: Draft,
    placed: PlacedDraft,
    *,
    yes: bool,
    actor: str,
    reading: Reading | None = None,
    reason: str = "",
    quiet: bool = False,
) -> dict[str, object]:
    """End a draft that is never signed, on which an operator decided, and, unless `quiet`, print what it was; return
    the same for `--json`.
    """
    answer = placed.answer(context, draft.data, yes=yes, actor=actor, reading=reading, reason=reason)
    if not quiet:
        say(answer.says)
        put([f"{answer.label}:", *quoted(answer.line, width=screen_width())])
    return dict(answer.told)
