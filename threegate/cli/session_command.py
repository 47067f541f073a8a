"""``threegate session``: the sessions of the contract gate."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli import tab_completion
from threegate.cli.invocation import JsonFlag, argument, context_here, emit_json, say, wants_json

app = typer.Typer(no_args_is_help=True, add_completion=False)

SessionId = Annotated[str, argument("SESSION", "A session's name.", tab_completion.sessions)]


@app.command("list")
def list_(json_: JsonFlag = False) -> None:
    """List the sessions with phase, steps and state.

    Example: threegate session list
    """
    from threegate.acts.session_acts import session_table

    context = context_here()
    with context.trail.locked() as held:
        table = session_table(context, held)
    if wants_json(json_):
        emit_json([session.to_json() for _, session in sorted(table.sessions.items())])
        return
    for name, session in sorted(table.sessions.items()):
        member = table.members.get(name)
        role = f"  role {member.role} in {member.workflow}" if member else ""
        state = session.killed or "open"
        phase = f"  phase {session.phase}" if session.phase else ""
        say(f"{name}  {state}{phase}  {session.tally.steps} steps, {len(session.pending)} pending{role}")
    if not table.sessions:
        say("no session was used yet")


@app.command()
def show(session: SessionId, json_: JsonFlag = False) -> None:
    """Show everything a session has recorded.

    Example: threegate session show march
    """
    from threegate.acts.session_acts import session_table
    from threegate.contracts import engine
    from threegate.core.errors import Refused

    context = context_here()
    with context.trail.locked() as held:
        table = session_table(context, held)
    found = table.sessions.get(session)
    if found is None:
        raise Refused("unknown_session", f"no session {session}; see: threegate session list")
    tools = list(engine.allowed_tools(found, table.others(found)))
    value = {**found.to_json(), "pending": sorted(found.pending), "allowed_tools": tools}
    if wants_json(json_):
        emit_json(value)
        return
    for key, item in value.items():
        say(f"{key}: {item}")


@app.command("open")
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
) -> None:
    """Open a session that requests may name.

    Example: threegate session open march --requester agent
    """
    from threegate.acts.session_acts import open_session
    from threegate.setup.init import account

    open_session(
        context_here(),
        session,
        actor=account(),
        requester=requester,
        workflow=workflow or None,
        role=role or None,
        parent=parent or None,
    )
    say(f"opened {session}")


@app.command()
def close(session: SessionId) -> None:
    """Close a session normally.

    Its totals no longer count. Exit 2 if it missed a lower bound.

    Example: threegate session close march
    """
    from threegate.acts.session_acts import close_session
    from threegate.core.errors import EXIT_REFUSED
    from threegate.setup.init import account

    reasons = close_session(context_here(), session, actor=account())
    for reason in reasons:
        say(f"{reason.code}: {reason.path}: {reason.message}")
    say(f"closed {session}")
    if reasons:
        raise typer.Exit(EXIT_REFUSED)


@app.command()
def kill(session: SessionId) -> None:
    """Kill a session and the requests running in it.

    Example: threegate session kill march
    """
    from threegate.cli.kill_command import kill_and_tell

    kill_and_tell("session", session, name="", key=None, yes=True)
