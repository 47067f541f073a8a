"""Writes what is made from the code: docs/rules.md, settings.md, codes.md, events.md, cli.md, the man page, and the
schemas of gate 1, of gate 3a, of contracts, of verdicts, of results and of what the HTTP server answers. ``--check``
only compares.

Usage: python scripts/generate_docs.py [--check]; exit 1 when a file is not current.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.pages.codes import codes_page
from scripts.pages.events import events_page
from scripts.pages.manual import cli_page, man_page
from scripts.pages.settings import settings_page
from threegate import __version__
from threegate.aana import event_schema
from threegate.contracts.contract_line import ContractLine
from threegate.contracts.model_session import SessionContract
from threegate.contracts.model_tool import ToolContract
from threegate.contracts.model_workflow import WorkflowContract
from threegate.core.record import published, schema_of
from threegate.launch.results.model import schema as result_schema
from threegate.launch.results.verdict_schema import verdict_schema
from threegate.plugins.proposals.proposal_form import ProposalVerdict
from threegate.plugins.serve.answers import ContractDecision, Decision
from threegate.request.rules_page import rules_page
from threegate.request.schema import report_schema, request_schema, request_schema_2

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
        "schemas/tool-result.schema.json": _json(result_schema()),
        **{
            f"schemas/{name}.schema.json": _json(published(name, title, model.model_json_schema(by_alias=True)))
            for name, title, model in (
                ("tool-contract", "ThreeGate tool contract", ToolContract),
                ("session-contract", "ThreeGate session contract", SessionContract),
                ("workflow-contract", "ThreeGate workflow contract", WorkflowContract),
            )
        },
        **{
            f"schemas/{name}.schema.json": _json(published(name, title, schema_of(kind)))
            for name, title, kind in (
                ("agent_action_result", "AANA Agent Action Contract v1 result", Decision),
                ("proposal-verdict", "ThreeGate proposal verdict", ProposalVerdict),
                ("contract-line", "ThreeGate contract line", ContractLine),
                ("contract-decision", "ThreeGate contract decision", ContractDecision),
            )
        },
    }


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
