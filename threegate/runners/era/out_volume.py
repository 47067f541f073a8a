"""A run's /out: a file system of its own, limited in bytes and in names, that goes away with the run.

Invariant: whatever a run does, it cannot write more than the cap, and nothing of it stays mounted.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

from threegate.core.errors import Unavailable
from threegate.request.job import JobLimits

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_libc = ctypes.CDLL(None, use_errno=True)


def can_mount() -> str | None:
    """None when this process may make such a volume, else what is missing."""
    if os.geteuid() != 0:
        return "/out cannot be limited without root (its volume is a tmpfs); run the daemon as root"
    return None


class OutVolume:
    """A tmpfs of `bounds.out_bytes` and `bounds.out_files` at `path`, owned by the run's user."""

    def __init__(self, path: Path, bounds: JobLimits, uid: int) -> None:
        self.path = path
        self._mounted = False
        path.mkdir(mode=0o700)
        # One more inode: the root of the file system is one itself.
        options = f"size={bounds.out_bytes},nr_inodes={bounds.out_files + 1},mode=0700,uid={uid},gid={uid}"
        flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
        if _libc.mount(b"threegate", os.fsencode(path), b"tmpfs", flags, options.encode()) != 0:
            raise Unavailable(f"{path}: no limited volume for /out ({os.strerror(ctypes.get_errno())})")
        self._mounted = True

    def full(self) -> str | None:
        """Which cap of the volume is met, or None."""
        facts = os.statvfs(self.path)
        if facts.f_ffree == 0:
            return f"/out holds {facts.f_files - 1} names, its limit"
        if facts.f_bfree == 0:
            return f"/out holds {facts.f_blocks * facts.f_frsize} bytes, its limit"
        return None

    def limits(self) -> tuple[int, int]:
        """Bytes and names as the kernel holds them."""
        facts = os.statvfs(self.path)
        return facts.f_blocks * facts.f_frsize, facts.f_files - 1

    def close(self) -> None:
        """Unmount and remove it; nothing happens the second time."""
        if self._mounted:
            self._mounted = False
            unmount(self.path)
        with suppress(OSError):
            self.path.rmdir()


def unmount(path: Path) -> None:
    """Unmount what lies at `path`, at once for names, when it is no longer used for the rest."""
    _libc.umount2(os.fsencode(path), _MNT_DETACH | _UMOUNT_NOFOLLOW)


def left_mounts(below: Path) -> list[Path]:
    """Our volumes that are still mounted below a folder (a daemon before us was killed)."""
    found = []
    prefix = str(below.resolve()) + "/"
    for line in (
        Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    ):
        fields = line.split(" ")
        place = fields[4].encode().decode("unicode_escape")
        if place.startswith(prefix) and fields[fields.index("-") + 2] == "threegate":
            found.append(Path(place))
    return found
