"""`commits.tar`: the commits that an agent made, oldest first, each as its message and a change set of its own.

Invariant: a commit is read by the one reader of change sets, so its paths, kinds and links are held to the same rules,
and its table has the digest of every byte in it. The bytes are those that git stores, not those of a work tree. Nothing
here says that the commits fit together or to the project: `branch_plan.py` does. Source: docs/spec/8-agents.md, "Each
commit".
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from threegate.core import limits
from threegate.core.secretscan.scan import find_secrets
from threegate.plugins.changes.change_tar import ChangeSet, read_change_set
from threegate.plugins.changes.table import ChangeSetError
from threegate.request.tar_reader import TarEntry, TarError, read_tar

_MESSAGE: Final = "txt"
_CHANGE: Final = "tar"


@dataclass(frozen=True, slots=True)
class CarriedCommit:
    """One commit. The message is the agent's, and empty for what it changed and did not commit."""

    message: str
    change: ChangeSet
    data: bytes
    """The archive of the change set."""

    def content(self, path: str) -> bytes:
        """The bytes of a file, or the target of a link, after this commit."""
        return self.change.content(io.BytesIO(self.data), path)


def commits_tar(commits: Sequence[tuple[str, bytes]]) -> bytes:
    """The archive of messages and archives of change sets, oldest first. Raises ChangeSetError."""
    if len(commits) > limits.COMMITS_CARRIED:
        raise ChangeSetError(f"they are {len(commits)}, and at most {limits.COMMITS_CARRIED} are delivered one by one")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for number, (message, change) in enumerate(commits, 1):
            for kind, data in ((_MESSAGE, message.encode()), (_CHANGE, change)):
                info = tarfile.TarInfo(_name(number, kind))
                info.mode, info.size = 0o644, len(data)
                archive.addfile(info, io.BytesIO(data))
    _refuse_large(buffer.tell())
    return buffer.getvalue()


def read_commits_tar(source: bytes | BinaryIO) -> tuple[CarriedCommit, ...]:
    """Read and check an archive from an untrusted source. Raises ChangeSetError."""
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    _refuse_large(stream.seek(0, io.SEEK_END))
    try:
        entries = read_tar(stream)
    except TarError as error:
        raise ChangeSetError(f"commits.tar: {error}") from None
    # The names are compared as a whole, so nothing else can be in it, in no other order.
    count = len(entries) // 2
    wanted = [_name(number, kind) for number in range(1, count + 1) for kind in (_MESSAGE, _CHANGE)]
    if not 1 <= count <= limits.COMMITS_CARRIED or [entry.path for entry in entries] != wanted:
        raise ChangeSetError(f"commits.tar: must be 1 to {limits.COMMITS_CARRIED} pairs of a message and a change")
    return tuple(
        _commit(number, _bytes(stream, entries[number * 2 - 2]), _bytes(stream, entries[number * 2 - 1]))
        for number in range(1, count + 1)
    )


def _commit(number: int, message: bytes, change: bytes) -> CarriedCommit:
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise ChangeSetError(f"commit {number}: its message is not UTF-8") from None
    if len(text) > limits.COMMIT_MESSAGE_CHARS:
        raise ChangeSetError(f"commit {number}: its message has more than {limits.COMMIT_MESSAGE_CHARS} characters")
    if find_secrets(text):
        raise ChangeSetError(f"commit {number}: its message seems to contain a secret")
    try:
        read = read_change_set(change)
    except ChangeSetError as error:
        raise ChangeSetError(f"commit {number}: {error}") from None
    return CarriedCommit(text, read, change)


def _bytes(stream: BinaryIO, entry: TarEntry) -> bytes:
    stream.seek(entry.offset)
    return stream.read(entry.size)


def _name(number: int, kind: str) -> str:
    return f"{number:04}.{kind}"


def _refuse_large(size: int) -> None:
    if size > limits.COMMITS_TAR_BYTES:
        raise ChangeSetError(f"they have more than {limits.COMMITS_TAR_BYTES // limits.MIB} MiB together")
