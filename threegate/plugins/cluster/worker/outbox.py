"""Signed results that the daemon has not acknowledged: stored on disk, with their outputs, and sent again.

Invariant: a result is on disk before it is sent; its bytes never change; it is removed once the daemon has
it, or a day later.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import Refused
from threegate.core.removal import remove_folder
from threegate.plugins.cluster.seal import unseal
from threegate.trail.workspace_key import VerifierKey

_RESULT = "result.sealed"


@dataclass(frozen=True, slots=True)
class KeptResult:
    """One result and the folder of its outputs."""

    nonce: str
    sealed: bytes
    folder: Path
    outputs: dict[str, Path]
    """sha256 → file."""
    done: threading.Event
    since: float


class Outbox:
    """The run folders below one folder that hold a result. Safe for threads."""

    def __init__(self, folder: Path, key: VerifierKey) -> None:
        self._folder = folder
        self._key = key
        self._lock = threading.Lock()
        self._kept: dict[str, KeptResult] = {}

    def recover(self) -> list[str]:
        """Take over what a previous run left; what has no signed result is removed. Returns one line for each thing."""
        told = []
        for folder in sorted(self._folder.iterdir()):
            try:
                sealed = durable.read_regular(folder / _RESULT, max_bytes=limits.CLUSTER_SEALED_BYTES)
                note = unseal(sealed, self._key, "result")
                age = time.time() - (folder / _RESULT).lstat().st_mtime
            except (OSError, Refused):
                remove_folder(folder)
                told.append(f"removed the run {folder.name}, which has no result")
                continue
            if age > limits.CLUSTER_OUTBOX_SECONDS:
                remove_folder(folder)
                told.append(f"removed the run {folder.name}, whose result was never requested")
                continue
            outputs = {item["sha256"]: folder / "out" / item["path"] for item in note["outcome"]["artifacts"]}
            kept = KeptResult(str(note["nonce"]), sealed, folder, outputs, threading.Event(), time.monotonic())
            self._kept[kept.nonce] = kept
            told.append(f"the result of {folder.name} is sent again")
        return told

    def keep(self, nonce: str, sealed: bytes, folder: Path, outputs: dict[str, Path]) -> KeptResult:
        """Put a result on disk. Raises OSError."""
        durable.deliver(folder / _RESULT, sealed)
        kept = KeptResult(nonce, sealed, folder, outputs, threading.Event(), time.monotonic())
        with self._lock:
            self._kept[nonce] = kept
        return kept

    def waiting(self) -> list[KeptResult]:
        """Results that the daemon has not acknowledged."""
        with self._lock:
            return list(self._kept.values())

    def find(self, nonce: str) -> KeptResult | None:
        """The kept result of a nonce."""
        with self._lock:
            return self._kept.get(nonce)

    def drop(self, nonce: str) -> None:
        """The daemon has it: remove the run folder."""
        with self._lock:
            kept = self._kept.pop(nonce, None)
        if kept is not None:
            remove_folder(kept.folder)
            kept.done.set()
