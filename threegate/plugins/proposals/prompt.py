"""What the text for agents says of proposals: the tools that may be proposed, and an example."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from threegate.plugins.changes.section import ProjectSettings
from threegate.plugins.proposals.tools import RISKS, SCHEMA_VERSION, TOOLS, ProposalTool, ToolField
from threegate.setup.agent_examples import AgentExample
from threegate.setup.agent_prompt import PromptPart, PromptPlace

_VALUE: Final = {
    "schemaVersion": SCHEMA_VERSION,
    "id": "find-rates",
    "tool": "memory.search",
    "args": {"query": "exchange rates", "limit": 5},
    "reason": "To use what is known.",
    "risk": "low",
}
EXAMPLE: Final = AgentExample("A proposal: one tool by name", "AP-find-rates.json", json.dumps(_VALUE) + "\n")
_NEEDS_A_PROJECT: Final = ("file", "project", "shell", "git")
"""The first words of the tools that make no request while the setting `project.root` is empty."""


def _told(place: PromptPlace) -> dict[str, Any]:
    return {"proposal_tools": [tool.name for tool in TOOLS.values() if tool.verdict != "block"]}


def offered(place: PromptPlace) -> list[ProposalTool]:
    """The tools that make a request here."""
    project = place.settings is None or bool(place.settings.section(ProjectSettings).root)
    lanes = {"monty draft", "apply draft"} | ({"ERA draft"} if place.era else set())
    lanes |= {"ERA draft with network"} if place.network else set()
    return [
        tool
        for tool in TOOLS.values()
        if tool.verdict != "block"
        and tool.lane in lanes
        and (project or tool.name.split(".")[0] not in _NEEDS_A_PROJECT)
    ]


def _lines(place: PromptPlace) -> Iterator[str]:
    yield f"A JSON object in `inbox/AP-NAME.json` asks for one of these tools; `risk` is {', '.join(RISKS[:-1])}:"
    yield from ("", f"`inbox/{EXAMPLE.name}`:", "", "```json", EXAMPLE.text.rstrip("\n"), "```", "")
    yield "`judgement.draft` of its verdict names the request that it became. Arguments are texts, `n..m` whole"
    yield "numbers, `?` true or false, `[n]` lists of at most n texts; `*` marks what is required:"
    yield ""
    same: dict[str, list[str]] = {}
    for tool in offered(place):
        names = (_argument(name, field) + "*" * (name in tool.required) for name, field in tool.fields.items())
        least = f" (at least risk {tool.least})" if tool.least else ""
        same.setdefault(", ".join(names), []).append(f"`{tool.name}`{least}")
    yield from (f"- {', '.join(tools)}: {arguments}" for arguments, tools in same.items())


def _argument(name: str, field: ToolField) -> str:
    kinds = {"integer": f" {field.minimum}..{field.maximum}", "boolean": "?", "strings": f"[{field.max_items}]"}
    return name + kinds.get(field.kind, "")


PROMPT: Final = PromptPart("A JSON proposal instead", _lines, EXAMPLE, _told)
