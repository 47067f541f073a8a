"""Signed results that the daemon has not acknowledged: stored on disk, with their outputs, and sent again.

Invariant: a result is on disk before it is sent; its bytes never change; it is removed once the daemon has
it, or a day later.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import Refused
from threegate.core.removal import remove_folder
from threegate.plugins.cluster.seal import unseal
from threegate.trail.workspace_key import VerifierKey

_RESULT = "result.sealed"


@dataclass(slots=True)
class KeptResult:
    """One result and the folder of its outputs."""

    nonce: str
    sealed: bytes
    folder: Path
    outputs: dict[str, Path]
    """sha256 → file."""
    since: float
    """When it was kept, in seconds since 1970."""
    done: threading.Event = field(default_factory=threading.Event)
    sent: float = field(default_factory=time.monotonic)
    """When it was last sent, or taken over."""


class Outbox:
    """The run folders below one folder that hold a result. Safe for threads."""

    def __init__(self, folder: Path, key: VerifierKey) -> None:
        self.folder = folder
        """One folder for each run, until its result is with the daemon."""
        self._key = key
        self._lock = threading.Lock()
        self._kept: dict[str, KeptResult] = {}

    def recover(self) -> list[str]:
        """Take over what a previous run left; what has no signed result is removed. Returns one line for each thing."""
        told = []
        for folder in sorted(self.folder.iterdir()):
            try:
                sealed = durable.read_regular(folder / _RESULT, max_bytes=limits.CLUSTER_SEALED_BYTES)
                note = unseal(sealed, self._key, "result")
                since = (folder / _RESULT).lstat().st_mtime
            except (OSError, Refused):
                remove_folder(folder)
                told.append(f"removed the run {folder.name}, which has no result")
                continue
            if time.time() - since > limits.CLUSTER_OUTBOX_SECONDS:
                remove_folder(folder)
                told.append(f"removed the run {folder.name}, whose result was never requested")
                continue
            outputs = {item["sha256"]: folder / "out" / item["path"] for item in note["outcome"]["artifacts"]}
            self._kept[note["nonce"]] = KeptResult(note["nonce"], sealed, folder, outputs, since)
            told.append(f"the result of {folder.name} is sent again")
        return told

    def keep(self, nonce: str, sealed: bytes, folder: Path, outputs: dict[str, Path]) -> KeptResult:
        """Put a result on disk. Raises OSError."""
        durable.deliver(folder / _RESULT, sealed)
        kept = KeptResult(nonce, sealed, folder, outputs, time.time())
        with self._lock:
            self._kept[nonce] = kept
        return kept

    def waiting(self) -> list[KeptResult]:
        """Results that the daemon has not acknowledged; one that is too old is removed."""
        with self._lock:
            kept = list(self._kept.values())
        oldest = time.time() - limits.CLUSTER_OUTBOX_SECONDS
        for item in kept:
            if item.since < oldest:
                self.drop(item.nonce)
        return [item for item in kept if item.since >= oldest]

    def find(self, nonce: str) -> KeptResult | None:
        """The kept result of a nonce."""
        with self._lock:
            return self._kept.get(nonce)

    def drop(self, nonce: str) -> None:
        """The daemon has it, or it is too old: remove the run folder."""
        with self._lock:
            kept = self._kept.pop(nonce, None)
        if kept is not None:
            remove_folder(kept.folder)
            kept.done.set()
