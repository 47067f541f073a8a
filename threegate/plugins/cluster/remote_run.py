"""One envelope on one worker, as the daemon sees it: sent, started once, answered once, or lost.

Invariant: the start token answers one question, after `claimed` and `started` are in the trail; without it nothing
ran, so a refusal or a loss before it leaves the request to another worker, and its approval unused. A loss after it is
`interrupted`, even if the worker reports that nothing ran, because that cannot be verified. What the broker reports as
lost proves nothing then: the worker's own status decides, or its silence. Every wait is bounded, whatever the worker
sends or leaves out.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import hashlib
import os
import queue
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from threegate.core import durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.core.removal import remove_folder
from threegate.plugins.cluster.broker import read_chunk
from threegate.plugins.cluster.job_envelope import make_envelope, seal_envelope
from threegate.plugins.cluster.ledger import Ledger
from threegate.plugins.cluster.link import Link, Mail, Mailbox
from threegate.plugins.cluster.outcome import read_outcome
from threegate.request.job import Job
from threegate.runners.interface import Artifact, Control, Outcome, nothing_known, nothing_ran
from threegate.trail.event import trail_text
from threegate.trail.workspace_key import SigningKey

_LOOK_SECONDS = 0.25
_SAID_CHARS = limits.CLUSTER_NAME_CHARS + 2 + limits.CLUSTER_TEXT_CHARS
_AGAIN_SECONDS = 3.0
_SOON = 1.0
"""Seconds after which a worker that had no room, or was lost, is offered the job again."""
_PASSING = frozenset(("worker_full", "replayed"))
"""Codes of refusals that pass: it has as much as it can, or still has an earlier envelope of this request."""


class RemoteRun:
    """One job on one worker."""

    def __init__(
        self, link: Link, ledger: Ledger, key: SigningKey, worker: str, job: Job, control: Control, away_sec: int
    ) -> None:
        self._link = link
        self._ledger = ledger
        self._key = key
        self._worker = worker
        self._job = job
        self._control = control
        self._away_sec = away_sec
        self._nonce = secrets.token_hex(16)
        self._digest = ""
        self._ask = ""
        """The mark of the question that the start token answers, and no other one."""
        self._given: float | None = None
        """When the start token was given."""
        self._boot = ""
        """The life of the worker that got it."""
        self._absent: float | None = None
        """When the worker first reported, since then, that it does not have the run."""
        self._stopped_at: float | None = None
        self._cancelled_at: float | None = None
        self._sent: collections.Counter[tuple[str, int]] = collections.Counter()
        self._cancel_told = 0.0

    def execute(self) -> Outcome | None:
        """Send, answer what the worker asks, and take its result. None: this worker starts nothing, another one may.
        Raises TrailError if the start cannot be recorded.
        """
        control, evidence = self._control, self._control.evidence
        if evidence is None:
            return nothing_ran("the launch gave no evidence that a worker could judge by")
        box = self._link.open(self._nonce, self._worker)
        try:
            envelope = make_envelope(
                evidence,
                self._job,
                workspace_id=control.workspace_id,
                boot=control.boot_nonce,
                worker=self._worker,
                nonce=self._nonce,
                away_sec=self._away_sec,
                now=datetime.now(UTC),
            )
            sealed = seal_envelope(envelope, self._key)
            self._digest = sha256_hex(sealed)
            start_by = time.monotonic() + envelope.expires - envelope.issued
            self._link.send_job(self._worker, self._nonce, sealed, envelope.expires - envelope.issued)
            outcome = self._follow(box, start_by)
        except (Refused, Unavailable) as error:
            return (nothing_ran if self._given is None else nothing_known)(str(error))
        finally:
            self._link.shut(box)
        if outcome is None or self._given is None:
            return outcome
        where = f"Run by worker {self._worker} on machine {self._ledger.machine(self._worker)}."
        return replace(outcome, notes=(*outcome.notes, where))

    def _follow(self, box: Mailbox, start_by: float) -> Outcome | None:
        """Until it has ended. Raises Refused if the request may not start any more, TrailError."""
        end_by = start_by
        while True:
            try:
                mail = box.messages.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                mail = None
            if mail is not None:
                if mail.kind == "result" and mail.value.get("envelope_sha256") == self._digest:
                    return self._take(mail.value, box)
                if mail.kind == "refused":
                    said = trail_text(f"{mail.value['code']}: {mail.value['message']}", _SAID_CHARS)
                    why = said if self._given is None else f"worker {self._worker} had the start token, and says {said}"
                    return self._gone(why, _SOON if mail.value["code"] in _PASSING else None)
                if mail.kind == "may-start" and self._give(mail, start_by):
                    end_by = time.monotonic() + self._job.limits.time_sec + limits.CLUSTER_END_SECONDS + self._away_sec
                elif mail.kind == "want":
                    self._send_input(mail.value)
                elif mail.kind == "lost" and self._given is None:
                    return self._gone(f"lost before its start, says the broker ({mail.value['why']})", _SOON)
            if (over := self._given_up(end_by)) is not None:
                return self._gone(over)

    def _given_up(self, end_by: float) -> str | None:
        """Why nothing is waited for any more, or None. Tells the worker of a cancel meanwhile."""
        now = time.monotonic()
        if (why := self._silent() or self._without_it()) is not None:
            return why
        if now > end_by:
            return f"worker {self._worker} did not answer in time"
        if self._control.interrupted.is_set():
            self._stopped_at = self._stopped_at or now
            self._tell_cancel(now)
            if self._given is None or now - self._stopped_at > limits.CLUSTER_STOP_SECONDS:
                return self._control.because
        if self._control.cancelled.is_set():
            self._cancelled_at = self._cancelled_at or now
            self._tell_cancel(now)
            if self._given is None or now - self._cancelled_at > limits.CLUSTER_CANCEL_SECONDS:
                return f"cancelled, but worker {self._worker} did not say how it ended"
        return None

    def _silent(self) -> str | None:
        """Why its silence means that it has ended the run by now, if it does."""
        silent = self._ledger.silent_for(self._worker)
        if silent <= self._away_sec + limits.CLUSTER_AFTER_AWAY_SECONDS:
            return None
        if (problem := self._link.wire.alarm or self._link.lead.problem) is not None:
            return f"nothing was heard from worker {self._worker} for {silent:.0f} s, through the broker: {problem}"
        return f"worker {self._worker}, its machine or its net stopped: nothing was heard from it for {silent:.0f} s"

    def _without_it(self) -> str | None:
        """Why the worker's own statuses mean that the started run is lost, if they do."""
        heard, boot, has_it = self._ledger.status_of(self._worker, self._nonce)
        if self._given is None or heard <= self._given or has_it:
            self._absent = None
            return None
        self._absent = self._absent or heard
        if heard - self._absent <= limits.CLUSTER_GRACE_SECONDS:
            return None
        if boot != self._boot:
            return f"worker {self._worker} was killed or restarted while it ran it"
        return f"worker {self._worker} does not have the run any more, nor a result"

    def _tell_cancel(self, now: float) -> None:
        if now - self._cancel_told > _AGAIN_SECONDS:
            self._cancel_told = now
            self._tell("cancel")

    def _tell(self, type: str, **value: Any) -> None:
        """A note that may be lost."""
        with contextlib.suppress(Unavailable):
            self._link.tell(self._worker, type, nonce=self._nonce, **value)

    def _gone(self, why: str, seconds: float | None = None) -> Outcome | None:
        """The end without a result: the worker gets a stop message, and this envelope never gets a token. `seconds`:
        how long the worker is not offered the job again, if not as long as after a refusal.
        """
        self._tell("cancel")
        if self._given is not None:
            return nothing_known(f"{why}; how far the request came is not known, and it is never run again")
        if self._control.cancelled.is_set() or self._control.interrupted.is_set():
            return nothing_ran(f"{why}; nothing was started")
        self._ledger.refused(self._worker, self._job, why, seconds or limits.CLUSTER_REFUSED_SECONDS)
        return None

    def _give(self, mail: Mail, start_by: float) -> bool:
        """Record the start, then answer; again only to the same question. Whether this was the start. Raises Refused,
        TrailError.
        """
        ask, first = mail.value["ask"], self._given is None
        late = time.monotonic() > start_by if first else ask != self._ask
        ended = self._control.cancelled.is_set() or self._control.interrupted.is_set()
        if late or ended or mail.value.get("envelope_sha256") != self._digest:
            self._tell("no")
            return False
        if first and self._link.lead.problem is not None:
            return False  # no token can be sent now, so nothing is claimed; the worker asks again
        if first:
            self._start()
            self._ask = ask
        self._tell("go", envelope_sha256=self._digest, ask=ask)
        return first

    def _start(self) -> None:
        """Claim the request, for this worker. Raises Refused, TrailError: then no token was given."""
        try:
            machine = self._ledger.machine(self._worker)
            where = {"worker": self._worker, "machine": machine, "envelope": self._digest, "image": self._job.image}
            self._control.started(where)
        except Refused:
            self._tell("no")
            raise
        _, self._boot, _ = self._ledger.status_of(self._worker, self._nonce)
        self._given = time.monotonic()
        self._ledger.started(self._worker)

    def _send_input(self, told: Mapping[str, Any]) -> None:
        """One chunk of an input of this very job, and each only so often, however often the worker asks."""
        sha256, offset = told["sha256"], told["offset"]
        size = next((item.size for item in self._job.inputs if item.sha256 == sha256), 0)
        if offset >= size or offset % limits.CLUSTER_CHUNK_BYTES:
            return
        self._sent[sha256, offset] += 1
        if self._sent[sha256, offset] > limits.CLUSTER_CHUNK_TRIES:
            return
        with contextlib.suppress(OSError, Unavailable):
            data = read_chunk(self._control.inputs_folder / sha256, offset)
            self._link.send_chunk(self._worker, self._nonce, sha256, offset, data)

    def _take(self, told: Mapping[str, Any], box: Mailbox) -> Outcome | None:
        """A signed result: its outcome, with the outputs fetched. It wins over any sign of a loss. Raises Refused,
        TrailError.
        """
        try:
            outcome = read_outcome(told["outcome"], self._job.limits)
            inline = _inline(told["inline"])
        except InvalidInput as error:
            outcome, inline = nothing_known(str(error)), {}
        if self._given is None:
            if outcome.status == "unavailable":
                return self._gone(f"nothing ran: {trail_text(outcome.detail, limits.CLUSTER_TEXT_CHARS)}")
            self._start()  # what it did is not known: the approval is used up
            return nothing_known(
                f"worker {self._worker} reports a run that was never allowed to start; it is never run again"
            )
        if (
            outcome.status == "cancelled"
            and not self._control.cancelled.is_set()
            and self._control.interrupted.is_set()
        ):
            outcome = replace(outcome, status="interrupted", detail=f"Interrupted because {self._control.because}.")
        if outcome.status == "unavailable":
            said = trail_text(outcome.detail, limits.CLUSTER_TEXT_CHARS)
            outcome = nothing_known(
                f"worker {self._worker} had the start token and reports that nothing ran ({said}); "
                "that cannot be verified, so it is never run again"
            )
        out = self._control.run_folder / "out"
        try:
            self._fetch_all(outcome, inline, out, box)
        except (Unavailable, OSError) as error:
            remove_folder(out)  # nothing of it is in the record
            why = error.strerror or "the disk refused" if isinstance(error, OSError) else str(error)
            self._tell("cancel")
            lost = nothing_known(
                f"worker {self._worker} ended it as {outcome.status}, but {why}; it is never run again"
            )
            return replace(lost, status="cancelled") if self._control.cancelled.is_set() else lost
        self._tell("done")
        return outcome

    def _fetch_all(self, outcome: Outcome, inline: Mapping[str, bytes], out: Path, box: Mailbox) -> None:
        """Fetch the outputs, within the time that their size may take. Raises Unavailable, OSError."""
        if not outcome.artifacts:
            return
        total = sum(artifact.size for artifact in outcome.artifacts)
        seconds = limits.CLUSTER_FETCH_SECONDS + total / limits.CLUSTER_SLOWEST_BYTES_PER_SECOND
        until = time.monotonic() + seconds
        out.mkdir(mode=0o700)
        for artifact in outcome.artifacts:
            path = out / artifact.path
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o400)
            with os.fdopen(descriptor, "wb") as stream:
                digest, done = hashlib.sha256(), 0
                while done < artifact.size:
                    data = inline.get(artifact.sha256) or self._chunk(artifact, done, box, until)
                    done += len(data)
                    if done > artifact.size:
                        raise Unavailable("an output is longer than announced")
                    stream.write(data)
                    digest.update(data)
            if digest.hexdigest() != artifact.sha256:
                raise Unavailable("an output is not what its signed result names")
        durable.sync_folder(out)

    def _chunk(self, artifact: Artifact, offset: int, box: Mailbox, until: float) -> bytes:
        """Ask for one chunk until it comes. Raises Unavailable when it is not worth waiting any more."""
        asked = 0.0
        while True:
            now = time.monotonic()
            if (why := self._silent()) is not None:
                raise Unavailable(f"before its outputs came, {why}")
            if now > until:
                raise Unavailable("its outputs did not come in time")
            if self._control.cancelled.is_set():
                raise Unavailable("it was cancelled before its outputs came")
            if self._control.interrupted.is_set():
                self._stopped_at = self._stopped_at or now
                if now - self._stopped_at > limits.CLUSTER_STOP_SECONDS:
                    raise Unavailable(f"{self._control.because} before its outputs came")
            if now - asked > _AGAIN_SECONDS * 2:
                asked = now
                box.wanted = (artifact.sha256, offset)
                self._tell("want", sha256=artifact.sha256, offset=offset)
            try:
                mail = box.messages.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            if (
                mail.kind == "chunk"
                and mail.value.get("sha256") == artifact.sha256
                and mail.value.get("offset") == offset
                and 0 < len(mail.data) <= limits.CLUSTER_CHUNK_BYTES
            ):
                return mail.data


def _inline(value: Mapping[str, str]) -> dict[str, bytes]:
    """Small outputs that came with the result, by digest. Raises InvalidInput."""
    try:
        return {name: base64.b64decode(data, validate=True) for name, data in value.items()}
    except ValueError:
        raise InvalidInput("the worker's result is not one that a runner returns") from None
