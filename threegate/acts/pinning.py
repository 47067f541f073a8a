"""Pinning: a reviewed copy of an input gets its permanent name in tool-exec/inputs/.

Invariant: a pinned file is named by its digest, after an event on disk that names it, and is never replaced.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from threegate.approval.facts import PinnedFile
from threegate.core import durable
from threegate.core.canonical import sha256_hex
from threegate.core.errors import Unavailable
from threegate.core.workspace import Workspace
from threegate.review.input_copies import InputCopy


def check_pinned(workspace: Workspace, copies: Sequence[InputCopy]) -> None:
    """Check that existing files with these names hold the bytes of these copies; done before the trail's lock is taken.

    Raises Unavailable if one holds other bytes.
    """
    for copy in copies:
        target = workspace.inputs / copy.sha256
        if os.path.lexists(target):
            _check_pinned(target, copy)


def to_be_pinned(copies: Sequence[InputCopy]) -> dict[str, PinnedFile]:
    """What a launch will find in inputs/, for launch checks made beforehand."""
    return {copy.sha256: PinnedFile(copy.size) for copy in copies}


@contextmanager
def texts_to_pin(workspace: Workspace, *texts: bytes) -> Iterator[list[InputCopy]]:
    """Texts as copies that `pin` accepts; removed when the block ends, unless they were pinned. Raises OSError."""
    copies: list[InputCopy] = []
    try:
        for text in texts:
            path = durable.write_new(workspace.inputs / "text", text, 0o400)
            copies.append(InputCopy("", sha256_hex(text), len(text), path))
        yield copies
    finally:
        for copy in copies:
            copy.path.unlink(missing_ok=True)


def pin(workspace: Workspace, copies: Sequence[InputCopy]) -> None:
    """Give each copy its permanent name, durably. Called under the trail's lock, after the event that names them.
    Raises OSError.

    A name that appeared meanwhile comes from another approval, which hashed its own copy; a launch hashes again.
    """
    for copy in copies:
        # Never replaced: the name is the digest, and another approval may rely on the file.
        with suppress(FileExistsError):
            durable.rename(copy.path, workspace.inputs / copy.sha256)
    if copies:
        durable.sync_folder(workspace.inputs)


def _check_pinned(target: Path, copy: InputCopy) -> None:
    """An existing file must have the same bytes: it may be pinned for another request as well."""
    try:
        descriptor = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise Unavailable(f"{target}: cannot be read ({error.strerror}); check it and move it away") from None
    if digest != copy.sha256:
        raise Unavailable(f"{target}: its content does not match its name; check it and move it away")
