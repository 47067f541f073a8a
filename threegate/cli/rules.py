"""``threegate rules``: the rules of gate 1, as a list, JSON, or the page docs/rules.md."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli import context

app = typer.Typer(add_completion=False)


@app.command()
def rules(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/rules.md.")] = False,
    json_: context.JsonFlag = False,
) -> None:
    """List the rules of gate 1."""
    from threegate.request.rules import RULES
    from threegate.request.rules.page import rules_page

    if context.wants_json(json_):
        context.emit_json(
            [
                {
                    "id": rule.id,
                    "name": rule.name,
                    "severity": rule.severity,
                    "message": rule.message,
                    "help": rule.help,
                }
                for rule in RULES.values()
            ]
        )
    elif markdown:
        typer.echo(rules_page(), nl=False)
    else:
        for rule in RULES.values():
            context.say(f"{rule.id}  {rule.severity:7}  {rule.name:22} {rule.message}")
