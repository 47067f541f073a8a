"""The worker's own connection to the daemon: its status, the notes it answers, and the fence.

Invariant: only notes that the workspace's key signed for this worker count; a run whose daemon has sent
nothing for the time that its envelope allows (`away_sec`) is stopped here, which is before the daemon counts it as
lost; a run of a previous daemon is stopped as soon as a newer one sends a message. A start token
counts only as the answer to the query that this life of the worker sent. The listener publishes nothing and
removes nothing, because it could not receive meanwhile.
"""

from __future__ import annotations

import contextlib
import itertools
import platform
import queue
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal
from typing import Any

from threegate.core import limits
from threegate.core.errors import Refused, Unavailable
from threegate.plugins.cluster.broker import (
    BEAT,
    CHUNK,
    NOTE,
    OUTPUT,
    RESULT,
    Broker,
    Wire,
    WorkQueue,
    queue_of,
    read_chunk,
)
from threegate.plugins.cluster.notes import TO_WORKER, read_note
from threegate.plugins.cluster.seal import seal
from threegate.plugins.cluster.worker.outbox import Outbox
from threegate.runners.interface import Control
from threegate.trail.event import trail_text
from threegate.trail.workspace_key import SigningKey, VerifierKey

_LOOK_SECONDS = 0.25
_ASK_SECONDS = 3.0
_RESEND_SECONDS = 5.0
_CHUNK_SECONDS = 6.0
_CHUNK_TRIES = 3


@dataclass(frozen=True, slots=True)
class Capacity:
    """What this worker offers: cores, MiB, rows of each backend, and the images that its engine has."""

    cores: Decimal
    memory_mb: int
    rows: Mapping[str, int]
    """By the backend's name in lower case."""
    images: tuple[str, ...]


@dataclass(slots=True)
class Active:
    """A job that is here now."""

    nonce: str
    request_id: str
    boot: str
    envelope_sha256: str
    control: Control
    inputs: frozenset[str]
    away_sec: int
    """How long it goes on without a beat of its daemon, or when this worker's statuses do not go out."""
    since: float = field(default_factory=time.monotonic)
    wanted: tuple[str, int] | None = None
    """The chunk (sha256, offset) that was asked for: there is room for it and for no other."""
    messages: queue.Queue[tuple[str, Mapping[str, Any], bytes]] = field(
        default_factory=lambda: queue.Queue(limits.CLUSTER_MAILBOX)
    )


@dataclass(slots=True)
class _Heard:
    seq: int
    at: float


class Agent:
    """Connections, active runs, and what was received from which life of the daemon."""

    def __init__(
        self,
        broker: Broker,
        name: str,
        key: SigningKey,
        workspace_key: VerifierKey,
        outbox: Outbox,
        say: Callable[[str], None],
    ) -> None:
        self.name = name
        self._key = key
        self._workspace_key = workspace_key
        self._outbox = outbox
        self._say = say
        self.capacity = Capacity(Decimal(0), 0, {}, ())
        self.problem: str | None = "the doctor has not looked yet"
        """Why no work is taken; None: work is taken."""
        self.judges_by: Mapping[str, str | int] = {}
        """What else its status says of it (`worker/health.py`): version, digests, the end of its certificate."""
        self.take_operators: Callable[[Mapping[str, Any]], None] = lambda note: None
        """What is done with operators files that came; whoever sent them, nothing of them is verified yet."""
        self._boot = f"{time.time_ns():x}"
        self._seq = itertools.count(1)
        self._active: dict[str, Active] = {}
        self._boots: dict[str, _Heard] = {}
        self._newest = ""
        self._told = time.monotonic()
        """When the broker last took a status."""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._wire = Wire(broker, [queue_of(BEAT, name), queue_of(NOTE, name)], self.heard, say)
        self._files = Wire(broker, [queue_of(CHUNK, name)], self.heard_chunk, lambda line: None, prefetch=1)
        self._answers = WorkQueue("answers", limits.CLUSTER_ANSWERS, say)
        self._threads = [
            threading.Thread(target=self._fence, name="fence", daemon=True),
            threading.Thread(target=self._tell_status, name="status", daemon=True),
        ]

    def start(self) -> None:
        """Connect, send the status, and enforce the fence."""
        self._wire.start()
        self._files.start()
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Disconnect."""
        self._stop.set()
        for thread in self._threads:
            thread.join(limits.CLUSTER_BEAT_SECONDS * 2)
        self._answers.close(limits.CLUSTER_BEAT_SECONDS)
        self._wire.close()
        self._files.close()

    def tell(self, type: str, *, lasting: bool = False, **value: Any) -> None:
        """A signed note to the daemon. Raises Unavailable."""
        self.send(self.sealed(type, **value), lasting=lasting)

    def sealed(self, type: str, **value: Any) -> bytes:
        """A signed note as it would be sent."""
        note = {"worker": self.name, "boot": self._boot, "seq": next(self._seq), **value}
        return seal(self._key, type, note)

    def send(self, sealed: bytes, *, lasting: bool = False) -> None:
        """Publish a note that is signed already. Raises Unavailable."""
        self._wire.publish(queue_of(RESULT, self.name), self.name, sealed, lasting=lasting)

    def enter(self, active: Active) -> bool:
        """Receive notes for this nonce from now on. False if it is already known. Raises Refused."""
        with self._lock:
            if active.nonce in self._active:
                return False
            if len(self._active) >= limits.CLUSTER_RUNS:
                raise Refused("worker_full", "this worker has as many jobs as its status can name")
            self._active[active.nonce] = active
            self._boots.setdefault(active.boot, _Heard(0, time.monotonic()))
            return True

    def leave(self, active: Active) -> None:
        """The job is not here any more."""
        with self._lock:
            self._active.pop(active.nonce, None)

    def inputs_in_use(self) -> frozenset[str]:
        """Digests of the inputs of everything that is here."""
        with self._lock:
            return frozenset().union(*(active.inputs for active in self._active.values()))

    def may_start(self, active: Active) -> bool:
        """Request the start token and wait for it; the same question again while no answer comes.

        The query contains a random value that the daemon's answer repeats: a recorded token starts nothing a
        second time, even if the journal was rolled back.
        """
        ask, asked = secrets.token_hex(16), 0.0
        until = time.monotonic() + limits.CLUSTER_TOKEN_SECONDS + active.away_sec
        while (now := time.monotonic()) < until and not _ended(active.control):
            if now - asked > _ASK_SECONDS:
                asked = now
                with contextlib.suppress(Unavailable):  # the broker may be back in time
                    self.tell("may-start", nonce=active.nonce, envelope_sha256=active.envelope_sha256, ask=ask)
            try:
                kind, note, _ = active.messages.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            if kind == "go" and (note["envelope_sha256"], note["ask"]) == (active.envelope_sha256, ask):
                return not _ended(active.control)
            if kind == "no":
                return False
        return False

    def fetch(self, active: Active, sha256: str, offset: int) -> bytes:
        """One chunk of an input from the daemon. Raises Unavailable."""
        for _ in range(_CHUNK_TRIES):
            active.wanted = (sha256, offset)
            self.tell("want", nonce=active.nonce, sha256=sha256, offset=offset)
            until = time.monotonic() + _CHUNK_SECONDS
            while time.monotonic() < until:
                if _ended(active.control):
                    raise Unavailable("ended while its inputs were fetched")
                try:
                    kind, headers, data = active.messages.get(timeout=_LOOK_SECONDS)
                except queue.Empty:
                    continue
                if kind == "chunk" and (headers.get("sha256"), headers.get("offset")) == (sha256, offset):
                    return data[: limits.CLUSTER_CHUNK_BYTES]
        raise Unavailable(f"input {sha256[:12]}…: the daemon does not send it")

    def heard(self, _queue: str, data: bytes, headers: Mapping[str, Any]) -> None:
        """Called by the listener. Raises Refused for what is dropped."""
        note = read_note(data, self._workspace_key, TO_WORKER, self.name)
        self._life(note["boot"], note["seq"])
        self._note(note)

    def heard_chunk(self, _queue: str, data: bytes, headers: Mapping[str, Any]) -> None:
        """Called by the listener for inputs. Raises Refused for what is dropped."""
        if not self._put(str(headers.get("nonce")), "chunk", dict(headers), data):
            raise Refused("envelope_invalid", "a chunk that nothing here asked for")

    def _life(self, boot: str, seq: int) -> None:
        """A sign of life, unless it was received before."""
        with self._lock:
            heard = self._boots.get(boot)
            if heard is None:
                self._boots[boot] = _Heard(seq, time.monotonic())
                if self._newest and boot != self._newest:
                    self._say("the daemon has begun a new life; what ran for its last one is ended")
                    for active in self._active.values():
                        if active.boot != boot:
                            active.control.interrupt("the daemon was restarted")
                self._newest = boot
            elif seq > heard.seq:
                heard.seq, heard.at = seq, time.monotonic()
                self._newest = self._newest or boot

    def _note(self, note: dict[str, Any]) -> None:
        kind, nonce = note["type"], str(note.get("nonce"))
        if kind == "cancel":
            with self._lock:
                active = self._active.get(nonce)
            if active is not None:
                active.control.cancelled.set()
        elif kind == "done":
            self._answers.put(lambda: self._outbox.drop(nonce))
        elif kind == "want":
            self._answers.put(lambda: self._send_output(nonce, note["sha256"], note["offset"]))
        elif kind == "operators":
            self._answers.put(lambda: self.take_operators(note))
        elif kind in ("go", "no"):
            self._put(nonce, kind, note, b"")

    def _put(self, nonce: str, kind: str, value: Mapping[str, Any], data: bytes) -> bool:
        """Pass a message to its job. False if no job here receives it."""
        with self._lock:
            active = self._active.get(nonce)
            if active is None:
                return False
            if kind == "chunk":
                if active.wanted is None or active.wanted != (value.get("sha256"), value.get("offset")):
                    return False
                active.wanted = None
        try:
            active.messages.put_nowait((kind, value, data))
        except queue.Full:
            return False
        return True

    def _send_output(self, nonce: str, sha256: str, offset: int) -> None:
        kept = self._outbox.find(nonce)
        path = kept.outputs.get(sha256) if kept is not None else None
        if path is None:
            return
        try:
            data = read_chunk(path, offset)
            headers = {"nonce": nonce, "sha256": sha256, "offset": offset}
            self._files.publish(queue_of(OUTPUT, self.name), self.name, data, headers)
        except (OSError, Unavailable) as error:
            self._say(f"an output could not be sent ({error})")

    def _fence(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            now = time.monotonic()
            with self._lock:
                for active in self._active.values():
                    heard = self._boots.get(active.boot)
                    # Beats come while our own statuses do not go out, as in an alarm of the broker: the daemon then
                    # counts this worker as silent, and the run must have ended before.
                    silent = now - min(heard.at if heard is not None else now, max(self._told, active.since))
                    if silent > active.away_sec and not active.control.interrupted.is_set():
                        self._say(f"{active.request_id}: no sign of the daemon for {silent:.0f} s; it is ended")
                        active.control.interrupt(
                            f"worker {self.name} had no sign of the daemon for {silent:.0f} s (broker, net or daemon)"
                        )

    def _tell_status(self) -> None:
        while not self._stop.is_set():
            try:
                self.tell("status", **self._status())
                self._told = time.monotonic()
                self._resend()
            except Unavailable:
                pass  # the listener says it
            self._stop.wait(limits.CLUSTER_BEAT_SECONDS)

    def _status(self) -> dict[str, Any]:
        have = self.capacity
        with self._lock:
            here = {active.nonce: active.request_id for active in self._active.values()}
        for kept in self._outbox.waiting():  # its result is not lost: it is sent again
            here.setdefault(kept.nonce, kept.folder.name.rpartition(".")[0])
        return {
            "time": int(time.time()),
            "machine": re.sub(r"[^A-Za-z0-9._-]", "-", platform.node())[: limits.CLUSTER_NAME_CHARS],
            "cores": format(have.cores.quantize(Decimal("0.001"), ROUND_DOWN), "f"),
            "memory_mb": have.memory_mb,
            "rows": dict(have.rows),
            "images": list(have.images),
            "healthy": self.problem is None,
            "reason": trail_text(self.problem or "", limits.CLUSTER_TEXT_CHARS),
            "running": [list(item) for item in here.items()][: limits.CLUSTER_RUNS],
            **self.judges_by,
        }

    def interrupt_all(self) -> None:
        """End everything that is here."""
        with self._lock:
            for active in self._active.values():
                active.control.interrupt(f"worker {self.name} was stopped")

    def tell_now(self) -> None:
        """The status at once, after it changed."""
        with contextlib.suppress(Unavailable):
            self.tell("status", **self._status())

    def _resend(self) -> None:
        now = time.monotonic()
        for kept in self._outbox.waiting():
            if now - kept.sent > _RESEND_SECONDS:
                kept.sent = now
                self.send(kept.sealed, lasting=True)


def _ended(control: Control) -> bool:
    return control.cancelled.is_set() or control.interrupted.is_set()
