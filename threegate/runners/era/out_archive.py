"""Collects /out from an archive that the engine makes, with the one strict reader of tar archives.

Invariant: as in `staging.collect`: regular files only, hashed, read-only, and everything left out is reported: entries
missing from the archive (such as sockets) are noticed by comparing with the number of names that PID 1 counted in /out.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath

import docker

from threegate.core import durable, limits
from threegate.request.job import JobLimits
from threegate.request.tar_reader import FILES, FOLDER, TarError, TarHeader, read_headers
from threegate.runners.staging import Collected, copy, fresh_folder, odd_name, open_folder

_ROOT = b"out"
_SET_ID = 0o6000
_KINDS = {b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"6": "a FIFO"}
_HARD_LINK = b"1"
_SEVERAL = "a file with several hard links"


def collect_archive(
    api: docker.APIClient, container: str, names: int, work: Path, target: Path, bounds: JobLimits
) -> Collected:
    """Collect /out of a container in which nothing changes any more; it has `names` entries. `work` receives
    the archive.

    Raises the engine's errors, OSError of our own disk, ValueError for an invalid archive.
    """
    end = time.monotonic() + limits.OUT_COLLECT_SECONDS
    # What /out can hold, and headers: each name may need more than one.
    most = bounds.out_bytes + (bounds.out_files + 2) * limits.OUT_ARCHIVE_ENTRY_BYTES
    with tempfile.TemporaryFile(dir=work) as archive:
        size = 0
        chunks, _ = api.get_archive(container, "/out", chunk_size=limits.MIB)
        for chunk in chunks:
            if time.monotonic() >= end:
                raise TimeoutError(f"not delivered within {limits.OUT_COLLECT_SECONDS} s")
            size += archive.write(chunk)
            if size > most:  # sparse files: more bytes than /out can hold
                break
        archive.flush()
        headers: list[TarHeader] = []
        try:
            headers.extend(read_headers(archive, 4 * bounds.out_files + 8))
        except TarError as error:
            if size <= most:
                raise ValueError(f"the engine's archive of /out {error}") from None
        return _Unpacker(bounds, target, headers).run(archive.fileno(), names, cut=size > most)


class _Unpacker:
    """One pass through an archive's headers."""

    def __init__(self, bounds: JobLimits, target: Path, headers: list[TarHeader]) -> None:
        self._bounds = bounds
        self._target = target
        self._headers = headers
        self._found = Collected()
        # A file's first name comes as a file, each further one as a link to it.
        linked = [header for header in headers if header.kind == _HARD_LINK]
        self._several = {header.link for header in linked} | {header.name for header in linked}

    def run(self, archive: int, names: int, *, cut: bool) -> Collected:
        """Keep what may be kept. `names` is the count from PID 1; `cut`: the archive continues."""
        found, unseen = self._found, names
        with fresh_folder(self._target) as target:
            for header in self._headers:
                parts = self._parts(header)
                unseen -= bool(parts)
                path = PurePosixPath(*parts)
                # Entries in a folder that is left out are left out with it.
                if parts and not any(map(odd_name, parts[:-1])) and len(parts) <= limits.OUT_DEPTH + 1:
                    reason = odd_name(parts[-1]) or self._one(header, path, archive, target)
                    if reason is not None:
                        found.drop(str(path), reason)
        if cut and found.exceeded is None:
            found.exceeded = f"/out holds more than {self._bounds.out_bytes} bytes"
        elif not cut and unseen > 0:
            found.dropped.append(f"{unseen} that the engine does not deliver: sockets, or paths that are too long")
        found.finish()
        return found

    def _parts(self, header: TarHeader) -> list[str]:
        """The path below /out. Raises ValueError for one that leads elsewhere."""
        root, *parts = os.fsdecode(header.name.removesuffix(b"/")).split("/")
        if os.fsencode(root) != _ROOT or any(part in ("", ".", "..") for part in parts):
            raise ValueError("the engine's archive of /out has a path that is not in it")
        return parts

    def _one(self, header: TarHeader, path: PurePosixPath, archive: int, target: int) -> str | None:
        """Keep one entry, or report why not."""
        if header.kind == FOLDER:
            if len(path.parts) > limits.OUT_DEPTH:
                return f"a folder more than {limits.OUT_DEPTH} deep"
            if not self._found.exceeded:
                with _inside(target, path) as folder:
                    durable.make_folder_at(folder, path.name, self._target / path)
            return None
        if header.name in self._several:
            return _SEVERAL
        if header.kind not in FILES:
            return _KINDS.get(header.kind, "not a regular file")
        if header.mode & _SET_ID:
            return "a file with a set-user-id or set-group-id bit"
        if (reason := self._found.refusal(header.size, self._bounds)) is not None:
            return reason
        os.lseek(archive, header.offset, os.SEEK_SET)
        with _inside(target, path) as folder:
            kept = durable.create_at(folder, path.name, self._target / path, 0o400)
            try:
                digest, written = copy(archive, kept, header.size - 1, self._target / path)
                if written != header.size:
                    raise OSError(f"{path}: its size changed while it was collected")
            finally:
                os.close(kept)
        self._found.keep(path, header.size, digest)
        return None


@contextmanager
def _inside(target: int, path: PurePosixPath) -> Iterator[int]:
    """The open folder in which `path` is."""
    with ExitStack() as stack:
        for part in path.parts[:-1]:
            target = stack.enter_context(open_folder(part, dir_fd=target))
        yield target
