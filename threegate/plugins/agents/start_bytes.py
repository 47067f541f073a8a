"""The bytes that tracked files had when a run began, for merging what the person changed while the agent worked.

Invariant: they come from the objects that the launcher made for the agent's repository, which the agent cannot write,
and count only for a file that was as git's index knew it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final

from threegate.core import durable, limits
from threegate.core.workspace import AgentRun
from threegate.plugins.agents.git_index import read_index
from threegate.plugins.agents.git_repository import Repository
from threegate.plugins.agents.project_survey import Original
from threegate.plugins.changes.project_repository import BranchRefused, ObjectStore, ProjectRepository

_INDEX: Final = "index"
_SECOND: Final = 1_000_000_000


def keep_index(repository: Repository, run: AgentRun) -> None:
    """Keep the project's index beside the objects of a run, where no agent sees it. Raises OSError."""
    if (repository.own / _INDEX).exists():
        (run.git / _INDEX).write_bytes(repository.read_own(_INDEX))


def start_bytes(run: AgentRun, files: Mapping[str, Original]) -> dict[str, bytes]:
    """The bytes at the start of a run of those of some files that were clean then, and that git stores as they are;
    none without git.
    """
    found: dict[str, bytes] = {}
    try:
        wanted = dict(_clean(run, files)) if files else {}
        if wanted:
            with ObjectStore(ProjectRepository.at(run.git), next(iter(wanted.values())), {}) as store:
                for path, oid in wanted.items():
                    kind, data = store.read(oid, limits.AGENT_BASE_BYTES)
                    if kind == "blob" and len(data) == files[path].size:
                        found[path] = data
    except (BranchRefused, OSError, ValueError, IndexError):  # then what has no bytes is left out by name
        return found
    return found


def _clean(run: AgentRun, files: Mapping[str, Original]) -> Iterator[tuple[str, str]]:
    """The path and the blob of each file that was as the index had it. Raises OSError, ValueError, IndexError."""
    for entry in read_index(durable.read_regular(run.git / _INDEX, max_bytes=limits.SNAPSHOT_BYTES)):
        path = os.fsdecode(entry.path)
        start = files.get(path)
        if start is not None and entry.is_of(start.mtime_ns // _SECOND, start.inode, start.size):
            yield path, entry.oid
