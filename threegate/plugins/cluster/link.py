"""The daemon's side of the broker: heartbeats to every worker, and the workers' messages, verified and passed
to their runs.

Only a daemon that leads (`lead`) beats, places, starts and listens to workers.

Invariant: a note counts only from the queue of the worker whose enrolled key signed it; a run receives
messages only from the worker that it was given to, and holds at most one result and one chunk of it;
everything else is dropped and counted. A worker's messages do not delay the others: the listener reads small
notes and publishes none, a large one is read by a thread for its worker. A status is a sign of life only
once: its number rises within a life of the worker, and its time must be current.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from threegate.core import durable, limits
from threegate.core.errors import Refused, Unavailable
from threegate.core.workspace import Workspace
from threegate.launch.launch_problem import read_operators
from threegate.plugins.cluster.broker import (
    BEAT,
    CHUNK,
    LEAD,
    LOST,
    NOTE,
    OUTPUT,
    RESULT,
    Broker,
    Wire,
    WorkQueue,
    queue_of,
)
from threegate.plugins.cluster.lead import Lead
from threegate.plugins.cluster.ledger import Ledger
from threegate.plugins.cluster.notes import FROM_WORKER, operators_digest, read_note
from threegate.plugins.cluster.operators_act import about_operators, read_act, signed_files, signed_operators_file
from threegate.plugins.cluster.seal import seal
from threegate.trail.workspace_key import SigningKey, VerifierKey

_CLOSE_SECONDS = 2.0


@dataclass(slots=True)
class Mail:
    """One message for a run: a verified note (`type` and value), a chunk, or the broker's loss report."""

    kind: str
    value: Mapping[str, Any]
    data: bytes = b""


@dataclass(slots=True)
class Mailbox:
    """Where a run receives messages from its worker."""

    nonce: str
    worker: str
    answered: bool = False
    """Whether a result came: there is room for one."""
    wanted: tuple[str, int] | None = None
    """The chunk (sha256, offset) that was asked for: there is room for it and for no other."""
    messages: queue.Queue[Mail] = field(default_factory=lambda: queue.Queue(limits.CLUSTER_MAILBOX))


@dataclass(slots=True)
class _Life:
    """What is known about a worker: its lives so far, and the number of the last status of the latest one."""

    boot: str = ""
    seq: int = 0
    late: set[str] = field(default_factory=set)
    """Results that arrived when no run was waiting for them."""
    past: collections.deque[str] = field(default_factory=lambda: collections.deque(maxlen=limits.CLUSTER_BOOTS))


class Link:
    """Connections, keys and mailboxes of one daemon."""

    def __init__(
        self,
        broker: Broker,
        workspace: Workspace,
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
        self._workspace = workspace
        self._operators_at = 0.0
        self._say = say
        self._boxes: dict[str, Mailbox] = {}
        self._lives = {name: _Life() for name in workers}
        self._lock = threading.Lock()
        self._seq = itertools.count(time.time_ns() // 1000)  # rises over a reload of the settings too
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._beats = threading.Thread(target=self._beat, name="beats", daemon=True)
        self.lead = Lead(workspace, key, boot, self._publish_lead, say)
        """Whether this daemon works with the broker."""
        self.wire = Wire(broker, [LEAD], self.heard, say, changed=self._wire_changed)
        """The connection to the broker. What workers send is listened to only while this daemon leads."""
        self._files = Wire(broker, [], self.heard_chunk, lambda line: None, prefetch=1)
        self._answers = WorkQueue("answers", limits.CLUSTER_ANSWERS, say)
        self._readers = {name: WorkQueue(f"results-{name}", limits.CLUSTER_LARGE_NOTES, say) for name in workers}

    def start(self) -> None:
        """Connect and beat."""
        self.wire.start()
        self._files.start()
        self._beats.start()

    def close(self) -> None:
        """Disconnect. What still runs fences itself for want of beats."""
        self._stop.set()
        self._wake.set()
        self._answers.close(_CLOSE_SECONDS)
        for reader in self._readers.values():
            reader.close(_CLOSE_SECONDS)
        self.wire.close()
        self._files.close()
        if self._beats.is_alive():
            self._beats.join(limits.CLUSTER_BEAT_SECONDS * 2)

    def open(self, nonce: str, worker: str) -> Mailbox:
        """A mailbox for a run that is given to a worker."""
        box = Mailbox(nonce, worker)
        with self._lock:
            self._boxes[nonce] = box
        return box

    def shut(self, box: Mailbox) -> None:
        """Receive nothing more for this run."""
        with self._lock:
            self._boxes.pop(box.nonce, None)

    def send_job(self, worker: str, nonce: str, sealed: bytes, seconds: int) -> None:
        """Publish the envelope into the worker's queue. Raises Unavailable."""
        self._must_lead()
        self.wire.send_task(worker, nonce, sealed.decode("ascii"), seconds)

    def tell(self, worker: str, type: str, **value: Any) -> None:
        """A signed note to a worker. Raises Unavailable."""
        self._must_lead()
        if type == "go":
            self.lead.cover()
        note = {"worker": worker, "boot": self._boot, "seq": next(self._seq), **value}
        self.wire.publish(NOTE, worker, seal(self._key, type, note))

    def send_chunk(self, worker: str, nonce: str, sha256: str, offset: int, data: bytes) -> None:
        """Bytes of an input; the worker knows them by their digest. Raises Unavailable."""
        headers = {"nonce": nonce, "sha256": sha256, "offset": offset}
        self._files.publish(CHUNK, worker, data, headers)

    def _must_lead(self) -> None:
        if (problem := self.lead.problem) is not None:
            raise Unavailable(problem)

    def _publish_lead(self, sealed: bytes) -> None:
        self.wire.publish(LEAD, "", sealed, lasting=True)

    def _wire_changed(self) -> None:
        if not self.wire.up:
            self.lead.lose()
            self.wire.reset()
            self._files.reset()
        self._wake.set()

    def _beat(self) -> None:
        told = ""
        while not self._stop.is_set():
            if self.wire.up:
                with contextlib.suppress(Unavailable):  # the listener says it
                    self.lead.turn()
                    if self.lead.leads:
                        beat = {"boot": self._boot, "seq": next(self._seq)}
                        self.wire.publish(BEAT, "", seal(self._key, "beat", beat))
                        self._send_operators()
            problem = self.lead.problem or ""
            if problem != told and self.lead.waits:
                self._say(problem)
            told = problem
            self._write_told()
            self._wake.wait(limits.CLUSTER_BEAT_SECONDS)
            self._wake.clear()

    def _send_operators(self) -> None:
        """To each worker that takes operators files and has others, the ones that an operator signed last."""
        seats = [seat for seat in self._ledger.seats() if seat.status.takes_operators and seat.live()]
        if not seats or time.monotonic() < self._operators_at:
            return
        self._operators_at = time.monotonic() + limits.CLUSTER_OPERATORS_EVERY_SECONDS
        try:
            place = signed_operators_file(self._workspace)
            signed = durable.read_regular(place, max_bytes=limits.SIGNATURE_FILE_BYTES)
            about = dict(read_act(signed).about)
        except (OSError, Refused):
            return
        files = read_operators(self._workspace)
        if about != about_operators(files, about.get("number", 0)):
            return  # they were changed since then: what was signed is not there any more
        for seat in seats:
            if seat.status.operators_sha256 != operators_digest(files):
                self.tell(seat.name, "operators", **signed_files(signed, files))

    def _write_told(self) -> None:
        """What `threegate status` reads: derived, replaced whole."""
        if self._told_file is None:
            return
        problem = self.wire.alarm or self.lead.problem  # whatever was heard, nothing can be sent
        told = [
            {**seat.to_json(), "dropped": self.wire.dropped(queue_of(RESULT, seat.name))}
            | ({} if problem is None else {"live": False, "reason": problem})
            for seat in self._ledger.seats()
        ]
        text = json.dumps(told, indent=1)
        try:
            durable.overwrite(self._told_file, text.encode())
        except OSError as error:
            self._say(f"{self._told_file}: {error.strerror or error}")

    def heard(self, queue_name: str, data: bytes, headers: Mapping[str, Any]) -> bool:
        """Called by the listener; True holds the message. Raises Refused, KeyError, ValueError for what is dropped."""
        if queue_name == LEAD:
            return self._heard_lead(data)
        worker = queue_name.partition(".")[2]
        if queue_name == LOST:
            self._deliver(str(headers.get("id")), None, Mail("lost", {"why": _why(headers)}))
        elif len(data) <= limits.CLUSTER_NOTE_BYTES:
            self._read(worker, data)
        elif not self._readers[worker].put(lambda: self._read_large(worker, data)):
            raise Refused("envelope_invalid", "more results than can be read")
        return False

    def heard_chunk(self, queue_name: str, data: bytes, headers: Mapping[str, Any]) -> None:
        """Called by the listener for outputs. Raises Refused for what no run asked for."""
        mail = Mail("chunk", dict(headers), data)
        if not self._deliver(str(headers.get("nonce")), queue_name.partition(".")[2], mail):
            raise Refused("envelope_invalid", "a chunk that no run asked for")

    def _heard_lead(self, data: bytes) -> bool:
        led = self.lead.leads
        hold = self.lead.heard(data)
        if self.lead.behind is not None:
            self.wire.stop_listening()  # the message is the broker's again, for a daemon that is not behind
        elif self.lead.leads and not led:
            self.wire.listen_to(LOST, *(queue_of(RESULT, name) for name in self._workers))
            self._files.listen_to(*(queue_of(OUTPUT, name) for name in self._workers))
        if not led:
            self._wake.set()
        return hold

    def _read_large(self, worker: str, data: bytes) -> None:
        try:
            self._read(worker, data)
        except Refused as error:
            self.wire.drop(queue_of(RESULT, worker), str(error))

    def _read(self, worker: str, data: bytes) -> None:
        note = read_note(data, self._workers[worker], FROM_WORKER, worker)
        kind = note["type"]
        if kind == "status":
            self._check_alive(worker, note)
            returns = self._ledger.silent_for(worker) > limits.CLUSTER_LIVE_SECONDS
            self._ledger.hear(worker, note)
            if returns:
                self._wake.set()  # `threegate status` says so at once
            self._end_strangers(worker, note)
            return
        nonce = note["nonce"]
        if not self._deliver(nonce, worker, Mail(kind, note)):
            if kind == "result":
                self._say_late(worker, nonce)
                self._answer(worker, "done", nonce)
            elif kind == "may-start":
                self._answer(worker, "no", nonce)

    def _check_alive(self, worker: str, note: Mapping[str, Any]) -> None:
        """Raises Refused for a status that was sent too long ago: it was held back and replayed."""
        seconds = note["time"] - time.time()
        if abs(seconds) > limits.CLUSTER_CLOCK_SECONDS:
            self._ledger.doubt(worker, f"its clock is {abs(seconds):.0f} s off this machine's; set both")
            raise Refused("not_yet_valid", "a status of another time; set both clocks")
        with self._lock:
            life = self._lives[worker]
            if note["boot"] in life.past or (note["boot"] == life.boot and note["seq"] <= life.seq):
                raise Refused("replayed", "a status that was received before")
            if note["boot"] != life.boot:
                life.past.append(life.boot)
            life.boot, life.seq = note["boot"], note["seq"]

    def _end_strangers(self, worker: str, note: Mapping[str, Any]) -> None:
        """What a worker runs and no run of this daemon waits for is ended: its request has its end already."""
        for nonce, _ in note["running"]:
            with self._lock:
                known = nonce in self._boxes
            if not known:
                self._answer(worker, "cancel", nonce)

    def _answer(self, worker: str, type: str, nonce: str) -> None:
        """Leave it to a thread that may wait for the broker; what has no room there is asked for again."""

        def answer() -> None:
            with contextlib.suppress(Unavailable):
                self.tell(worker, type, nonce=nonce)

        self._answers.put(answer)

    def _say_late(self, worker: str, nonce: str) -> None:
        """A result that no run waits for: logged once, and only for a limited number of them."""
        late = self._lives[worker].late
        if nonce not in late and len(late) < limits.CLUSTER_LATE_RESULTS:
            late.add(nonce)
            self._say(f"{worker}: a result came after its request had ended ({nonce[:8]}…); it changes nothing")

    def _deliver(self, nonce: str, worker: str | None, mail: Mail) -> bool:
        """Pass a message to its run. False if none receives it."""
        with self._lock:
            box = self._boxes.get(nonce)
            if box is None or worker not in (None, box.worker):
                return False
            if mail.kind == "result":
                if box.answered:
                    return True  # the same again, while its outputs are fetched
                box.answered = True
            elif mail.kind == "chunk":
                if box.wanted is None or box.wanted != (mail.value.get("sha256"), mail.value.get("offset")):
                    return False
                box.wanted = None
        try:
            box.messages.put_nowait(mail)
        except queue.Full:
            box.answered = box.answered and mail.kind != "result"
            self.wire.drop(queue_of(RESULT, box.worker), "more than its run can receive")
        return True


def _why(headers: Mapping[str, Any]) -> str:
    deaths = headers.get("x-death")
    reason = deaths[0].get("reason") if isinstance(deaths, list) and deaths else None
    return str(reason or "unknown")[:64]
