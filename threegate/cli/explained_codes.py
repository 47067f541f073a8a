"""What `validate --rules` and `validate --explain` print: the rules of gate 1, and what any other code means."""

from __future__ import annotations

from dataclasses import asdict

from threegate.cli.invocation import emit_data, emit_json, put, say
from threegate.contracts.codes import CODES
from threegate.core.errors import InvalidInput
from threegate.request.gate_rules import RULES, TYPES
from threegate.request.rules_page import example_lines, rules_page
from threegate.review.code_descriptions import descriptions
from threegate.review.fitness import DRAFT_RULES


def list_rules(form: str) -> None:
    """The rules of gate 1, as text, json, or the page docs/rules.md (markdown)."""
    if form == "json":
        names = ("id", "name", "severity", "message", "help")
        emit_json([{name: getattr(rule, name) for name in names} for rule in RULES.values()])
    elif form == "markdown":
        emit_data(rules_page())
    else:
        for rule in RULES.values():
            say(f"{rule.id}  {rule.severity:7}  {rule.name:22} {rule.message}")


def explain_code(code: str, form: str) -> None:
    """One rule in full, with its examples, or what another code means. Raises InvalidInput."""
    wanted = code.strip()
    rule = RULES.get(wanted.upper()) or next((item for item in RULES.values() if item.name == wanted), None)
    if rule is None:
        _explain_other(wanted, form)
        return
    if form == "json":
        emit_json(asdict(rule))
        return
    put([f"{rule.id} {rule.name} ({rule.severity})", "", rule.message, "", rule.help])
    for title, examples in (("Accepted", rule.accepted), ("Refused", rule.refused)):
        for example in examples:
            put(["", f"{title} ({rule.where}):", *(f"    {line}" for line in example_lines(example))])


def _explain_other(code: str, form: str) -> None:
    found = code_descriptions(code)
    if not found:
        raise InvalidInput(f"{code}: no such rule or code; docs/codes.md lists all of them")
    if form == "json":
        listed = [{"kind": kind, "meaning": text} for kind, text in found]
        emit_json({"code": code, "meaning": found[0][1], "meanings": listed})
        return
    say(code)
    for kind, text in found:
        put(["", f"{kind}: {text}"])


def code_descriptions(code: str) -> list[tuple[str, str]]:
    """The kinds and meanings of a code that is not a rule of gate 1; empty for an unknown one."""
    drafts = {**DRAFT_RULES, TYPES.id: TYPES.help}
    found = drafts.get(code.upper())
    if found:
        return [("finding in a draft", found)]
    kinds = {"diagnostic of a contract file": f"{CODES[code].severity} in a contract file"} if code in CODES else {}
    return [(kinds.get(kind, kind), text) for kind, text in descriptions(code)]
