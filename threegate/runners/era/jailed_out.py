"""Collects /out of a run in bubblewrap, from a descriptor that was opened before its first instruction.

Invariant: as in `staging.collect`: regular files only, hashed, read-only, and everything left out is reported. Nothing
can change any more: no process of the run is left, and its mount namespace is gone. No name is followed.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath
from typing import Final

from threegate.core import durable, limits
from threegate.request.job import JobLimits
from threegate.runners.staging import Collected, copy, fresh_folder, odd_name, open_folder, refused_kind

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def full(out: int, bounds: JobLimits) -> str | None:
    """Which limit of /out was reached at the end, or None."""
    facts = os.fstatvfs(out)
    if facts.f_ffree == 0:
        return f"/out holds {bounds.out_files} names, its limit"
    return None if facts.f_bfree else f"/out holds {bounds.out_bytes} bytes, its limit"


def collect_out(out: int, target: Path, bounds: JobLimits) -> Collected:
    """Copy what is kept into the new folder `target`. Raises OSError."""
    found = Collected()
    with fresh_folder(target) as kept:
        _Copier(bounds, target, found).walk(out, kept, PurePosixPath())
    found.finish()
    return found


class _Copier:
    """One walk; its names are bounded by those of the file system."""

    def __init__(self, bounds: JobLimits, target: Path, found: Collected) -> None:
        self._bounds = bounds
        self._target = target
        self._found = found

    def walk(self, folder: int, kept: int, path: PurePosixPath) -> None:
        """Copy from `folder` into `kept`."""
        for name in sorted(os.listdir(folder)):
            reason = odd_name(name) or self._one(folder, kept, path / name)
            if reason is not None:
                self._found.drop(str(path / name), reason)

    def _one(self, folder: int, kept: int, path: PurePosixPath) -> str | None:
        facts = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(facts.st_mode):
            if len(path.parts) > limits.OUT_DEPTH:
                return f"a folder more than {limits.OUT_DEPTH} deep"
            if self._found.exceeded:
                return "after a file that exceeded a limit of /out"
            os.chmod(path.name, 0o700, dir_fd=folder)  # a run may have taken away its own permissions
            durable.make_folder_at(kept, path.name, self._target / path)
            with open_folder(path.name, dir_fd=folder) as inner, open_folder(path.name, dir_fd=kept) as copied:
                self.walk(inner, copied, path)
            return None
        reason = refused_kind(facts) or self._found.refusal(facts.st_size, self._bounds)
        if reason is not None:
            return reason
        os.chmod(path.name, 0o400, dir_fd=folder)
        source = os.open(path.name, _READ, dir_fd=folder)
        try:
            target = durable.create_at(kept, path.name, self._target / path, 0o400)
            try:
                digest, size = copy(source, target, facts.st_size, self._target / path)
            finally:
                os.close(target)
        finally:
            os.close(source)
        if size != facts.st_size:
            raise OSError(f"{path}: its size changed while it was collected")
        self._found.keep(path, size, digest)
        return None
