"""The registry of the rules of gate 1: `RULES` by id.

TG1xx file and front matter, TG2xx body, TG3xx command, TG4xx code and variables, TG5xx content. Invariant: an
id is used once, and every rule has an accepted and a refused example.
"""

from __future__ import annotations

from collections.abc import Mapping

from threegate.request.rules import (
    body_rules,
    code_rules,
    command_rules,
    content_rules,
    file_rules,
    front_matter_rules,
)
from threegate.request.rules.rule import Rule, Where

__all__ = ["RULES", "Rule", "Where"]

RULES: Mapping[str, Rule] = {
    rule.id: rule
    for part in (file_rules, front_matter_rules, body_rules, command_rules, code_rules, content_rules)
    for rule in sorted(part.RULES, key=lambda item: item.id)
}
"""Every rule by its id, in the order of ids."""
