"""``threegate rules``: the rules of gate 1, as a list, JSON, or the page docs/rules.md."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli import invocation
from threegate.cli.invocation import emit_data

app = typer.Typer(add_completion=False)


@app.command()
def rules(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/rules.md.")] = False,
    json_: invocation.JsonFlag = False,
) -> None:
    """List the rules of gate 1.

    Example: threegate rules --json
    """
    from threegate.request.gate_rules import RULES
    from threegate.request.rules_page import rules_page

    if invocation.wants_json(json_):
        invocation.emit_json(
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
        emit_data(rules_page())
    else:
        for rule in RULES.values():
            invocation.say(f"{rule.id}  {rule.severity:7}  {rule.name:22} {rule.message}")
