"""The three-way merge of one file, by `git merge-file`, and a work copy with files that were merged.

Invariant: git gets three plain files in an empty folder, and reads no repository and no configuration. A merge is
written nowhere but into a change set.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.plugins.changes.machine_programs import find_program
from threegate.plugins.changes.trees import Tree, TreeEntry

_NO_TEXT: Final = 128
"""From here on the exit code of `git merge-file` is an error; below it is the number of conflicts, 127 for more."""


def base_name(path: str) -> str:
    """The name of a file in a run's `base`."""
    return sha256(os.fsencode(path)).hexdigest()


def merge_files(ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
    """The three-way merge of a text; None if both sides changed a line, or it is not text. Raises Unavailable."""
    merged = merge_marked(ours, base, theirs)
    return merged[0] if merged is not None and not merged[1] else None


def merge_marked(ours: bytes, base: bytes, theirs: bytes) -> tuple[bytes, int] | None:
    """The three-way merge of a text, with marks where both sides changed the same lines, and how often they did; None
    if it is not text. Raises Unavailable.
    """
    git = find_program("git")
    if git is None:
        raise Unavailable(
            "git: not installed, but needed for the merge; apt-get install git, or have it proposed again"
        )
    with tempfile.TemporaryDirectory(prefix="threegate-merge-") as made:
        folder = Path(os.path.realpath(made))  # git compares ceiling directories without resolving links
        for name, data in (("ours", ours), ("base", base), ("theirs", theirs)):
            (folder / name).write_bytes(data)
        # git must not look for a surrounding repository or read any configuration.
        alone = {
            "GIT_CEILING_DIRECTORIES": str(folder.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        labels = ("-L", "the project", "-L", "the start", "-L", "the copy")
        try:
            done = subprocess.run(
                [git, "merge-file", "-p", "-q", *labels, "ours", "base", "theirs"],
                cwd=folder,
                env={"PATH": os.defpath, "LC_ALL": "C", **alone},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=limits.MERGE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Unavailable(f"git merge-file: could not be run ({type(error).__name__})") from None
    return (done.stdout, done.returncode) if 0 <= done.returncode < _NO_TEXT else None


@dataclass(frozen=True, slots=True)
class MergedFile:
    """A file of both sides."""

    data: bytes
    executable: bool


class MergedTree:
    """A work copy in which some files are the merged ones."""

    def __init__(self, work: Tree, merged: Mapping[str, MergedFile]) -> None:
        self._work = work
        self._merged = merged

    def names(self, path: str) -> Mapping[str, TreeEntry]:
        prefix = f"{path}/" if path else ""
        return {name: self._seen(prefix + name, entry) for name, entry in self._work.names(path).items()}

    def look(self, path: str) -> TreeEntry | None:
        entry = self._work.look(path)
        return None if entry is None else self._seen(path, entry)

    def chunks(self, path: str) -> Iterator[bytes]:
        merged = self._merged.get(path)
        return self._work.chunks(path) if merged is None else iter((merged.data,))

    def target(self, path: str) -> bytes:
        return self._work.target(path)

    def _seen(self, path: str, entry: TreeEntry) -> TreeEntry:
        merged = self._merged.get(path)
        if merged is None:
            return entry
        return replace(entry, size=len(merged.data), executable=merged.executable, identity=(0, 0))
