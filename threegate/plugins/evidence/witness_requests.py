"""Asks the configured witnesses to cosign each trail checkpoint, in separate threads.

Invariant: the loop never waits for a witness: each has its own thread, which takes the trail's lock only to
read the newest trail checkpoint and to record an answer. A witness that does not answer is logged once, until
it answers again; a cosignature or a refusal is an event.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from threegate.core import limits
from threegate.core.errors import InvalidInput, Refused, ThreeGateError, Unavailable
from threegate.daemon.log import Log
from threegate.plugins.evidence.cosigned_checkpoints import newest_trail_checkpoint, record_cosignature, record_refusal
from threegate.plugins.evidence.section import WitnessReference
from threegate.plugins.evidence.witness_client import WitnessClient
from threegate.trail.cosignature import WitnessKey
from threegate.trail.trail import Trail


class WitnessRequests:
    """The configured witnesses; without any, it does nothing."""

    def __init__(self, trail: Trail, log: Log) -> None:
        self._trail = trail
        self._log = log
        self._askers: dict[tuple[str, WitnessReference], _Asker] = {}

    def follow(self, witnesses: Mapping[str, WitnessReference]) -> None:
        """Ask these witnesses from now on. Called at each turn of the loop."""
        if not witnesses and not self._askers:
            return
        named = set(witnesses.items())
        # A witness with another URL or key is another witness.
        for gone in self._askers.keys() - named:
            self._askers.pop(gone).end()
        for name, reference in named - self._askers.keys():
            self._askers[name, reference] = _Asker(name, reference, self._trail, self._log)

    def ask(self) -> None:
        """Ask all of them at once: there is a new checkpoint."""
        for asker in self._askers.values():
            asker.idle.clear()
            asker.wake.set()

    def close(self, seconds: float) -> None:
        """Stop recording answers, after waiting up to `seconds` for those on their way."""
        until = time.monotonic() + seconds
        for asker in self._askers.values():
            asker.idle.wait(max(0.0, until - time.monotonic()))
        for asker in self._askers.values():
            asker.end()


class _Asker:
    """One witness and its thread."""

    def __init__(self, name: str, reference: WitnessReference, trail: Trail, log: Log) -> None:
        self._name = name
        self._trail = trail
        self._log = log
        self._key = WitnessKey.parse(reference.key)
        self._client = WitnessClient(reference.url, self._key)
        self._refused = 0
        """Size of the checkpoint that this witness last refused: that one is not sent again."""
        self._reported: str | None = None
        self.stop = threading.Event()
        self.wake = threading.Event()
        self.idle = threading.Event()
        """Set while nothing is in progress and nothing is due."""
        threading.Thread(target=self._work, name=f"witness-{name}", daemon=True).start()

    def end(self) -> None:
        """Record nothing more; an exchange in progress ends by itself."""
        self.stop.set()
        self.wake.set()

    def _work(self) -> None:
        while not self.stop.is_set():
            self.wake.clear()
            self.idle.clear()
            problem = self._ask()
            if problem is not None and problem != self._reported and not self.stop.is_set():
                self._log.say("witness", what=f"{self._name}: {problem}")
            self._reported = problem
            if not self.wake.is_set():
                self.idle.set()
            self.wake.wait(limits.WITNESS_PAUSE_SECONDS)

    def _ask(self) -> str | None:
        """Have the newest checkpoint cosigned, unless it already is; return the obstacle, or None."""
        try:
            note = newest_trail_checkpoint(self._trail, self._name)
            if note is None or note.size == self._refused:
                return self._reported if note is not None else None
            try:
                cosigned = self._client.cosigned(note, self._trail.prove_consistency)
            except Refused as refusal:
                self._refused = note.size
                record_refusal(self._trail, self._name, self._key, note.size, str(refusal), unless=self.stop.is_set)
                return f"refused to cosign {note.size} events: {refusal}"
            path = record_cosignature(self._trail, self._name, self._key, cosigned, unless=self.stop.is_set)
            if path is not None:
                self._log.say("cosigned", what=str(path))
        except (Unavailable, InvalidInput) as error:
            return str(error)
        except (OSError, ThreeGateError) as error:
            return f"the cosignature could not be stored ({error})"
        return None
