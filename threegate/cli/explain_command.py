"""``threegate explain``: one rule in full, with its examples, or what any other code means."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli import invocation
from threegate.core.errors import InvalidInput

app = typer.Typer(add_completion=False)


def code_meaning(code: str) -> str:
    """What a code means that is no rule of gate 1, or an empty text."""
    from threegate.contracts.codes import CODES
    from threegate.daemon.draft_findings import SURROUNDING_RULES
    from threegate.review.code_descriptions import meaning

    found = meaning(code) or SURROUNDING_RULES.get(code.upper(), "")
    return found or (CODES[code].help if code in CODES else "")


@app.command()
def explain(
    rule_id: Annotated[
        str,
        typer.Argument(metavar="TGnnn|CODE", help="A rule's id or name, or any reason, blocker or status."),
    ],
    json_: invocation.JsonFlag = False,
) -> None:
    """Explain one rule, or a code that a screen or a file shows."""
    from dataclasses import asdict

    from threegate.request.rules import RULES
    from threegate.request.rules.rules_page import example_lines

    wanted = rule_id.strip()
    rule = RULES.get(wanted.upper()) or next((item for item in RULES.values() if item.name == wanted), None)
    if rule is None:
        text = code_meaning(wanted)
        if not text:
            raise InvalidInput(f"{wanted}: there is no such rule or code; docs/codes.md has them all")
        if invocation.wants_json(json_):
            invocation.emit_json({"code": wanted, "meaning": text})
        else:
            invocation.say(f"{wanted}\n\n{text}")
        return
    if invocation.wants_json(json_):
        invocation.emit_json(asdict(rule))
        return
    invocation.say(f"{rule.id} {rule.name} ({rule.severity})\n\n{rule.message}\n\n{rule.help}")
    for title, examples in (("Accepted", rule.accepted), ("Refused", rule.refused)):
        for example in examples:
            invocation.say(f"\n{title} ({rule.where}):")
            for line in example_lines(example):
                invocation.say(f"    {line}")
