"""The adapters of examples/decisions/, with the real packages and a scripted model, beside a real daemon."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.own_environment import environment
from tests.plugins.tools.own_functions import Functions
from tests.support import wait_until

ROOT = Path(__file__).resolve().parents[4]
FRAMEWORKS = ("openai-agents==0.24.0", "langgraph==1.2.24", "pydantic-ai-slim==2.68.0")
ADAPTERS = {"agents_model": "for_openai_agents", "graph_model": "for_langgraph", "pydantic_model": "for_pydantic_ai"}
PAID = '{"to": "acme", "cents": 1200}'

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python() -> Path:
    """Where the frameworks are, and what ThreeGate itself needs, but not ThreeGate."""
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    version = "-".join(re.sub(r"[^a-z0-9.]", "_", name) for name in FRAMEWORKS)
    return environment("frameworks", version, (*FRAMEWORKS, *needs))


class Program:
    """A program with one of the adapters, in the workspace where its function is pinned."""

    def __init__(self, pay: Functions, python: Path, name: str) -> None:
        self._pay = pay
        self._python = python
        self._name = name
        folders = (ROOT, ROOT / "examples/decisions")
        self._environment = {**os.environ, "PYTHONPATH": ":".join(map(str, folders))}
        self._environment["THREEGATE_WORKSPACE"] = str(pay.place.root)
        found = self._run(ROOT / "examples/decisions" / f"{ADAPTERS[name]}.py")
        pay.pin(json.loads(found.communicate(timeout=120)[0]), "refresh")

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start it."""
        return self._run(Path(__file__).parents[1] / "scripted" / f"{self._name}.py", str(self._pay.calls), *words)

    def _run(self, script: Path, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self._python), str(script), *words],
            env=self._environment,
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture(scope="module")
def pay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Functions]:
    made = Functions(tmp_path_factory.mktemp("pay"))
    with made.daemon():
        yield made


@pytest.fixture(autouse=True)
def nothing_called_yet(pay: Functions) -> None:
    pay.calls.unlink(missing_ok=True)


def drafts(pay: Functions) -> list[Path]:
    """Those that were checked."""
    verdicts = pay.place.root / "tool-exec/verdicts"
    return [path for path in (pay.place.root / "inbox").glob("TR-*.md") if (verdicts / f"{path.name}.json").exists()]


def decide(pay: Functions, verb: str) -> str:
    """An operator signs or rejects the one draft; its id."""
    [draft] = wait_until(lambda: drafts(pay), "a draft", 60)
    why = ("--reason", "not this month") if verb == "reject" else ("--yes",)
    pay.place.run(verb, draft.stem, *why, "--as", "operator", "--key", str(pay.place.key), expect=0)
    return draft.stem


def status(pay: Functions, request_id: str) -> str:
    wait_until(lambda: pay.place.verdict(f"{request_id}.md")["state"] in ("finished", "refused"), "the end")
    return str(pay.place.verdict(f"{request_id}.md")["reason"])


@pytest.fixture(scope="module", params=["agents_model", "pydantic_model"])
def program(pay: Functions, python: Path, request: pytest.FixtureRequest) -> Program:
    return Program(pay, python, request.param)


def test_a_call_waits_for_a_person_and_is_made_as_it_was_signed(pay: Functions, program: Program) -> None:
    running = program.start(PAID)
    request_id = decide(pay, "approve")
    out, err = running.communicate(timeout=120)
    assert out == "It says: paid 1200 cents to acme\n", err
    assert pay.called() == ['["acme", 1200]'] and status(pay, request_id) == "succeeded"


def test_a_rejected_call_is_not_made_and_the_model_is_told(pay: Functions, program: Program) -> None:
    running = program.start('{"to": "eve", "cents": 7}')
    decide(pay, "reject")
    out, err = running.communicate(timeout=120)
    assert out == "It says: This was not done: rejected: not this month\n", err
    assert pay.called() == []


def test_an_exception_of_the_function_is_on_record(pay: Functions, program: Program) -> None:
    running = program.start('{"to": "nobody", "cents": 7}')
    request_id = decide(pay, "approve")
    assert "LookupError" in running.communicate(timeout=120)[1] and running.returncode == 1
    assert pay.called() == ['["nobody", 7]'] and status(pay, request_id) == "tool_error"


def test_a_graph_is_interrupted_and_its_node_run_again_makes_no_call_twice(
    pay: Functions, python: Path, tmp_path: Path
) -> None:
    """Every start of the program is a process of its own; LangGraph runs the node from its first line each time."""
    program = Program(pay, python, "graph_model")
    saved = str(tmp_path / "saved")

    def turn(*words: str) -> Any:
        out, err = program.start(saved, *words).communicate(timeout=120)
        assert out, err
        return json.loads(out)

    assert turn()["waits"] and turn()["waits"] and pay.called() == []
    assert len(wait_until(lambda: drafts(pay), "a draft")) == 1, "one draft, whoever asks again"
    first = decide(pay, "approve")
    wait_until(lambda: pay.place.verdict(f"{first}.md")["reason"] == "caller_absent", "the decision")
    died = program.start(saved, "dies")
    died.communicate(timeout=120)
    assert died.returncode == 9 and pay.called() == ['["acme", 1200]'] and status(pay, first) == "succeeded"
    found = turn()
    assert found["said"][1:] == ["This was not done: used before: succeeded"], "its answer was lost, the call is not"
    second = decide(pay, "approve")
    wait_until(lambda: pay.place.verdict(f"{second}.md")["reason"] == "caller_absent", "the decision")
    found = turn()
    assert found["said"][2:] == ["paid 5 cents to bolt"] and found["waits"] == []
    assert pay.called() == ['["acme", 1200]', '["bolt", 5]'] and status(pay, second) == "succeeded"
