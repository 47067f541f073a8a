"""The registry of the rules of gate 1: `RULES` by id.

TG1xx file and front matter, TG2xx body, TG3xx command, TG4xx code and variables, TG5xx content.
Invariant: an id stands once, and a rule without an accepted and a refused example is not made.
"""

from __future__ import annotations

from collections.abc import Mapping

from threegate.request.rules.rule import Rule, Where  # first: the modules below take it from here

from threegate.request.rules import body, code, command, content, file, front_matter  # isort: skip

__all__ = ["RULES", "Rule", "Where"]

RULES: Mapping[str, Rule] = {
    rule.id: rule
    for part in (file, front_matter, body, command, code, content)
    for rule in sorted(part.RULES, key=lambda item: item.id)
}
"""Every rule by its id, in the order of ids."""
