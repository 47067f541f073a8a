"""docs/security.md lists each promise with the tests that hold it: every test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
_NAMED = re.compile(r"`(tests/[A-Za-z0-9_/]+(?:\.py)?)(?:::(test_[a-z0-9_]+))?`")


def rows() -> list[str]:
    """The rows of the table of promises."""
    text = (ROOT / "docs" / "security.md").read_text("utf-8")
    table = text.partition("## Promises")[2].partition("\n## ")[0]
    return [line for line in table.splitlines() if line.startswith("| ")][1:]


def test_every_promise_names_a_test_that_is_there() -> None:
    wrong = []
    for row in rows():
        named = list(_NAMED.finditer(row.rpartition(" | ")[2]))
        if not named:
            wrong.append(f"no test: {row}")
        for found in named:
            path = ROOT / found[1]
            if not path.exists():
                wrong.append(f"not there: {found[0]}")
            elif found[2] and f"def {found[2]}(" not in path.read_text("utf-8"):
                wrong.append(f"no such test: {found[0]}")
            elif path.is_dir() and not any(path.rglob("test_*.py")):
                wrong.append(f"holds no test: {found[0]}")
    assert len(rows()) > 20 and not wrong, "\n".join(wrong)
