"""How agents are installed: exact versions with digests, once, with patience, and whole or not at all."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.plugins.agents import npm_agents
from tests.plugins.agents.npm_agents import LOCKS, Unavailable, install
from tests.plugins.agents.real_agents import AGENTS

MCP = {"mcp-clients", "mcp-servers"}
"""Not agents: what tests/plugins/tools/ asks, and asks with."""


@pytest.mark.parametrize("folder", sorted(LOCKS.iterdir()), ids=lambda folder: folder.name)
def test_every_package_has_an_exact_version_and_a_digest(folder: Path) -> None:
    wanted = json.loads((folder / "package.json").read_text())["dependencies"]
    lock = json.loads((folder / "package-lock.json").read_text())["packages"]
    assert lock.pop("")["dependencies"] == wanted
    for package, version in wanted.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert lock[f"node_modules/{package}"]["version"] == version
    assert all(part["integrity"].startswith("sha512-") for part in lock.values())


def test_every_agent_has_its_lock_file() -> None:
    assert {folder.name for folder in LOCKS.iterdir()} == {agent.name for agent in AGENTS} | MCP
    for agent in AGENTS:
        wanted = json.loads((LOCKS / agent.name / "package.json").read_text())["dependencies"]
        assert wanted[agent.package] == agent.version


NPM = """#!/bin/sh
echo "$*" >>"$FAKE/calls"
mkdir -p node_modules npm-cache
[ "$(wc -l <"$FAKE/calls")" -ge "$GOOD" ] && exit 0
echo 'npm error code E503' >&2
exit 1
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An npm of a registry with hiccups: a real one cannot be asked to have them."""
    for name, text in (("npm", NPM), ("node", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setenv("THREEGATE_AGENTS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(npm_agents, "PAUSES", (0, 0, 0))
    return tmp_path


def test_a_hiccup_is_waited_out_and_the_second_use_asks_nobody(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOD", "3")
    folder = install("codex")
    assert install("codex") == folder and folder.parent == fake / "cache"
    calls = (fake / "calls").read_text().splitlines()
    assert len(calls) == 3 and all("ci --ignore-scripts" in call for call in calls)
    assert {path.name for path in folder.iterdir()} == {"node_modules", "package.json", "package-lock.json"}


def test_what_cannot_be_had_says_why_and_leaves_nothing_half(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOD", "99")
    with pytest.raises(Unavailable, match="npm ci of codex: npm error code E503"):
        install("codex")
    assert len((fake / "calls").read_text().splitlines()) == 4
    assert not [path for path in (fake / "cache").iterdir() if path.is_dir()]
    monkeypatch.setenv("PATH", str(fake / "nothing"))
    with pytest.raises(Unavailable, match="no node .apt-get install nodejs npm."):
        install("opencode")
