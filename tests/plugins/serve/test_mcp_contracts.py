"""`contracts_decide` over MCP: the gate of POST /contracts/decide, for a client that runs its tools itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.plugins.serve.test_mcp import with_server
from tests.plugins.serve.test_workspace_gates import RULES, lay
from tests.support import make_place


@pytest.mark.slow
def test_a_client_asks_the_contracts_and_says_how_its_calls_ended(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    lay(place.root, RULES)

    async def work(client: Client) -> None:
        async def ask(**line: Any) -> dict[str, Any]:
            answer = await client.call_tool("contracts_decide", line)
            assert not answer.is_error, answer
            return dict(answer.structured_content or {})

        assert "contracts_decide" in [tool.name for tool in (await client.list_tools()).tools]
        refused = await ask(tool="send", arguments={"n": 11})
        assert refused == {
            "verdict": "block",
            "reasons": [{"layer": 1, "code": "argument_invariant", "path": "$.n"}],
        }
        assert (await ask(tool="send", arguments={"n": 1}, claim="a"))["verdict"] == "allow"
        assert (await ask(finish="a", outcome="succeeded"))["outcome"]["status"] == "committed"
        assert (await ask(tool="send", arguments={"n": 2}, outcome="succeeded"))["verdict"] == "allow"
        spent = await ask(tool="send", arguments={"n": 3})
        assert [reason["code"] for reason in spent["reasons"]] == ["session_limit_exceeded"]
        for line in ({"kill": {"scope": "session", "name": "x"}}, {"tool": "send", "answer": "approve"}, {}):
            answer = await client.call_tool("contracts_decide", line)
            assert answer.is_error and answer.structured_content is None
        (lay(place.root, {"send": {}}) / "send.yaml").write_text("tool: send\n")
        stale = await client.call_tool("contracts_decide", {"tool": "send", "arguments": {}})
        assert stale.is_error and "changed" in stale.content[0].text

    with_server(work, tmp_path, "--gates", workspace=place.root)
    lines = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    assert [(line["surface"], line["verdict"]) for line in lines] == [
        ("mcp", verdict) for verdict in ("block", "allow", "committed", "allow", "block")
    ]


@pytest.mark.slow
def test_without_a_workspace_or_behind_a_door_there_is_no_such_tool(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        assert "contracts_decide" not in [tool.name for tool in (await client.list_tools()).tools]
        answer = await client.call_tool("contracts_decide", {"tool": "send", "arguments": {}})
        assert answer.is_error

    with_server(work, tmp_path)
