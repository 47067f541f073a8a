"""The verbs of `threegate contracts` for the daemon's sessions, workflows and open contract checkpoints: signed
decisions that a contract requires of a person.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from threegate.acts.contract_checkpoint_answers import (
    ANSWER,
    OpenCheckpoint,
    answer,
    answer_about,
    open_checkpoint,
    open_checkpoints,
)
from threegate.acts.session_acts import KILL, SCOPES, close_session, kill_about, open_session, session_table
from threegate.acts.session_acts import kill as kill_sessions
from threegate.acts.signed_acts import OperatorDecision, sign_act
from threegate.approval.shown.escaped_lines import field
from threegate.cli import tab_completion
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    context_here,
    emit_json,
    put,
    report,
    say,
    screen_width,
    wants_json,
)
from threegate.cli.signing_options import KeyOption, NameOption, YesOption, acting_here, ask, decision_here
from threegate.contracts import engine
from threegate.contracts.session_table import SessionTable
from threegate.core.errors import EXIT_REFUSED, Refused
from threegate.review.named_request import find_request
from threegate.setup.init import account

RequestId = Annotated[
    str, argument("ID|FILE", "A request shown by `threegate contracts checkpoints`.", tab_completion.checkpoints)
]


def _table() -> SessionTable:
    context = context_here()
    with context.trail.locked() as held:
        return session_table(context, held)


def sessions(
    session: Annotated[
        str,
        argument(
            "SESSION", "Show everything that is recorded of this one; default: list all.", tab_completion.sessions
        ),
    ] = "",
    json_: JsonFlag = False,
) -> None:
    """List the sessions with phase, steps and state, or show one.

    Example: threegate contracts sessions march
    """
    table = _table()
    if session:
        _show_session(table, session, wants_json(json_))
        return
    if wants_json(json_):
        emit_json([session.to_json() for _, session in sorted(table.sessions.items())])
        return
    for name, found in sorted(table.sessions.items()):
        member = table.members.get(name)
        role = f"  role {member.role} in {member.workflow}" if member else ""
        state = found.killed or "open"
        phase = f"  phase {found.phase}" if found.phase else ""
        say(f"{name}  {state}{phase}  {found.tally.steps} steps, {len(found.pending)} pending{role}")
    if not table.sessions:
        say("no session has been used yet")


def _show_session(table: SessionTable, session: str, as_json: bool) -> None:
    found = table.sessions.get(session)
    if found is None:
        raise Refused("unknown_session", f"no session {session}; see: threegate contracts sessions")
    tools = list(engine.allowed_tools(found, table.others(found)))
    value = {**found.to_json(), "pending": sorted(found.pending), "allowed_tools": tools}
    if as_json:
        emit_json(value)
        return
    for key, item in value.items():
        say(f"{key}: {item}")


def open_(
    session: Annotated[str, argument("SESSION", "The name of the new session.")],
    requester: Annotated[str, typer.Option(help="Only this requester may use it.")] = "",
    workflow: Annotated[
        str, typer.Option(help="The workflow it belongs to.", autocompletion=tab_completion.workflows)
    ] = "",
    role: Annotated[str, typer.Option(help="Its role in the workflow.")] = "",
    parent: Annotated[
        str, typer.Option(help="The session that hands over to it.", autocompletion=tab_completion.sessions)
    ] = "",
    json_: JsonFlag = False,
) -> None:
    """Open a session that requests may name.

    Example: threegate contracts open march --requester agent
    """
    open_session(
        context_here(),
        session,
        actor=account(),
        requester=requester,
        workflow=workflow or None,
        role=role or None,
        parent=parent or None,
    )
    report(json_, {"opened": session}, [f"opened {session}"])


def close(
    session: Annotated[str, argument("SESSION", "A session's name.", tab_completion.sessions)],
    json_: JsonFlag = False,
) -> None:
    """Close a session normally.

    Its totals no longer count. Exit 2 if it missed a lower bound.

    Example: threegate contracts close march
    """
    reasons = close_session(context_here(), session, actor=account())
    missed = [{"code": reason.code, "path": reason.path, "message": reason.message} for reason in reasons]
    lines = [f"{reason.code}: {reason.path}: {reason.message}" for reason in reasons]
    report(json_, {"closed": session, "missed": missed}, [*lines, f"closed {session}"])
    if reasons:
        raise typer.Exit(EXIT_REFUSED)


def kill(
    scope: Annotated[
        str,
        argument(
            "session|subtree|workflow",
            "What to end: a session, a session and its descendants, or a whole workflow.",
            lambda incomplete: [scope for scope in SCOPES if scope.startswith(incomplete)],
        ),
    ],
    which: Annotated[str, argument("ID", "The name of the session or workflow.", tab_completion.of_scope)],
    name: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
    json_: JsonFlag = False,
) -> None:
    """End a session, a subtree or a workflow for good.

    The requests that run in it end too. A workflow needs your signature.

    Example: threegate contracts kill session march
    """
    if scope not in SCOPES:
        raise typer.BadParameter(f"name one of {', '.join(SCOPES)}")
    context = context_here()
    about = kill_about(context, scope, which)
    if scope == "workflow":
        acting = acting_here(context, name, key)
        ask(f"Sign as {acting.name} and end the workflow {which}?", yes)
        by = OperatorDecision(f"operator:{acting.name}", sign_act(context, acting, KILL, about))
    else:
        by = decision_here(context, KILL, about, name, key)
    killed = kill_sessions(context, scope, which, by=by)
    lines = [f"killed {session}" for session in killed.sessions]
    lines += [f"asked the daemon to end {request_id}" for request_id in killed.requests]
    value = {"sessions": list(killed.sessions), "requests": list(killed.requests)}
    report(json_, value, [*lines, f"{len(killed.sessions)} sessions ended"])


def workflows(
    workflow: Annotated[str, argument("WORKFLOW", "One workflow; default: all.", tab_completion.workflows)] = "",
    json_: JsonFlag = False,
) -> None:
    """Show workflows with their sessions, owners and state.

    Example: threegate contracts workflows monthly
    """
    table = _table()
    if workflow and workflow not in table.workflows:
        raise Refused("unknown_workflow", f"no workflow {workflow}; see: threegate contracts workflows")
    names = [workflow] if workflow else sorted(table.workflows)
    values = [
        {
            "workflow": name,
            **table.workflows[name].to_json(),
            "sessions": {
                key: {**member.to_json(), "state": table.sessions[key].killed or "open"}
                for key, member in sorted(table.members.items())
                if member.workflow == name
            },
        }
        for name in names
    ]
    if wants_json(json_):
        emit_json(values)
        return
    for value in values:
        say(f"{value['workflow']}  {'killed' if value['killed'] else 'open'}")
        for key, member in value["sessions"].items():
            parent = f"  under {member['parent']}" if member["parent"] else ""
            say(f"  {key}  {member['role']}  {member['state']}{parent}")
        for resource, owner in value["owners"].items():
            say(f"  {resource} is owned by {owner}")
    if not values:
        say("no workflow has been used yet")


def checkpoints(json_: JsonFlag = False) -> None:
    """List the requests that are waiting for a person.

    Example: threegate contracts checkpoints
    """
    items = open_checkpoints(context_here())
    if wants_json(json_):
        emit_json([item.to_json() for item in items])
        return
    for item in items:
        _show_checkpoint(item)
    if not items:
        say("nothing is waiting for an answer")


def _show_checkpoint(item: OpenCheckpoint, *, to_stderr: bool = False) -> None:
    since = f", asked {item.asked:%Y-%m-%d %H:%M:%SZ}" if item.asked else ""
    say(f"{item.request_id}  {item.tool}  session {item.session_id}{since}", err=to_stderr)
    width = screen_width(to_stderr=to_stderr)
    for demand in item.decision.checkpoints:
        say(
            f"  {demand.name}: answer within {demand.timeout_seconds:g} s; otherwise {demand.on_timeout}",
            err=to_stderr,
        )
        for label, value in demand.context:
            put(field(label, json.dumps(value, ensure_ascii=True), width=width, limit=None), err=to_stderr)


def allow(
    request_id: RequestId,
    name: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
    json_: JsonFlag = False,
) -> None:
    """Let exactly this call run.

    Example: threegate contracts allow TR-20261122-101500Z-sum
    """
    _answer(request_id, name, key, yes, wants_json(json_), approve=True)


def deny(
    request_id: RequestId,
    name: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
    json_: JsonFlag = False,
) -> None:
    """Refuse this call.

    Example: threegate contracts deny TR-20261122-101500Z-sum
    """
    _answer(request_id, name, key, yes, wants_json(json_), approve=False)


def _answer(which: str, name: str, key: Path | None, yes: bool, as_json: bool, *, approve: bool) -> None:
    context = context_here()
    acting = acting_here(context, name, key)
    named = find_request(context.workspace, which, frozenset(("approved",)), trail=context.trail, exact=yes)
    request_id = named.request_id or which
    item = open_checkpoint(context, request_id)
    _show_checkpoint(item, to_stderr=as_json)
    ask(f"Sign as {acting.name} and {'allow' if approve else 'deny'} this call?", yes)
    answer(context, item, sign_act(context, acting, ANSWER, answer_about(item, approve=approve)), approve=approve)
    said = "approved" if approve else "denied"
    report(as_json, {"request_id": request_id, "answer": said}, [f"{said} {request_id}"])
