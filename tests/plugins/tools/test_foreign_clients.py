"""Clients of others at the door, in the versions of their lock file: the official SDK, the inspector, the
conformance suite.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.tools.behind_the_gate import NODE, Gate, RealServer, gate, installed, shared_folder
from tests.plugins.tools.little_servers import open_folder
from threegate.plugins.tools.manifest import door_name

HERE = Path(__file__).parent
SCENARIOS = {
    "server-initialize": False,
    "ping": True,
    "tools-list": False,
    "json-schema-2020-12": True,
    "tools-call-simple-text": False,
    "tools-call-image": True,
    "tools-call-audio": True,
    "tools-call-embedded-resource": True,
    "tools-call-mixed-content": False,
    "tools-call-error": True,
    "tools-call-with-progress": False,
}
"""Scenarios that a gate before tools can have, and whether only the long form has them. docs/tools.md says why not
the others.
"""


@pytest.fixture(scope="module")
def modules() -> Path:
    return installed("mcp-clients")


@pytest.fixture(scope="module")
def everything() -> Iterator[RealServer]:
    program = installed("mcp-servers") / "@modelcontextprotocol/server-everything/dist/index.js"
    with shared_folder() as folder:
        yield RealServer("everything", (NODE, str(program), "stdio"), folder, {})


@pytest.fixture(scope="module")
def behind(everything: RealServer) -> Iterator[Gate]:
    """The reference server and the one of the conformance suite, behind one gate."""
    with tempfile.TemporaryDirectory() as root, shared_folder() as folder, open_folder() as program:
        script = program / "conformance_server.py"
        script.write_bytes((HERE / "conformance_server.py").read_bytes())
        conformance = RealServer("conformance", ("/usr/bin/python3", "-I", str(script)), folder, {})
        with gate(Path(root), [everything, conformance]) as made:
            yield made


def node(modules: Path, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Node 24 from npm."""
    return subprocess.run(
        [str(modules / ".bin/node"), *words], capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
        cwd="/", **more,
    )  # fmt: skip


@pytest.mark.slow
def test_the_official_sdk_gets_the_same_with_and_without(behind: Gate, everything: RealServer, modules: Path) -> None:
    calls = [
        ("get-structured-content", {"location": "New York"}),
        ("get-annotated-message", {"messageType": "debug", "includeImage": True}),
    ]
    argv = behind.door_argv
    door = {"command": argv[0], "args": argv[1:], "env": dict(os.environ), "cwd": str(behind.place.root)}
    asked = {
        "modules": str(modules),
        "servers": {
            "direct": {"command": everything.argv[0], "args": everything.argv[1:], "env": {}},
            "door": door,
        },
        "calls": [["direct", *call] for call in calls]
        + [["door", door_name("everything", tool), arguments] for tool, arguments in calls]
        + [["door", "everything__get-sum", {"a": "one"}]],
        "cancelled": [
            "door",
            door_name("everything", "trigger-long-running-operation"),
            {"duration": 100, "steps": 200},
            "(data, not an instruction)",
        ],
    }
    done = node(modules, str(HERE / "sdk_client.mjs"), json.dumps(asked))
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    *answers, unfit = got["answers"]
    for given, wanted in zip(answers[len(calls) :], answers[: len(calls)], strict=True):
        assert given.pop("_meta")["threegate/request"]["status"] == "succeeded"
        assert given == {"isError": False, **wanted}
    assert unfit["isError"] and unfit["structuredContent"]["reason"] == "arguments_unfit"
    offered = {tool["name"]: tool for tool in got["listed"]["door"]}
    for tool in got["listed"]["direct"]:
        assert offered[door_name("everything", tool["name"])]["inputSchema"] == tool["inputSchema"]
    assert got["cancelled"] == "McpError: MCP error -32001: enough"
    steps = [said["progress"] for said in got["progress"]]
    assert steps == sorted(set(steps)) and ' of 200"' in got["progress"][-1]["message"]
    behind.place.wait_for(f"agents/{behind.run.run_id}/results/TS-*-trigger-long-running*", 30)
    (result,) = behind.run.results.glob("TS-*trigger-long-running*")
    assert "status: interrupted" in result.read_text() and "the call was cancelled" in result.read_text()


@pytest.mark.slow
def test_the_inspectors_command_line_lists_and_calls(behind: Gate, modules: Path) -> None:
    with tempfile.TemporaryDirectory() as home:

        def inspect(*words: str) -> Any:
            done = node(
                modules, str(modules / ".bin/inspector"), "--cli", *behind.door_argv, *words, "--format", "json",
                "--quiet", "--connect-timeout", "60000", env={**os.environ, "HOME": home},
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            value = json.loads(done.stdout)
            return value.get("result", value)

        names = [tool["name"] for tool in inspect("--method", "tools/list")["tools"]]
        assert "everything__get-sum" in names and "run_python" in names
        words = ("--tool-name", "everything__get-sum", "--tool-arg", "a=1", "b=2")
        answer = inspect("--method", "tools/call", *words)
        assert answer["content"] == [{"type": "text", "text": "The sum of 1 and 2 is 3."}]


@pytest.fixture
def url(behind: Gate, modules: Path) -> Iterator[str]:
    """The door over streamable HTTP, which the suite speaks."""
    words = [str(modules / ".bin/node"), str(HERE / "http_bridge.mjs"), str(modules), "conformance__"]
    bridge = subprocess.Popen([*words, *behind.door_argv], stdout=subprocess.PIPE, text=True, cwd="/")
    try:
        assert bridge.stdout
        yield bridge.stdout.readline().strip()
    finally:
        bridge.terminate()
        bridge.wait(20)
        if bridge.stdout:
            bridge.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["some", "all"])
def test_the_conformance_suite(url: str, modules: Path, tmp_path: Path, whole: bool) -> None:
    running = {
        name: subprocess.Popen(
            [str(modules / ".bin/node"), str(modules / ".bin/conformance"), "server", "--url", url]
            + ["--scenario", name],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path,
        )
        for name, long in SCENARIOS.items()
        if whole or not long
    }  # fmt: skip
    said = {name: (process.communicate(timeout=240)[0], process.returncode) for name, process in running.items()}
    for name, (text, code) in said.items():
        assert code == 0, f"{name}: {text}"
