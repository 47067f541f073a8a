"""POST /proposals/validate and /contracts/decide: the same verdicts as the command line, the walls of
/pre-tool-check.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from tests.conftest import few
from tests.contracts.material import folder
from tests.plugins.serve.test_http_app import Clock
from tests.servers import TOKEN, Running, start, stop
from tests.support import Place, make_place
from threegate.aana import DecisionLog
from threegate.contracts.contract_line import ContractLine
from threegate.core import limits
from threegate.core.record import schema_of
from threegate.core.workspace import Workspace
from threegate.plugins.proposals.proposal_form import ProposalVerdict
from threegate.plugins.serve.answers import ContractDecision
from threegate.plugins.serve.http_app import HttpOptions, create_app

DATA = Path(__file__).parents[2] / "data"
AUTH = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
PATHS = ("/proposals/validate", "/contracts/decide")
RULES: dict[str, Any] = {
    "send": {"argument_value_invariants": [{"path": "$.n", "lte": 10}]},
    "session": {"session_limits": {"max_calls_per_tool": {"send": 2}}},
}


def lay(root: Path, rules: dict[str, Any]) -> Path:
    """The contracts folder of a workspace, with these rules in it."""
    contracts = Workspace(root).contracts
    for name, data in folder(rules).items():
        (contracts / name).write_bytes(data)
    return contracts


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = make_place(tmp_path_factory.mktemp("gates"))
    lay(made.root, RULES)
    return made


@pytest.fixture(scope="module")
def running(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Any:
    server = start(tmp_path_factory.mktemp("server"), "--rate", "100000", workspace=place.root)
    yield server
    stop(server)


def ask(server: Running, path: str, body: Any, **options: Any) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(f"{server.url}{path}", content=content, timeout=60, **{"headers": AUTH, **options})


def client_of(tmp_path: Path, workspace: Path | None, **options: Any) -> Any:
    from fastapi.testclient import TestClient

    shown = Workspace(workspace) if workspace else None
    log = DecisionLog(tmp_path / "d.jsonl")
    return TestClient(create_app(HttpOptions(token=None, log=log, workspace=shown, **options)))


@pytest.mark.parametrize("path", few(PATHS, 1))
@pytest.mark.slow
def test_the_same_walls_as_the_pre_tool_check(running: Running, path: str, started: Callable[..., Running]) -> None:
    body = {"tool": "file.list", "args": {}}
    wrong = {**AUTH, "Authorization": "Bearer wrong"}
    assert ask(running, path, body, headers=wrong).status_code == 401
    assert ask(running, path, body, headers={"Content-Type": "application/json"}).status_code == 401
    assert ask(running, path, body, headers={**AUTH, "Content-Type": "text/plain"}).status_code == 415
    assert httpx.get(f"{running.url}{path}", headers=AUTH).headers["Allow"] == "POST"
    assert ask(running, path, b'"' + b"x" * 65_536).status_code == 413
    limited = started("--rate", "2")
    assert [ask(limited, path, body).status_code == 429 for _ in range(3)] == [False, False, True]


@pytest.mark.slow
def test_proposals_get_the_verdict_of_the_command(running: Running, place: Place, tmp_path: Path) -> None:
    """Every shared proposal, in the bytes of its line."""
    lines = [json.loads(line)["proposal"] for line in (DATA / "clawguard_cases.jsonl").read_text().splitlines()]
    texts = [json.dumps(line) for line in lines]
    file = tmp_path / "proposals.jsonl"
    file.write_text("\n".join(texts) + "\n")
    done = place.run("validate", "--as", "proposal", str(file), "--jsonl")
    told = [json.loads(line) for line in done.out.splitlines()]
    schema = Draft202012Validator(schema_of(ProposalVerdict))
    verdicts = set()
    with httpx.Client(headers=AUTH, timeout=60) as client:
        for text, expected in zip(texts, told, strict=True):
            answer = client.post(f"{running.url}/proposals/validate", content=text.encode())
            assert answer.status_code == 200 and answer.json() == expected
            schema.validate(answer.json())
            verdicts.add(expected["verdict"])
    assert verdicts == {"auto", "approval", "block", "reject"}
    assert ask(running, "/proposals/validate", b"{").json()["verdict"] == "reject"
    kept = [json.loads(line) for line in running.log.read_text().splitlines()]
    lines_ = [line for line in kept if line["type"] == "proposal_verdict/1"]
    assert len(lines_) == len(texts) + 1 and {line["verdict"] for line in lines_} == verdicts


CALLS: list[dict[str, Any]] = [
    {"tool": "send", "arguments": {"n": 1}, "session_id": "s", "claim": "c1"},
    {"tool": "send", "arguments": {"n": 11}, "session_id": "s"},
    {"finish": "c1", "outcome": {"status": "succeeded", "output": {"a": 1}}},
    {"tool": "send", "arguments": {"n": 2}, "session_id": "s", "outcome": "succeeded"},
    {"tool": "send", "arguments": {"n": 3}, "session_id": "s"},
    {"tool": "other", "arguments": {}, "session_id": "s"},
    {"close": "s"},
    {"tool": "send", "arguments": {"n": 1}, "session_id": "s"},
    {"close": "nobody"},
]


def stripped(value: Any) -> Any:
    """What the command prints, without what only the operator may see."""
    if isinstance(value, dict):
        return {key: stripped(item) for key, item in value.items() if key not in ("expected", "found", "message")}
    return [stripped(item) for item in value] if isinstance(value, list) else value


def test_contracts_decide_as_the_command_does(running: Running, place: Place, tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in CALLS))
    done = place.run("contracts", "decide", "--calls", str(file), "--format", "json", expect=0)
    told = [stripped(json.loads(line)) for line in done.out.splitlines()]
    answers = [ask(running, "/contracts/decide", line).json() for line in CALLS]
    assert answers == told
    assert [answer.get("verdict") for answer in answers] == [
        "allow", "block", None, "allow", "block", "block", None, "block", None,
    ]  # fmt: skip
    schema = Draft202012Validator(schema_of(ContractDecision))
    for line, answer in zip(CALLS, answers, strict=True):
        schema.validate(answer)
        Draft202012Validator(schema_of(ContractLine)).validate(line)
    kept = [json.loads(line) for line in running.log.read_text().splitlines()]
    lines = [line for line in kept if line["type"] == "contract_decision/1"]
    assert [line["verdict"] for line in lines[-len(CALLS) :]] == [
        "allow", "block", "committed", "allow", "block", "block", "done", "block", "done",
    ]  # fmt: skip
    assert lines[-8]["codes"] == ["argument_invariant"] and lines[-8]["session_id"] == "s"


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[]", b"7", b'{"tool":"send","tool":"x"}',
        {}, {"tool": 5}, {"tool": "send", "arguments": []}, {"tool": "send", "x": 1},
        {"tool": "send", "answer": "approve"}, {"tool": "send", "at": 9}, {"tool": "send", "asked": 0},
        {"kill": {"scope": "session", "name": "s"}}, {"finish": "nothing"}, {"finish": []}, {"close": "a", "tool": []},
        {"tool": "send", "role": {}}, {"tool": "send", "workflow_session": []}, {"tool": "send", "cost": "1"},
        {"tool": "send", "arguments": {"n": 1}, "outcome": {"status": "x", "artifacts": {}}},
        {"tool": "send", "arguments": {"n": 1}, "outcome": []},
    ],
)  # fmt: skip
def test_what_says_nothing_here_is_not_judged(running: Running, body: Any) -> None:
    answer = ask(running, "/contracts/decide", body)
    assert answer.status_code == 400 and answer.json()["error"]["code"] == "not_judged"


def test_the_schema_for_callers_has_no_key_of_an_operator() -> None:
    for line in schema_of(ContractLine)["anyOf"]:
        assert {"answer", "asked", "at", "kill"}.isdisjoint(line["properties"])


def test_a_checkpoint_is_nobodys_to_answer_here(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    lay(place.root, {"send": {"checkpoint": {"when": "always", "timeout_seconds": 30}}, "session": {}})
    clock = Clock()
    client = client_of(tmp_path, place.root, clock=clock)
    call = {"tool": "send", "arguments": {"n": 1}}
    for _ in range(2):
        answer = client.post("/contracts/decide", json=call).json()
        assert answer["verdict"] == "checkpoint" and "context" not in answer["checkpoints"][0]
        clock.now += 3600
    assert client.post("/contracts/decide", json={**call, "answer": "approve"}).status_code == 400


def test_without_contracts_or_a_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = client_of(tmp_path, None)
    answer = bare.post("/contracts/decide", json={"tool": "send"})
    assert answer.status_code == 404 and answer.json()["error"]["code"] == "no_workspace"
    assert bare.post("/proposals/validate", json={"tool": "file.list", "args": {}}).status_code == 200
    place = make_place(tmp_path)
    contracts = Workspace(place.root).contracts
    client = client_of(tmp_path, place.root)
    empty = client.post("/contracts/decide", json={"tool": "send"}).json()
    assert empty["verdict"] == "allow" and [item["code"] for item in empty["reasons"]] == ["no_contracts"]
    (contracts / "send.yaml").write_text("gate: maybe")
    changed = client.post("/contracts/decide", json={"tool": "send"})
    assert changed.status_code == 503 and "restart the server" in changed.json()["error"]["message"]
    broken = client_of(tmp_path, place.root).post("/contracts/decide", json={"tool": "send"}).json()
    assert broken["verdict"] == "block" and broken["reasons"][0]["code"] == "contracts_do_not_compile"
    (contracts / "send.yaml").unlink()
    (contracts / "send.yaml").symlink_to("/etc/hostname")
    linked = client_of(tmp_path, place.root).post("/contracts/decide", json={"tool": "send"})
    assert linked.status_code == 503 and "/" not in linked.json()["error"]["message"]
    (contracts / "send.yaml").unlink()
    (place.root / "threegate.toml").write_text("nonsense = 1\n")
    for path in PATHS:
        answer = client_of(tmp_path, place.root).post(path, json={"tool": "file.list", "args": {}})
        assert answer.status_code == 503 and answer.json()["error"]["code"] == "gate_not_usable"


def test_what_is_not_written_down_is_not_answered(place: Place, tmp_path: Path) -> None:
    client = client_of(tmp_path, place.root)
    (tmp_path / "d.jsonl").symlink_to("/dev/null")
    for path in PATHS:
        answer = client.post(path, json={"tool": "send", "args": {}} if "prop" in path else {"tool": "send"})
        assert answer.status_code == 503 and answer.json()["error"]["code"] == "decision_not_recorded"


def test_sessions_are_bounded(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SERVE_CONTRACT_SESSIONS", 3)
    client = client_of(tmp_path, place.root)
    answers = [
        client.post("/contracts/decide", json={"tool": "send", "arguments": {"n": 1}, "session_id": str(number)})
        for number in range(5)
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 503, 503]
    assert "restart the server" in answers[-1].json()["error"]["message"]


def test_a_play_that_errs_refuses(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from threegate.contracts import play

    def err(*_: Any) -> Any:
        raise KeyError("secret")

    monkeypatch.setattr(play.Play, "line", err)
    answer = client_of(tmp_path, place.root).post("/contracts/decide", json={"tool": "send"})
    assert answer.status_code == 400 and "secret" not in answer.text and "do not execute" in answer.text
