"""The daemon's side of the broker: beats to every worker, and what workers send, verified and handed to its run.

Invariant: a note counts only from the queue of the worker whose enrolled key signed it; a run hears only from the worker
that it was given to; everything else is dropped and said.
"""

from __future__ import annotations

import itertools
import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from threegate.cluster.broker import CANCEL_EXCHANGE, LOST_QUEUE, Broker, Wire, cancel_queue, result_exchange
from threegate.cluster.celery import make_app
from threegate.cluster.ledger import Ledger
from threegate.cluster.seal import NONCE, seal, unseal
from threegate.core import durable, limits
from threegate.core.errors import Refused, Unavailable
from threegate.trail.workspace_key import SigningKey, VerifierKey

FROM_WORKER = frozenset({"status", "may-start", "want", "refused", "result"})
TO_WORKER = frozenset({"beat", "go", "no", "cancel", "done", "want"})
_MAILBOX_MESSAGES = 256


@dataclass(slots=True)
class Mail:
    """One message for a run: a verified note (`type` and value), a chunk, or the broker's loss report."""

    kind: str
    value: Mapping[str, Any]
    data: bytes = b""


@dataclass(slots=True)
class Mailbox:
    """Where a run hears from its worker."""

    nonce: str
    worker: str
    messages: queue.Queue[Mail] = field(default_factory=lambda: queue.Queue(_MAILBOX_MESSAGES))


class Link:
    """Connections, keys and mailboxes of one daemon."""

    def __init__(
        self,
        broker: Broker,
        key: SigningKey,
        workers: Mapping[str, VerifierKey],
        ledger: Ledger,
        *,
        boot: str,
        told_file: Path | None,
        say: Callable[[str], None],
    ) -> None:
        self._key = key
        self._workers = workers
        self._ledger = ledger
        self._boot = boot
        self._told_file = told_file
        self._say = say
        self._app = make_app(broker)
        self._boxes: dict[str, Mailbox] = {}
        self._lock = threading.Lock()
        self._seq = itertools.count(time.time_ns() // 1000)  # rises over a reload of the settings too
        self._stop = threading.Event()
        self._beats = threading.Thread(target=self._beat, name="beats", daemon=True)
        queues = [result_exchange(name) for name in workers] + [LOST_QUEUE]
        self._wire = Wire(broker, queues, self._heard, say)

    def start(self) -> None:
        """Connect and beat."""
        self._wire.start()
        self._beats.start()

    def close(self) -> None:
        """Disconnect. What still runs fences itself for want of beats."""
        self._stop.set()
        self._wire.close()
        if self._beats.is_alive():
            self._beats.join(limits.CLUSTER_BEAT_SECONDS * 2)
        if self._told_file is not None:
            self._told_file.unlink(missing_ok=True)

    def open(self, nonce: str, worker: str) -> Mailbox:
        """A mailbox for a run that is given to a worker."""
        box = Mailbox(nonce, worker)
        with self._lock:
            self._boxes[nonce] = box
        return box

    def shut(self, box: Mailbox) -> None:
        """Nothing is heard for this run any more."""
        with self._lock:
            self._boxes.pop(box.nonce, None)

    def send_job(self, worker: str, nonce: str, sealed: bytes, seconds: int) -> None:
        """Publish the envelope into the worker's queue. Raises Unavailable."""
        self._wire.send_task(self._app, worker, nonce, sealed.decode("ascii"), seconds)

    def tell(self, worker: str, type: str, **value: Any) -> None:
        """A signed note to a worker. Raises Unavailable."""
        note = {"worker": worker, "boot": self._boot, "seq": next(self._seq), **value}
        self._wire.publish(CANCEL_EXCHANGE, cancel_queue(worker), seal(self._key, type, note))

    def send_chunk(self, worker: str, nonce: str, sha256: str, offset: int, data: bytes) -> None:
        """Bytes of an input; the worker knows them by their digest. Raises Unavailable."""
        headers = {"kind": "chunk", "nonce": nonce, "sha256": sha256, "offset": offset}
        self._wire.publish(CANCEL_EXCHANGE, cancel_queue(worker), data, headers)

    def _beat(self) -> None:
        while not self._stop.wait(limits.CLUSTER_BEAT_SECONDS):
            for worker in self._workers:
                if self._stop.is_set():
                    break
                try:
                    self.tell(worker, "beat")
                except Unavailable:
                    break  # the listener says it
            self._write_told()

    def _write_told(self) -> None:
        """What `threegate status` reads: derived, replaced whole."""
        if self._told_file is None:
            return
        text = json.dumps([seat.to_json() for seat in self._ledger.seats()], indent=1)
        try:
            durable.overwrite(self._told_file, text.encode())
        except OSError as error:
            self._say(f"{self._told_file}: {error.strerror or error}")

    def _heard(self, queue_name: str, data: bytes, headers: Mapping[str, Any]) -> None:
        if queue_name == LOST_QUEUE:
            self._deliver(str(headers.get("id")), None, Mail("lost", {"why": _why(headers)}))
            return
        worker = queue_name.partition(".")[2]
        if headers.get("kind") == "chunk":
            self._deliver(str(headers.get("nonce")), worker, Mail("chunk", dict(headers), data))
            return
        try:
            note = unseal(data, self._workers[worker], FROM_WORKER)
            if note.get("worker") != worker:
                raise Refused("envelope_misdirected", "a note in another worker's queue")
            self._note(worker, note)
        except (Refused, KeyError, TypeError, ValueError) as error:
            self._say(f"{worker}: dropped a note ({error})")

    def _note(self, worker: str, note: dict[str, Any]) -> None:
        kind = note["type"]
        if kind == "status":
            self._ledger.hear(worker, note)
            self._end_strangers(worker, note)
            return
        nonce = str(note["nonce"])
        if not self._deliver(nonce, worker, Mail(kind, note)):
            if kind == "result":
                self._say(
                    f"{worker}: a result came after its request had ended ({nonce[:8]}…); it changes nothing"
                )
                self._quietly(worker, "done", nonce=nonce)
            elif kind == "may-start":
                self._quietly(worker, "no", nonce=nonce)

    def _end_strangers(self, worker: str, note: dict[str, Any]) -> None:
        """What a worker runs and no run of this daemon waits for is ended: its request has its end already."""
        for nonce, _ in note["running"]:
            with self._lock:
                known = nonce in self._boxes
            if not known and NONCE.fullmatch(str(nonce)):
                self._quietly(worker, "cancel", nonce=str(nonce))

    def _quietly(self, worker: str, type: str, **value: Any) -> None:
        try:
            self.tell(worker, type, **value)
        except Unavailable:
            self._say(f"{worker}: could not be told {type}")

    def _deliver(self, nonce: str, worker: str | None, mail: Mail) -> bool:
        with self._lock:
            box = self._boxes.get(nonce)
        if box is None or worker not in (None, box.worker):
            return False
        try:
            box.messages.put_nowait(mail)
        except queue.Full:
            self._say(f"{box.worker}: sends more than its run can hear; dropped one")
        return True


def _why(headers: Mapping[str, Any]) -> str:
    deaths = headers.get("x-death")
    reason = deaths[0].get("reason") if isinstance(deaths, list) and deaths else None
    return str(reason or "unknown")[:64]
