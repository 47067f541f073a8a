"""Each agent's page says what its profile says: version, install line, settings, and the words for a run without a
terminal.
"""

from __future__ import annotations

import re
import tomllib

import pytest

from scripts.type_tour import ROOT
from tests.plugins.agents.real_agents import AGENTS, Agent
from threegate.core.settings import Settings
from threegate.core.toml_table import read_table
from threegate.plugins.agents.profile import load_profile, profile_names

NAMES = [name for name in profile_names(Settings()) if name != "generic"]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_that_of_the_profile(name: str) -> None:
    text = (ROOT / "docs" / "agents" / f"{name}.md").read_text()
    profile = load_profile(name, Settings())
    assert f"is tested with version {profile.tried}," in text and f"\n{profile.install}\n" in text
    first, *_ = re.findall(r"^```toml\n(.*?)^```", text, re.M | re.S)
    told = load_profile(name, read_table(Settings, tomllib.loads(first)))
    assert told.models == profile.models and told.limits.key
    secret = tomllib.loads(first)["secrets"][told.limits.key]
    assert secret["host"] == profile.host and f"/{told.limits.key}.key" in secret["file"]
    assert f"\nthreegate agent run {name} --project ~/app\n" in text


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_the_page_has_the_words_that_the_tests_type(agent: Agent) -> None:
    name, words = agent.name, agent.headless
    text = (ROOT / "docs" / "agents" / f"{name}.md").read_text()
    profile = load_profile(name, Settings())
    given = " ".join(word for word in words if word not in (*profile.args, *profile.models))
    found = re.search(rf"^threegate agent run {name} --project ~/app -- (.*) 'Fix the failing test'$", text, re.M)
    assert found is not None and given.endswith(found[1])
