"""What the text for agents says of proposals: the tools that may be proposed, and an example."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from threegate.plugins.changes.section import ProjectSettings
from threegate.plugins.proposals.tools import SCHEMA_VERSION, TOOLS
from threegate.setup.agent_examples import AgentExample
from threegate.setup.agent_prompt import PromptPart, PromptPlace

_VALUE: Final = {
    "schemaVersion": SCHEMA_VERSION,
    "id": "list-notes",
    "tool": "file.list",
    "args": {"path": "notes"},
    "reason": "To see which notes there are before writing a new one.",
    "risk": "low",
}
EXAMPLE: Final = AgentExample("A proposal: one tool by name", "AP-list-notes.json", json.dumps(_VALUE, indent=2) + "\n")


def _told(place: PromptPlace) -> dict[str, Any]:
    return {"proposal_tools": [tool.name for tool in TOOLS.values() if tool.verdict != "block"]}


def _lines(place: PromptPlace) -> Iterator[str]:
    yield "For common actions, write a JSON object `inbox/AP-<anything>.json` instead; the daemon turns it into a"
    yield "request for fixed programs. Use a proposal if one of these tools does what you want, and a request for"
    yield "everything else. The arguments in bold are required:"
    yield ""
    for tool in TOOLS.values():
        if tool.verdict == "block" or (not place.network and tool.lane == "ERA draft with network"):
            continue
        names = [f"**{name}**" if name in tool.required else name for name in tool.fields]
        yield f"- `{tool.name}` ({', '.join(names) or 'no arguments'}): {tool.lane}"
    if place.settings is not None and not place.settings.section(ProjectSettings).root:
        yield ""
        yield "No project is set here (`project.root`), so the file, git and shell tools make no request."
    yield from ("", f"`inbox/{EXAMPLE.name}`:", "", "```json", *EXAMPLE.text.rstrip("\n").split("\n"), "```", "")
    yield "Its verdict is `tool-exec/verdicts/<file name>.json`; `judgement.draft` names the request that it became."


PROMPT: Final = PromptPart("Instead of a request: a JSON proposal", _lines, EXAMPLE, _told)
