"""Reading a contracts folder from disk, for the command line and the daemon alike.

Invariant: every file that is not hidden and no README.md is read, once, within bounds; a link is an error.
"""

from __future__ import annotations

import os
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput


def read_folder(folder: Path) -> dict[str, bytes]:
    """All files below `folder` by relative path, what is hidden and README.md left out. Raises InvalidInput."""
    if not folder.is_dir():
        raise InvalidInput(f"{folder}: is no folder; name the contracts folder")
    files: dict[str, bytes] = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in folders:
            if (Path(parent) / name).is_symlink():
                raise InvalidInput(f"{Path(parent) / name}: is a link; put the folder itself there")
        for name in sorted(names):
            if name.startswith(".") or name == "README.md":
                continue
            path = Path(parent) / name
            if len(files) >= limits.CONTRACT_FILES:
                raise InvalidInput(f"{folder}: more than {limits.CONTRACT_FILES} files; remove some")
            data = durable.read_named(path, max_bytes=limits.CONTRACT_FILE_BYTES)
            files[path.relative_to(folder).as_posix()] = data
    return files
