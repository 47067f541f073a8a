"""Every rule's own examples, and the pages and schemas that are made of the rules."""

from __future__ import annotations

import pytest

from tests.request.examples import ids, plugin_of, read_example
from threegate.request.gate_rules import RULES, Rule
from threegate.request.rules_page import example_lines, rules_page

ACCEPTED = [(rule, example) for rule in RULES.values() for example in rule.accepted if not plugin_of(example)]
REFUSED = [(rule, example) for rule in RULES.values() for example in rule.refused if not plugin_of(example)]
SEEN_ELSEWHERE = {"TG100", "TG199", "TG419"}
"""What no text can show: a file that is not read, a reader that fails, a silent Monty. Their own tests show them."""


def name_of(value: object) -> str:
    return value.id if isinstance(value, Rule) else ascii(value)[:40]


def check_it_is_valid(rule: Rule, example: str) -> None:
    report = read_example(rule, example)
    assert report.valid and rule.id not in ids(report), report.findings


def check_it_is_found(rule: Rule, example: str) -> None:
    report = read_example(rule, example)
    assert rule.id in ids(report), report.findings
    assert report.valid == (rule.severity == "warning")


@pytest.mark.parametrize(("rule", "example"), ACCEPTED, ids=name_of)
def test_an_accepted_example_is_a_valid_request(rule: Rule, example: str) -> None:
    check_it_is_valid(rule, example)


@pytest.mark.parametrize(("rule", "example"), REFUSED, ids=name_of)
def test_a_refused_example_is_found_by_its_rule(rule: Rule, example: str) -> None:
    check_it_is_found(rule, example)


def test_every_rule_has_an_id_of_its_part_a_name_of_its_own_and_both_kinds_of_examples() -> None:
    assert len({rule.name for rule in RULES.values()}) == len(RULES)
    for key, rule in RULES.items():
        assert key == rule.id and rule.id[:3] in {"TG1", "TG2", "TG3", "TG4", "TG5"} and len(rule.id) == 5
        assert rule.accepted, rule.id
        assert rule.refused or rule.id in SEEN_ELSEWHERE, rule.id
        assert rule.message and "\n" not in rule.message and rule.help


def test_the_page_tells_every_rule_and_shows_no_hidden_character() -> None:
    page = rules_page()
    assert all(f"### {name}\n" in page for name in RULES)
    assert page.replace("\n", "").isprintable()


def test_long_examples_are_cut() -> None:
    assert example_lines("x" * 300) == ["x" * 100 + "… (300 characters)"]
    assert example_lines("\n" * 30)[-1] == "… (31 lines)"
