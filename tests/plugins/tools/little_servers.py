"""Little servers of tools for the tests: honest and hostile ones, written by hand so that they can say what no SDK
would.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.tools.manifest import Manifest, Place
from threegate.plugins.tools.program_tree import program_digests
from threegate.plugins.tools.server_process import Server

PYTHON = "/usr/bin/python3"
NODE = "/usr/bin/node"
ACCOUNT = "nobody" if os.geteuid() == 0 else ""

HONEST = """
import json, os, sys

def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()

def text(value):
    return {"content": [{"type": "text", "text": value}]}

TOOLS = [{"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]
INFO = {"name": "little", "version": "1"}

def pages(cursor):
    return {"tools": TOOLS}

def call(id, name, arguments):
    say({"id": id, "result": text(json.dumps(arguments))})

def begun():
    pass

def main():
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params", {})
        if method == "initialize":
            said = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": INFO}
            say({"id": message["id"], "result": said})
        elif method == "tools/list":
            say({"id": message["id"], "result": pages(params.get("cursor"))})
        elif method == "tools/call":
            call(message["id"], params["name"], params["arguments"])
        elif method == "notifications/initialized":
            begun()
"""  # noqa: E501
"""What each of them is, but for what it says of its own; `main()` comes last."""


def write_server(folder: Path, source: str = "", name: str = "server.py") -> Path:
    """A server's file, which every account may read, in a folder of its own."""
    path = folder / "program" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{HONEST}\n{source}\nmain()\n")
    path.chmod(0o755)
    return path


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every account may enter, as pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="threegate-tools-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def described(path: Path, *, place: Place = "jail", **fields: Any) -> Manifest:
    """A manifest of a server that was not asked yet."""
    argv = (PYTHON, str(path))
    manifest = Manifest(
        server="little", argv=argv, place=place, account=ACCOUNT, allow=(), binds=(), env={}, secrets=(),
        initialize={}, tools=(), program={},
    )  # fmt: skip
    manifest = replace(manifest, **fields)
    return replace(manifest, program=program_digests(manifest))


def pinned_server(path: Path, *, place: Place = "jail", **fields: Any) -> Manifest:
    """The same, with what the server says of itself."""
    manifest = described(path, place=place, **fields)
    with Server(nowhere(path), Settings(), manifest) as server:
        initialize = server.initialize()
        tools = server.list_tools()
    return replace(manifest, initialize=initialize, tools=tools)


def nowhere(path: Path) -> Workspace:
    """A workspace with no more than the folder that a server on the host must not see."""
    workspace = Workspace(path.parent.parent / "workspace")
    workspace.tool_exec.mkdir(parents=True, exist_ok=True)
    return workspace


def text_of(content: Any) -> Any:
    """The JSON value in the text of the one block."""
    (block,) = content
    return json.loads(block["text"])
