"""The context of launches and operators' acts: one workspace, its trail, the current policy, the contracts' sessions.

Invariant: a context is frozen, so whatever began under one policy ends under it; a new policy makes a new context
(`dataclasses.replace`), which shares everything else with the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from threegate.aana.decision_log import DecisionLog
from threegate.core.errors import DiskFull, TrailError, Unavailable, is_disk_full
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.judgement.judge import Judgement
from threegate.judgement.policy import Policy, load_policy
from threegate.launch.contract_sessions import ContractSessions
from threegate.launch.launch_problem import launch_problem
from threegate.request.model import Stage
from threegate.request.reader import read_request
from threegate.request.report import Report
from threegate.runners.backend import policy_facts
from threegate.runners.interface import Runner
from threegate.runners.machine import MACHINES, machine_of, refuse_absent
from threegate.trail.chain import segment_paths
from threegate.trail.payloads import Started
from threegate.trail.trail import Trail


@dataclass(frozen=True)
class Context:
    """Everything that a launch or an act needs besides the request. A command has no runners and sends no notices."""

    workspace: Workspace
    trail: Trail
    policy: Policy
    contracts: ContractSessions
    decisions: DecisionLog
    runners: Mapping[str, Runner] = field(default_factory=dict)
    boot_nonce: str = ""
    on_end: Callable[[str, str], None] = lambda request_id, status: None
    """Called with id and status of each request that ended."""

    @property
    def workspace_id(self) -> str:
        """The workspace's id, as the settings name it."""
        return self.policy.settings.workspace.id

    def read(self, data: bytes, name: str, stage: Stage, now: datetime | None = None) -> Report:
        """Gate 1's report on a file with this name, under the current settings; `now` (UTC) is the reference time."""
        settings = self.policy.settings.request
        return read_request(data, path=name, settings=settings, now=now or datetime.now(UTC), stage=stage)

    def decided(self, judgement: Judgement, now: datetime) -> None:
        """Store the audit-safe event of a judgement. Raises Unavailable: nothing runs on an unrecorded decision."""
        assessment = judgement.assessment
        if assessment is None:
            return
        try:
            self.decisions.record(assessment.event, dict(assessment.result), surface="daemon", now=now)
        except OSError as error:
            raise (DiskFull if is_disk_full(error) else Unavailable)(
                f"{self.decisions.path}: cannot be written ({error.strerror or error}); nothing is started until it can"
            ) from error

    def begin(self) -> tuple[str, str] | None:
        """Check at the start: the trail must verify; code and line if launches must stop. Raises TrailError."""
        with self.trail.locked() as held:
            return launch_problem(self.workspace, self.workspace_id, held)

    def close(self) -> None:
        """Release what the runners started ahead."""
        for runner in self.runners.values():
            runner.close()


def open_context(
    workspace: Workspace, contracts: ContractSessions | None = None, trail: Trail | None = None
) -> Context:
    """The context of a command: settings, contracts and trail are read now. Raises InvalidInput, TrailError.

    A server passes its own trail and sessions, so that they are not read from the start again.
    """
    return Context(
        workspace,
        trail or Trail(workspace),
        load_policy(workspace, facts=policy_facts()),
        contracts or ContractSessions(workspace),
        DecisionLog(workspace.decisions_file),
    )


def daemon_context(
    workspace: Workspace,
    trail: Trail,
    policy: Policy,
    *,
    boot_nonce: str,
    say: Callable[[str], None] = lambda line: None,
) -> Context:
    """The context of a daemon. Runners start nothing until they are called. Raises TrailError, Unavailable."""
    settings = policy.settings
    if not settings.workspace.id:
        raise Unavailable(f"{workspace.settings_file}: workspace.id is missing; restore it from the trail's first line")
    if not workspace.trail_file.exists() and not segment_paths(workspace.audit):
        raise TrailError(f"{workspace.trail_file}: the trail is missing; nothing is started until it is restored")
    refuse_absent(settings)
    _refuse_elsewhere(trail, settings)
    return Context(
        workspace,
        trail,
        policy,
        ContractSessions(workspace),
        DecisionLog(workspace.decisions_file),
        machine_of(settings).runners(workspace, settings, boot_nonce, say),
        boot_nonce,
    )


def _refuse_elsewhere(trail: Trail, settings: Settings) -> None:
    """Raises Unavailable while a request is on another machine, and the plugin that sent it there is off or absent."""
    if (why := MACHINES.why_unused(settings.plugins.off)) is None:
        return
    with trail.locked() as held:
        for history in held.index.open_histories():
            started = Started.of(history.started)
            if started is not None and started.worker is not None and history.end is None:
                raise Unavailable(
                    f"{history.request_id} runs on worker {started.worker}, and {why}; "
                    "start the daemon with the plugin once, which settles it"
                )
