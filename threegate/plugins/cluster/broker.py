"""The connections to the broker: mutual TLS 1.3 with EXTERNAL, one for listening and one for publishing.

Invariant: nothing is declared here (queues and permissions are in the broker's definitions); every
publication is confirmed by the broker or raises; received data is only bytes, which the listener's owner
verifies. The listener lives until `close`: unreadable messages are acknowledged, counted and dropped, and
reported once. It never publishes, so no message can make it wait for the broker: answers are left to a
`WorkQueue` thread. Files travel on connections of their own, so that no beat or note waits behind them.
"""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import amqp.exceptions
import kombu
import kombu.exceptions

from threegate.core import limits
from threegate.core.canonical import canonical_bytes
from threegate.core.errors import Refused, Unavailable
from threegate.plugins.cluster import raw_transport

JOB: Final = "job"
"""Envelopes for workers. Each of these is an exchange; each worker has a queue of its own for it (`queue_of`)."""
BEAT: Final = "beat"
"""The daemon's beats, the same for all workers."""
NOTE: Final = "note"
"""The daemon's notes for a worker: tokens, cancels, questions for outputs."""
CHUNK: Final = "chunk"
"""Chunks of inputs for a worker."""
RESULT: Final = "res"
"""What a worker publishes: notes and results. Of this and the next each worker has an exchange, too."""
OUTPUT: Final = "out"
"""Chunks of outputs that a worker publishes."""
LOST: Final = "lost"
"""What the broker could not deliver."""
LEAD: Final = "lead"
"""Whoever holds the message in it is the daemon that works (`lead`)."""
TASK: Final = "threegate.run"
IDENTITY_FILES: Final = ("ca.pem", "tls.pem", "tls.key")
FAULTS: Final = (
    OSError,
    amqp.exceptions.AMQPError,
    kombu.exceptions.KombuError,
    socket.timeout,
)
"""Everything by which a broker can fail to answer."""
_ANSWER_SECONDS: Final = 8
_AGAIN_SECONDS: Final = 0.5
_DOWN_SECONDS: Final = 1.0
_PREFETCH: Final = 16
_BURST_SECONDS: Final = 1.0


def queue_of(kind: str, worker: str) -> str:
    """A worker's queue, and the exchange of what it publishes."""
    return f"{kind}.{worker}"


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the broker is, and who we are to it."""

    url: str
    identity: Path

    def check(self) -> None:
        """Raises Unavailable with one line when a file is missing, or a key that others may read."""
        for name in IDENTITY_FILES:
            path = self.identity / name
            try:
                mode = path.stat().st_mode
            except OSError as error:
                raise Unavailable(f"{path}: {error.strerror}; make it with: threegate settings cluster DIR") from None
            if name.endswith(".key") and mode & 0o077:
                raise Unavailable(f"{path}: others may read it; chmod 600")

    def tls(self) -> dict[str, Any]:
        """What py-amqp hands to TLS: our certificate, the CA, the broker's name, 1.3 and nothing older."""
        return {
            "ca_certs": os.fspath(self.identity / "ca.pem"),
            "certfile": os.fspath(self.identity / "tls.pem"),
            "keyfile": os.fspath(self.identity / "tls.key"),
            "cert_reqs": ssl.CERT_REQUIRED,
            "server_hostname": urlsplit(self.url).hostname,
            "tls_minimum_version": ssl.TLSVersion.TLSv1_3,
        }

    @property
    def kombu_url(self) -> str:
        """The URL as kombu and Celery take it: TLS is in `tls`, the name in the certificate."""
        parts = urlsplit(self.url)
        return f"pyamqp://{parts.hostname}:{parts.port or 5671}/{parts.path.lstrip('/') or 'threegate'}"

    def transport_options(self) -> dict[str, Any]:
        """Bounds on every answer of the broker."""
        return {
            "confirm_publish": True,
            "confirm_timeout": _ANSWER_SECONDS,
            "connect_timeout": _ANSWER_SECONDS,
            "read_timeout": _ANSWER_SECONDS,
            "write_timeout": _ANSWER_SECONDS,
        }

    def connection(self, **callbacks: Callable[..., None]) -> kombu.Connection:
        """A connection that is not yet open; `callbacks` are py-amqp's (on_blocked, on_unblocked)."""
        return kombu.Connection(
            self.kombu_url,
            transport=raw_transport.Transport,
            ssl=self.tls(),
            login_method="EXTERNAL",
            heartbeat=limits.CLUSTER_HEARTBEAT_SECONDS,
            connect_timeout=_ANSWER_SECONDS,
            transport_options={**self.transport_options(), **callbacks},
        )


OnMessage = Callable[[str, bytes, Mapping[str, Any]], bool | None]
"""(queue, body, headers) → True to hold the message: the broker keeps it until the next one is held, and gives it to
another when this connection ends. Raises for what cannot be read: any exception drops the message, and only that."""


class WorkQueue:
    """Work that a listener leaves to a separate thread: bounded, in order, one at a time.

    For work that may be lost: what does not fit is dropped, and the sender asks again. An exception ends only
    one piece of work.
    """

    def __init__(self, name: str, most: int, say: Callable[[str], None]) -> None:
        self._name = name
        self._say = say
        self._work: queue.Queue[Callable[[], None] | None] = queue.Queue(most)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = False

    def put(self, work: Callable[[], None]) -> bool:
        """Leave a piece of work; False when there is no room for it. The thread begins with the first."""
        with self._lock:
            if self._ended:
                return False
            try:
                self._work.put_nowait(work)
            except queue.Full:
                return False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        return True

    def close(self, seconds: float) -> None:
        """Do nothing that waits still, and wait at most `seconds` for what is being done."""
        with self._lock:
            self._ended = True
            while True:
                try:
                    self._work.get_nowait()
                except queue.Empty:
                    break
            self._work.put_nowait(None)
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - the thread serves every later message too
                self._say(f"{self._name}: an internal error ({type(error).__name__})")


class Wire:
    """Listens on some queues in its own thread, and publishes from any thread."""

    def __init__(
        self,
        broker: Broker,
        queues: Sequence[str],
        on_message: OnMessage,
        say: Callable[[str], None],
        *,
        prefetch: int = _PREFETCH,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`prefetch`: how many messages of each queue are under way at once; `changed` is called after the connection
        was made, and after it was lost.
        """
        self._broker = broker
        self._queues = tuple(queues)
        self._more: tuple[str, ...] = ()
        self._on_message = on_message
        self._say = say
        self._prefetch = prefetch
        self._changed = changed
        self._held: Any = None
        self._paced: dict[str, float] = {}
        self._owed: collections.deque[tuple[float, Any]] = collections.deque()
        self._stop = threading.Event()
        self._reset = threading.Event()
        self._up = threading.Event()
        self.alarm: str | None = None
        """Why the broker takes no publications (it is short of memory or disk), as it said."""
        self._dropped: collections.Counter[str] = collections.Counter()
        self._publishing = threading.Lock()
        self._down_until = 0.0
        self._publisher: kombu.Connection | None = None
        self._channel: Any = None
        self._thread = threading.Thread(target=self._listen, name="broker", daemon=True)

    @property
    def up(self) -> bool:
        """Whether it listens now."""
        return self._up.is_set()

    def start(self) -> None:
        """Start listening; connects until it succeeds."""
        self._thread.start()

    def listen_to(self, *queues: str) -> None:
        """Listen on more queues, over this connection and later ones, until `reset`."""
        self._more = queues

    def reset(self) -> None:
        """Listen to the first queues only, over a new connection."""
        self._more = ()
        self._reset.set()

    def stop_listening(self) -> None:
        """End the listener, from any thread; what it holds is the broker's again."""
        self._stop.set()

    def close(self) -> None:
        """End both connections; takes at most `2 * _ANSWER_SECONDS` when the broker does not answer."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_ANSWER_SECONDS)
        if self._publishing.acquire(timeout=_ANSWER_SECONDS):
            try:
                self._drop_publisher()
            finally:
                self._publishing.release()

    def drop(self, queue_name: str, why: str) -> None:
        """Count an unreadable message; reported once for each queue, so that a flood of them is one line."""
        self._dropped[queue_name] += 1
        if self._dropped[queue_name] == 1:
            self._say(f"{queue_name}: dropped a message ({why}); more of them are only counted")

    def dropped(self, queue_name: str) -> int:
        """How many messages of a queue were dropped."""
        return self._dropped[queue_name]

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        headers: Mapping[str, Any] | None = None,
        *,
        lasting: bool = False,
    ) -> None:
        """Publish bytes; returns when the broker has them (`lasting`: on its disk). Raises Unavailable."""
        properties: dict[str, Any] = {
            "delivery_mode": 2 if lasting else 1,
            "content_type": "application/octet-stream",
            "application_headers": dict(headers or {}),
        }
        if not lasting:
            properties["expiration"] = str(int(limits.CLUSTER_SILENCE_SECONDS * 1000))
        self._publish(exchange, routing_key, body, properties, tries=2)

    def send_task(self, worker: str, nonce: str, sealed: str, seconds: int) -> None:
        """Send a job to Celery's worker, once. Raises Unavailable: it may have arrived all the same.

        A task of Celery's message protocol 2, with the parts of it that `check_job_message` allows.
        """
        properties = {
            "delivery_mode": 2,
            "content_type": "application/json",
            "content_encoding": "utf-8",
            "expiration": str(seconds * 1000),
            "application_headers": {"task": TASK, "id": nonce},
        }
        self._publish(JOB, worker, canonical_bytes([[sealed], {}, {}]), properties, tries=1)

    def _publish(
        self, exchange: str, routing_key: str, body: bytes, properties: Mapping[str, Any], *, tries: int
    ) -> None:
        """Returns when the broker has it. Raises Unavailable.

        After a failure the broker counts as down for a second, and everything fails at once: many runs that begin or
        end together wait for one timeout, not each for its own behind the others.
        """
        with self._publishing:
            if time.monotonic() < self._down_until:
                raise Unavailable("the broker does not take it")
            for left in reversed(range(tries)):
                try:
                    channel = self.open_channel()
                    channel.basic_publish_confirm(
                        amqp.Message(body, channel=channel, **properties),
                        exchange=exchange,
                        routing_key=routing_key,
                        timeout=_ANSWER_SECONDS,
                        confirm_timeout=_ANSWER_SECONDS,
                    )
                    self._unblocked()
                    return
                except amqp.exceptions.MessageNacked:
                    # The queue is full: one worker that does not read its own must not cost the others the connection.
                    raise Unavailable("the broker does not take it (the queue is full)") from None
                except FAULTS as error:
                    self._drop_publisher()
                    if not left or self.alarm is not None:
                        self._down_until = time.monotonic() + _DOWN_SECONDS
                        raise Unavailable(f"the broker does not take it ({self.alarm or _reason(error)})") from None

    def _blocked(self, reason: object) -> None:
        """The broker's own word that it is short of memory or disk; it takes nothing until that is over."""
        told, self.alarm = self.alarm, f"it has an alarm: {str(reason)[:100]}"
        if told is None:
            self._say(f"the broker takes nothing: {self.alarm}; on its machine: rabbitmqctl status")

    def _unblocked(self) -> None:
        told, self.alarm = self.alarm, None
        if told is not None:
            self._say("the broker's alarm is over")

    def open_channel(self) -> Any:
        """The channel that everything is published on, opened when it is first needed."""
        if self._channel is None:
            self._publisher = self._broker.connection(on_blocked=self._blocked, on_unblocked=self._unblocked)
            self._publisher.connect()
            self._channel = self._publisher.channel()
        return self._channel

    def _drop_publisher(self) -> None:
        connection, self._publisher, self._channel = self._publisher, None, None
        if connection is not None:
            shut(connection)

    def _listen(self) -> None:
        told = ""
        while not self._stop.is_set():
            connection = self._broker.connection()
            try:
                self._consume(connection)
                told = ""
            except Exception as error:  # noqa: BLE001 - whatever comes from outside, listening goes on
                reason = _reason(error) if isinstance(error, FAULTS) else type(error).__name__
                if self._up.is_set() or reason != told:
                    told = reason
                    self._say(f"no broker ({told})")
            finally:
                self._up.clear()
                self._held = None
                self._owed.clear()
                shut(connection)
                self._changed()
            self._stop.wait(_AGAIN_SECONDS)

    def _consume(self, connection: kombu.Connection) -> None:
        connection.connect()
        channel = connection.channel()
        channel.basic_qos(0, self._prefetch, False)
        self._reset.clear()
        self._up.set()
        self._say("connected to the broker")
        self._changed()
        beaten = time.monotonic()
        heard: set[str] = set()
        while not self._stop.is_set() and not self._reset.is_set():
            for name in (*self._queues, *self._more):
                if name not in heard:
                    heard.add(name)
                    channel.basic_consume(name, callback=self._taken(name))
            with contextlib.suppress(TimeoutError):
                connection.drain_events(timeout=0.5)
            while self._owed and self._owed[0][0] <= time.monotonic():
                _ack(self._owed.popleft()[1])
            if time.monotonic() - beaten >= 1.0:
                beaten = time.monotonic()
                connection.heartbeat_check()

    def _taken(self, queue_name: str) -> Callable[[Any], None]:
        def taken(message: Any) -> None:
            body = message.body or b""
            done = message
            try:
                if not isinstance(body, bytes) or len(body) > limits.CLUSTER_MESSAGE_BYTES:
                    raise Refused("envelope_invalid", "the message is too long")
                if self._on_message(queue_name, body, message.properties.get("application_headers") or {}):
                    done, self._held = self._held, message
            except Refused as error:
                self.drop(queue_name, str(error))
            except Exception as error:  # noqa: BLE001 - one message never ends the listener
                self.drop(queue_name, type(error).__name__)
            finally:
                if done is not None:
                    self._pace(queue_name, done)

        return taken

    def _pace(self, queue_name: str, message: Any) -> None:
        """Acknowledge at most CLUSTER_MESSAGES_PER_SECOND of a queue: a flood then waits at the broker, whose queue is
        short, and leaves this process to the other queues.
        """
        now = time.monotonic()
        due = max(self._paced.get(queue_name, 0.0), now - _BURST_SECONDS) + 1 / limits.CLUSTER_MESSAGES_PER_SECOND
        self._paced[queue_name] = due
        if due <= now:
            _ack(message)
        else:
            self._owed.append((due, message))


def read_chunk(path: Path, offset: int) -> bytes:
    """At most CLUSTER_CHUNK_BYTES of a regular file, from `offset`. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, limits.CLUSTER_CHUNK_BYTES, offset)
    finally:
        os.close(descriptor)


def _ack(message: Any) -> None:
    message.channel.basic_ack(message.delivery_tag)


def shut(connection: kombu.Connection) -> None:
    """Close without waiting for a broker that may be gone."""
    try:
        transport = getattr(connection, "_connection", None)
        inner = getattr(transport, "transport", None)
        if inner is not None:
            inner.close()
        connection.collect()
    except Exception:  # noqa: BLE001, S110 - the connection is given up; whatever its remains say changes nothing
        pass


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:200]
