"""Profiles: data that is whole, in the form of each agent, and the operator's changes to it."""

from __future__ import annotations

import json
import tomllib

import pytest

from tests.conftest import few
from tests.plugins.agents.people import Person
from tests.plugins.agents.real_agents import AGENTS
from threegate.core.errors import InvalidInput
from threegate.core.settings import Settings, parse_settings
from threegate.plugins.agents.profile import Filled, load_profile, profile_names
from threegate.runners.jail.jail import DOOR, HOME

PACKAGED = ["claude", "codex", "gemini", "generic", "opencode", "qwen"]


@pytest.mark.parametrize("name", PACKAGED)
def test_what_is_written_is_in_the_form_of_its_agent(name: str) -> None:
    profile = load_profile(name, Settings())
    filled = Filled(profile, '/home/me/a "project"', "be careful")
    for file in profile.files:
        text = filled.text(file.text)
        value = (
            tomllib.loads(text)
            if file.path.endswith(".toml")
            else json.loads(text)
            if file.path.endswith(".json")
            else {}
        )
        servers = value.get("mcp_servers") or value.get("mcpServers") or value.get("mcp") or {}
        if "threegate" in servers:
            entry = servers["threegate"]
            words = [entry["command"], *entry["args"]] if "args" in entry else entry["command"]
            assert words == ["/usr/bin/socat", "-", f"UNIX-CONNECT:{DOOR}"]
    written = "".join(filled.text(file.text) for file in profile.files) + "".join(map(filled.text, profile.args))
    assert "$" not in written and (name == "generic" or ("be careful" in written and profile.connect))
    assert not profile.url or profile.models


def test_the_versions_that_were_tried_are_those_of_the_tests() -> None:
    for agent in AGENTS:
        assert load_profile(agent.name, Settings()).tried == agent.version


def test_the_operator_changes_a_profile_or_makes_one() -> None:
    settings = parse_settings(
        b'[agents.codex]\nmodels = ["big", "small"]\nwait_sec = 7\nenvironment = { A = "1" }\n'
        b'[agents.local]\nprofile = "opencode"\nurl = "http://127.0.0.1:11434"\n[agents.mine]\nprogram = "/opt/mine"\n'
    )
    codex = load_profile("codex", settings)
    assert codex.models == ("big", "small") and codex.wait_sec == 7 and codex.environment["A"] == "1"
    assert codex.environment["CODEX_HOME"] == "$HOME/.codex" and codex.protocol == "responses"
    assert (
        load_profile("local", settings).host == "127.0.0.1:11434"
        and load_profile("local", settings).program == "opencode"
    )
    assert load_profile("mine", settings).program == "/opt/mine" and load_profile("mine", settings).name == "mine"
    assert profile_names(settings) == sorted([*PACKAGED, "local", "mine"])


@pytest.mark.parametrize("name", ["nothing", "../codex", "codex.toml", "", "CODEX"])
def test_a_profile_that_is_not_there(name: str) -> None:
    with pytest.raises(InvalidInput, match="no such profile"):
        load_profile(name, Settings())


@pytest.mark.parametrize(
    "text",
    [
        '[agents.codex]\nurl = "http://api.openai.com"',
        '[agents.codex]\nurl = "https://user@host"',
        '[agents.codex]\nurl = "ftp://x"',
        '[agents.Codex]\nkey = "x"',
        "[agents.codex]\nrequests = 0",
        '[agents.codex]\nkeey = "x"',
        '[agents.codex]\nmodels = ["a\\"b"]',
    ],
)
def test_settings_that_would_weaken_it_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_settings(text.encode())


def test_agents_are_no_part_of_the_policy() -> None:
    """What an agent may do in its jail decides nothing about requests, so approvals stay good."""
    assert parse_settings(b'[agents.codex]\nkey = "x"').deciding() == Settings().deciding()


def test_a_broken_template_is_one_line() -> None:
    with pytest.raises(InvalidInput, match="template"):
        Filled(load_profile("generic", Settings()), "/p").text("$NOTHING")
    assert HOME == "/home/agent"


@pytest.mark.parametrize("name", few(PACKAGED, 1))
def test_connect_prints_an_entry_and_says_what_it_is_not(user: Person, name: str) -> None:
    done = user.threegate("agent", "connect", name)
    assert done.returncode == 0 and "bypass the gate" in done.stderr
    value = tomllib.loads(done.stdout) if name == "codex" else json.loads(done.stdout)
    assert str(user.workspace) in json.dumps(value)
