"""`threegate grant`: new, tool, suggest, list, show, revoke."""

from __future__ import annotations

import json
import shlex
from typing import Annotated, Any

import typer

from threegate.approval.shown.escaped_lines import field, quoted, render_sections
from threegate.cli import tab_completion
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    context_here,
    emit_json,
    put,
    say,
    screen_width,
    wants_json,
    workspace_here,
)
from threegate.cli.signing_options import KeyOption, NameOption, YesOption, acting_here, ask
from threegate.core import limits
from threegate.core.errors import InvalidInput
from threegate.core.settings import parse_duration
from threegate.plugins.grants.giving import (
    finished_request,
    grant_sections,
    new_grant,
    refuse_off,
    revoke_grant,
    why_void,
)
from threegate.plugins.grants.grant import Grant
from threegate.plugins.grants.past_requests import past_requests, waiting_jobs
from threegate.plugins.grants.standing_grants import Standing, find_grant, list_grants
from threegate.plugins.grants.suggestion import NotSuggested, Suggestion, count_waiting, suggest
from threegate.plugins.grants.suggestion_bounds import bounds_here
from threegate.plugins.grants.suggestion_screen import not_suggested_section, suggestion_section, to_json
from threegate.plugins.grants.tool_grants import calls_sections, grant_calls, look_at_calls
from threegate.plugins.grants.widened import read_widened
from threegate.plugins.tools.tools_command import servers
from threegate.review.named_request import finished_id
from threegate.setup.init import account
from threegate.trail.payloads.payload import owner_fields
from threegate.trail.trail import Trail

app = typer.Typer()


@app.command("new")
def new(
    which: Annotated[str, argument("ID|FILE", "A finished request.", tab_completion.ran)],
    max_uses: Annotated[int, typer.Option("--max-uses", min=1, max=10_000, help="How many runs it allows.")],
    expires: Annotated[str, typer.Option("--expires", metavar="7d", help="90s, 15m, 24h or 7d from now.")],
    widen: Annotated[
        list[str] | None,
        typer.Option(
            "--widen",
            metavar="'PART OPERATOR …'",
            help="A part that may differ, and by how much: inputs.NAME (its size), vars.NAME, argv.N, outputs.N, "
            'limits.time_sec, limits.memory_mb, image; gte 1 lte 100, glob reports/*.csv, one_of ["a", "b"], '
            "regex PATTERN.",
        ),
    ] = None,
    name: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
    json_: JsonFlag = False,
) -> None:
    """Let a job run again, a few times, without a new signature.

    Everything that you do not widen stays the same, byte for byte.

    Example: threegate grant new TR-20261122-101500Z-a --widen 'vars.year regex 20[0-9]{2}' --max-uses 9 --expires 30d
    """
    seconds = _seconds(expires)
    context = context_here()
    acting = acting_here(context, name, key)
    quiet = wants_json(json_)
    refuse_off(context)
    request_id = finished_id(context, which, exact=yes)
    approved = finished_request(context, request_id)
    widened = read_widened(approved.job, widen or [])
    width = screen_width(to_stderr=quiet)
    for label, value in (
        ("grant from", request_id),
        ("uses", str(max_uses)),
        ("for", expires),
    ):
        put(field(label, value, width=width), err=quiet)
    put(
        render_sections(grant_sections(context, approved, widened, acting.name), full=True, width=width),
        err=quiet,
    )
    ask(f"Sign this grant as {acting.name}?", yes)
    grant = new_grant(
        context,
        approved,
        widened=widened,
        max_uses=max_uses,
        seconds=seconds,
        name=acting.name,
        key=acting.key,
    )
    _say_granted(grant, json_)


@app.command("tool")
def tool(
    server: Annotated[str, argument("SERVER", "A server shown by `threegate tools list`.", servers)],
    tool_name: Annotated[str, argument("TOOL", "A tool shown by `threegate tools show SERVER`.")],
    max_uses: Annotated[int, typer.Option("--max-uses", min=1, max=10_000, help="How many calls it allows.")],
    expires: Annotated[str, typer.Option("--expires", metavar="8h", help="90s, 15m, 24h or 7d from now.")],
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="'ARG OPERATOR …'",
            help='What an argument may be: glob acme/*, gte 1 lte 100, equals true, one_of ["a", "b"], regex PATTERN, '
            "under /srv/notes, starts_with, ends_with, host_in, email_domain_in. Below others: a.b, list.0.",
        ),
    ] = None,
    any_of: Annotated[
        list[str] | None,
        typer.Option(
            "--any",
            metavar="ARG",
            help="An argument that may have any value of its schema's type.",
        ),
    ] = None,
    absent: Annotated[
        list[str] | None, typer.Option("--absent", metavar="ARG", help="An argument that must be absent.")
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="RUN|ACCOUNT",
            help="Whose calls; default: the agent's run in progress, if there is one.",
        ),
    ] = "",
    name: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
    json_: JsonFlag = False,
) -> None:
    """Allow calls of a tool without a signature for each call.

    Name the allowed values of each argument; every other call waits for you.

    Example: threegate grant tool github get_issue --where 'repo glob acme/*' --any number --max-uses 200 --expires 8h
    """
    seconds = _seconds(expires)
    context = context_here()
    acting = acting_here(context, name, key)
    quiet = wants_json(json_)
    calls = look_at_calls(
        context, server, tool_name, where=where or (), any_of=any_of or (), absent=absent or (), by=by
    )
    width = screen_width(to_stderr=quiet)
    for label, value in (("uses", str(max_uses)), ("for", expires)):
        put(field(label, value, width=width), err=quiet)
    put(render_sections(calls_sections(calls), full=True, width=width), err=quiet)
    ask(f"Sign this grant as {acting.name}?", yes)
    grant = grant_calls(context, calls, max_uses=max_uses, seconds=seconds, name=acting.name, key=acting.key)
    _say_granted(grant, json_)


@app.command("suggest")
def suggest_(json_: JsonFlag = False) -> None:
    """Show which grants would save signatures, each as narrow as can be.

    It reads what you signed one by one and what succeeded. Nothing is granted: the last line of each is the command.

    Example: threegate grant suggest
    """
    context = context_here()
    refuse_off(context)
    past = past_requests(context)
    found = suggest(past, bounds_here(context))
    waiting = waiting_jobs(context) if found else []
    counted = [count_waiting(item, waiting) if isinstance(item, Suggestion) else 0 for item in found]
    if wants_json(json_):
        emit_json([to_json(item, count) for item, count in zip(found, counted, strict=True)])
        return
    if not found:
        say(f"no grant to suggest: no job was signed by itself and succeeded {limits.SUGGESTION_LEAST} times"
            f" ({len(past)} such requests in all)")  # fmt: skip
        return
    width = screen_width()
    missing = [item for item in found if isinstance(item, NotSuggested)]
    if missing:
        put(render_sections([not_suggested_section(missing)], full=True, width=width))
    suggested = [(item, count) for item, count in zip(found, counted, strict=True) if isinstance(item, Suggestion)]
    for number, (item, count) in enumerate(suggested, start=1):
        put(render_sections([suggestion_section(item, number, count)], full=True, width=width))
        say(shlex.join(item.words), copied=True)
    if not suggested:
        say("no grant to suggest: nothing that repeats is narrow enough; write one yourself: threegate grant new ID")


def _seconds(expires: str) -> int:
    try:
        return parse_duration(expires)
    except ValueError as error:
        raise InvalidInput(f"--expires {expires}: {error}") from None


_grants = tab_completion.offer(lambda workspace, _: [path.stem for path in workspace.grants.glob("*.grant")])
GrantId = Annotated[str, argument("ID", "A grant, by the beginning of its id.", _grants)]


def _say_granted(grant: Grant, json_: bool) -> None:
    if wants_json(json_):
        emit_json(_json(Standing(grant, 0)))
        return
    say(f"granted {grant.id}")
    say(f"until   {grant.expires_utc:%Y-%m-%dT%H:%M:%SZ}, {grant.max_uses} uses")


@app.command("list")
def list_(json_: JsonFlag = False) -> None:
    """List all grants and how often they were used.

    Example: threegate grant list
    """
    workspace = workspace_here()
    found = list_grants(workspace, Trail(workspace))
    if wants_json(json_):
        emit_json([_json(standing) for standing in found])
        return
    for standing in found:
        grant = standing.grant
        used = "revoked" if standing.uses is None else f"{standing.uses} of {grant.max_uses} used"
        made = f"calls {grant.calls}" if grant.calls else f"from {grant.from_request}"
        say(f"{grant.id[:16]}  {made}  by {grant.act.acted_by}  {used}"
            f"  until {grant.expires_utc:%Y-%m-%dT%H:%M:%SZ}")  # fmt: skip


@app.command("show")
def show(
    which: GrantId,
    json_: JsonFlag = False,
) -> None:
    """Show everything a grant is bound to, and what of that changed.

    Example: threegate grant show 3f9c
    """
    context = context_here()
    standing = find_grant(context.workspace, context.trail, which)
    value = {**_json(standing), "changed": why_void(context, standing.grant)}
    if wants_json(json_):
        emit_json(value)
        return
    lines: list[str] = []
    width = screen_width()
    for label, item in value.items():
        if label == "pattern":
            lines += ["  the job:", *quoted(json.dumps(item, indent=1, sort_keys=True), width=width)]
        elif label == "widened":
            for text in item:
                lines += field("widened", text, width=width)
        else:
            lines += field(label, "none" if item is None else str(item), width=width)
    put(lines)


@app.command("revoke")
def revoke(
    which: GrantId,
    json_: JsonFlag = False,
) -> None:
    """End a grant; requests waiting under it do not run.

    Example: threegate grant revoke 3f9c
    """
    grant = revoke_grant(context_here(), which, actor=account())
    if wants_json(json_):
        emit_json({"revoked": grant.id})
        return
    say(f"revoked {grant.id}")


def _json(standing: Standing) -> dict[str, Any]:
    grant = standing.grant
    return {
        "grant": grant.id,
        "from": grant.from_request or None,
        "calls": grant.calls,
        "by": grant.act.acted_by,
        "given_utc": f"{grant.act.acted_utc:%Y-%m-%dT%H:%M:%SZ}",
        "expires_utc": f"{grant.expires_utc:%Y-%m-%dT%H:%M:%SZ}",
        "max_uses": grant.max_uses,
        "uses": standing.uses,
        **owner_fields(grant.owner),
        "policy_sha256": grant.policy_sha256,
        "widened": [str(item) for item in grant.widened],
        "pattern": grant.pattern,
    }
