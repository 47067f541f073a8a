"""Input files by content digest, kept between jobs; and the bounded chunks that they come in.

Invariant: a name in the store is the sha256 of its bytes when it was put there, and staging hashes it again; what was
not used for longest goes first when the store is full. An input under way is never under its final name.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import threading
from collections.abc import Callable, Collection
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import Unavailable

Fetch = Callable[[str, int], bytes]
"""(sha256, offset) → the bytes from there, at most CLUSTER_CHUNK_BYTES. Raises Unavailable."""


class Store:
    """A folder of files named by their sha256."""

    def __init__(self, folder: Path, most_bytes: int = limits.CLUSTER_STORE_BYTES) -> None:
        self.folder = folder
        self._most = most_bytes
        self._lock = threading.Lock()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in folder.glob(".part-*"):
            left.unlink(missing_ok=True)

    def has(self, sha256: str, size: int) -> bool:
        """Whether the bytes are here, by name and size; staging hashes them."""
        path = self.folder / sha256
        try:
            if path.lstat().st_size != size:
                path.unlink()
                return False
            os.utime(path)
        except FileNotFoundError:
            return False
        return True

    def take(self, sha256: str, size: int, fetch: Fetch, *, keep: Collection[str] = ()) -> None:
        """Have the bytes of an input here, fetching what is missing. `keep`: digests that must not be pushed out.

        Raises Unavailable when what comes is not what was signed, or the disk cannot take it.
        """
        if self.has(sha256, size):
            return
        self._make_room(size, {sha256, *keep})
        part = self.folder / f".part-{secrets.token_hex(8)}"
        digest, offset = hashlib.sha256(), 0
        try:
            with open(part, "xb") as stream:
                while offset < size:
                    chunk = fetch(sha256, offset)
                    if not chunk or offset + len(chunk) > size:
                        raise Unavailable(f"input {sha256[:12]}…: a chunk that does not belong to it")
                    stream.write(chunk)
                    digest.update(chunk)
                    offset += len(chunk)
                stream.flush()
                os.fdatasync(stream.fileno())
            if digest.hexdigest() != sha256:
                raise Unavailable(f"input {sha256[:12]}…: the bytes that came are not those that were signed")
            part.chmod(0o400)
            os.replace(part, self.folder / sha256)
            durable.sync_folder(self.folder)
        except OSError as error:
            raise Unavailable(f"input {sha256[:12]}…: cannot be kept ({error.strerror or error})") from None
        finally:
            part.unlink(missing_ok=True)

    def _make_room(self, size: int, keep: Collection[str]) -> None:
        with self._lock:
            found = []
            for path in self.folder.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    facts = path.lstat()
                    found.append((facts.st_mtime_ns, facts.st_size, path))
            used = sum(length for _, length, _ in found)
            for _, length, path in sorted(found):
                if used + size <= self._most:
                    return
                if path.name in keep or path.name.startswith("."):
                    continue
                path.unlink(missing_ok=True)
                used -= length
