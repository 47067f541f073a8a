"""What an agent can read about ThreeGate over MCP: the text of `threegate agent prompt` as a prompt, and the
schemas as resources.

Invariant: this reveals no more about a workspace than `agent prompt` does, and not its path.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from mcp_types import (
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    Prompt,
    PromptMessage,
    ReadResourceResult,
    Resource,
    TextContent,
    TextResourceContents,
)

from threegate.core.errors import InvalidInput, ThreeGateError
from threegate.core.workspace import Workspace
from threegate.judgement.policy import load_policy
from threegate.launch.results.model import schema as result_schema
from threegate.launch.results.verdict_schema import verdict_schema
from threegate.request.schema import report_schema, request_schema
from threegate.runners.backend import policy_facts
from threegate.setup.agent_prompt import anywhere, place_of, prompt_text

_PROMPT: Final = "threegate"
_TITLE: Final = "How to request that something runs outside your sandbox"
_SCHEMAS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "threegate://schemas/tool-request": request_schema,
    "threegate://schemas/report": report_schema,
    "threegate://schemas/verdict": verdict_schema,
    "threegate://schemas/tool-result": result_schema,
}
_GUIDE: Final = "threegate://prompt"


class Guide:
    """The prompt and the resources for agents, with or without a workspace."""

    def __init__(self, workspace: Workspace | None) -> None:
        """Store the workspace; its settings are read when the text is requested."""
        self._workspace = workspace

    async def list_prompts(self, _context: Any, _params: Any) -> ListPromptsResult:
        """The one prompt."""
        return ListPromptsResult(prompts=[Prompt(name=_PROMPT, description=_TITLE)])

    async def get_prompt(self, _context: Any, params: Any) -> GetPromptResult:
        """Its text. Raises InvalidInput for another name."""
        if params.name != _PROMPT:
            raise InvalidInput(f"no such prompt; there is only {_PROMPT}")
        content = TextContent(type="text", text=self._text())
        return GetPromptResult(description=_TITLE, messages=[PromptMessage(role="user", content=content)])

    async def list_resources(self, _context: Any, _params: Any) -> ListResourcesResult:
        """The text again, and the schemas."""
        guide = Resource(uri=_GUIDE, name=_PROMPT, description=_TITLE, mime_type="text/markdown")
        schemas = [
            Resource(uri=uri, name=uri.rpartition("/")[2], mime_type="application/schema+json") for uri in _SCHEMAS
        ]
        return ListResourcesResult(resources=[guide, *schemas])

    async def read_resource(self, _context: Any, params: Any) -> ReadResourceResult:
        """One of them. Raises InvalidInput for another address."""
        uri = str(params.uri)
        if uri != _GUIDE and uri not in _SCHEMAS:
            raise InvalidInput(f"no such resource; there are {_GUIDE} and threegate://schemas/…")
        text = self._text() if uri == _GUIDE else json.dumps(_SCHEMAS[uri](), indent=2)
        kind = "text/markdown" if uri == _GUIDE else "application/schema+json"
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=kind, text=text)])

    def _text(self) -> str:
        place = anywhere()
        if self._workspace is not None:
            try:
                policy = load_policy(self._workspace, facts=policy_facts())
                place = dataclasses.replace(place_of("", policy), contracts=place.contracts)
            except (ThreeGateError, OSError):
                pass  # the agent's account may be unable to read the settings
        return prompt_text(place, datetime.now(UTC))
