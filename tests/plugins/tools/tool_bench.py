"""A workspace with a server of tools pinned that nobody starts, a contract for each of its tools, and calls as the
door writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.acts.bench_workspace import Bench, make_bench
from threegate.core.file_names import new_agent_run_id
from threegate.core.workspace import AgentRun
from threegate.plugins.agents.kinds import AgentStarted
from threegate.plugins.tools.call_draft import draft_call, tool_call
from threegate.plugins.tools.kinds import ToolsAdded
from threegate.plugins.tools.manifest import Manifest, PinnedTool

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "repo": {"type": "string"},
        "number": {"type": "integer"},
        "labels": {"type": "array", "items": {"type": "string"}},
        "options": {
            "type": "object",
            "properties": {"deep": {"type": "boolean"}, "rate": {"type": "number"}},
        },
        "body": {"type": "string"},
        "token": {"type": "string"},
    },
    "required": ["repo"],
}
WHERE: Final = (
    "repo glob acme/*",
    "number gte 1 lte 9007199254740991",
    'labels.0 one_of ["bug", "docs"]',
    "options.deep equals true",
    "options.rate gte 0 lte 1",
)
CALL: Final[Mapping[str, Any]] = {
    "repo": "acme/site",
    "number": 7,
    "labels": ["bug"],
    "options": {"deep": True, "rate": 0.5},
    "body": "50% done,\nsee https://example.com\\..",
}
CONTRACT: Final = """schema_version: "1.1"
tool: {tool}
side_effect: {effect}
gate: allow
evidence_class: ack_only
commit_requirement: acknowledged
timeouts: {{total_ms: 30000}}
retries: {{max_attempts: 1, retry_on: []}}
rate_limits: {{on_429: {{respect_retry_after: true, max_sleep_seconds: 60}}}}
assertions: {{input_invariants: [], output_invariants: []}}
golden_cases:
  - {{id: ask, arguments: {{}}, expect_ok: true}}
allowed_errors: []
"""


def pinned_tool(name: str, schema: Mapping[str, Any] = SCHEMA, **more: Any) -> PinnedTool:
    return PinnedTool(
        name, **{"title": None, "description": None, "input_schema": schema, "output_schema": None, "annotations": None, **more}  # noqa: E501
    )  # fmt: skip


class ToolBench:
    """The workspace and what is pinned in it."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.bench: Bench = make_bench(folder)
        self.workspace = self.bench.workspace
        self.manifest = replace(
            Manifest(
                server="hub", argv=("/usr/bin/hub",), place="jail", account="", allow=(), binds=(), env={}, secrets=(),
                initialize={"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}, "instructions": None},  # noqa: E501
                tools=(pinned_tool("issue", title="An issue", description="Read it.", annotations={"readOnlyHint": True}),  # noqa: E501
                       pinned_tool("now", {"type": "object"}), pinned_tool("close")),
                program={},
            ),
            **more,
        )  # fmt: skip
        for tool, effect in (("issue", "read"), ("now", "read"), ("close", "write")):
            self.contract(tool, effect)
        self.pin()

    def contract(self, tool: str, effect: str) -> None:
        self.workspace.contracts.mkdir(exist_ok=True)
        (self.workspace.contracts / f"hub.{tool}.yaml").write_text(CONTRACT.format(tool=f"hub.{tool}", effect=effect))

    def pin(self) -> None:
        """Lay the manifest where it belongs, and announce it."""
        self.workspace.tools.mkdir(mode=0o700, exist_ok=True)
        (self.workspace.tools / "hub.json").write_bytes(self.manifest.to_bytes())
        added = ToolsAdded(server="hub", files={"tools/hub.json": self.manifest.digest})
        self.bench.context.trail.announce(added, actor="operator:alice")

    def run(self, tools: tuple[str, ...] | None = None) -> AgentRun:
        """An agent's run that goes on, with all tools or those that were chosen for it."""
        run = self.workspace.agent_run(new_agent_run_id(datetime.now(UTC))).make()
        began = AgentStarted(run=run.run_id, profile="codex", project="default", tools=tools)
        self.bench.context.trail.announce(began, actor="operator:alice")
        return run

    def draft(self, arguments: Mapping[str, Any] = CALL, tool: str = "issue", run: AgentRun | None = None) -> Path:
        """A call as the door of the inbox writes it, or that of a run."""
        call = tool_call("hub", tool, self.manifest.digest, arguments)
        request, data = draft_call(
            call,
            requested_by="codex" if run else "core",
            now=datetime.now(UTC),
            settings=self.workspace.load_settings().request,
        )
        path = (run or self.workspace).inbox / request.file_name
        path.write_bytes(data)
        return path
