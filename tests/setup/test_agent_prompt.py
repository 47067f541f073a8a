"""The agent's prompt: every example passes its gate under any settings, and the text says what the code says."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from threegate.core.plugins import PLUGINS
from threegate.core.settings import PluginsSettings, RequestSettings, Settings
from threegate.launch.results.verdict import STATES
from threegate.request.code import check_code
from threegate.request.code_modules import MONTY_NAMES
from threegate.request.front_matter import KEYS
from threegate.request.job import BUBBLEWRAP, Platform, Platforms
from threegate.request.monty_lacks import MISSING_BUILTINS
from threegate.request.reader import read_request
from threegate.request.sandbox_contents import NOTHING_KNOWN, Contents
from threegate.runners.monty.guarded_parse import parse_problem
from threegate.setup import agent_prompt
from threegate.setup.agent_examples import request_examples
from threegate.setup.agent_monty import IDIOMS, monty_lines
from threegate.setup.agent_prompt import (
    COMMON_MODULES,
    CONTRACTS_TOLD,
    STATE_TEXTS,
    PromptPlace,
    anywhere,
    place_of,
    prompt_json,
    prompt_text,
)

if TYPE_CHECKING:
    from threegate.judgement.policy import Policy

NOW = datetime(2026, 11, 22, 5, 30, tzinfo=UTC)
SETTINGS = RequestSettings()
SMALL = RequestSettings(max_cpu=0.05, max_memory_mb=8, max_time_sec=1)


@pytest.mark.parametrize("settings", [RequestSettings(), SMALL], ids=["defaults", "small"])
def test_every_example_passes_gate_1_without_a_finding(settings: RequestSettings) -> None:
    examples = request_examples(settings, NOW)
    assert len(examples) == 4
    for example in examples:
        report = read_request(example.text.encode(), path=f"inbox/{example.name}", settings=settings, now=NOW)
        assert report.valid and not report.findings, (example.name, report.findings)


CONTRACTS = ("files.*", "github.get_issue", "github.list_issues", "notes.add", "threegate.monty")
ROOT = "/home/somebody/work/threegate"
ALL = Contents(frozenset(SETTINGS.programs), frozenset({"yaml", "sqlite3", "numpy"}), "3.11.2", "the sandbox image")
OFF = Settings(plugins=PluginsSettings(off=tuple(PLUGINS)))
PLACES = {
    "default": PromptPlace(ROOT, SETTINGS, False, False, (), Settings()),
    "image": PromptPlace(ROOT, SETTINGS, True, False, (), Settings(), ALL),
    "image and network": PromptPlace(ROOT, SETTINGS, True, True, (), Settings(), ALL),
    "contracts": PromptPlace(ROOT, SETTINGS, False, False, CONTRACTS, Settings()),
    "no plugins": PromptPlace(ROOT, SETTINGS, True, True, CONTRACTS, OFF, ALL),
    "everything": PromptPlace(ROOT, SETTINGS, True, True, CONTRACTS, None, ALL),
    "anywhere": anywhere(),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_it_is_short(place: PromptPlace) -> None:
    assert len(prompt_text(place, NOW)) <= 9_000


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_every_fenced_request_of_the_text_is_valid(place: PromptPlace) -> None:
    """Read from the printed text, as an agent does."""
    text = prompt_text(place, NOW)
    found = re.findall(r"`inbox/(TR-[^`]+)`:\n\n````markdown\n(.*?)````", text, re.S)
    assert len(found) == 1 + place.era
    for name, request in found:
        assert read_request(request.encode(), path=name, settings=RequestSettings(), now=NOW, stage="draft").valid


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_no_sentence_is_there_twice(place: PromptPlace) -> None:
    text = re.sub(r"````.*?````", "", prompt_text(place, NOW), flags=re.S).replace("\n", " ")
    sentences = [part.strip() for part in re.split(r"[.:;] ", text) if len(part.strip()) > 25]
    assert len(sentences) == len(set(sentences)) > 20


def test_every_key_and_state_is_told() -> None:
    text = prompt_text(PLACES["everything"], NOW)
    assert set(STATE_TEXTS) == set(STATES)
    for state in STATES:
        assert f"- `{state}`: " in text
    for key in KEYS.values():
        if "1" in key.versions and not key.name.startswith("approved_"):
            assert key.name in text
    assert "deliver" not in text and "manifest_sha256" not in text  # made by the door, not by hand
    done = {state for state, words in STATE_TEXTS.items() if words.startswith("done")}
    assert done == {"finished", "refused"} and "until `state` is `finished` or `refused`" in text


def test_a_place_without_engine_or_network_is_told_so() -> None:
    place = PromptPlace("/ws", SMALL, False, False, ("threegate.monty",))
    text = prompt_text(place, NOW)
    assert "There is no other backend here" in text and "network: allowlist" not in text
    for word in ("ERA", "python3", "shell", "container", "workdir", "Command"):
        assert word not in text.partition("## A JSON proposal")[0], word
    assert "There are contracts for these tools: threegate.monty." in text
    wild = prompt_text(PromptPlace("/ws", SMALL, False, False, ("github.*", "github.get_issue")), NOW)
    assert "github.*" not in wild and (
        "these tools: every other tool whose name begins with `github.` and that is not in this list, github.get_issue."
        in wild
    )
    half = PromptPlace("/ws", SMALL, True, False, ())
    assert "There is no network here" in prompt_text(half, NOW) and "sort-sales" in prompt_text(half, NOW)
    value = prompt_json(place, NOW)
    assert value["contracts"] == ["threegate.monty"] and len(value["examples"]) >= 2


def test_many_contracts_are_counted() -> None:
    place = PromptPlace("/ws", SMALL, False, False, tuple(f"tool.t{number:02}" for number in range(40)))
    text = prompt_text(place, NOW)
    assert f"tool.t{CONTRACTS_TOLD - 1:02}, {40 - CONTRACTS_TOLD} more." in text and "tool.t39" not in text


def test_what_era_has_is_what_the_root_has() -> None:
    some = Contents(frozenset({"sort", "jq", "python3"}), frozenset({"yaml", "sqlite3"}), "3.12", "the sandbox image")
    text = prompt_text(replace(PLACES["image"], contents=some), NOW)
    assert "Programs include jq python3 sort. One" in text
    assert "`python3` is 3.12 with its standard library. Also there: yaml sqlite3." in text
    assert "Not there: numpy pandas" in text and "yaml" not in text.partition("Not there: ")[2].partition(".")[0]
    none = Contents(frozenset({"sort"}), frozenset({"json"}), "", "the sandbox image")
    assert "Also there" not in prompt_text(replace(PLACES["image"], contents=none), NOW)
    every = replace(ALL, modules=frozenset(COMMON_MODULES))
    assert "Not there" not in prompt_text(replace(PLACES["image"], contents=every), NOW)
    unknown = prompt_text(replace(PLACES["image"], contents=NOTHING_KNOWN), NOW)
    assert " ruby " in unknown and "with its standard library" not in unknown


IMAGE = "sandbox@sha256:" + "a" * 64
ROOTED = Platform("root:sha256:" + "b" * 64, "", BUBBLEWRAP, "c" * 64)


@pytest.mark.parametrize(
    ("platform", "era", "network"),
    [
        (Platform(), False, False),
        (Platform(IMAGE, "", "", "c" * 64), True, False),
        (Platform(IMAGE, IMAGE, "", "c" * 64), True, True),
        (ROOTED, True, True),
    ],
    ids=["nothing", "image", "image and proxy", "bubblewrap"],
)
def test_a_workspace_offers_what_its_preferred_platform_has(
    monkeypatch: pytest.MonkeyPatch, platform: Platform, era: bool, network: bool
) -> None:
    monkeypatch.setattr(agent_prompt, "era_platforms", lambda settings: Platforms((platform, ROOTED)))
    monkeypatch.setattr(agent_prompt, "contents", lambda settings, asked: ALL if asked == platform else NOTHING_KNOWN)
    policy = SimpleNamespace(settings=Settings(), contracts=SimpleNamespace(contracts={"b.c": 1, "a.b": 1}))
    place = place_of("/ws", cast("Policy", policy))
    assert (place.era, place.network, place.contracts) == (era, network, ("a.b", "b.c"))
    assert place.contents == (ALL if era else NOTHING_KNOWN)
    assert ("- ERA: Command" in prompt_text(place, NOW)) == era


@pytest.mark.parametrize("code", IDIOMS.values(), ids=IDIOMS)
def test_what_the_text_says_monty_refuses_is_refused(code: str) -> None:
    assert {problem.rule for problem in check_code(code, (), parse_problem)} & {"TG403", "TG407", "TG417"}


def test_the_modules_and_builtins_of_monty_are_those_of_the_rules() -> None:
    text = "\n".join(monty_lines())
    modules = text.partition("only modules: ")[2].partition(".")[0].split()
    assert modules == sorted(name for name in MONTY_NAMES if "." not in name)
    for name in text.partition("builtins ")[2].rstrip(".").split():
        assert name in MISSING_BUILTINS
        assert check_code(f"print({name})\n", ())


def test_the_page_shows_the_text_of_today() -> None:
    page = (Path(__file__).parents[2] / "docs" / "for-agents.md").read_text()
    assert "threegate agent prompt" in page
