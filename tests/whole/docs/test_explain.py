"""`threegate validate --explain` knows every code that a screen or a file shows: they are collected here from the code,
not from a list.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from threegate import cli
from threegate.aana import vocabulary
from threegate.cli.explained_codes import code_descriptions
from threegate.contracts.codes import CODES
from threegate.contracts.reasons import REASONS
from threegate.contracts.state import Decision
from threegate.contracts.transitions import Effect
from threegate.core import errors
from threegate.judgement.judge import WAITING_CODES
from threegate.launch.results.result_facts import STATUSES
from threegate.launch.results.verdict import State
from threegate.plugins.proposals.tools import ProposalRisk, VerdictName
from threegate.request.exposure import Opacity
from threegate.request.gate_rules import RULES
from threegate.request.model import Network, Risk, Sensitivity
from threegate.request.report import Severity
from threegate.review.fitness import DRAFT_RULES
from threegate.review.status import WAITS_FOR
from threegate.runners.backend import LineState
from threegate.runners.interface import Status
from threegate.trail.event import known_kinds

PACKAGE = Path(__file__).resolve().parents[3] / "threegate"


@cache
def nodes() -> list[tuple[Path, ast.Call | ast.Dict | ast.For | ast.Constant]]:
    """What the codes stand in, of every module: it is walked through once."""
    return [
        (path, node)
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call | ast.Dict | ast.For | ast.Constant)
    ]


def calls(folder: str, *names: str) -> Iterator[ast.Call]:
    """The calls of functions or methods of these names in the modules below a folder of the package."""
    for path, node in nodes():
        if isinstance(node, ast.Call) and called(node) in names and path.is_relative_to(PACKAGE / folder):
            yield node


def called(call: ast.Call) -> str:
    """The last name of what is called, or nothing."""
    return str(getattr(call.func, "id", getattr(call.func, "attr", "")))


def constant(node: ast.AST) -> Iterator[str]:
    """The text that it is."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def texts(node: ast.AST) -> Iterator[str]:
    """The texts in an expression; of an f-string what stands before its first value."""
    if isinstance(node, ast.JoinedStr):
        if isinstance(node.values[0], ast.Constant):
            yield str(node.values[0].value)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def codes_in_the_code() -> Iterator[str]:
    """Reason codes as the source names them: of refusals, AANA's blockers, results and the trail."""
    for path, node in nodes():
        if isinstance(node, ast.Call):
            name = called(node)
            at = {"Refused": 0, "Waiting": 0, "block": 1}.get(name)
            if at is not None and len(node.args) > at and (name != "block" or "aana" in path.parts):
                yield from _text(node.args[at])
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "reason":
                    yield from _text(value)


def _text(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[a-z_]{4,}", node.value):
        yield node.value


def doctor_names() -> set[str]:
    """The names of doctor's lines, and of those of the readiness look."""
    found = {text for call in calls("", "DoctorLine", "guarded") for text in texts(call.args[0])}
    for _, node in nodes():  # a loop over names and what they are
        if isinstance(node, ast.For) and any(
            getattr(call.func, "id", "") == "DoctorLine"
            and call.args
            and getattr(call.args[0], "id", "")
            in {name.id for name in ast.walk(node.target) if isinstance(name, ast.Name)}
            for call in ast.walk(node)
            if isinstance(call, ast.Call)
        ):
            found |= set(texts(node.iter))
    walls = {
        f"{place}: {name}"
        for place in ("era", "monty")
        for name in re.findall(r"wall\([\"'](.+?)[\"']", (PACKAGE / f"runners/{place}/{place}_probe.py").read_text())
    }
    assert len(walls) > 30
    return found | walls


def log_words() -> set[str]:
    """The first words of the daemon's log lines."""
    return {text for call in calls("daemon", "say") if call.args for text in texts(call.args[0])}


def proposal_codes() -> set[str]:
    pattern = r"(?:FormProblem\([^\n]*?, |ArgvFinding\(\s*\w+,\s+|_Key\([^\"]*)\"([a-z_0-9]+)\""
    return {
        code for path in (PACKAGE / "plugins/proposals").rglob("*.py") for code in re.findall(pattern, path.read_text())
    }


FAMILIES = {
    "reasons": lambda: {*codes_in_the_code(), *REASONS, *WAITING_CODES, *WAITS_FOR},
    "events": lambda: set(known_kinds()),
    "statuses": lambda: {*STATUSES, *get_args(Status), *get_args(State)},
    "rules": lambda: {*DRAFT_RULES, *(text for _, node in nodes() for text in constant(node) if re.fullmatch(r"TG\d{3}", text))},  # noqa: E501
    "doctor": doctor_names,
    "exit codes": lambda: {str(value) for name, value in vars(errors).items() if name.startswith("EXIT_")},
    "contract files": lambda: set(CODES),
    "proposals": proposal_codes,
    "the daemon's log": log_words,
    "words": lambda: {
        word
        for words in (Risk, Sensitivity, Network, Severity, Opacity, str, LineState, ProposalRisk, VerdictName,
                      Decision.__annotations__["verdict"], Effect.__annotations__["status"])
        for word in (get_args(words) if not isinstance(words, str) else re.findall(r"[\"'](\w+)[\"']", words))
    },
    "http": lambda: {
        text for call in calls("plugins/serve", "_Refusal") if len(call.args) > 1 for text in texts(call.args[1])
    },
    "aana": lambda: {*vocabulary.ROUTES, *vocabulary.STATES, *vocabulary.CATEGORIES, "pass", "fail"},
}  # fmt: skip
LEAST = {"reasons": 90, "events": 30, "statuses": 12, "rules": 90, "doctor": 45, "exit codes": 4, "contract files": 50,
         "proposals": 9, "the daemon's log": 25, "words": 20, "http": 12, "aana": 12}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_every_code_has_a_meaning(family: str) -> None:
    found = FAMILIES[family]()
    assert len(found) >= LEAST[family], f"only {len(found)}: they are not found any more"
    unknown = sorted(
        code for code in found if code not in RULES and not any(len(text) > 8 for _, text in code_descriptions(code))
    )
    assert not unknown


def test_one_word_may_be_several_things(capsys: pytest.CaptureFixture[str]) -> None:
    assert [kind for kind, _ in code_descriptions("refused")] == ["status of a result", "kind of event"]
    assert cli.execute(["validate", "--explain", "refused"]) == 0
    said = capsys.readouterr().out
    assert "status of a result: It did not run" in said and "kind of event: " in said
    assert cli.execute(["validate", "--explain", "64", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "code": "64",
        "meaning": "Wrong usage, or no workspace here.",
        "meanings": [{"kind": "exit code", "meaning": "Wrong usage, or no workspace here."}],
    }
    for code in ("nothing_of_that_name", "", "era", "7", "TG999"):
        assert not code_descriptions(code)
    assert cli.execute(["validate", "--explain", "nothing_of_that_name"]) == 2
