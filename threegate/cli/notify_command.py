"""`threegate notify test`: whether the notices of the settings arrive."""

from __future__ import annotations

import typer

from threegate.cli.invocation import say, warn, workspace_here
from threegate.core.errors import EXIT_FAILED

app = typer.Typer(no_args_is_help=True)


@app.callback()
def notify() -> None:
    """Try the notices of the settings."""


@app.command()
def test() -> None:
    """Send a test notice to each URL of the settings.

    It says which URL took it. Exit 3 when one did not.

    Example: threegate notify test
    """
    from threegate.daemon.notices import send_test

    taken, problems = send_test(workspace_here().load_settings())
    for name in taken:
        say(f"{name}: taken")
    for problem in problems:
        warn(problem)
    if problems:
        raise typer.Exit(EXIT_FAILED)
