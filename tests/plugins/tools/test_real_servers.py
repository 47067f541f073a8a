"""Servers of tools from npm, asked directly and through the door: every field of every answer is the same."""

from __future__ import annotations

import base64
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.line_client import LineClient
from tests.plugins.tools.behind_the_gate import NODE, RealServer, gate, installed, shared_folder
from threegate.plugins.tools.manifest import door_name

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@dataclass(frozen=True)
class Asked:
    """A call: `$F` in texts is the server's folder. `writes`: the folder is filled again between the two ways."""

    server: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    writes: bool = False
    soak: bool = False


def soak(server: str, tool: str, writes: bool = False, **arguments: Any) -> Asked:
    return Asked(server, tool, arguments, writes, True)


E, F, M = "everything", "disk", "graph"
LINK = {"data": "data:text/plain,hello", "name": "hello.gz"}
CALLS = (
    Asked(E, "get-annotated-message", {"messageType": "error", "includeImage": True}),
    soak(E, "get-structured-content", location="Chicago"),
    soak(E, "get-resource-links", count=2),
    Asked(E, "get-env"),
    Asked(E, "gzip-file-as-resource", {**LINK, "outputType": "resource"}),
    soak(E, "simulate-research-query", topic="bees"),
    Asked(F, "read_media_file", {"path": "$F/dot.png"}),
    Asked(F, "read_text_file", {"path": "/etc/passwd"}),
    Asked(F, "edit_file", {"path": "$F/a.txt", "edits": [{"oldText": "one", "newText": "two"}]}, True),
    Asked(M, "create_entities", {"entities": [{"name": "b", "entityType": "bee", "observations": ["é\n"]}]}, True),
    soak(E, "echo", message='\u00e9\u4e2d "\\'),
    soak(E, "get-sum", a=0.1, b=0.2),
    soak(E, "get-tiny-image"),
    soak(E, "get-resource-reference", resourceType="Text", resourceId=1),
    soak(E, "get-resource-reference", resourceType="Blob", resourceId=2),
    soak(E, "gzip-file-as-resource", **LINK, outputType="resourceLink"),
    soak(E, "toggle-simulated-logging"),
    soak(E, "toggle-subscriber-updates"),
    soak(E, "trigger-long-running-operation", duration=1, steps=2),
    soak(F, "read_file", path="$F/a.txt", head=1),
    soak(F, "read_text_file", path="$F/a.txt", tail=1),
    soak(F, "read_multiple_files", paths=["$F/a.txt", "$F/none.txt"]),
    soak(F, "list_directory", path="$F"),
    soak(F, "list_directory_with_sizes", path="$F", sortBy="size"),
    soak(F, "directory_tree", path="$F"),
    soak(F, "search_files", path="$F", pattern="*.txt"),
    soak(F, "get_file_info", path="$F/untouched.txt"),
    soak(F, "list_allowed_directories"),
    soak(F, "write_file", True, path="$F/new.txt", content="new\n"),
    soak(F, "create_directory", True, path="$F/below/deeper"),
    soak(F, "move_file", True, source="$F/a.txt", destination="$F/b.txt"),
    soak(M, "create_relations", True, relations=[{"from": "a", "to": "a", "relationType": "knows"}]),
    soak(M, "add_observations", True, observations=[{"entityName": "a", "contents": ["buzzes"]}]),
    soak(M, "delete_observations", True, deletions=[{"entityName": "a", "observations": ["flies"]}]),
    soak(M, "delete_relations", True, relations=[{"from": "a", "to": "a", "relationType": "is"}]),
    soak(M, "delete_entities", True, entityNames=["a"]),
    soak(M, "read_graph"),
    soak(M, "search_nodes", query="a"),
    soak(M, "open_nodes", names=["a"]),
)  # fmt: skip
"""Every tool that a server lists for a client without capabilities; `test_every_tool_is_here` says so."""


def fill(folder: Path) -> None:
    """The folder as each of both ways finds it."""
    for name in ("b.txt", "new.txt", "below"):
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    (folder / "a.txt").write_text("one\nmore\n")
    (folder / "dot.png").write_bytes(PNG)
    if not (folder / "untouched.txt").exists():
        (folder / "untouched.txt").touch()
    graph = '{"type":"entity","name":"a","entityType":"bee","observations":["flies"]}\n'
    graph += '{"type":"relation","from":"a","to":"a","relationType":"is"}'
    (folder / "memory.jsonl").write_text(graph)
    for path in folder.iterdir():
        path.chmod(0o666)


def filled(value: Any, folder: Path) -> Any:
    """The arguments with the folder's name in them."""
    if isinstance(value, str):
        return value.replace("$F", str(folder))
    if isinstance(value, dict):
        return {key: filled(item, folder) for key, item in value.items()}
    return [filled(item, folder) for item in value] if isinstance(value, list) else value


@pytest.fixture
def servers() -> Iterator[dict[str, RealServer]]:
    packages = installed("mcp-servers") / "@modelcontextprotocol"

    def program(name: str) -> str:
        return str(packages / f"server-{name}" / "dist" / "index.js")

    with shared_folder() as folder:
        made = (
            RealServer(E, (NODE, program("everything"), "stdio"), folder, {}),
            RealServer(F, (NODE, program("filesystem"), str(folder)), folder, {}),
            RealServer(M, (NODE, program("memory")), folder, {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}),
        )
        yield {server.name: server for server in made}


def direct(servers: dict[str, RealServer], calls: list[Asked]) -> list[dict[str, Any]]:
    """What the servers answer without ThreeGate, each from the same folder."""
    clients: dict[str, LineClient] = {}
    found = []
    try:
        for call in calls:
            server = servers[call.server]
            if call.writes:
                fill(server.folder)
            if call.server not in clients:
                clients[call.server] = server.direct().__enter__()
            found.append(clients[call.server].call(call.tool, filled(call.arguments, server.folder)))
    finally:
        for client in clients.values():
            client.__exit__()
    return found


def timeless(value: Any) -> Any:
    """An answer without the time of day, which the reference server writes into its resources (in base64 too)."""
    if isinstance(value, dict):
        if value.get("mimeType") == "text/plain" and "blob" in value:
            value = {**value, "blob": base64.b64decode(value["blob"]).decode()}
        return {key: timeless(item) for key, item in value.items()}
    if isinstance(value, list):
        return [timeless(item) for item in value]
    return re.sub(r"\d+:\d\d:\d\d [AP]M", "TIME", value) if isinstance(value, str) else value


def same(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    """The door's answer holds the server's, whole."""
    result = given["result"]
    status = "tool_error" if result.get("isError") else "succeeded"
    assert result["_meta"].pop("threegate/request")["status"] == status
    if not result["_meta"]:
        del result["_meta"]
    if "error" in wanted:
        assert result["structuredContent"]["error"] == wanted["error"] and result["isError"]
    else:
        assert timeless(result) == timeless({"isError": False, **wanted["result"]})


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["some", "every"])
def test_every_field_of_every_answer_is_the_servers(
    servers: dict[str, RealServer], tmp_path: Path, whole: bool
) -> None:
    calls = sorted((call for call in CALLS if whole or not call.soak), key=lambda call: call.writes)
    folder = servers[F].folder
    fill(folder)
    wanted = direct(servers, calls)
    fill(folder)
    with gate(tmp_path, list(servers.values())) as behind, behind.door() as door:
        # What only reads is asked all at once: the operator signs while others are called.
        asked = {}
        for at, call in enumerate(calls):
            if not call.writes:
                name = door_name(call.server, call.tool)
                asked[at] = door.begin_call(name, filled(call.arguments, folder))
        for at, number in asked.items():
            same(door.end(number, 300), wanted[at])
        for at, call in enumerate(calls):
            if call.writes:
                fill(folder)
                name = door_name(call.server, call.tool)
                same(door.call(name, filled(call.arguments, folder)), wanted[at])
        listed = {tool["name"]: tool for tool in door.ask("tools/list", {})["result"]["tools"]}
    for server in servers.values():
        with server.direct() as client:
            tools = client.ask("tools/list", {})["result"]["tools"]
        for tool in tools:
            offered = listed[door_name(server.name, tool["name"])]
            assert offered["inputSchema"] == tool["inputSchema"]
            assert offered.get("title") == (f"{server.name}: {tool['title']}" if "title" in tool else None)
            assert offered["description"].endswith(f" {tool['description']}")
        assert {tool["name"] for tool in tools} == {call.tool for call in CALLS if call.server == server.name}


@pytest.mark.soak
def test_a_stateful_server_goes_on_where_it_was(servers: dict[str, RealServer], tmp_path: Path) -> None:
    """The reference server switches its logging on, and off; in between it writes messages that nobody asked for."""
    with (
        gate(tmp_path, [servers[E]], "--stateful") as behind,
        behind.door() as door,
        servers[E].direct() as direct,
    ):
        for _ in range(3):
            given = door.call(door_name(E, "toggle-simulated-logging"), {})["result"]["content"]
            wanted = direct.call("toggle-simulated-logging", {})["result"]["content"]
            assert given[0]["text"].split()[0] == wanted[0]["text"].split()[0]
            time.sleep(6)
