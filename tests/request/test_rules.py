"""Every rule's own examples, and the pages and schemas that are made of the rules."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.request.examples import ids, read_example
from threegate.request.rules import RULES, Rule
from threegate.request.rules.rules_page import example_lines, rules_page

ROOT = Path(__file__).resolve().parents[2]
ACCEPTED = [(rule, example) for rule in RULES.values() for example in rule.accepted]
REFUSED = [(rule, example) for rule in RULES.values() for example in rule.refused]
SEEN_ELSEWHERE = {"TG100", "TG199"}
"""What no text can show: a file that is not read, a reader that fails. Their own tests show them."""


def _name(value: object) -> str:
    return value.id if isinstance(value, Rule) else ascii(value)[:40]


@pytest.mark.parametrize(("rule", "example"), ACCEPTED, ids=_name)
def test_an_accepted_example_is_a_valid_request(rule: Rule, example: str) -> None:
    report = read_example(rule, example)
    assert report.valid and rule.id not in ids(report), report.findings


@pytest.mark.parametrize(("rule", "example"), REFUSED, ids=_name)
def test_a_refused_example_is_found_by_its_rule(rule: Rule, example: str) -> None:
    report = read_example(rule, example)
    assert rule.id in ids(report), report.findings
    assert report.valid == (rule.severity == "warning")


def test_every_rule_has_an_id_of_its_part_a_name_of_its_own_and_both_kinds_of_examples() -> None:
    assert len({rule.name for rule in RULES.values()}) == len(RULES)
    for key, rule in RULES.items():
        assert key == rule.id and rule.id[:3] in {"TG1", "TG2", "TG3", "TG4", "TG5"} and len(rule.id) == 5
        assert rule.accepted, rule.id
        assert rule.refused or rule.id in SEEN_ELSEWHERE, rule.id
        assert rule.message and "\n" not in rule.message and rule.help


def test_generated_files_are_current() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "generate_docs.py"))["made"]()
    for name, text in made.items():
        assert (ROOT / name).read_text("utf-8") == text, f"{name}: run scripts/generate_docs.py"
    written = {f"schemas/{path.name}" for path in (ROOT / "schemas").iterdir()} - set(made)
    assert written == {"schemas/agent-action-proposal.schema.json", "schemas/tool-request.schema.md"}


def test_the_page_tells_every_rule_and_shows_no_hidden_character() -> None:
    page = rules_page()
    assert all(f"### {name}\n" in page for name in RULES)
    assert page.replace("\n", "").isprintable()


def test_long_examples_are_cut() -> None:
    assert example_lines("x" * 300) == ["x" * 100 + "… (300 characters)"]
    assert example_lines("\n" * 30)[-1] == "… (31 lines)"
