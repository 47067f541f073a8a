"""A project has modules that are named like ours, or like those of Python: no process of ours loads them.

`threegate agent run` is started in the project, and an agent changes the project. What runs beside the jail must not
come from there.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from tests.plugins.agents.agent_runs import make_run
from tests.support import Place, make_place
from threegate.core.workspace import Workspace
from threegate.plugins.agents.model_counts import RelaySettings
from threegate.plugins.agents.side_processes import start_door, start_model_relay
from threegate.runners.jail.jail import Account
from threegate.runners.jail.side_process import listen, start_host_proxy

ROOT = Path(__file__).parents[4]
NAMES = (
    "json",
    "asyncio",
    "socket",
    "threegate",
    "typing",
    "argparse",
    "pathlib",
    "signal",
    "typer",
    "yaml",
    "sitecustomize",
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = make_place(tmp_path)
    made.run("status", expect=0)  # what the tests themselves preload comes from elsewhere
    return made


@pytest.fixture
def mark(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that a module of the project makes when it is loaded; the working folder is the project."""
    project, found = tmp_path / "project", tmp_path / "loaded"
    project.mkdir()
    for name in NAMES:
        (project / f"{name}.py").write_text(f"open({str(found)!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(project)
    return found


def answered(path: Path, asked: bytes) -> bytes:
    """The first bytes that a process answers on its socket; nothing if it has ended."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(str(path))
        try:
            client.sendall(asked)
            return client.recv(4096)
        except (ConnectionError, BrokenPipeError):
            return b""


INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    b'"clientInfo":{"name":"x","version":"1"}}}\n'
)


def test_the_processes_beside_a_jail_load_nothing_from_the_project(place: Place, tmp_path: Path, mark: Path) -> None:
    relay = RelaySettings("openai-chat", "http://127.0.0.1:9/v1", ("m",), "", 9, 9, 9)
    seen = {}
    for name, asked in (
        ("proxy", b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("relay", b"GET / HTTP/1.1\r\n\r\n"),
        ("door", INITIALIZE),
    ):  # noqa: E501
        path = tmp_path / name
        with listen(path, Account.own()) as listener:
            if name == "door":
                process, held = start_door(Workspace(place.root), make_run(place), listener, 1), -1
            else:
                process, held = (
                    start_host_proxy(listener, ()) if name == "proxy" else start_model_relay(listener, relay)
                )
        try:
            seen[name] = answered(path, asked)
        finally:
            process.end()
            if held >= 0:
                os.close(held)
    assert not mark.exists(), f"loaded from the project: {mark.read_text()}"
    assert all(seen.values()), seen


def test_the_entry_for_an_agent_without_a_jail_loads_nothing_from_the_project(place: Place, mark: Path) -> None:
    """Its client starts the door in the project."""
    entry = json.loads(place.run("agent", "connect", "claude", expect=0).out)
    server = entry["mcpServers"]["threegate"]
    done = subprocess.run([server["command"], *server["args"]], input=INITIALIZE, capture_output=True, timeout=60)
    assert b'"serverInfo"' in done.stdout and not mark.exists(), done.stderr


def test_no_process_of_ours_searches_its_working_folder() -> None:
    """`python -m` searches it first, unless it is told not to: one function makes these command lines."""
    started = re.compile(r"sys\.executable,\s")
    found = [path.name for path in (ROOT / "threegate").rglob("*.py") if started.search(path.read_text())]
    assert found == ["own_process.py"]
