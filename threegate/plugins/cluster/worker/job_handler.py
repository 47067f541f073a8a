"""One job on this worker, from the envelope to the signed result.

Invariant: in this order and no other: verified, resources reserved, inputs here by digest, nonce on disk,
start token, run, result on disk, result sent. Any failure before the run is reported as a signed refusal, and
nothing ran.
"""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import Refused, Unavailable
from threegate.core.settings import Settings
from threegate.plugins.cluster.outcome import write_outcome
from threegate.plugins.cluster.seal import NONCE
from threegate.plugins.cluster.worker.heartbeat import Active, Agent
from threegate.plugins.cluster.worker.identity import Identity
from threegate.plugins.cluster.worker.journal import NonceJournal
from threegate.plugins.cluster.worker.operators_file import WorkerOperators
from threegate.plugins.cluster.worker.outbox import KeptResult, Outbox
from threegate.plugins.cluster.worker.store import Store
from threegate.plugins.cluster.worker.verify_job import Trust, VerifiedJob, verify
from threegate.runners.interface import Control, Outcome, Runner, nothing_known
from threegate.runners.machine import Budget
from threegate.runners.minder import since_boot
from threegate.trail.event import trail_text

_DONE_SECONDS = 20.0
_TOO_LATE = ("envelope_expired", "the envelope or the approval ended while its inputs were fetched")


@dataclass(frozen=True, slots=True)
class JobHandler:
    """Takes jobs, several at once."""

    agent: Agent
    identity: Identity
    operators: WorkerOperators
    settings: Settings
    journal: NonceJournal
    outbox: Outbox
    store: Store
    runners: Mapping[str, Runner]
    budget: Budget
    boot: str
    say: Callable[[str], None]

    def take(self, sealed: object, task_id: str) -> None:
        """One message of the broker, whatever it holds. Never raises for what is in it."""
        nonce = task_id if NONCE.fullmatch(task_id) else "0" * 32
        try:
            if not isinstance(sealed, str) or not sealed.isascii():
                raise Refused("envelope_invalid", "the message holds no envelope")
            if self.agent.problem is not None:
                raise Refused("worker_unfit", self.agent.problem)
            data = sealed.encode("ascii")
            me = self.identity
            # The operators as their files say now: a key that was taken out counts no more from here on.
            trust = Trust(me.name, me.workspace_id, me.workspace_key, self.operators.read(), self.settings)
            verified = verify(data, trust, self.journal, now=datetime.now(UTC))
            self._do(verified, sha256_hex(data))
        except Refused as refusal:
            self._refuse(nonce, refusal.code, str(refusal))
        except Unavailable as error:
            self._refuse(nonce, "unavailable", str(error))
        except Exception as error:  # noqa: BLE001 - an internal error ends this job, not the worker
            self._refuse(nonce, "worker_failed", f"an internal error ({type(error).__name__})")

    def _refuse(self, nonce: str, code: str, message: str) -> None:
        self.say(f"refused {nonce[:8]}…: {code}: {message}")
        with contextlib.suppress(Unavailable):
            said = trail_text(message, limits.CLUSTER_TEXT_CHARS)
            self.agent.tell("refused", lasting=True, nonce=nonce, code=code, message=said)

    def _do(self, verified: VerifiedJob, envelope_sha256: str) -> None:
        job, envelope = verified.job, verified.envelope
        runner = self.runners[job.backend]
        lease = self.budget.try_take(job)
        if lease is None:
            raise Refused("worker_full", "this worker has no room for the job")
        folder = self.outbox.folder / f"{verified.clearance.request_id}.{envelope.nonce}"
        control = Control(folder, self.store.folder, self.identity.mark, self.boot)
        control.begin_lease(envelope.away_sec)
        active = Active(
            envelope.nonce,
            verified.clearance.request_id,
            envelope.boot,
            envelope_sha256,
            control,
            frozenset(item.sha256 for item in job.inputs),
            envelope.away_sec,
        )
        with lease:
            if not self.agent.enter(active):
                raise Refused("replayed", "this envelope is being worked on")
            try:
                outcome = self._run(verified, active, runner)
                kept = self._keep(verified, active, outcome)  # before it leaves: a status names a run, or its result
            finally:
                self.agent.leave(active)
        self.say(f"ended {active.request_id}: {outcome.status}")
        with contextlib.suppress(Unavailable):  # it is in the outbox and is sent again
            self.agent.send(kept.sealed, lasting=True)
            kept.done.wait(_DONE_SECONDS)

    def _run(self, verified: VerifiedJob, active: Active, runner: Runner) -> Outcome:
        """Everything up to the outcome. Raises Refused, Unavailable: then nothing ran."""
        missing = runner.available(verified.job)
        if missing is not None:
            raise Refused("no_backend", missing)
        until = min(verified.envelope.expires, verified.approval.expires_utc.timestamp())

        def fetch(sha256: str, offset: int) -> bytes:
            if time.time() >= until:
                raise Refused(*_TOO_LATE)
            return self.agent.fetch(active, sha256, offset)

        for item in verified.job.inputs:
            self.store.take(item.sha256, item.size, fetch, keep=self.agent.inputs_in_use())
        now = datetime.now(UTC)
        if now.timestamp() >= until:
            raise Refused(*_TOO_LATE)
        self.journal.spend(verified.spent(now))
        active.control.leased = since_boot()
        if not self.agent.may_start(active):
            self.journal.give_back(active.nonce)
            raise Refused("no_token", "the daemon gave no start token")
        active.control.run_folder.mkdir(mode=0o700)
        self.say(f"started {active.request_id}")
        try:
            outcome = runner.run(verified.clearance, verified.job, active.control)
        except Exception as error:  # noqa: BLE001 - whatever a runner raises, the request must get its end
            return nothing_known(f"the runner failed ({type(error).__name__}); how far the request came is not known")
        if outcome.status == "unavailable":
            for sha256 in active.inputs:  # one of them may have gone bad here: the next run fetches it again
                (self.store.folder / sha256).unlink(missing_ok=True)
        return outcome

    def _keep(self, verified: VerifiedJob, active: Active, outcome: Outcome) -> KeptResult:
        """Sign the result, and put it on disk. Raises OSError."""
        folder = active.control.run_folder
        inline: dict[str, str] = {}
        room = limits.CLUSTER_INLINE_BYTES
        for item in outcome.artifacts:
            if 0 < item.size <= room and item.sha256 not in inline:
                inline[item.sha256] = base64.b64encode((folder / "out" / item.path).read_bytes()).decode()
                room -= item.size
        sealed = self.agent.sealed(
            "result",
            nonce=active.nonce,
            request_id=active.request_id,
            job_sha256=verified.clearance.job_sha256,
            envelope_sha256=active.envelope_sha256,
            outcome=write_outcome(outcome),
            inline=inline,
        )
        outputs = {item.sha256: folder / "out" / item.path for item in outcome.artifacts}
        return self.outbox.keep(active.nonce, sealed, folder, outputs)
