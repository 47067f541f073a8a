"""``threegate kill``: end a session, a session with its descendants, or a workflow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.cli import tab_completion
from threegate.cli.invocation import argument, context_here, say
from threegate.cli.signing_options import KeyOption, NameOption, YesOption, acting_here, ask, decision_here

app = typer.Typer(add_completion=False)


def _scopes(incomplete: str) -> list[str]:
    from threegate.acts.session_acts import SCOPES

    return [scope for scope in SCOPES if scope.startswith(incomplete)]


@app.command()
def kill(
    scope: Annotated[
        str,
        argument(
            "session|subtree|workflow",
            "What to end: a session, a session and its descendants, or a whole workflow.",
            _scopes,
        ),
    ],
    which: Annotated[str, argument("ID", "The name of the session or workflow.", tab_completion.of_scope)],
    name: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
) -> None:
    """End a session, a subtree or a workflow for good.

    A workflow needs your signature.

    Example: threegate kill session march
    """
    kill_and_tell(scope, which, name=name, key=key, yes=yes)


def kill_and_tell(scope: str, which: str, *, name: str, key: Path | None, yes: bool) -> None:
    """Kill it and report what ended."""
    from threegate.acts.session_acts import KILL, SCOPES, kill_about
    from threegate.acts.session_acts import kill as kill_sessions
    from threegate.acts.signed_acts import OperatorDecision, sign_act

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
    for session in killed.sessions:
        say(f"killed {session}")
    for request_id in killed.requests:
        say(f"asked the daemon to end {request_id}")
    say(f"{len(killed.sessions)} sessions ended")
