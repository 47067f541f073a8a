"""The folder approved/ as a queue, oldest first.

Invariant: an entry only says where to look; the thread that starts a file reads it, and checks its identity.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from threegate.core.file_names import is_request_name, request_of_companion
from threegate.launch.approved_file import peek_backend

LONG_QUEUE = 32
"""From this many files on, a queue is listed only now and then."""
_LONG_SECONDS = 0.25
_LISTING_SHARE = 50
_LISTED_AT_LEAST_SECONDS = 2.0
"""A long queue is not listed for _LISTING_SHARE times the duration of listing it, but at most this long, even
on a slow disk.
"""


class QueuedFile(NamedTuple):
    """A waiting request file."""

    name: str
    path: Path
    identity: tuple[int, ...]
    """Identifies the file and its signatures, so that a change is noticed."""
    signatures: tuple[str, ...]
    """The names of its signatures, sorted."""
    backend: str | None
    """What it seems to need; a hint for the order."""


class ApprovedQueue:
    """A short queue is listed on each check; a long one, of which few can start, every _LONG_SECONDS or less
    often.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, QueuedFile] = {}
        self._again = 0.0
        self.listed = 0
        """How often the folder was listed."""
        self.backends: frozenset[str | None] = frozenset()
        """What all the listed requests seem to need; None if one of them names nothing."""

    @property
    def waiting(self) -> list[QueuedFile]:
        """The waiting requests of the last listing, without those taken since."""
        return list(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    def look(self, *, fresh: bool) -> None:
        """List the folder; without `fresh`, a recent listing may be reused."""
        began = time.monotonic()
        if fresh or len(self._known) < LONG_QUEUE or began >= self._again:
            self._known = {item.name: item for item in self._list()}
            self.backends = frozenset(item.backend for item in self._known.values())
            self.listed += 1
            now = time.monotonic()
            pause = min(_LISTING_SHARE * (now - began), _LISTED_AT_LEAST_SECONDS)
            self._again = now + max(_LONG_SECONDS, pause)

    def taken(self, name: str) -> None:
        """This one was started or is gone: it is not returned again before the folder is listed again."""
        self._known.pop(name, None)

    def _list(self) -> list[QueuedFile]:
        signatures: dict[str, list[tuple[str, int]]] = {}
        listed: list[tuple[int, str, os.stat_result]] = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # claimed by a thread or cancelled meanwhile
                    facts = entry.stat(follow_symlinks=False)
                    listed.append((facts.st_mtime_ns, entry.name, facts))
        for changed, name, _ in listed:
            of = request_of_companion(name)
            if of is not None:
                signatures.setdefault(of[0], []).append((name, changed))
        found = []
        for changed, name, facts in sorted(listed, key=lambda item: item[:2]):
            if not is_request_name(name):
                continue
            signed = sorted(signatures.get(name, []))
            names = tuple(signature for signature, _ in signed)
            identity = (facts.st_ino, facts.st_size, changed, *(moment for _, moment in signed))
            known = self._known.get(name)
            if known is None or (known.identity, known.signatures) != (identity, names):
                path = self._folder / name
                known = QueuedFile(name, path, identity, names, peek_backend(path))
            found.append(known)
        return found
