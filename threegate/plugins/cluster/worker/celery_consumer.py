"""Celery's consumer as a worker with few rights can use it: nothing declared, nothing published, answers at once.

Celery's step for delayed delivery declares exchanges, which a worker may not; nothing here is ever delayed, so the step
is left out. Acknowledgements come from other threads: they wake the event loop, which otherwise sleeps up to a second.

Invariant: Celery sees only messages that hold one envelope as one text in strict JSON, without any of its own features
(no callbacks, delays, retries, other tasks); the rest is rejected unread, which the broker reports to the daemon.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

from celery.utils.log import get_logger
from celery.worker import consumer

from threegate.core import canonical, limits
from threegate.core.errors import Refused
from threegate.plugins.cluster.broker import TASK
from threegate.plugins.cluster.seal import NONCE

_LOGGER = get_logger("celery.worker.jobs")
_LEFT_OUT = ("DelayedDelivery", "Mingle", "Gossip", "Events", "Heart", "Control")


def check_job_message(message: Any) -> None:
    """Raises Refused unless the message is what a daemon sends. The envelope itself is verified where it is taken."""
    headers, body = message.headers, message.body
    refused = Refused("envelope_invalid", "the message holds no envelope")
    if not isinstance(body, bytes) or message.content_type != "application/json":
        raise refused
    if headers.get("task") != TASK or not NONCE.fullmatch(str(headers.get("id"))):
        raise refused
    if headers.get("eta") is not None or headers.get("compression") is not None:
        raise refused
    try:
        value = canonical.loads_strict(body, max_bytes=2 * limits.CLUSTER_ENVELOPE_BYTES)
    except ValueError:
        raise refused from None
    match value:
        case [[str()], dict() as named, dict() as options] if not named and not any(options.values()):
            return
    raise refused


class JobConsumer(consumer.Consumer):  # type: ignore[misc]
    """Consumes `job.<worker>` and nothing else."""

    class Blueprint(consumer.Consumer.Blueprint):  # type: ignore[misc]
        """The steps that consume and acknowledge; none that talks to other workers."""

        default_steps = [
            step for step in consumer.Consumer.Blueprint.default_steps if str(step).rpartition(":")[2] not in _LEFT_OUT
        ]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.gossip = None
        self.event_dispatcher = None
        self._rejected = 0
        super().__init__(*arguments, **named)

    def create_task_handler(self, *arguments: Any, **named: Any) -> Callable[[Any], Any]:
        """What takes a message: nothing in one ends the worker."""
        take = super().create_task_handler(*arguments, **named)

        def checked(message: Any) -> Any:
            try:
                check_job_message(message)
                return take(message)
            except (*self.connection_errors, *self.channel_errors):
                raise
            except Exception as error:  # noqa: BLE001 - one message never ends the worker
                self.on_decode_error(message, error)
                return None

        return checked

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """Reject it, which the broker reports as lost; logged once."""
        self._rejected += 1
        if self._rejected == 1:
            _LOGGER.error("rejected a message that holds no envelope; more of them are only counted")
        if not message.acknowledged:
            message.reject_log_error(_LOGGER, self.connection_errors)

    def register_with_event_loop(self, hub: Any) -> None:
        """Add the wake-up to the loop."""
        super().register_with_event_loop(hub)
        hub.add_reader(self._wake, self._woken)

    def call_soon(self, p: Any, *arguments: Any, **named: Any) -> Any:
        """Schedule, and wake the loop."""
        answer = super().call_soon(p, *arguments, **named)
        os.eventfd_write(self._wake, 1)
        return answer

    def call_soon_ack(self, p: Any, *arguments: Any, **named: Any) -> Any:
        """Schedule an acknowledgement, and wake the loop."""
        answer = super().call_soon_ack(p, *arguments, **named)
        os.eventfd_write(self._wake, 1)
        return answer

    def _woken(self, *_: Any) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
