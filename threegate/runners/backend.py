"""What the rest of ThreeGate knows about how a backend runs, and what all of them say together.

Invariant: no other code branches on which backend it is. Loading one loads no engine and no interpreter.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, cast

from threegate.core.errors import ThreeGateError
from threegate.core.plugins import OFF, PLUGINS
from threegate.request.backend import BACKENDS, Backend
from threegate.request.job import Job, Platform, Platforms

if TYPE_CHECKING:
    from threegate.core.settings import RunnersSettings, SecretReference, Settings
    from threegate.core.workspace import Workspace
    from threegate.request.action import Action
    from threegate.request.model import Request
    from threegate.request.sandbox_contents import Contents
    from threegate.runners.interface import Runner
    from threegate.trail.payloads.payload import Owner

LineState = Literal["ok", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class DoctorLine:
    """One finding of `threegate doctor`: what was checked, its state, what was found, and how to fix it."""

    name: str
    state: LineState
    seen: str
    fix: str = ""


class RunNeed(NamedTuple):
    """What decides, besides the machine, whether a run could start now."""

    backend: str
    network: bool
    cpus: Decimal
    memory_mb: int

    @classmethod
    def of(cls, request: Request) -> RunNeed:
        """What a request needs."""
        return cls(request.backend, request.network != "none", request.cpu_limit, request.memory_limit_mb)


def guarded(name: str, check: Callable[[], Iterable[DoctorLine]], failure: LineState = "failure") -> list[DoctorLine]:
    """A check's lines; a check that fails to run yields a line with state `failure`."""
    from subprocess import SubprocessError

    lines: list[DoctorLine] = []
    try:
        lines.extend(check())
    except (ThreeGateError, OSError, ValueError, SubprocessError) as error:
        lines.append(DoctorLine(name, failure, str(error) or type(error).__name__))
    return lines


def plugin_lines(settings: Settings) -> Iterator[DoctorLine]:
    """Which plugins are on, off or absent. A section that is not read because its plugin is absent is a warning."""
    on, unread = [], settings.unread()
    for plugin in PLUGINS:
        absent = plugin.why_absent()
        if plugin.name in settings.plugins.off:
            yield DoctorLine("plugins", "ok", f"{plugin.name} {OFF}")
        elif plugin in unread.values():
            fix = f'install it, remove the section, or set plugins.off = ["{plugin.name}"]'
            for name in (name for name, gone in unread.items() if gone == plugin):
                yield DoctorLine("plugins", "warning", f"{absent}; [{name}] in threegate.toml is not read", fix)
        elif absent is not None:
            yield DoctorLine("plugins", "ok", f"{plugin.name} is absent: {absent}")
        else:
            on.append(plugin.name)
    if on:
        yield DoctorLine("plugins", "ok", f"on: {', '.join(on)}")


class RunningBackend(Backend):
    """A backend with how it runs: how its runner is made, what a run needs, and what the machine reports about it.

    What a method needs of an engine or interpreter it imports when it is called.
    """

    overhead_mb: ClassVar[int]
    """MiB that a run needs in addition to its job's memory limit."""
    most_cpus: ClassVar[Decimal | None] = None
    """The most cores that a run can use, whatever its limit is; None: as many as the limit says."""
    waits_for: ClassVar[str] = "no_backend"
    """The code of a waiting request while none of its runs can start."""
    at_once: ClassVar[int] = 1
    """How many of its runs may run at once, if no setting says it (`rows`)."""
    on_workers: ClassVar[bool] = False
    """Whether the workers of a cluster run it; with a cluster, a request for any other backend waits."""
    sweeps_for_others: ClassVar[bool] = False
    """Whether `remove_orphans` finds what was not left by a run of this backend, too: it is called at every start."""

    @abstractmethod
    def make(self, settings: Settings, *, secrets: Mapping[str, SecretReference], once: bool) -> Runner:
        """Its runner, which starts nothing until it is used. `secrets`: those that runs may get, by name. `once`: for
        a single run, so nothing is kept ready.
        """

    def rows(self, settings: RunnersSettings) -> int:
        """How many of its runs may run at once."""
        return self.at_once

    def doctor(self, settings: Settings, probes: bool) -> list[DoctorLine]:
        """Its lines of `threegate doctor`; with `probes`, also those of short runs that test each restriction."""
        return []

    def answers(self, settings: Settings) -> DoctorLine | None:
        """Whether the service that its runs depend on answers now, within seconds; None: they depend on none."""
        return None

    def remove_orphans(
        self, workspace_id: str, boot_nonce: str, settings: RunnersSettings, runs_folder: Path
    ) -> list[str]:
        """Remove what the runs of a killed process left behind: one line for each thing. Raises Unavailable for a
        leftover that cannot be removed.
        """
        return []

    def policy_facts(self) -> dict[str, str]:
        """The facts of the backend's own version that decide what a run may do. They are part of the policy
        digest: an approval given under other facts is no longer valid. Names are the backend's own.
        """
        return {}

    def platforms(self, settings: Settings, *, here: bool) -> Platforms:
        """On which platforms its runs are possible, the preferred first; `here`: on this machine, not on workers."""
        return Platforms((Platform(),))

    def place(self, settings: Settings, job: Job) -> str:
        """Where this job would run, in words for the card; empty: there is nothing to say of it."""
        return ""

    def contents(self, settings: RunnersSettings, platform: Platform) -> Contents | None:
        """What a run on a platform finds of programs and modules, as far as that is known; None: it starts none."""
        return None

    def blocked(self, settings: Settings, need: RunNeed, platform: Platform) -> DoctorLine | None:
        """What a run on a platform could not start without now, with what to type; None, or a line that is ok: nothing.
        Answers within seconds.
        """
        return self.answers(settings)

    def caller_asks(
        self, workspace: Workspace, owner: Owner | None, request_id: str, action: Action
    ) -> Callable[[], bool] | None:
        """For an action that a process outside makes: whether it asks for it now, so that it can be claimed; answers at
        once. None: the runner makes it.
        """
        return None

    def lacks(self, workspace: Workspace, settings: Settings, action: Action) -> DoctorLine | None:
        """What this very action could not start without now, with what to type; None: nothing, or it is not known."""
        return None


def running(name: str) -> RunningBackend:
    """One backend, with how it runs."""
    return cast("RunningBackend", BACKENDS[name])


def backends() -> tuple[RunningBackend, ...]:
    """All of them."""
    return tuple(running(name) for name in BACKENDS)


def make_runner(
    name: str, settings: Settings, *, secrets: Mapping[str, SecretReference] | None = None, once: bool = False
) -> Runner:
    """The runner of one backend; see `RunningBackend.make`. Without `secrets`, runs get none."""
    return running(name).make(settings, secrets=secrets or {}, once=once)


def policy_facts() -> dict[str, str]:
    """The facts of all backends for the policy digest. Two with the same name are a programming error (TypeError)."""
    facts: dict[str, str] = {}
    for backend in backends():
        facts = dict(**facts, **backend.policy_facts())
    return facts
