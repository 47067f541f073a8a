"""`threegate settings notify`: check that the configured notices arrive."""

from __future__ import annotations

import typer

from threegate.cli.invocation import JsonFlag, emit_json, say, wants_json, warn, workspace_here
from threegate.core.errors import EXIT_FAILED
from threegate.plugins.page.notices import send_test


def notify(json_: JsonFlag = False) -> None:
    """Send a test notice to each configured URL.

    Each URL is reported as reached or failed. Exit 3 if one failed.

    Example: threegate settings notify
    """
    taken, problems = send_test(workspace_here().load_settings())
    if wants_json(json_):
        emit_json({"taken": list(taken), "problems": list(problems)})
    else:
        for name in taken:
            say(f"{name}: taken")
        for problem in problems:
            warn(problem)
    if problems:
        raise typer.Exit(EXIT_FAILED)
