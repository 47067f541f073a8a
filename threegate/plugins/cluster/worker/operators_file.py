"""The operators that a worker trusts: its own file, read again for every job."""

from __future__ import annotations

from pathlib import Path

from threegate.approval.operators import Operators, load_operators
from threegate.core import durable, limits


def read_operators_file(path: Path) -> Operators:
    """The operators of this worker: FILE, and FILE.revoked and FILE.passkeys next to it. Errors are in `problem`."""
    files: list[bytes | None] = []
    for name in (path, path.with_name(path.name + ".revoked"), path.with_name(path.name + ".passkeys")):
        try:
            files.append(durable.read_regular(name, max_bytes=limits.OPERATORS_FILE_BYTES))
        except FileNotFoundError:
            files.append(None)
        except OSError:
            files.append(b"unreadable\n")  # no such line is allowed, so nothing passes
    return load_operators(*files)
