"""Writes what is made from the code: docs/rules.md, settings.md, codes.md, events.md, cli.md, the man page, and the
schemas of gate 1, of gate 3a, of contracts, of verdicts and of what the HTTP server answers. ``--check`` only compares.

Usage: python scripts/generate_docs.py [--check]; exit 1 when a file is not current.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.pages.codes import codes_page
from scripts.pages.contract_schemas import SCHEMAS, schema_text
from scripts.pages.events import events_page
from scripts.pages.manual import cli_page, man_page
from scripts.pages.settings import settings_page
from threegate import __version__
from threegate.aana import event_schema
from threegate.request.rules.rules_page import rules_page
from threegate.request.schema import report_schema, request_schema, request_schema_2
from threegate.results.verdict_schema import verdict_schema
from threegate.serve.gate_schemas import (
    contract_decision_schema,
    contract_line_schema,
    proposal_verdict_schema,
)
from threegate.serve.openapi import result_schema

ROOT = Path(__file__).resolve().parent.parent


def made() -> dict[str, str]:
    """Every generated file by its path in the repository."""
    return {
        "docs/rules.md": rules_page(),
        "docs/settings.md": settings_page(),
        "docs/codes.md": codes_page(),
        "docs/events.md": events_page(),
        "docs/cli.md": cli_page(),
        "docs/man/threegate.1": man_page(__version__),
        **{
            f"schemas/{name}.schema.json": _json(event_schema())
            for name in ("agent_action_contract_v1", "agent_tool_precheck")
        },
        "schemas/tool-request.schema.json": _json(request_schema()),
        "schemas/tool-request-2.schema.json": _json(request_schema_2()),
        "schemas/report.schema.json": _json(report_schema()),
        "schemas/verdict.schema.json": _json(verdict_schema()),
        **{f"schemas/{name}": schema_text(name) for name in SCHEMAS},
        **{
            f"schemas/{name}.schema.json": _json(_published(name, title, schema))
            for name, title, schema in (
                ("agent_action_result", "AANA Agent Action Contract v1 result", result_schema()),
                ("proposal-verdict", "ThreeGate proposal verdict", proposal_verdict_schema()),
                ("contract-line", "ThreeGate contract line", contract_line_schema()),
                ("contract-decision", "ThreeGate contract decision", contract_decision_schema()),
            )
        },
    }


def _published(name: str, title: str, schema: dict[str, object]) -> dict[str, object]:
    """A part of the OpenAPI document as a schema of its own."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://threegate.dev/schemas/{name}.schema.json",
        "title": title,
    }
    return {**head, **schema}


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write or compare; say what changed."""
    stale = 0
    for name, text in made().items():
        path = ROOT / name
        if path.is_file() and path.read_text("utf-8") == text:
            continue
        stale += 1
        print(f"{name}: not current" if "--check" in sys.argv else f"{name}: written")
        if "--check" not in sys.argv:
            path.write_text(text, "utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
