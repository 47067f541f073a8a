"""One run on a worker, as the daemon sees it: sent, started once, answered once, or lost and never repeated.

Invariant: the start token is given at most once, after `started` is in the trail; without it nothing ran, so
a loss before it is `unavailable`; a loss after it is `interrupted`, even if the worker reports that nothing
ran, because that cannot be verified. A signed result takes precedence over a loss report. Every wait is
bounded, whatever the worker sends or leaves out.
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


class RemoteRun:
    """One job on one worker."""

    def __init__(self, link: Link, ledger: Ledger, key: SigningKey, worker: str, job: Job, control: Control) -> None:
        self._link = link
        self._ledger = ledger
        self._key = key
        self._worker = worker
        self._job = job
        self._control = control
        self._nonce = secrets.token_hex(16)
        self._digest = ""
        self._given = False
        self._lost_at: float | None = None
        self._lost_why = ""
        self._stopped_at: float | None = None
        self._cancelled_at: float | None = None
        self._sent: collections.Counter[tuple[str, int]] = collections.Counter()
        self._cancel_told = 0.0

    def execute(self) -> Outcome:
        """Send, answer what the worker asks, and take its result. Raises TrailError if the start cannot be recorded."""
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
                now=datetime.now(UTC),
            )
            sealed = seal_envelope(envelope, self._key)
            self._digest = sha256_hex(sealed)
            start_by = time.monotonic() + envelope.expires - envelope.issued
            self._link.send_job(self._worker, self._nonce, sealed, envelope.expires - envelope.issued)
            return self._placed(self._follow(box, start_by))
        except (Refused, Unavailable) as error:
            return self._placed(self._gone(str(error)))
        finally:
            self._link.shut(box)

    def _placed(self, outcome: Outcome) -> Outcome:
        """The outcome of what was started, with a note that says where."""
        if not self._given:
            return outcome
        where = f"Run by worker {self._worker} on machine {self._ledger.machine(self._worker)}."
        return replace(outcome, notes=(*outcome.notes, where))

    def _follow(self, box: Mailbox, start_by: float) -> Outcome:
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
                    return self._gone(f"refused by worker {self._worker}: {said}")
                if mail.kind == "may-start" and self._give(mail, start_by):
                    end_by = time.monotonic() + self._job.limits.time_sec + limits.CLUSTER_END_SECONDS
                elif mail.kind == "want":
                    self._send_input(mail.value)
                elif mail.kind == "lost" and self._lost_at is None:
                    self._lost_at, self._lost_why = time.monotonic(), str(mail.value["why"])
            why = self._given_up(end_by)
            if why is not None:
                return self._gone(why)

    def _given_up(self, end_by: float) -> str | None:
        """Why nothing is waited for any more, or None. Tells the worker of a cancel meanwhile."""
        now = time.monotonic()
        if self._lost_at is not None and now - self._lost_at > limits.CLUSTER_GRACE_SECONDS:
            return f"worker {self._worker} was lost, says the broker ({self._lost_why})"
        silent = self._ledger.silent_for(self._worker)
        if silent > limits.CLUSTER_SILENCE_SECONDS:
            return f"worker {self._worker} was lost: no message for {silent:.0f} s"
        if now > end_by:
            return f"worker {self._worker} did not answer in time"
        if self._control.interrupted.is_set():
            self._stopped_at = self._stopped_at or now
            self._tell_cancel(now)
            if now - self._stopped_at > limits.CLUSTER_STOP_SECONDS:
                return "the daemon stopped"
        if self._control.cancelled.is_set():
            if not self._given:
                return "cancelled before it started"
            self._cancelled_at = self._cancelled_at or now
            self._tell_cancel(now)
            if now - self._cancelled_at > limits.CLUSTER_CANCEL_SECONDS:
                return f"cancelled, but worker {self._worker} did not say how it ended"
        return None

    def _tell_cancel(self, now: float) -> None:
        if now - self._cancel_told > _AGAIN_SECONDS:
            self._cancel_told = now
            with contextlib.suppress(Unavailable):
                self._link.tell(self._worker, "cancel", nonce=self._nonce)

    def _gone(self, why: str) -> Outcome:
        """The end without a result: the worker gets a stop message, and nothing is ever sent again."""
        with contextlib.suppress(Unavailable):
            self._link.tell(self._worker, "cancel", nonce=self._nonce)
        if self._given:
            return nothing_known(f"{why}; how far the request came is not known, and it is never run again")
        outcome = nothing_ran(f"{why}; nothing was started")
        if self._control.cancelled.is_set():
            return _as_cancelled(outcome)
        return outcome

    def _give(self, mail: Mail, start_by: float) -> bool:
        """Record the start, then answer; once. Raises TrailError."""
        told = mail.value
        refused = (
            self._given
            or told.get("envelope_sha256") != self._digest
            or time.monotonic() > start_by
            or self._lost_at is not None
            or self._control.cancelled.is_set()
            or self._control.interrupted.is_set()
        )
        if refused:
            with contextlib.suppress(Unavailable):
                self._link.tell(self._worker, "no", nonce=self._nonce)
            return False
        self._given = True
        self._control.started(
            {
                "worker": self._worker,
                "machine": self._ledger.machine(self._worker),
                "envelope": self._digest,
                "image": self._job.image,
            }
        )
        self._link.tell(self._worker, "go", nonce=self._nonce, envelope_sha256=self._digest)
        return True

    def _send_input(self, told: Mapping[str, Any]) -> None:
        """One chunk of an input of this very job, and each only so often: chunks go where everybody's beats go."""
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

    def _take(self, told: Mapping[str, Any], box: Mailbox) -> Outcome:
        """A signed result: its outcome, with the outputs fetched. It wins over any loss report."""
        try:
            outcome = read_outcome(told["outcome"], self._job.limits)
            inline = _inline(told["inline"])
        except InvalidInput as error:
            return self._gone(str(error))
        if not self._given and outcome.status != "unavailable":
            return nothing_known(
                f"worker {self._worker} reports a run that was never allowed to start; it is never run again"
            )
        if self._given and outcome.status == "unavailable":
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
            ended = self._gone(f"worker {self._worker} ended it as {outcome.status}, but {why}")
            return replace(ended, status="cancelled") if self._control.cancelled.is_set() else ended
        with contextlib.suppress(Unavailable):
            self._link.tell(self._worker, "done", nonce=self._nonce)
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
            if self._ledger.silent_for(self._worker) > limits.CLUSTER_SILENCE_SECONDS:
                raise Unavailable("it was lost before its outputs came")
            if now > until:
                raise Unavailable("its outputs did not come in time")
            if self._control.cancelled.is_set():
                raise Unavailable("it was cancelled before its outputs came")
            if self._control.interrupted.is_set():
                self._stopped_at = self._stopped_at or now
                if now - self._stopped_at > limits.CLUSTER_STOP_SECONDS:
                    raise Unavailable("the daemon stopped before its outputs came")
            if now - asked > _AGAIN_SECONDS * 2:
                asked = now
                box.wanted = (artifact.sha256, offset)
                with contextlib.suppress(Unavailable):
                    self._link.tell(self._worker, "want", nonce=self._nonce, sha256=artifact.sha256, offset=offset)
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


def _as_cancelled(outcome: Outcome) -> Outcome:
    return replace(outcome, status="cancelled", detail="Cancelled before it was started; nothing ran.")
