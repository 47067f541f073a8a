"""Our copies of a draft's input files: hashed while they are made, shown to the operator, pinned on signing.

Invariant: preview, digest and pinned bytes come from the same copy, and so do preview and digest where nothing is
pinned; no inode of CORE's enters `tool-exec/`. A copy with a name is locked while it is in use, so that a daemon that
starts meanwhile does not remove it as a leftover of a crash.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from threegate.core import durable, file_locks, limits
from threegate.core.errors import Refused, Unavailable
from threegate.core.workspace import Workspace
from threegate.request.model import InputFile

_CHUNK = 1 << 20
_MODE = 0o400


@dataclass(frozen=True, slots=True)
class InputCopy:
    """Our copy of an input: name, digest and size of what was read, and its path until it is pinned."""

    name: str
    sha256: str
    size: int
    path: Path

    def open(self) -> BinaryIO:
        """Its bytes, for reading. Raises OSError."""
        return self.path.open("rb")

    def digest_now(self) -> str:
        """sha256 of the file's current content. Raises OSError."""
        with self.path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def copied_inputs(
    workspace: Workspace, places: Mapping[str, Path], inputs: Sequence[InputFile]
) -> Iterator[tuple[InputCopy, ...]]:
    """Copies of all inputs, in order; copies that were not pinned are removed when the block ends. `places` maps each
    name to its file. Raises Refused (input_missing, input_changed), Unavailable if the disk is full.
    """
    with ExitStack() as kept:
        yield tuple(_copy(workspace, places[item.name], item, kept) for item in inputs)


@contextmanager
def seen_inputs(
    workspace: Workspace, places: Mapping[str, Path], inputs: Sequence[InputFile]
) -> Iterator[tuple[InputCopy, ...]]:
    """The inputs to be shown, never to be signed. Ours are hashed in place; of those in an inbox there is a copy
    without a name until the block ends. Raises Refused (input_missing, input_changed), Unavailable if the disk is full.
    """
    with ExitStack() as kept:
        yield tuple(_seen(workspace, places[item.name], item, kept) for item in inputs)


def digest_now(workspace: Workspace, place: Path) -> str | None:
    """The digest of an input where it is, as the daemon would get it; None if it is unusable."""
    try:
        with workspace.hold(place.parent) as folder:
            descriptor, facts = folder.open_regular(place.name)
    except OSError:
        return None
    try:
        if facts.st_size > limits.INPUT_FILE_BYTES:
            return None
        found = _digest_of(descriptor, Path(f"/proc/self/fd/{descriptor}"))
        now = os.fstat(descriptor)
        return found if (now.st_size, now.st_mtime_ns) == (facts.st_size, facts.st_mtime_ns) else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _seen(workspace: Workspace, place: Path, item: InputFile, kept: ExitStack) -> InputCopy:
    source, shown = _open(workspace, place, item.name)
    try:
        if place.is_relative_to(workspace.tool_exec) and not place.is_relative_to(workspace.agents):
            path, sha256, size = place, _digest_of(source, place), os.fstat(source).st_size
        else:
            # Who may write there could put other bytes under its name, or into it, after the digest was computed: a
            # passkey signs what its page showed.
            copy = kept.enter_context(tempfile.TemporaryFile(dir=workspace.inputs)).fileno()  # noqa: SIM115 - `kept` does
            path = Path(f"/proc/self/fd/{copy}")
            sha256, size = _stream(source, copy, path, shown)
    except OSError as error:
        raise Unavailable(f"{shown}: cannot be read here ({error.strerror})") from None
    finally:
        os.close(source)
    _check_digest(sha256, item, shown)
    return InputCopy(item.name, sha256, size, path)


def _check_digest(sha256: str, item: InputFile, shown: str) -> None:
    if sha256 != item.sha256:
        raise Refused("input_changed", f"{shown}: has the sha256 {sha256}, the request declares {item.sha256}")


# Hashes for showing, by everything that changes when the bytes do: a page is requested again and again.
_DIGESTS: OrderedDict[tuple[int, ...], str] = OrderedDict()
_DIGESTS_KEPT = 256


def _digest_of(descriptor: int, path: Path) -> str:
    facts = os.fstat(descriptor)
    identity = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
    known = _DIGESTS.get(identity)
    if known is None:
        with path.open("rb") as stream:
            known = _DIGESTS[identity] = hashlib.file_digest(stream, "sha256").hexdigest()
        while len(_DIGESTS) > _DIGESTS_KEPT:
            _DIGESTS.popitem(last=False)
    return known


def _open(workspace: Workspace, place: Path, name: str) -> tuple[int, str]:
    """An input, open for reading, and its name for messages. Raises Refused (input_missing)."""
    shown = f"{place.parent.parent.name}/{place.parent.name}/{name}"
    try:
        with workspace.hold(place.parent) as folder:
            return folder.open_regular(place.name)[0], shown
    except OSError as error:
        raise Refused("input_missing", f"{shown}: cannot be read ({error.strerror}); put the file there") from None


def _copy(workspace: Workspace, place: Path, item: InputFile, kept: ExitStack) -> InputCopy:
    source, shown = _open(workspace, place, item.name)
    try:
        temporary = workspace.inputs / f".tmp-{secrets.token_hex(8)}"
        descriptor = file_locks.create_locked(temporary)
        kept.callback(os.close, descriptor)
        kept.callback(temporary.unlink, missing_ok=True)
        sha256, size = _stream(source, descriptor, temporary, shown)
        os.fchmod(descriptor, _MODE)
        durable.sync_fd(descriptor, temporary)
    except OSError as error:
        raise Unavailable(f"{workspace.inputs}: cannot be written ({error.strerror}); nothing was approved") from None
    finally:
        os.close(source)
    _check_digest(sha256, item, shown)
    return InputCopy(item.name, sha256, size, temporary)


def _stream(source: int, descriptor: int, target: Path, shown: str) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    if os.fstat(source).st_size > limits.INPUT_FILE_BYTES:
        raise _too_large(shown)
    while chunk := os.read(source, _CHUNK):
        size += len(chunk)
        # Counted while it is read: its owner can make a file grow after it was opened.
        if size > limits.INPUT_FILE_BYTES:
            raise _too_large(shown)
        digest.update(chunk)
        durable.write_fd(descriptor, chunk, target)
    return digest.hexdigest(), size


def _too_large(shown: str) -> Refused:
    return Refused("input_changed", f"{shown}: more than {limits.INPUT_FILE_BYTES} bytes")
