"""The daemon's objects for one set of settings: runners and queue.

Invariant: a running request is finished by the runner set that started it; the next set takes over only when
nothing runs, so no request is judged by one policy and run by another's runners.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from threegate.core.plugins import Plugin
from threegate.core.settings import SECTIONS, Settings
from threegate.core.workspace import Workspace
from threegate.daemon.dispatcher import Dispatcher
from threegate.daemon.log import Log
from threegate.judgement.policy import Policy
from threegate.launch.context import Context, daemon_context
from threegate.runners.machine import MACHINES, machine_of
from threegate.trail.trail import Trail


@dataclass
class RunnerSet:
    """Created once, until the settings it depends on change."""

    dispatcher: Dispatcher
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
        on_end: Callable[[str, str], None],
    ) -> RunnerSet:
        """Runners start nothing until they are called. Raises TrailError, Unavailable."""
        made = daemon_context(
            workspace,
            trail,
            policy,
            boot_nonce=boot_nonce,
            say=lambda line: log.say("cluster", what=line),
        )
        context = replace(made, on_end=on_end)
        machine = machine_of(policy.settings)
        dispatcher = Dispatcher(
            context,
            machine.budget(policy.settings, made.runners),
            log,
            wake,
            machine.threads(policy.settings),
            beat=beat,
        )
        return cls(dispatcher, _parts(policy.settings))

    @property
    def context(self) -> Context:
        """The context for the next request."""
        return self.dispatcher.context

    def take_up(self, policy: Policy) -> None:
        """Start the next requests under this policy; running ones finish under the policy they were claimed
        with.
        """
        self.dispatcher.context = replace(self.context, policy=policy)

    def fits(self, policy: Policy) -> bool:
        """Whether this runner set matches the policy's settings."""
        return self._made_of == _parts(policy.settings)

    def close(self) -> None:
        """Release what the runners started ahead."""
        self.context.close()


def _parts(settings: Settings) -> tuple[Any, ...]:
    return (
        settings.workspace,
        settings.runners,
        settings.secrets,
        settings.plugins,
        {name: table for name, table in settings.sections.items() if _makes_runners(SECTIONS.listed()[name])},
    )


def _makes_runners(plugin: Plugin) -> bool:
    return plugin in MACHINES.plugins() or bool(plugin.named("backend"))
