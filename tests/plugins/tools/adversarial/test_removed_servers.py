"""A server of tools that was removed is not called, whoever brings its manifest back."""

from __future__ import annotations

from pathlib import Path

from tests.plugins.tools.tool_bench import ToolBench
from threegate.launch.approved_file import Unrunnable, read_approved
from threegate.plugins.tools.tool_servers import remove_server


def test_a_call_of_a_removed_server_is_not_made(tmp_path: Path) -> None:
    """Not even with its manifest back in tools/: the trail has removed it."""
    tools = ToolBench(tmp_path)
    path = tools.bench.approve(tools.draft()).path
    remove_server(tools.bench.context, "hub", actor="operator:alice")
    for _ in range(2):
        found = read_approved(tools.bench.context, path)
        assert isinstance(found, Unrunnable) and found.code == "tools_unknown"
        (tools.workspace.tools / "hub.json").write_bytes(tools.manifest.to_bytes())
