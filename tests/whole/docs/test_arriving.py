"""The pages for those who come from another system: short, linked, and what they print works as printed."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.servers import TOKEN, start, stop
from tests.support import Place, make_place, monty_draft, request_id
from threegate.core.workspace import Workspace

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("from-threegate.md", "from-aana.md", "from-clawguard.md", "from-contracts.md")


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    found = re.findall(r"^```([a-z]*)\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.M | re.S)
    return [text for name, text in found if name == language]


@pytest.mark.parametrize("page", PAGES)
def test_each_page_is_short_and_linked(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert text.count("\n") <= 80
    for heading in ("## What differs, and why", "## What is not here"):
        assert heading in text
    for place in ("README.md", "mkdocs.yml", "docs/index.md"):
        assert page in (ROOT / place).read_text(), place


def test_the_python_of_aana_prints_what_it_says(tmp_path: Path) -> None:
    (code,) = blocks("from-aana.md", "python")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == code.rpartition("# ")[2].strip(), done.stderr


def test_the_example_cases_through_the_command_line(tmp_path: Path) -> None:
    (line,) = [block for block in blocks("from-aana.md", "") if "python3 -c" in block]
    line = line.replace("python3", sys.executable).replace(
        "threegate validate", f"{sys.executable} -m threegate validate"
    )
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, text=True, cwd=ROOT)
    cases = json.loads((ROOT / "examples/agent_action_contract_cases.json").read_text())["cases"]
    assert done.returncode == 2, done.stderr
    assert [row.split()[:2] for row in done.stdout.splitlines()] == [
        [case["expected_route"], case["event"]["tool_name"]] for case in cases
    ]
    assert {case["expected_route"] for case in cases} == {"accept", "ask", "defer", "refuse"}


@pytest.mark.slow
def test_the_mcp_line_as_printed(tmp_path: Path) -> None:
    (line,) = [block for block in blocks("from-aana.md", "") if "tools/list" in block]

    def answer(line: str) -> dict[str, Any]:
        command = line.replace("threegate serve mcp", f"{sys.executable} -m threegate serve mcp --log d.jsonl")
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, cwd=tmp_path)
        answered: dict[str, Any] = json.loads(done.stdout)
        return answered

    assert answer(line)["result"]["tools"][0]["name"] == "aana_pre_tool_check"
    assert answer(line.replace("tools/list", "resources/list"))["error"]["code"] == -32602


def test_the_proposal_as_curl_sends_it(tmp_path: Path) -> None:
    (command,) = [block for block in blocks("from-clawguard.md", "") if block.startswith("curl")]
    _, _, url, *options = shlex.split(command.replace("$THREEGATE_TOKEN", TOKEN).replace("\\\n", " "))
    given = dict(zip(options[-2::-2], options[-1::-2], strict=True))
    headers = [options[at + 1].split(": ") for at, word in enumerate(options) if word == "-H"]
    running = start(tmp_path)
    try:
        place = running.url + url.removeprefix("http://127.0.0.1:8766")
        answer = httpx.post(place, content=given["-d"], headers=dict(headers), timeout=60)
    finally:
        stop(running)
    assert answer.json() == json.loads(blocks("from-clawguard.md", "json")[0])


def test_the_call_of_the_contracts_page(tmp_path: Path) -> None:
    call, decision = blocks("from-contracts.md", "json")
    place = make_place(tmp_path)
    contracts = Workspace(place.root).contracts
    for file in (ROOT / "docs/examples/contracts/trading").iterdir():
        (contracts / file.name).write_bytes(file.read_bytes())
    running = start(tmp_path, workspace=place.root)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    try:
        answer = httpx.post(f"{running.url}/contracts/decide", content=call, headers=headers, timeout=60)
    finally:
        stop(running)
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() == json.loads(decision).keys()


def promoted(place: Place, lines: str) -> tuple[str, str]:
    """Type the lines of a page for a fresh draft, the other programs' in a shell; what ThreeGate prints, and the result
    of the draft."""
    digest = place.input("numbers.json", b"[3, 1, 4]\n")
    name = request_id(f"from-the-text-{len(place.events())}")
    place.drop(monty_draft(name, "1 + 1", inputs={"numbers.json": digest}), f"{name}.md")
    printed = ""
    for line in re.sub(r"TR-1\b", name, lines).replace("~/.ssh/id_ed25519", str(place.key)).splitlines():
        if not line.startswith("threegate "):
            subprocess.run(["bash", "-euo", "pipefail", "-c", line], cwd=place.root, check=True, capture_output=True)
            continue
        command, _, file = line.partition(" > ")
        _, *words = shlex.split(command)
        out = place.run(*words, *(["--yes"] if words[0] == "approve" and not file else []), expect=0).out
        if file:
            (place.root / file).write_text(out)
        printed += out
    return printed, place.result(name)


def test_each_way_of_promotion_as_typed(tmp_path: Path) -> None:
    """With approve, with a detached signature, by hand where that is allowed, and by hand where it is not."""
    approve, detached, by_hand = blocks("from-threegate.md", "")
    (settings,) = blocks("from-threegate.md", "toml")
    place = make_place(tmp_path, operator="alice")
    out, result = promoted(place, approve)
    assert "succeeded" in out and "\nstatus: succeeded\n" in result
    assert "\nstatus: succeeded\n" in promoted(place, detached)[1]
    refused = promoted(place, by_hand)[1]
    assert 'reason: "signature_missing"' in refused and "threegate draft --again" in refused
    file = place.root / "threegate.toml"
    assert file.read_text().count("\n[approval]\n") == 1
    file.write_text(file.read_text().replace("[approval]\n", settings))
    assert "\nstatus: succeeded\n" in promoted(place, by_hand)[1]
