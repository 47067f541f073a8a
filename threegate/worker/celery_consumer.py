"""Celery's consumer as a worker with few rights can use it: nothing declared, nothing published, answers at once.

Celery's step for delayed delivery declares exchanges, which a worker may not; nothing here is ever delayed, so the step is
left out. Acknowledgements come from other threads: they wake the event loop, which otherwise sleeps up to a second.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from celery.worker import consumer

_LEFT_OUT = ("DelayedDelivery", "Mingle", "Gossip", "Events", "Heart", "Control")


class JobConsumer(consumer.Consumer):  # type: ignore[misc]
    """Consumes `job.<worker>` and nothing else."""

    class Blueprint(consumer.Consumer.Blueprint):  # type: ignore[misc]
        """The steps that consume and acknowledge; none that talks to other workers."""

        default_steps = [
            step
            for step in consumer.Consumer.Blueprint.default_steps
            if str(step).rpartition(":")[2] not in _LEFT_OUT
        ]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.gossip = None
        self.event_dispatcher = None
        super().__init__(*arguments, **named)

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
