"""The workspace with a server of tools, in which grants for its calls may be given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.plugins.tools.tool_bench import WHERE, ToolBench
from threegate.plugins.grants.grant import Grant
from threegate.plugins.grants.tool_grants import grant_calls, look_at_calls


class GrantingBench(ToolBench):
    """`ToolBench` with grants allowed."""

    def __init__(self, folder: Path, **more: Any) -> None:
        super().__init__(folder, **more)
        self.bench.settings(grants__allow=True)

    def give(
        self,
        tool: str = "issue",
        where: Sequence[str] = WHERE,
        any_of: Sequence[str] = ("body",),
        absent: Sequence[str] = ("token",),
        *,
        by: str = "root",
        uses: int = 2,
        seconds: int = 3600,
    ) -> Grant:
        context = self.bench.context
        calls = look_at_calls(context, "hub", tool, where=where, any_of=any_of, absent=absent, by=by)
        return grant_calls(context, calls, max_uses=uses, seconds=seconds, name="alice", key=self.bench.keys["alice"])
