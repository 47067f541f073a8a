"""What the agent's prompt says of proposals, as an agent reads it; nothing if proposals are off."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime

from threegate.core.settings import PluginsSettings, RequestSettings, Settings
from threegate.plugins.proposals.prompt import EXAMPLE
from threegate.plugins.proposals.rules import judge_proposal
from threegate.setup.agent_prompt import PromptPlace, anywhere, prompt_json, prompt_text

NOW = datetime(2026, 11, 22, 5, 30, tzinfo=UTC)


def test_the_fenced_proposal_of_the_text_is_valid() -> None:
    text = prompt_text(anywhere(), NOW)
    (proposal,) = re.findall(r"```json\n(.*?)```", text, re.S)
    assert json.loads(proposal) == json.loads(EXAMPLE.text)
    assert judge_proposal(proposal.encode(), settings=Settings()).verdict == "auto"
    assert text.endswith("`judgement.draft` names the request that it became.\n")


def test_a_place_without_network_or_project_is_told_so() -> None:
    place = PromptPlace("/ws", RequestSettings(), False, False, (), Settings())
    text = prompt_text(place, NOW)
    assert "No project is set here" in text and "web.fetch" not in text
    value = prompt_json(place, NOW)
    assert "skill.install_guarded" not in value["proposal_tools"] and "file.list" in value["proposal_tools"]
    assert value["examples"][-1] == {"title": EXAMPLE.title, "name": EXAMPLE.name, "text": EXAMPLE.text}


def test_nothing_is_said_of_proposals_that_are_off() -> None:
    off = replace(anywhere(), settings=Settings(plugins=PluginsSettings(off=("proposals",))))
    assert "proposal" not in prompt_text(off, NOW) and prompt_text(anywhere(), NOW).startswith(prompt_text(off, NOW))
    assert "proposal_tools" not in prompt_json(off, NOW)
