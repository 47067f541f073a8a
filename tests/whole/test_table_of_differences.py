"""docs/differences.md has a row for each difference that a test holds, and a test holds each row."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "differences.md"


def _rows() -> list[str]:
    """The first cells of the page's tables, without the heads."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [cell for line in lines if (cell := line[2:].partition(" | ")[0]) != "statement"]


def _tested() -> list[str]:
    return [
        str(ast.literal_eval(decorator.args[0]))
        for path in sorted(TESTS.rglob("test_*.py"))
        if "@differs(" in (text := path.read_text())
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id == "differs"
    ]


def test_each_row_has_one_test_and_each_test_a_row() -> None:
    assert Counter(_rows()) == Counter(_tested())
