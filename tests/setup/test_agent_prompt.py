"""The agent's prompt: every example passes its gate under any settings, and the text says what the code says."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from threegate.core.settings import RequestSettings
from threegate.launch.results.verdict import STATES
from threegate.request.front_matter import KEYS
from threegate.request.reader import read_request
from threegate.setup.agent_examples import request_examples
from threegate.setup.agent_prompt import STATE_TEXTS, PromptPlace, anywhere, prompt_json, prompt_text

NOW = datetime(2026, 11, 22, 5, 30, tzinfo=UTC)
SMALL = RequestSettings(max_cpu=0.05, max_memory_mb=8, max_time_sec=1)


@pytest.mark.parametrize("settings", [RequestSettings(), SMALL], ids=["defaults", "small"])
def test_every_example_passes_gate_1_without_a_finding(settings: RequestSettings) -> None:
    examples = request_examples(settings, NOW)
    assert len(examples) == 4
    for example in examples:
        report = read_request(example.text.encode(), path=f"inbox/{example.name}", settings=settings, now=NOW)
        assert report.valid and not report.findings, (example.name, report.findings)
        assert example.text in prompt_text(anywhere(), NOW) or settings is SMALL


def test_every_fenced_request_of_the_text_is_valid() -> None:
    """Read from the printed text, as an agent does."""
    text = prompt_text(anywhere(), NOW)
    found = re.findall(r"`inbox/(TR-[^`]+)`:\n\n````markdown\n(.*?)````", text, re.S)
    assert len(found) == 4
    for name, request in found:
        assert read_request(request.encode(), path=name, settings=RequestSettings(), now=NOW, stage="draft").valid


def test_every_key_and_state_is_told() -> None:
    text = prompt_text(anywhere(), NOW)
    assert set(STATE_TEXTS) == set(STATES)
    for state in STATES:
        assert f"- `{state}`: " in text
    for key in KEYS.values():
        told = "1" in key.versions and not key.name.startswith("approved_")
        assert (f"| {key.name} |" in text) == told  # a change set is made by the door, not by hand


def test_a_place_without_engine_or_network_is_told_so() -> None:
    place = PromptPlace("/ws", SMALL, False, False, ("threegate.monty",))
    text = prompt_text(place, NOW)
    assert "Only `backend: monty` works here" in text and "network: allowlist\n" not in text
    assert "There are contracts for these tools: threegate.monty." in text
    wild = prompt_text(PromptPlace("/ws", SMALL, False, False, ("github.*", "github.get_issue")), NOW)
    assert "github.*" not in wild and (
        "these tools: every other tool whose name begins with `github.` and that is not in this list, github.get_issue."
        in wild
    )
    half = PromptPlace("/ws", SMALL, True, False, ())
    assert "there is no network here" in prompt_text(half, NOW) and "sort-sales" in prompt_text(half, NOW)
    value = prompt_json(place, NOW)
    assert value["contracts"] == ["threegate.monty"]


def test_the_page_shows_the_text_of_today() -> None:
    page = (Path(__file__).parents[2] / "docs" / "for-agents.md").read_text()
    assert "threegate agent prompt" in page
