"""The backend reach: one host is opened for the run of an agent that asks, and for nobody else."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from threegate.core import limits
from threegate.request.backend import Binding, Bound, Reading
from threegate.runners.backend import RunningBackend

if TYPE_CHECKING:
    from threegate.core.settings import SecretReference, Settings
    from threegate.core.workspace import Workspace
    from threegate.plugins.agents.reach.host_action import HostAccess
    from threegate.request.model import Request
    from threegate.runners.interface import Runner
    from threegate.trail.index import TrailIndex
    from threegate.trail.payloads.payload import Owner


class Reach(RunningBackend):
    """What each member is for is said where it is defined."""

    name = "reach"
    sections = ("Arguments (JSON)", "Output Expectations", "Risk Assessment")
    closely = ("Arguments (JSON)",)
    version = "2"
    keys = ("host",)
    lists: ClassVar[Mapping[str, Any]] = {"inputs": {"maxItems": 0}, "outputs_expected": {"maxItems": 0}}
    no_outputs = "TG245", "a host that is opened leaves no files in /out; write none"
    overhead_mb = 16
    at_once = limits.AGENT_HOST_ASKS
    most_cpus = Decimal(1)

    def check(self, values: Mapping[str, Any], written: Container[str], wrong: Callable[[str, str, str], None]) -> None:
        for key in ("inputs", "outputs_expected"):
            if values.get(key):
                wrong("TG180", key, f"{key} must be left out of a request for a host")

    def read(self, reading: Reading) -> HostAccess | None:
        from threegate.plugins.agents.reach.host_action import HostAccess, check_why, why_of

        # The agent's words may mention anything: what it would install, or a path.
        words = reading.block("Arguments (JSON)", "TG224", "json", check_why, mentions_all=True)
        why = None if words is None else why_of(words)
        return None if why is None or "host" not in reading.values else HostAccess(reading.values["host"], why)

    def bind(self, binding: Binding) -> Bound:
        """The run that asks, and what it has read."""
        from threegate.plugins.agents.reach.asked_hosts import requested_host

        return requested_host(binding)

    def problem(
        self, workspace: Workspace, index: TrailIndex, request: Request, owner: Owner | None
    ) -> tuple[str, str] | None:
        """It is not what the door asked for, or a person said no in this run."""
        from threegate.plugins.agents.reach.asked_hosts import host_problem

        return host_problem(workspace, index, request, owner)

    def make(self, settings: Settings, *, secrets: Mapping[str, SecretReference], once: bool) -> Runner:
        from threegate.plugins.agents.reach.runner import ReachRunner

        return ReachRunner()


BACKEND = Reach()
