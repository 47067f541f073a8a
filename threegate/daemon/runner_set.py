"""What the daemon works with under one set of settings: runners, queue and notices.

Invariant: what runs is finished by the runner set that started it; the next one takes over only when nothing runs, so no
request is judged by one policy and run by another's runners.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.daemon.dispatcher import Dispatcher
from threegate.daemon.log import Log
from threegate.daemon.notices import Notices
from threegate.judgement.policy import Policy
from threegate.launch.context import Context, daemon_context
from threegate.runners.budget import Budget
from threegate.runners.registry import backends
from threegate.trail import Trail


@dataclass
class RunnerSet:
    """Made once for as long as the settings that it is made of stay."""

    dispatcher: Dispatcher
    notices: Notices
    _made_of: tuple[Any, ...]

    @classmethod
    def make(
        cls,
        workspace: Workspace,
        trail: Trail,
        policy: Policy,
        log: Log,
        *,
        boot_nonce: str,
        wake: threading.Event,
        beat: Callable[[], None],
    ) -> RunnerSet:
        """Runners start nothing before they are asked. Raises TrailError, Unavailable."""
        made = daemon_context(
            workspace,
            trail,
            policy,
            boot_nonce=boot_nonce,
            say=lambda line: log.say("cluster", what=line),
        )
        notices = Notices(policy.settings, log)
        context = replace(made, on_end=notices.ended)
        runners = policy.settings.runners
        cluster = made.cluster
        dispatcher = Dispatcher(
            context,
            Budget.of(runners) if cluster is None else cluster.budget,
            log,
            wake,
            sum(backend.rows(runners) for backend in backends()) if cluster is None else cluster.threads,
            beat=beat,
        )
        return cls(dispatcher, notices, _parts(policy.settings))

    @property
    def context(self) -> Context:
        """What the next request starts with."""
        return self.dispatcher.context

    def take_up(self, policy: Policy) -> None:
        """Start what comes next under this policy; what runs ends under the one that it was claimed with."""
        self.dispatcher.context = replace(self.context, policy=policy)

    def fits(self, policy: Policy) -> bool:
        """Whether this runner set is the one that the policy's settings ask for."""
        return self._made_of == _parts(policy.settings)

    def close(self) -> None:
        """Give back what the runners started ahead, and send the notices that wait."""
        self.context.close()
        self.notices.close()


def _parts(settings: Settings) -> tuple[Any, ...]:
    return (settings.workspace, settings.runners, settings.secrets, settings.notify, settings.requesters)
