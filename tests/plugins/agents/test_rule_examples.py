"""The examples of gate 1's rules that are requests of the backend reach."""

from __future__ import annotations

import pytest

from tests.request.examples import plugin_of
from tests.request.test_rules import check_it_is_found, check_it_is_valid, name_of
from threegate.request.gate_rules import RULES, Rule

ACCEPTED = [(rule, text) for rule in RULES.values() for text in rule.accepted if plugin_of(text) == "agents"]
REFUSED = [(rule, text) for rule in RULES.values() for text in rule.refused if plugin_of(text) == "agents"]


@pytest.mark.parametrize(("rule", "example"), ACCEPTED, ids=name_of)
def test_an_accepted_example_is_a_valid_request(rule: Rule, example: str) -> None:
    check_it_is_valid(rule, example)


@pytest.mark.parametrize(("rule", "example"), REFUSED, ids=name_of)
def test_a_refused_example_is_found_by_its_rule(rule: Rule, example: str) -> None:
    check_it_is_found(rule, example)
