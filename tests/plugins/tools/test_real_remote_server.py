"""An example server from npm over streamable HTTP: its tools and answers are those that it has over its streams."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.tools.behind_the_gate import NODE, RealServer, installed
from tests.plugins.tools.https_servers import Authority, pinned_remote, tls_front
from tests.support import wait_until
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.tools.server_process import open_fresh

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("echo", {"message": 'é中 "\\'}),
    ("get-sum", {"a": 0.1, "b": 0.2}),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("get-structured-content", {"location": "Chicago"}),
    ("get-tiny-image", {}),
    ("get-resource-links", {"count": 2}),
    ("trigger-long-running-operation", {"duration": 1, "steps": 2}),
)


@pytest.fixture
def program() -> str:
    return str(installed("mcp-servers") / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js")


@pytest.fixture
def port(program: str) -> Iterator[int]:
    """Of one that runs, without TLS."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = probe.getsockname()[1]
    process = subprocess.Popen(
        [NODE, program, "streamableHttp"], env={**os.environ, "PORT": str(number)}, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(lambda: is_open(number))
        yield number
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_its_tools_and_answers_are_the_same(tmp_path: Path, port: int, program: str) -> None:
    authority = Authority.make(tmp_path)
    workspace = Workspace(tmp_path / "workspace")
    with (
        tls_front(authority, port) as url,
        RealServer("everything", (NODE, program, "stdio"), tmp_path, {}).direct() as direct,
    ):
        manifest = pinned_remote(workspace, url, authority.reach())
        assert manifest.initialize == {"instructions": None, **direct.initialized}
        listed = {tool["name"]: tool for tool in direct.ask("tools/list", {})["result"]["tools"]}
        assert {tool.name: dict(tool.input_schema) for tool in manifest.tools} == {
            name: tool["inputSchema"] for name, tool in listed.items()
        }
        for tool, arguments in CALLS:
            heard: list[Any] = []
            with open_fresh(workspace, Settings(), manifest, reach=authority.reach()) as server:
                server.check_pinned()
                answer = server.call(tool, arguments, 30, 1 << 20, heard.append)
            given: dict[str, Any] = {"content": list(answer.content), "isError": answer.is_error}
            given |= {} if answer.structured is None else {"structuredContent": answer.structured}
            given |= {} if answer.meta is None else {"_meta": answer.meta}
            assert given == {"isError": False, **direct.call(tool, arguments)["result"]}, tool
            assert [item["progress"] for item in heard] == ([1, 2] if tool.startswith("trigger") else [])
