"""The Agent Action Contract's page: what it says and what happens, for each statement that was once found to differ."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.plugins.serve.clients.conftest import package as package  # noqa: PLC0414 - a fixture that this file uses
from tests.plugins.serve.test_mcp import piped
from tests.seeds.differences import differs
from tests.servers import Running, start, stop
from threegate import aana

ROOT = Path(__file__).parents[3]
COMING = (ROOT / "docs" / "from-aana.md").read_text()

EMAIL: dict[str, Any] = {
    "tool_name": "send_email",
    "tool_category": "write",
    "authorization_state": "user_claimed",
    "evidence_refs": ["draft_id:123"],
    "risk_domain": "customer_support",
    "proposed_arguments": {"to": "customer@example.com"},
    "recommended_route": "accept",
}
"""The minimal event."""
TRANSACTIONS: dict[str, Any] = {
    "tool_name": "get_recent_transactions",
    "tool_category": "private_read",
    "authorization_state": "none",
    "evidence_refs": [],
    "risk_domain": "finance",
    "proposed_arguments": {"account_id": "acct_redacted", "limit": 5},
    "recommended_route": "accept",
}
READ: dict[str, Any] = {**TRANSACTIONS, "authorization_state": "authenticated", "evidence_refs": ["auth.session"]}
"""The event of the TypeScript example."""
SESSION: dict[str, Any] = {
    "source_id": "auth.session",
    "kind": "auth_event",
    "trust_tier": "verified",
    "redaction_status": "redacted",
    "summary": "User identity was authenticated for this account.",
    "freshness": {"status": "fresh"},
    "provenance": "connector",
}


def route(event: dict[str, Any]) -> str:
    return str(aana.check_tool_call(event)["architecture_decision"]["route"])


# ---- as the page says


@pytest.mark.parametrize(("event", "expected"), [(EMAIL, "ask"), (TRANSACTIONS, "defer")], ids=["ask", "defer"])
def test_python_tool_precheck_event_builds_the_minimal_event_and_the_examples_keep_their_routes(
    event: dict[str, Any], expected: str
) -> None:
    assert aana.tool_precheck_event(**event) == event
    assert route(aana.tool_precheck_event(**event)) == expected


def test_confirmed_means_that_the_user_confirmed_this_action_and_no_approval_that_names_another() -> None:
    approval = {**SESSION, "kind": "approval", "source_id": "approval.1", "summary": ""}

    def confirmed(summary: str) -> dict[str, Any]:
        refs = [{**approval, "summary": summary}]
        return {**EMAIL, "authorization_state": "confirmed", "evidence_refs": refs}

    assert route(confirmed("User approved deleting the database.")) == "ask"
    assert route(confirmed("User approved sending the email.")) == "accept"


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = start(tmp_path_factory.mktemp("bridge"), token="token-of-the-bridge-7", variable="AANA_BRIDGE_TOKEN")
    yield running
    stop(running)


def test_aana_bridge_token_is_read_and_the_post_of_the_page_is_answered(bridge: Running) -> None:
    def post(token: str) -> httpx.Response:
        return httpx.post(f"{bridge.url}/pre-tool-check", headers={"Authorization": f"Bearer {token}"}, json=EMAIL)

    assert post("token-of-the-bridge-7").json()["route"] == "ask"
    assert post("another-token").status_code == 401


@pytest.mark.slow
def test_the_one_line_tools_list_smoke_as_printed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "threegate", "serve", "mcp", "--log", str(tmp_path / "d.jsonl")],
        input='{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n',
        capture_output=True, text=True, cwd=tmp_path, timeout=90, check=True,
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert answer["id"] == 1
    assert "aana_pre_tool_check" in [tool["name"] for tool in answer["result"]["tools"]]


def test_the_one_line_tools_call_payload_as_printed(tmp_path: Path) -> None:
    params = {"name": "aana_pre_tool_check", "arguments": EMAIL}
    [answer] = piped(tmp_path, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    assert answer["result"]["structuredContent"]["route"] == "ask"
    assert len((tmp_path / "d.jsonl").read_text().splitlines()) == 1


def node(package: Path, code: str) -> Any:
    """The JSON that a script prints which uses the built client."""
    script = f'import * as client from "./dist/index.js";\n{code}'
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script], cwd=package, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


CAMEL = {
    "tool_name": "toolName",
    "tool_category": "toolCategory",
    "authorization_state": "authorizationState",
    "evidence_refs": "evidenceRefs",
    "risk_domain": "riskDomain",
    "proposed_arguments": "proposedArguments",
    "recommended_route": "recommendedRoute",
}


@pytest.mark.slow
def test_ts_tool_precheck_event_builds_the_examples_ask_and_defer(package: Path) -> None:
    for event, expected in ((EMAIL, "ask"), (TRANSACTIONS, "defer")):
        given = json.dumps({CAMEL[key]: value for key, value in event.items()})
        built = node(package, f"console.log(JSON.stringify(client.toolPrecheckEvent({given})));")
        assert built == event and route(built) == expected


# ---- different on purpose


@differs("`import aana`")
def test_the_import_line() -> None:
    assert importlib.util.find_spec("aana") is None
    assert route(EMAIL) == aana.gate_action(EMAIL)["architecture_decision"]["route"] == "ask"
    assert "| `import aana` | `from threegate import aana` |" in COMING


@differs("`eval_pipeline.mcp_server.AANA_PRE_TOOL_CHECK_TOOL`, `eval_pipeline.mcp_server.handle_aana_pre_tool_check`")
def test_the_module_of_the_mcp_tool() -> None:
    assert importlib.util.find_spec("eval_pipeline") is None
    assert aana.AANA_PRE_TOOL_CHECK_TOOL["name"] == "aana_pre_tool_check"
    assert aana.handle_aana_pre_tool_check(EMAIL)["structuredContent"]["route"] == "ask"
    assert "`eval_pipeline.mcp_server.AANA_PRE_TOOL_CHECK_TOOL`" in COMING


@differs("`aana-fastapi --host 127.0.0.1 --port 8766`")
def test_the_command_of_the_service() -> None:
    scripts = importlib.metadata.distribution("threegate").entry_points
    assert [script.name for script in scripts if script.group == "console_scripts"] == ["threegate"]
    done = subprocess.run(
        [sys.executable, "-m", "threegate", "serve", "http", "--help"], capture_output=True, text=True, check=True
    )
    assert "--host" in done.stdout and "--port" in done.stdout and "8766" in done.stdout
    assert "`aana-fastapi --host 127.0.0.1 --port 8766`" in COMING


@differs("`python scripts/integrations/aana_mcp_server.py`")
def test_the_script_of_the_mcp_server() -> None:
    assert not (ROOT / "scripts" / "integrations").exists()
    assert "`python scripts/integrations/aana_mcp_server.py` | `threegate serve mcp`" in COMING


@differs("the npm package `@aana/integration-sdk`")
def test_the_npm_package() -> None:
    manifest = json.loads((ROOT / "clients" / "typescript" / "package.json").read_text())
    assert manifest["name"] == "@threegate/client"
    assert "`@aana/integration-sdk`" in COMING


@differs("`schema_version` may be present in any event")
def test_the_version_on_the_minimal_event() -> None:
    named = {**EMAIL, "schema_version": "aana.agent_tool_precheck.v1"}
    assert (route(EMAIL), route(named)) == ("ask", "refuse")
    assert "D15" in aana.check_tool_call(named)["deviations"]
    assert route({**named, "recommended_route": "ask"}) == "ask"


@differs("`authorization_subject` may be present, of any type")
def test_an_authorization_subject_that_is_text() -> None:
    assert route({**EMAIL, "authorization_subject": "user-7"}) == "refuse"
    assert route({**EMAIL, "authorization_subject": {"subject_type": "user", "subject_ref": "user-7"}}) == "ask"


@differs('`evidenceRefs: ["auth.session"]` supports an authenticated private read')
def test_the_event_of_the_typescript_example() -> None:
    assert route(READ) == "ask"
    assert route({**READ, "evidence_refs": [SESSION]}) == "accept"


@pytest.mark.slow
@differs("`checkToolPrecheck(event)` decides synchronously and in-process")
def test_the_client_asks_a_server(package: Path) -> None:
    code = f"""
    const event = {json.dumps(READ)};
    const promised = client.checkToolPrecheck(event);
    const decision = await promised;
    console.log(JSON.stringify([
      client.shouldExecuteTool(promised), client.shouldExecuteTool(decision), decision.route, decision.hard_blockers,
    ]));
    """
    assert node(package, code) == [False, False, "refuse", ["client_misconfigured"]]
