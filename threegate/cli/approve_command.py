"""`threegate approve`: show the request, ask, sign and promote it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from threegate.acts.approve import Promoted, Sealed, known_operators, promote, read_signature, seal, seal_as, sign
from threegate.acts.approve_group import deliver_group, open_group, seal_group, sign_group
from threegate.acts.signing_key import Acting, acting_operator
from threegate.cli import tab_completion
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    context_here,
    emit_data,
    emit_json,
    on_terminal,
    one_by_one,
    say,
    wants_json,
)
from threegate.cli.review_command import review
from threegate.cli.signing_options import KeyOption, NameOption, YesOption, acting_here, ask
from threegate.cli.signing_screens import (
    promoted_json,
    reveal,
    show,
    show_group,
    tell,
    tell_kept,
    tell_no_daemon,
    tell_outcomes,
)
from threegate.core.canonical import sha256_hex
from threegate.core.errors import EXIT_REFUSED, InvalidInput, WrongUsage
from threegate.core.own_daemon import daemon_at_own_place, starts_by_itself
from threegate.launch.context import Context
from threegate.request.model import CHOICES, Delivery
from threegate.review.countersign import (
    Countersigned,
    countersign,
    countersign_all,
    open_waiting,
    waiting_group,
)
from threegate.review.group_screen import Group
from threegate.review.named_request import TO_SIGN, find_request, refuse_no_draft
from threegate.review.reviewed_draft import Draft, open_reviewed_draft, read_draft


def approve(
    which: Annotated[
        list[str] | None,
        argument("ID|FILE", "Drafts, or requests in approved/: ids, files or slugs.", tab_completion.to_sign),
    ] = None,
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

    On a terminal it is read page by page, to its last line, before you are asked. A draft is approved; a request that
    waits for further operators also gets your signature. With --group, drafts that differ only in plain values are
    signed at once, or waiting requests that were approved at once. Without a name, on a terminal: the same as
    `threegate review`. With --yes, only a whole id or file is a name.

    Examples: threegate approve sum
              threegate approve TR-20261122-101500Z-sum
              threegate approve TR-20261122-101500Z-sum --group --as alice
              threegate approve TR-20261122-101500Z-fix --deliver branch
    """
    chosen = next((way for way in CHOICES if way == deliver), None)
    if chosen != (deliver or None):
        raise InvalidInput(f"--deliver {deliver}: must be {', '.join(CHOICES[:-1])} or {CHOICES[-1]}")
    if group and chosen is not None:
        raise WrongUsage("--group cannot be combined with --deliver; approve the drafts one by one")
    if print_statement and signature is not None:
        raise WrongUsage("--print-statement and --signature are separate steps; give one of them")
    if group and (print_statement or signature is not None):
        raise WrongUsage(
            "--group cannot be combined with --print-statement or --signature; approve the drafts one by one"
        )
    given = _Given(name, key, yes, reason, full, print_statement, signature, chosen, group, wants_json(json_))
    alone = group or print_statement or signature is not None
    if not which:
        if alone or yes or reason or full or deliver or given.quiet or not on_terminal():
            raise WrongUsage("give the id, file or slug of a draft; threegate status lists them")
        review(name, key)
        return
    if alone and len(which) > 1:
        raise WrongUsage("--group, --print-statement and --signature take one request; name the others by themselves")
    context = context_here()
    until = ExitStack()
    runs = _Runs(context, until)
    acts: dict[Path, partial[object]] = {}
    for one in which:
        named = find_request(context.workspace, one, TO_SIGN, trail=context.trail, exact=yes or print_statement)
        if named.state == "approved" and named.path is not None:
            if chosen is not None or print_statement or signature is not None or reason:
                raise WrongUsage(
                    f"{one}: is approved already, and another signature takes none of --deliver, --print-statement, "
                    "--signature and --reason"
                )
            acts[named.path] = partial(_countersign, context, named.path, given, runs)
        else:
            path = refuse_no_draft(context.workspace, one, named, context.trail)
            acts[path] = partial(_approve, context, path, one, given, runs)
    with until:
        rows: list[object] = []
        code = one_by_one(acts.values(), rows.append)
        if given.quiet and any(rows):
            emit_json(rows[0] if len(acts) == 1 else rows)
        if not given.quiet:
            runs.tell()
    if code:
        raise typer.Exit(code)


@dataclass(frozen=True, slots=True)
class _Given:
    """The options."""

    name: str
    key: Path | None
    yes: bool
    reason: str
    full: bool
    print_statement: bool
    signature: Path | None
    deliver: Delivery | None
    group: bool
    quiet: bool
    """Whether only JSON is printed to stdout."""


class _Runs:
    """What becomes of the approved: whether a daemon runs it, and how it went where the command starts one."""

    def __init__(self, context: Context, until: ExitStack) -> None:
        """A daemon that is started is kept `until` that closes."""
        self._context, self._until = context, until
        self._daemon: Callable[[], bool] | None = None
        self.approved: list[Promoted] = []

    def daemon(self) -> bool:
        """Whether a daemon is running; at the user's own place one is then started, once."""
        if self._daemon is None:
            workspace, settings = self._context.workspace, self._context.policy.settings
            self._daemon = self._until.enter_context(daemon_at_own_place(workspace, settings))
        return self._daemon()

    def tell(self) -> None:
        """Print how it went, where the daemon ends with this command."""
        if starts_by_itself(self._context.workspace):
            tell_outcomes(self._context.workspace, self.approved)


def _approve(context: Context, path: Path, which: str, given: _Given, runs: _Runs) -> object:
    """Show a draft, ask, sign and promote it; return the object for `--json`, or None if nothing is to be added."""
    yes, full, quiet, signature = given.yes, given.full, given.quiet, given.signature
    draft = read_draft(context.workspace, path)
    if draft.placed is not None and (yes or given.group or given.print_statement or signature is not None):
        raise InvalidInput(
            f"{which}: must be decided on its own, at the prompt: threegate approve {which}, without --yes and --group"
        )
    operators = known_operators(context)
    if given.group:
        acting = acting_operator(operators, name=given.name, key=given.key)
        _approve_group(context, draft, acting, given, runs)
        return None
    with open_reviewed_draft(context, draft, deliver=given.deliver) as reviewed:
        if given.print_statement:
            if not given.name:
                raise WrongUsage("--print-statement needs --as NAME: the statement names who approves")
            acting_operator(operators, name=given.name, key=Path(given.name))
            show(reviewed, context, given.name, full=full, to_stderr=True)
            emit_data(seal(context, reviewed, given.name).statement.to_bytes())
            return None
        if signature is not None:
            statement, signed = read_signature(signature)
            reader = show(reviewed, context, statement.approved_by, full=full, to_stderr=quiet, paged=not yes)
            ask("Deliver this approval?", yes)
            reading = None if yes else reader.read()
            sealed = seal_as(context, reviewed, statement)
        else:
            acting = acting_operator(operators, name=given.name, key=given.key)
            reader = show(reviewed, context, acting.name, full=full, to_stderr=quiet, paged=not yes)
            ask(f"Sign as {acting.name} and let it run once?", yes)
            reading = None if yes else reader.read()
            if draft.placed is not None:
                actor = f"operator:{acting.name}"
                told = reveal(
                    context,
                    draft,
                    draft.placed,
                    yes=True,
                    actor=actor,
                    reading=reading,
                    reason=given.reason,
                    quiet=quiet,
                )
                if quiet:
                    emit_json(told)
                raise typer.Exit(EXIT_REFUSED)
            sealed = seal(context, reviewed, acting.name)
            signed = sign(sealed, acting.key)
        actor = f"operator:{sealed.statement.approved_by}"
        done = promote(context, reviewed, sealed, signed, actor=actor, reason=given.reason, reading=reading)
    runs.approved.append(done)
    running = runs.daemon()
    if not quiet:
        tell(done, daemon_runs=running)
    return {**promoted_json(done, sealed), "daemon_runs": running}


def _approve_group(context: Context, draft: Draft, acting: Acting, given: _Given, runs: _Runs) -> None:
    """Show the group of a draft, ask once, sign once, promote each member. After a failure, report those
    already promoted.
    """
    yes, reason, full, quiet = given.yes, given.reason, given.full, given.quiet
    done: list[tuple[Promoted, Sealed]] = []
    with open_group(context, draft) as group:
        reader = show_group(group, context, acting.name, full=full, to_stderr=quiet, paged=not yes)
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
                runs.approved.append(promoted)
        finally:
            _tell_group(done, group, batch, len(sealed.sealed), daemon_runs=runs.daemon(), quiet=quiet)


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
        tell_kept(promoted)
    say(f"batch     {batch}, {len(done)} of {of} approved")
    tell_no_daemon(daemon_runs=daemon_runs)


def _countersign(context: Context, path: Path, given: _Given, runs: _Runs) -> object:
    """Sign a waiting request, or all that were approved with it, as a further operator; return the object for
    `--json`.
    """
    yes, full, quiet = given.yes, given.full, given.quiet
    acting = acting_here(context, given.name, given.key)
    if given.group:
        waiting, opened = waiting_group(context, path, acting.name)
        reader = show_group(opened, context, acting.name, full=full, to_stderr=quiet, paged=not yes)
        ask(f"Countersign these {len(waiting)} as {acting.name}?", yes)
        reading = None if yes else reader.read()
        done = countersign_all(context, waiting, acting.name, acting.key, reading=reading)
        rows: object = [_countersigned(one, quiet=quiet) for one in done]
    else:
        prepared, reviewed = open_waiting(context, path)
        reader = show(reviewed, context, acting.name, full=full, to_stderr=quiet, paged=not yes)
        ask(f"Countersign as {acting.name}?", yes)
        reading = None if yes else reader.read()
        rows = _countersigned(countersign(context, prepared, acting.name, acting.key, reading=reading), quiet=quiet)
    runs.daemon()  # it runs what has its quorum now
    return rows


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
