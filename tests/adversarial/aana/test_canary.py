"""A secret, planted anywhere in an event, is nowhere in result or log, on every surface that runs in this process."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.aana import generated
from threegate import aana
from threegate.cli import execute as run

NOW = generated.NOW


def plant(rng: random.Random, value: Any, secret: str) -> Any:
    """A copy of an event with the secret in one random place: a value, a part of one, or a key, at any depth."""
    event = copy.deepcopy(value)
    places: list[tuple[Any, Any]] = []
    nodes = [event]
    for node in nodes:
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            places.append((node, key))
            if isinstance(item, dict | list):
                nodes.append(item)
    node, key = rng.choice(places)
    roll = rng.random()
    if isinstance(node, dict) and roll < 0.25:
        node[f"{key} {secret}" if rng.random() < 0.5 else secret] = node.pop(key)
    elif isinstance(node[key], str) and roll < 0.6:
        node[key] = f"{node[key]} {secret}"
    elif isinstance(node[key], dict) and roll < 0.8:
        node[key][rng.choice(["note", "summary", "x"])] = [secret]
    else:
        node[key] = secret
    return event


def parts_of(secret: str) -> list[str]:
    """The secret, its end, and each of its lines."""
    return [secret, secret[-12:], *(line for line in secret.splitlines() if "PRIVATE KEY" not in line)]


def test_a_planted_secret_comes_out_nowhere(tmp_path: Path) -> None:
    rng = random.Random(21)
    log = aana.DecisionLog(tmp_path / "d.jsonl")
    refused = 0
    for _ in range(2_000):
        secret = rng.choice(generated.SECRETS)
        clean = generated.well_formed(rng)
        if generated.has_secret(json.dumps(clean)) or "PRIVATE KEY" in json.dumps(clean):
            continue
        event = plant(rng, clean, secret)
        result = aana.checked(event, now=NOW, log=log)
        refused += result["recommended_action"] == "refuse"
        shown = json.dumps(result) + repr(result)
        for part in parts_of(secret):
            assert part not in shown, json.dumps(event)
    text = log.path.read_text()
    for secret in generated.SECRETS:
        for part in parts_of(secret):
            assert part not in text
    assert refused > 1_000


def test_nor_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(22)
    secret = generated.SECRETS[0]
    events = tmp_path / "events.jsonl"
    lines = [json.dumps(plant(rng, generated.well_formed(rng), secret)) for _ in range(60)]
    lines += [secret, f'{{"{secret}": ', f'"{secret}"', f"[{secret}]"]
    events.write_text("\n".join(lines) + "\n")
    for form in ("json", "text"):
        assert run(["validate", "--as", "aana", str(events), "--jsonl", "--format", form]) == 2
        shown = capsys.readouterr()
        assert secret not in shown.out + shown.err and len(shown.out.splitlines()) == 64
    single = tmp_path / "event.json"
    for line in lines[::7]:
        single.write_text(line)
        run(["validate", "--as", "aana", str(single)])
        shown = capsys.readouterr()
        assert secret not in shown.out + shown.err


def test_the_message_of_a_blocked_call_holds_nothing_of_it() -> None:
    secret = generated.SECRETS[1]

    @aana.guard(tool_category="private_read", tool_name=f"read {secret}")
    def read(what: str) -> None: ...

    with pytest.raises(aana.ToolCallBlocked) as caught:
        read(secret)
    assert secret not in str(caught.value) + repr(caught.value) + json.dumps(caught.value.decision)


@pytest.mark.parametrize("pad", [150, 190, 195, 199])
def test_a_secret_is_masked_before_a_name_is_cut(pad: int, tmp_path: Path) -> None:
    """Cut first, and half a token would no longer look like one."""
    secret = generated.SECRETS[0]
    name = "n" * pad + " " + secret
    log = aana.DecisionLog(tmp_path / "d.jsonl")
    event = {
        **generated.well_formed(random.Random(1)),
        "tool_name": name,
        "request_id": name,
        "evidence_refs": [name],
    }
    event["proposed_arguments"] = {"k" * (pad - 140) + " " + secret: 1}
    for value in (event, {**event, "recommended_route": "bogus"}):
        result = aana.checked(value, now=NOW, log=log)
        shown = json.dumps(result) + log.path.read_text()
        for length in range(12, len(secret)):
            assert secret[:length] not in shown
