"""docs/contracts.md names every field, every diagnostic and every reason, with their help as it is."""

from __future__ import annotations

from pathlib import Path

from threegate.contracts.codes import CODES
from threegate.contracts.model_session import SessionContract
from threegate.contracts.model_tool import ToolContract
from threegate.contracts.model_workflow import WorkflowContract
from threegate.contracts.reasons import PASSING, REASONS

TEXT = (Path(__file__).parents[2] / "docs" / "contracts.md").read_text()


def test_every_code_is_in_the_manual() -> None:
    for code, entry in CODES.items():
        assert f"| `{code}` | {entry.severity} | {entry.help.replace('|', '/')} |" in TEXT, code
    for code, help_ in REASONS.items():
        assert f"| `{code}` | {help_} |" in TEXT, code
    assert REASONS.keys() >= PASSING


def test_every_field_is_in_the_manual() -> None:
    for model in (ToolContract, SessionContract, WorkflowContract):
        for name in model.model_fields:
            assert f"`{name}" in TEXT, f"{model.__name__}.{name}"
