"""``threegate explain``: one rule in full, with its examples, or what any other code means."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli import invocation
from threegate.cli.invocation import argument
from threegate.core.errors import InvalidInput

app = typer.Typer(add_completion=False)


def code_descriptions(code: str) -> list[tuple[str, str]]:
    """The kind and meaning of a code that is not a rule of gate 1; None for an unknown code."""
    from threegate.daemon.draft_findings import DRAFT_RULES
    from threegate.request.gate_rules import TYPES
    from threegate.review.code_descriptions import descriptions

    drafts = {**DRAFT_RULES, TYPES.id: TYPES.help}
    found = drafts.get(code.upper())
    return [("finding in a draft", found)] if found else descriptions(code)


@app.command()
def explain(
    rule_id: Annotated[str, argument("TGnnn|CODE", "A rule's id or name, or any other code that ThreeGate prints.")],
    json_: invocation.JsonFlag = False,
) -> None:
    """Explain a rule or any other code that ThreeGate shows.

    Example: threegate explain TG101
    """
    from dataclasses import asdict

    from threegate.request.gate_rules import RULES
    from threegate.request.rules_page import example_lines

    wanted = rule_id.strip()
    rule = RULES.get(wanted.upper()) or next((item for item in RULES.values() if item.name == wanted), None)
    if rule is None:
        found = code_descriptions(wanted)
        if not found:
            raise InvalidInput(f"{wanted}: no such rule or code; docs/codes.md lists all of them")
        if invocation.wants_json(json_):
            listed = [{"kind": kind, "meaning": text} for kind, text in found]
            invocation.emit_json({"code": wanted, "meaning": found[0][1], "meanings": listed})
        else:
            invocation.say(wanted)
            for kind, text in found:
                invocation.put(["", f"{kind}: {text}"])
        return
    if invocation.wants_json(json_):
        invocation.emit_json(asdict(rule))
        return
    invocation.put([f"{rule.id} {rule.name} ({rule.severity})", "", rule.message, "", rule.help])
    for title, examples in (("Accepted", rule.accepted), ("Refused", rule.refused)):
        for example in examples:
            invocation.put(["", f"{title} ({rule.where}):", *(f"    {line}" for line in example_lines(example))])
