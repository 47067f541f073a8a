"""The backend mcp: one tool of a server that the operator added is called."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from threegate.core import limits
from threegate.plugins.tools.call_section import check_call, read_call
from threegate.request.backend import Binding, Bound, Reading
from threegate.runners.backend import DoctorLine, RunningBackend

if TYPE_CHECKING:
    from pathlib import Path

    from threegate.core.settings import RunnersSettings, SecretReference, Settings
    from threegate.core.workspace import Workspace
    from threegate.plugins.tools.action import ToolCall
    from threegate.request.action import Action
    from threegate.request.model import Request
    from threegate.runners.interface import Runner
    from threegate.trail.index import TrailIndex
    from threegate.trail.payloads.payload import Owner


class Mcp(RunningBackend):
    """What each member is for is said where it is defined."""

    name = "mcp"
    sections = ("Arguments (JSON)", "Output Expectations", "Risk Assessment")
    closely = ("Arguments (JSON)",)
    version = "2"
    keys = ("server", "tool", "manifest_sha256")
    lists: ClassVar[Mapping[str, Any]] = {"inputs": {"maxItems": 0}, "outputs_expected": {"maxItems": 0}}
    no_outputs = "TG244", "the answer of a call is the only output; write none"
    overhead_mb = 256
    at_once = limits.CALLS_AT_ONCE
    most_cpus = Decimal(1)

    def check(self, values: Mapping[str, Any], written: Container[str], wrong: Callable[[str, str, str], None]) -> None:
        check_call(values, wrong)

    def read(self, reading: Reading) -> ToolCall | None:
        return read_call(reading, self.keys)

    def bind(self, binding: Binding) -> Bound:
        from threegate.plugins.tools.requested_call import requested_call

        with binding.trail.locked() as held:
            return requested_call(binding.workspace, held.index, binding.request.action, binding.owner)

    def problem(
        self, workspace: Workspace, index: TrailIndex, request: Request, owner: Owner | None
    ) -> tuple[str, str] | None:
        """What is pinned is another server or tool, or takes other arguments, or its requester may not call it."""
        from threegate.plugins.tools.requested_call import call_problem

        return call_problem(workspace, index, request.action, owner)

    def lacks(self, workspace: Workspace, settings: Settings, action: Action) -> DoctorLine | None:
        from threegate.plugins.tools.requested_call import call_lacks

        return call_lacks(workspace, settings, action)

    def caller_asks(
        self, workspace: Workspace, owner: Owner | None, request_id: str, action: Action
    ) -> Callable[[], bool] | None:
        from threegate.plugins.tools.mcp.by_caller import caller_asks

        return caller_asks(workspace, owner, request_id, action)

    def remove_orphans(
        self, workspace_id: str, boot_nonce: str, settings: RunnersSettings, runs_folder: Path
    ) -> list[str]:
        """What a killed daemon left for callers goes; nobody begins because of it, and nobody needs to know."""
        from threegate.core.workspace import Workspace
        from threegate.launch.caller_use import remove_left_uses

        remove_left_uses(Workspace(runs_folder.parent.parent))
        return []

    def keeps_state(self, workspace: Workspace, action: Action) -> bool:
        """Whether its server does, or is another one now."""
        from threegate.plugins.tools.requested_call import is_stateful

        return is_stateful(workspace, action)

    def refuse_other_state(self, workspace: Workspace, owner: Owner | None, action: Action) -> None:
        """The calls before it must be those on the screen."""
        from threegate.plugins.tools.process_states import refuse_other_state

        refuse_other_state(workspace, owner, action)

    def make(self, settings: Settings, *, secrets: Mapping[str, SecretReference], once: bool) -> Runner:
        from threegate.plugins.tools.mcp.runner import CallRunner

        return CallRunner(settings)


BACKEND = Mcp()
