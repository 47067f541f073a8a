"""``threegate explain``: one rule in full, with its examples."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli import invocation
from threegate.core.errors import InvalidInput

app = typer.Typer(add_completion=False)


@app.command()
def explain(
    rule_id: Annotated[str, typer.Argument(metavar="TGnnn", help="A rule's id, or its name.")],
    json_: invocation.JsonFlag = False,
) -> None:
    """Explain one rule."""
    from dataclasses import asdict

    from threegate.request.rules import RULES
    from threegate.request.rules.rules_page import example_lines

    wanted = rule_id.strip()
    rule = RULES.get(wanted.upper()) or next((item for item in RULES.values() if item.name == wanted), None)
    if rule is None:
        raise InvalidInput(f"{wanted}: there is no such rule; list them with: threegate rules")
    if invocation.wants_json(json_):
        invocation.emit_json(asdict(rule))
        return
    invocation.say(f"{rule.id} {rule.name} ({rule.severity})\n\n{rule.message}\n\n{rule.help}")
    for title, examples in (("Accepted", rule.accepted), ("Refused", rule.refused)):
        for example in examples:
            invocation.say(f"\n{title} ({rule.where}):")
            for line in example_lines(example):
                invocation.say(f"    {line}")
