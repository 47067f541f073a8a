"""Runs on other machines: sends a cleared job to a worker, which judges it again before running it.

Invariant: a job gets the start token of one worker at most; one that did not start it gets no token any more before
the job goes to another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from threegate.core.errors import InvalidInput
from threegate.core.workspace import Workspace
from threegate.judgement.judge import Clearance
from threegate.plugins.cluster.broker import Broker
from threegate.plugins.cluster.ledger import Ledger
from threegate.plugins.cluster.link import Link
from threegate.plugins.cluster.notes import Rules
from threegate.plugins.cluster.remote_run import RemoteRun
from threegate.plugins.cluster.seal import WORKER
from threegate.plugins.cluster.section import ClusterSettings
from threegate.request.exposure import secret_name
from threegate.request.job import Job
from threegate.runners.interface import Control, Outcome, nothing_ran
from threegate.trail.workspace_key import SigningKey, VerifierKey

_FIRST_WORKER_SECONDS = 10.0


def enrolled(settings: ClusterSettings) -> dict[str, VerifierKey]:
    """The workers' keys by name. Raises InvalidInput for an invalid verifier key, or a duplicate name."""
    keys: dict[str, VerifierKey] = {}
    for text in settings.workers:
        key = VerifierKey.parse(text)
        if not WORKER.fullmatch(key.name) or key.name in keys:
            raise InvalidInput(f"cluster.workers: {key.name[:40]} is not a worker's name, or occurs twice")
        keys[key.name] = key
    return keys


class ClusterRunner:
    """Runs jobs of both backends on the enrolled workers."""

    starts_late = True
    """`started` is recorded when a worker asks for the start token."""

    def __init__(
        self,
        workspace: Workspace,
        settings: ClusterSettings,
        key: SigningKey,
        rules: Rules,
        *,
        boot: str,
        told_file: Path,
        say: Callable[[str], None],
    ) -> None:
        """Connects nothing before `begin`. Raises InvalidInput, Unavailable for settings that cannot work."""
        if not settings.identity.startswith("/"):
            raise InvalidInput("cluster.identity: the absolute path of the folder with ca.pem, tls.pem and tls.key")
        workers = enrolled(settings)
        broker = Broker(settings.broker, Path(settings.identity))
        broker.check()
        self._key = key
        self._away_sec = settings.away_sec
        self.ledger = Ledger(workers, rules)
        """What the dispatcher takes leases from."""
        self._link = Link(broker, workspace, key, workers, self.ledger, boot=boot, told_file=told_file, say=say)
        self._lock = threading.Lock()
        self._waited = False
        self._closed = False

    def begin(self) -> None:
        """Connect, so that `threegate status` knows the workers before the first request."""
        self._link.start()

    def available(self, job: Job | None = None) -> str | None:
        """None when some live worker could run the job, else one line. The first call waits a little for one."""
        with self._lock:
            if not self._waited:
                self._waited = True
                self.ledger.heard.wait(_FIRST_WORKER_SECONDS)
        if job is not None and secret_name(job.tool, job.proposal_sha256) is not None:
            return "needs a secret of this machine, which never leaves it; run it without a cluster"
        return self._link.lead.problem or self.ledger.missing(job)

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        """Run the job on the worker that its lease is for, or on the first other one that starts it; see Runner.run."""
        clearance.must_cover(job)
        while (worker := self.ledger.place_of(job)) is not None:
            run = RemoteRun(self._link, self.ledger, self._key, worker, job, control, self._away_sec)
            if (outcome := run.execute()) is not None:
                return outcome
            self.ledger.move(job)
        return nothing_ran(self.ledger.missing(job) or "no worker has room for it now")

    def close(self) -> None:
        """Disconnect. It is the runner of each backend, so it is closed more than once."""
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self._link.close()
