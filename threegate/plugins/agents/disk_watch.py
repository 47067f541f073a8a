"""What a run may take of the disk: measured while it is alive, in bytes and in names.

Invariant: a run whose files exceed its bound, or that leaves less free space than others need, is frozen, measured
again, and ended. What cannot be measured counts as too much. While a run is alive it holds headroom, files with their
own blocks, which are removed when it ends: so even a run that was faster than its watcher leaves space for others.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.core import limits, removal
from threegate.core.durable import fill_reserve
from threegate.core.errors import Unavailable
from threegate.core.held_folder import hold_path, open_inside
from threegate.core.workspace import AgentRun
from threegate.plugins.agents.held_paths import FOLDER
from threegate.plugins.agents.runs import frozen
from threegate.plugins.agents.work_copy import NAMES, SCRATCH
from threegate.runners.jail.jail import JailProcess

_NOT_ITS: Final = ("headroom", "git", "read", f"work/{NAMES}", f"work/{SCRATCH}")
"""In a run's folder, what its agent cannot write to; nobody may list the overlay's own folder."""
_FREEZES_TRIED: Final = 3
_GONE: Final = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes on the disk, and names: files, folders and links."""

    bytes: int
    names: int

    def __add__(self, other: Space) -> Space:
        return Space(self.bytes + other.bytes, self.names + other.names)

    def __sub__(self, other: Space) -> Space:
        return Space(self.bytes - other.bytes, self.names - other.names)

    def exceeds(self, other: Space) -> bool:
        """Whether it is more, in one of them."""
        return self.bytes > other.bytes or self.names > other.names


def free_space(folder: int | Path) -> tuple[Space, Space]:
    """What the file system of a folder has free for an ordinary account, and what must stay free for others."""
    found = os.statvfs(folder)
    free = Space(found.f_bavail * found.f_frsize, found.f_favail if found.f_files else limits.AGENT_FREE_NAMES)
    most = Space(limits.AGENT_FREE_BYTES, limits.AGENT_FREE_NAMES)
    part = Space(found.f_blocks * found.f_frsize // limits.AGENT_FREE_PART, found.f_files // limits.AGENT_FREE_PART)
    return free, Space(min(most.bytes, part.bytes), min(most.names, part.names))


def used_space(folder: Path, *, skip: Collection[str] = (), unlock: bool = False) -> Space:
    """What everything below a folder takes, but for the paths in `skip`. A file with several names counts once.

    With `unlock`, folders that this account may not list are opened to it meanwhile: only for a frozen run. Raises
    OSError if something cannot be measured.
    """
    used = Space(0, 0)
    counted: set[tuple[int, int]] = set()
    with hold_path(folder) as top, ExitStack() as held:
        left = [""]
        while left:
            here = left.pop()
            try:
                descriptor = _listed(top.fileno(), here, held if unlock else None)
            except OSError as error:
                if error.errno in _GONE:
                    continue
                raise
            try:
                with os.scandir(descriptor) as entries:
                    for entry in entries:
                        with suppress(FileNotFoundError):
                            facts = entry.stat(follow_symlinks=False)
                            if stat.S_ISDIR(facts.st_mode):
                                path = f"{here}/{entry.name}" if here else entry.name
                                if path in skip:
                                    continue
                                left.append(path)
                            elif facts.st_nlink > 1:
                                key = (facts.st_dev, facts.st_ino)
                                if key in counted:
                                    continue
                                counted.add(key)
                            used += Space(facts.st_blocks * 512, 1)
            finally:
                os.close(descriptor)
    return used


def _listed(top: int, path: str, unlocked: ExitStack | None) -> int:
    """Open a folder below an open one for listing; with `unlocked` one that forbids it, until that stack is closed.
    Raises OSError.
    """
    # The caller closes each descriptor at once: a tree may have more levels than a process has descriptors.
    try:
        return open_inside(top, path or ".", FOLDER)
    except PermissionError:
        if unlocked is None:
            raise
    found = open_inside(top, path or ".", os.O_PATH | os.O_DIRECTORY)
    unlocked.callback(os.close, found)
    place = f"/proc/self/fd/{found}"  # chmod through it reaches this very folder, whatever has its name now
    unlocked.callback(os.chmod, place, stat.S_IMODE(os.fstat(found).st_mode))
    os.chmod(place, 0o700)
    return open_inside(top, path or ".", FOLDER)


def hold_headroom(run: AgentRun) -> None:
    """Take the headroom of a run that is about to start. Raises Unavailable if the disk has not that much, and what
    must stay free besides.
    """
    free, least = free_space(run.folder)
    files = min(limits.AGENT_HEADROOM_FILES, least.bytes // limits.AGENT_HEADROOM_FILE_BYTES)
    whole = fill_reserve(run.headroom, files, limits.AGENT_HEADROOM_FILE_BYTES)
    free, _ = free_space(run.folder)
    if not whole or least.exceeds(free):
        raise Unavailable(
            f"{run.folder.parent}: the disk has {free.bytes >> 10} KiB and {free.names} names left, and a run must "
            f"leave {least.bytes >> 10} KiB and {least.names}; make room, for instance with: threegate agent remove RUN"
        )


def release_headroom(run: AgentRun) -> None:
    """Give the headroom back: the run has ended."""
    with suppress(OSError):
        removal.remove_tree(run.headroom)


class DiskWatch:
    """Watches a run in a thread of its own, from `start` to the end of the block."""

    def __init__(self, run: AgentRun, most: Space) -> None:
        """`most` is the bound on everything in the run's folder that its agent may write to."""
        self.reason: str | None = None
        """Why it ended the run, as in `agent_ended`; None if it did not."""
        self._run = run
        self._most = most
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._unfrozen = 0
        """How often in a row it could not be frozen."""

    def __enter__(self) -> DiskWatch:
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def start(self, process: JailProcess) -> None:
        """The run is alive now."""
        self._thread = threading.Thread(target=self._work, args=(process,), name="disk-watch", daemon=True)
        self._thread.start()

    def _work(self, process: JailProcess) -> None:
        try:
            self._watch(process)
        except Exception:  # noqa: BLE001 - whatever it is: no run stays alive unwatched
            self.reason = "disk_unmeasured"
            process.kill()

    def _watch(self, process: JailProcess) -> None:
        measured, free_then, due = Space(0, 0), Space(0, 0), 0.0
        while not self._over.wait(limits.AGENT_DISK_LOOK_SECONDS):
            free, least = free_space(self._run.folder)
            reason = "disk_reserve" if least.exceeds(free) else None
            began = time.monotonic()
            # Measured when it is due, or when so much was written since that a bound could be reached.
            if reason is None and (began >= due or (free_then - free).exceeds(self._most - measured)):
                try:
                    measured = used_space(self._run.folder, skip=_NOT_ITS)
                    reason = self._excess(measured)
                except OSError:
                    reason = "disk_unmeasured"
                free_then = free
                due = time.monotonic() + max(
                    limits.AGENT_DISK_MEASURE_SECONDS, limits.AGENT_DISK_PAUSES * (time.monotonic() - began)
                )
            if reason is not None and self._ends(reason, process):
                return

    def _excess(self, used: Space) -> str | None:
        if used.bytes > self._most.bytes:
            return "disk_bytes"
        return "disk_names" if used.names > self._most.names else None

    def _ends(self, reason: str, process: JailProcess) -> bool:
        """Freeze the run and check again; if it is still so, or it cannot be frozen, end it."""
        try:
            with frozen(self._run):
                self._unfrozen = 0
                found = self._frozen_reason()
                if found is not None:
                    self.reason = found
                    process.kill()
        except (OSError, Unavailable):  # another process reads its changes, for instance, and has it frozen
            self._unfrozen += 1
            if reason != "disk_unmeasured" or self._unfrozen >= _FREEZES_TRIED:
                self.reason = reason
                process.kill()
        return self.reason is not None

    def _frozen_reason(self) -> str | None:
        free, least = free_space(self._run.folder)
        if least.exceeds(free):
            return "disk_reserve"
        try:
            return self._excess(used_space(self._run.folder, skip=_NOT_ITS, unlock=True))
        except OSError:
            return "disk_unmeasured"
