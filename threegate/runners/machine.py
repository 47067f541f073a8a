"""Where a daemon's jobs run: on this machine, or where a plugin takes them.

Invariant: one machine is in use; a plugin's is, once its section in threegate.toml says so, and then nothing runs here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from threegate.core.errors import ThreeGateError, Unavailable
from threegate.core.plugins import Place
from threegate.core.settings import SECTIONS, Settings
from threegate.core.workspace import Workspace
from threegate.request.backend import BACKENDS
from threegate.request.model import Request
from threegate.runners.backend import backends, make_runner
from threegate.runners.budget import Budget, Need
from threegate.runners.interface import Runner

NEVER: Final = "it could never run here: it"
"""How a line begins that says why a request can never run."""


class MakeRunners(Protocol):
    """Makes the runners of all backends. They start nothing until they are used."""

    def __call__(
        self, workspace: Workspace, settings: Settings, boot: str, say: Callable[[str], None]
    ) -> Mapping[str, Runner]:
        """`boot`: what this run of the daemon is called; `say` takes lines for its log. Raises InvalidInput,
        Unavailable.
        """


@dataclass(frozen=True, slots=True)
class Machine:
    """Where jobs run, and what is known of it."""

    is_used: Callable[[Settings], bool]
    """Whether the settings say that jobs run there."""
    runners: MakeRunners
    budget: Callable[[Settings, Mapping[str, Runner]], Budget]
    """From what the dispatcher takes leases, for these runners."""
    threads: Callable[[Settings], int]
    """How many requests may be under way at once."""
    never_fits: Callable[[Workspace, Settings, Request], str | None]
    """One line that says why this request could never run, or None: also if that is not known."""
    workers: Callable[[Workspace], list[dict[str, Any]] | None] = lambda workspace: None
    """The lines of `threegate status` about other machines, as the running daemon last saw them; None without any."""


MACHINES: Final = Place[Machine]("machine")


def machine_of(settings: Settings) -> Machine:
    """The machine in use. Nothing is imported of a plugin whose section is not in the file."""
    if any(name in settings.sections for plugin in MACHINES.plugins() for name in plugin.named(SECTIONS.name)):
        for machine in MACHINES.given(settings.plugins.off).values():
            if machine.is_used(settings):
                return machine
    return THIS_MACHINE


def refuse_absent(settings: Settings) -> None:
    """Raises Unavailable if the settings have the section of an absent plugin that takes jobs elsewhere: what it would
    have taken there is not run here instead, unless an operator has turned the plugin off.
    """
    for name, plugin in settings.unread().items():
        if plugin in MACHINES.plugins():
            raise Unavailable(
                f"{plugin.why_absent()}; [{name}] in threegate.toml is for it: to run everything here, "
                f'set plugins.off = ["{plugin.name}"]'
            )


def never_fits(workspace: Workspace, settings: Settings, request: Request) -> str | None:
    """One line that says why this request could never run, or None."""
    return machine_of(settings).never_fits(workspace, settings, request)


def worker_lines(workspace: Workspace) -> list[dict[str, Any]] | None:
    """The machine's lines of `threegate status`; None if jobs run here, or if the settings are invalid."""
    try:
        settings = workspace.load_settings()
    except ThreeGateError:
        return None
    return machine_of(settings).workers(workspace)


def _runners(workspace: Workspace, settings: Settings, boot: str, say: Callable[[str], None]) -> Mapping[str, Runner]:
    return {name: make_runner(name, settings, secrets=settings.secrets) for name in BACKENDS}


def _never_here(workspace: Workspace, settings: Settings, request: Request) -> str | None:
    need = Need.of(request.backend, request.cpu_limit, request.memory_limit_mb)
    too_large = Budget.of(settings.runners).too_large(need)
    return too_large and f"{NEVER} {too_large}"


THIS_MACHINE: Final = Machine(
    is_used=lambda settings: True,
    runners=_runners,
    budget=lambda settings, runners: Budget.of(settings.runners),
    threads=lambda settings: sum(backend.rows(settings.runners) for backend in backends()),
    never_fits=_never_here,
)
