"""ERA with a container engine: runs a request's argv in its own hardened container.

Invariant: one container serves one request and is created for it; the container, its volume and its folder are removed
whatever happens, by any user with access to the engine; every wait for the engine is bounded.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from threegate.core.errors import Unavailable
from threegate.core.removal import remove_folder
from threegate.core.settings import EraSettings, SecretReference
from threegate.judgement.judge import Clearance
from threegate.request.job import Job
from threegate.runners.egress.proxy_chain import EgressChain
from threegate.runners.egress.secret_header import secret_for
from threegate.runners.era import container_engine
from threegate.runners.era.container_run import EraRun
from threegate.runners.era.era_probe import era_probe_job
from threegate.runners.interface import Control, Outcome, nothing_ran
from threegate.runners.staging import StagingError, stage_inputs

LOOK_SECONDS = 2.0


class EngineRunner:
    """Runs ERA jobs of an engine's platform according to `settings` (``[runners.era]``).

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
        self._secrets = secret_references or {}
        self._url = container_engine.engine_url(settings.engine)
        self._egress_network = egress_network
        self._looked: tuple[float, str | None] = (0.0, None)

    def available(self, job: Job | None = None) -> str | None:
        """None if a run can start now, else one line (``no container engine…``, ``no image…``).

        With a job, also what only that job needs. The engine's answer is cached for LOOK_SECONDS.
        """
        moment, missing = self._looked
        if time.monotonic() - moment >= LOOK_SECONDS or moment == 0.0:
            missing = self._missing(self._settings.image, "image")
            self._looked = (time.monotonic(), missing)
        if missing is None and job is not None and job.network:
            missing = self._missing(job.egress_image, "egress_image")
        return missing

    def _missing(self, image: str, name: str) -> str | None:
        try:
            with container_engine.client(self._url) as api:
                if not image:
                    raise Unavailable(f"no image: runners.era.{name} is not set; build it: threegate settings images")
                container_engine.check_image(api, image)
                container_engine.check_runtime(api, self._settings.oci_runtime)
        except Unavailable as error:
            return str(error)
        return None

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        """Run the command once; see Runner.run. Never raises because of the command."""
        clearance.must_cover(job)
        return self._contained(clearance.request_id, job, control)

    def prove(self, control: Control, *, network: bool = False) -> Outcome:
        """Run the probe of `era_probe`, which is ours and fixed, instead of a request: it measures the restrictions."""
        return self._contained("threegate-probe", era_probe_job(self._settings, network=network), control)

    def _contained(self, request_id: str, job: Job, control: Control) -> Outcome:
        work = control.run_folder / "work"
        work.mkdir(mode=0o700)
        try:
            return self._run(request_id, job, control, work)
        except (StagingError, Unavailable) as error:
            return nothing_ran(str(error))
        finally:
            remove_folder(work)

    def close(self) -> None:
        """Nothing is started ahead."""

    def _run(self, request_id: str, job: Job, control: Control, work: Path) -> Outcome:
        if not job.action.words or "=" in job.action.program:  # env(1) would take it for a variable
            raise Unavailable("the job has no command that a container can run")
        with ExitStack() as stack:
            api = stack.enter_context(container_engine.client(self._url))
            container_engine.check_image(api, job.image)
            runtime = container_engine.check_runtime(api, job.runtime)
            if job.network and runtime == "runsc":
                raise Unavailable("runtime runsc cannot reach the proxy; network: allowlist needs another runtime")
            if control.lease_sec is not None and runtime == "runsc" and os.geteuid() != 0:
                raise Unavailable(
                    "with runtime runsc a run can stop PID 1, which ends it without beats; run the worker as root"
                )
            stage_inputs(job.inputs, control.inputs_folder, work / "in")
            chain = None
            if job.network:
                secret = secret_for(job, self._secrets)
                chain = EgressChain(api, job, control, request_id, work, self._egress_network, secret)
                stack.callback(chain.remove)
                chain.start()
            run = EraRun(api, job, control, work, runtime, chain, require_readback=self._settings.require_readback)
            stack.callback(run.remove)
            run.create(request_id)
            run.execute()
            run.settle()
            run.collect(control.run_folder / "out")
            run.remove()
            return run.outcome()
