"""Reading a contracts folder from disk: every file once, no links, within bounds."""

from __future__ import annotations

import os
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput


def read_folder(folder: Path) -> dict[str, bytes]:
    """All files below `folder` by relative path, hidden ones left out. Raises InvalidInput."""
    if not folder.is_dir():
        raise InvalidInput(f"{folder}: is no folder; name the contracts folder")
    files: dict[str, bytes] = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.startswith("."):
                continue
            path = Path(parent) / name
            if len(files) >= limits.CONTRACT_FILES:
                raise InvalidInput(f"{folder}: more than {limits.CONTRACT_FILES} files; remove some")
            try:
                data = durable.read_regular(path, max_bytes=limits.CONTRACT_FILE_BYTES)
            except OSError as error:
                raise InvalidInput(f"{path}: cannot be read ({error.strerror or error})") from None
            files[path.relative_to(folder).as_posix()] = data
    return files
