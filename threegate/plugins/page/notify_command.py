"""`threegate notify test`: check that the configured notices arrive."""

from __future__ import annotations

import typer

from threegate.cli.invocation import say, warn, workspace_here
from threegate.core.errors import EXIT_FAILED

app = typer.Typer(no_args_is_help=True)


@app.callback()
def notify() -> None:
    """Test the configured notices."""


@app.command()
def test() -> None:
    """Send a test notice to each configured URL.

    Each URL is reported as reached or failed. Exit 3 if one failed.

    Example: threegate notify test
    """
    from threegate.plugins.page.notices import send_test

    taken, problems = send_test(workspace_here().load_settings())
    for name in taken:
        say(f"{name}: taken")
    for problem in problems:
        warn(problem)
    if problems:
        raise typer.Exit(EXIT_FAILED)
