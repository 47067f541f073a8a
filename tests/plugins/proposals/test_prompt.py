"""What the agent's prompt says of proposals, as an agent reads it; nothing if proposals are off."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime

from threegate.core.settings import PluginsSettings, RequestSettings, Settings
from threegate.plugins.proposals.prompt import EXAMPLE, offered
from threegate.plugins.proposals.rules import judge_proposal
from threegate.plugins.proposals.tools import TOOLS
from threegate.setup.agent_prompt import PromptPlace, anywhere, prompt_json, prompt_text

NOW = datetime(2026, 11, 22, 5, 30, tzinfo=UTC)


def test_the_fenced_proposal_of_the_text_is_valid() -> None:
    text = prompt_text(anywhere(), NOW)
    (proposal,) = re.findall(r"```json\n(.*?)```", text, re.S)
    assert json.loads(proposal) == json.loads(EXAMPLE.text)
    assert judge_proposal(proposal.encode(), settings=Settings()).verdict == "auto"
    assert "`judgement.draft` of its verdict names the request that it became." in text


def test_arguments_have_their_types_and_ranges() -> None:
    """As the table has them, for each tool that makes a request."""
    text = prompt_text(anywhere(), NOW)
    assert "- `file.list`: path, maxDepth 0..6, maxEntries 1..1000\n" in text
    assert "- `git.status`, `git.diff`: path, staged?, maxBytes 4096..1048576\n" in text
    assert "`github.issue_create_approved` (at least risk high): repo*, title*, body*, labels[20]\n" in text
    for tool in TOOLS.values():
        makes = tool.verdict != "block" and tool.lane not in ("dry-run record", "verdict only")
        assert (f"`{tool.name}`" in text) == makes


def test_a_place_is_offered_only_what_makes_a_request_there() -> None:
    place = PromptPlace("/ws", RequestSettings(), False, False, (), Settings())
    text = prompt_text(place, NOW)
    assert [tool.name for tool in offered(place)] == ["memory.search", "memory.propose", "github.issue_draft"]
    assert "web.fetch" not in text and "file.list" not in text
    value = prompt_json(place, NOW)
    assert "skill.install_guarded" not in value["proposal_tools"] and "file.list" in value["proposal_tools"]
    assert value["examples"][-1] == {"title": EXAMPLE.title, "name": EXAMPLE.name, "text": EXAMPLE.text}


def test_nothing_is_said_of_proposals_that_are_off() -> None:
    off = replace(anywhere(), settings=Settings(plugins=PluginsSettings(off=("proposals",))))
    assert "proposal" not in prompt_text(off, NOW).casefold() and prompt_text(anywhere(), NOW).startswith(
        prompt_text(off, NOW)
    )
    assert "proposal_tools" not in prompt_json(off, NOW)
