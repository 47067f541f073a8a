"""The bytes that tracked files had when a run began, for merging what the person changed while the agent worked.

Invariant: they come from the objects that the launcher made for the agent's repository, which the agent cannot write,
and count only for a file that was as git's index knew it. git runs in an empty repository of our own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from typing import Final

from threegate.agents.git_index import read_index
from threegate.agents.git_repository import PROGRAMS, Repository, find_program, scratch_repository
from threegate.agents.project_survey import Original
from threegate.core import durable, limits
from threegate.core.workspace import AgentRun

_INDEX: Final = "index"
_SECOND: Final = 1_000_000_000
_SHA256_CHARS: Final = 64


def keep_index(repository: Repository, run: AgentRun) -> None:
    """Keep the project's index beside the objects of a run, where no agent sees it. Raises OSError."""
    if (repository.own / _INDEX).exists():
        (run.git / _INDEX).write_bytes(repository.read_own(_INDEX)[0])


def start_bytes(run: AgentRun, files: Mapping[str, Original]) -> dict[str, bytes]:
    """The bytes at the start of a run of those of some files that were clean then, and that git stores as they are;
    none without git.
    """
    program = find_program("git")
    try:
        wanted = dict(_clean(run, files)) if files else {}
    except (OSError, ValueError, IndexError):
        return {}
    if program is None or not wanted:
        return {}
    found = {}
    with scratch_repository(sha256=len(next(iter(wanted.values()))) == _SHA256_CHARS) as place:
        (place / "objects/info/alternates").write_bytes(os.fsencode(f"{run.git / 'objects'}\n"))
        for path, oid in wanted.items():
            done = subprocess.run(
                [program, "cat-file", "blob", oid],
                env={"PATH": PROGRAMS, "HOME": "/nonexistent", "GIT_DIR": str(place), "GIT_CONFIG_NOSYSTEM": "1"},
                cwd=place, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=limits.MERGE_SECONDS,
            )  # fmt: skip
            if done.returncode == 0 and len(done.stdout) == files[path].size:
                found[path] = done.stdout
    return found


def _clean(run: AgentRun, files: Mapping[str, Original]) -> Iterator[tuple[str, str]]:
    """The path and the blob of each file that was as the index had it. Raises OSError, ValueError, IndexError."""
    for entry in read_index(durable.read_regular(run.git / _INDEX, max_bytes=limits.SNAPSHOT_BYTES)):
        path = os.fsdecode(entry.path)
        start = files.get(path)
        if start is not None and entry.is_of(start.mtime_ns // _SECOND, start.inode, start.size):
            yield path, entry.oid
