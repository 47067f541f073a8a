"""Which paths a change set may name, and where its symlinks may lead, judged without the project.

Invariant: paths that pass `check_paths` include no environment file and no repository in any spelling, nothing
below a path that is not a folder afterwards, no two paths that some file system would treat as one, and no symlink out
of the project. It is a closed list of refusals by spelling; checks that need the project are in `checks.py`. Source:
docs/spec/8-agents.md, "Refused in a tar".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from threegate.changes.project_paths import PathBlocked, is_environment, read_path
from threegate.changes.table import LINK, ChangeSetError, Row
from threegate.core import limits
from threegate.request.characters import has_hidden

_REPOSITORIES: Final = frozenset(
    """.git .hg .jj .svn _svn _darcs .bzr .pijul .sl .fossil .fslckout _fossil_ _mtn .repo .arch-ids {arch}""".split()
)
"""Where systems of version control keep a repository, with its hooks and with settings that name programs to run."""
_REPOSITORY_FILES: Final = frozenset({".gitmodules", ".hgsub", ".hgsubstate"})
"""Files that list repositories inside of one."""
_SHORT: Final = re.compile(r"(?:git|hg|jj|svn|bzr|sl|repo|pijul|fossil|fslcko|gitmod|gi7eba|hgsub|hgsubs)~[0-9]+")
"""What these are called on file systems that have short names."""


def path_problem(path: str) -> str | None:
    """Why a path may not be in a change set, in words; None for one that may. Pure: the spelling decides."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "is no plain path inside the project"
    if has_hidden(path) or {"\n", "\t", "\\"} & set(path):
        return "has a name with hidden characters or backslashes"
    if len(parts) > limits.TAR_DEPTH - 1 or len(path.encode()) > limits.TAR_PATH_BYTES - 8:
        return f"lies deeper than {limits.TAR_DEPTH - 1} folders, or has more than {limits.TAR_PATH_BYTES - 8} bytes"
    if any(len(part.encode()) > limits.TAR_NAME_BYTES for part in parts):
        return f"has a name of more than {limits.TAR_NAME_BYTES} bytes"
    try:
        read_path(path, writing=True)
    except PathBlocked as error:
        return f"is refused: {error}"
    if any(map(is_environment, parts)) or any(map(is_repository, parts)):
        return "is protected"
    return None


@lru_cache(maxsize=1 << 14)
def is_repository(name: str) -> bool:
    """Whether a system of version control, on any file system, would take a name for its folder, or for the file that
    lists repositories inside.
    """
    plain = collision_key(name).partition(":")[0].rstrip(" .")
    return plain in _REPOSITORIES or plain in _REPOSITORY_FILES or _SHORT.fullmatch(plain) is not None


@lru_cache(maxsize=1 << 14)
def collision_key(name: str) -> str:
    """What two names share that a file system without case or with Unicode normalisation takes for one."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def link_parts(path: str, target: str) -> tuple[str, ...]:
    """Where a symlink at `path` leads, as parts below the project's root. Raises ChangeSetError if it leads
    out of it.

    By spelling; other links on the way are checked where the tree is known (`checks.py`).
    """
    if target.startswith("/"):
        raise ChangeSetError(f"{path}: is a link to an absolute path")
    parts = path.split("/")[:-1]
    for part in target.split("/"):
        if part == "..":
            if not parts:
                raise ChangeSetError(f"{path}: is a link that leaves the project")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if parts and (problem := path_problem("/".join(parts))) is not None:
        raise ChangeSetError(f"{path}: is a link to a path that {problem}")
    return tuple(parts)


def check_paths(rows: Sequence[Row], targets: Mapping[str, str]) -> None:
    """Refuse a change set by its paths and links alone. `targets` is path → target of its links. Raises
    ChangeSetError.
    """
    for row in rows:
        if (problem := path_problem(row.path)) is not None:
            raise ChangeSetError(f"{row.path}: {problem}")
        if row.after is not None and row.after.mode == LINK:
            link_parts(row.path, targets[row.path])
    by_path = {row.path: row for row in rows}
    for row in rows:
        above = [by_path.get("/".join(row.parts[:depth])) for depth in range(1, len(row.parts))]
        if row.after is not None and any(item and not (item.after and item.after.folder) for item in above):
            raise ChangeSetError(f"{row.path}: is added below what is no folder afterwards")
        if row.before is not None and any(item and not (item.before and item.before.folder) for item in above):
            raise ChangeSetError(f"{row.path}: its parent is not a folder before")
    refuse_collisions(row.path for row in rows if row.after is not None)


def refuse_collisions(paths: Iterable[str]) -> None:
    """Refuse two paths, or two spellings of a folder above them, that a forgiving file system takes for one."""
    spelled: dict[tuple[str, ...], str] = {}
    for path in paths:
        parts = path.split("/")
        keys = tuple(map(collision_key, parts))
        for depth in range(1, len(parts) + 1):
            name = spelled.setdefault(keys[:depth], parts[depth - 1])
            if name != parts[depth - 1]:
                raise ChangeSetError(f"{path}: differs from another path in case or Unicode form only")
