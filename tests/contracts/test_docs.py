"""The specification names every field of a contract, and docs/codes.md every diagnostic and reason."""

from __future__ import annotations

from pathlib import Path

from threegate.contracts.codes import CODES
from threegate.contracts.model_session import SessionContract
from threegate.contracts.model_tool import ToolContract
from threegate.contracts.model_workflow import WorkflowContract
from threegate.contracts.reasons import PASSING, REASONS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_code_is_in_the_manual() -> None:
    text = (DOCS / "codes.md").read_text()
    for code, entry in CODES.items():
        assert f"| `{code}` | {entry.help.replace('|', '/')} |" in text, code
    for code, help_ in REASONS.items():
        assert f"| `{code}` | {help_} |" in text, code
    assert REASONS.keys() >= PASSING


def test_every_field_is_specified() -> None:
    text = (DOCS / "spec" / "4-contracts.md").read_text()
    for model in (ToolContract, SessionContract, WorkflowContract):
        for name in model.model_fields:
            assert f"`{name}" in text, f"{model.__name__}.{name}"
