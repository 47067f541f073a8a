"""The pages and schemas that are made of the program are those in the tree."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_generated_files_are_current() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "generate_docs.py"))["made"]()
    for name, text in made.items():
        assert (ROOT / name).read_text("utf-8") == text, f"{name}: run scripts/generate_docs.py"
    written = {f"schemas/{path.name}" for path in (ROOT / "schemas").iterdir()} - set(made)
    assert written == {"schemas/agent-action-proposal.schema.json", "schemas/tool-request.schema.md"}
