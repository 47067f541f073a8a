"""The sandbox for commands: each Job names whether a container engine or bubblewrap runs it (`Job.runtime`).

Nothing of the engine's client library is loaded for a run in bubblewrap, which needs no extra.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from threegate.core.extras import missing_extra
from threegate.core.settings import EraSettings, SecretReference
from threegate.judgement.judge import Clearance
from threegate.request.job import BUBBLEWRAP, Job
from threegate.runners.interface import Control, Outcome, nothing_ran

if TYPE_CHECKING:
    from threegate.runners.era.engine_runner import EngineRunner
    from threegate.runners.era.jailed_run import BubblewrapRunner


class EraRunner:
    """Runs ERA jobs according to `settings` (``[runners.era]``).

    `egress_network` is the engine's network for the proxies.
    """

    starts_late = False

    def __init__(
        self,
        settings: EraSettings,
        *,
        egress_network: str = "bridge",
        secret_references: Mapping[str, SecretReference] | None = None,
    ) -> None:
        self._settings = settings
        self._egress_network = egress_network
        self._secrets = secret_references or {}

    @cached_property
    def _engine(self) -> EngineRunner | _NoLibrary:
        if (problem := missing_extra("ERA", "era")) is not None:
            return _NoLibrary(problem)
        from threegate.runners.era.engine_runner import EngineRunner

        return EngineRunner(self._settings, egress_network=self._egress_network, secret_references=self._secrets)

    @cached_property
    def _bubblewrap(self) -> BubblewrapRunner:
        from threegate.runners.era.jailed_run import BubblewrapRunner

        return BubblewrapRunner(self._settings, secret_references=self._secrets)

    def available(self, job: Job | None = None) -> str | None:
        """None if a run (of this job) can start now, else one line about what is missing.

        Without a job: None if any way that the settings allow can be had; else what they lack.
        """
        if job is not None:
            return self._way(job).available(job)
        if self._settings.runtime not in ("auto", BUBBLEWRAP):
            return self._engine.available()
        without = self._bubblewrap.available()
        # Last: the engine's client library is loaded for it.
        if without is None or self._settings.runtime == BUBBLEWRAP or not self._settings.image:
            return without
        missing = self._engine.available()
        return None if missing is None else f"{missing}; nor can bubblewrap run it: {without}"

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        """Run the command once; see Runner.run. Never raises because of the command."""
        return self._way(job).run(clearance, job, control)

    def prove(self, control: Control, *, network: bool = False) -> Outcome:
        """Run the probe of `era_probe`, which is ours and fixed, instead of a request: it measures the restrictions.

        In a container, unless the settings name bubblewrap.
        """
        way = self._bubblewrap if self._settings.runtime == BUBBLEWRAP else self._engine
        return way.prove(control, network=network)

    def close(self) -> None:
        """Nothing is started ahead."""

    def _way(self, job: Job) -> EngineRunner | _NoLibrary | BubblewrapRunner:
        return self._bubblewrap if job.runtime == BUBBLEWRAP else self._engine


class _NoLibrary:
    """The engine's runner of a machine without the extra: nothing can run, and it says so."""

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def available(self, job: Job | None = None) -> str | None:
        """The line about the missing extra; one that is installed later is used after the daemon restarts."""
        return self._problem

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        clearance.must_cover(job)
        return nothing_ran(self._problem)

    def prove(self, control: Control, *, network: bool = False) -> Outcome:
        return nothing_ran(self._problem)
