"""Small trees on disk, from a mapping: text is a file, None a folder, ("link", target) a symlink, ("x", text)
executable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from threegate.core.held_folder import HeldFolder
from threegate.plugins.changes.make import MadeChangeSet, make_change_set
from threegate.plugins.changes.trees import HeldTree

Spec = Mapping[str, Any]


def build(root: Path, spec: Spec) -> Path:
    """Make the tree; folders above a file are made too."""
    root.mkdir(parents=True, exist_ok=True)
    for path, what in spec.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if what is None:
            place.mkdir(exist_ok=True)
        elif isinstance(what, tuple) and what[0] == "link":
            place.symlink_to(what[1])
        else:
            text = what[1] if isinstance(what, tuple) else what
            place.write_bytes(text if isinstance(text, bytes) else text.encode())
            place.chmod(0o755 if isinstance(what, tuple) else 0o644)
    return root


def held(path: Path) -> HeldFolder:
    """A folder of the test, held open."""
    return HeldFolder(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), path)


def made(project: Path, work: Path, **options: Any) -> MadeChangeSet:
    """The change set of two folders."""
    with held(project) as one, held(work) as other:
        return make_change_set(HeldTree(one), HeldTree(other), **options)
