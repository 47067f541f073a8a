"""Which paths a change set may name, and where its symlinks may lead, judged without the project.

Invariant: paths that pass `check_paths` include no environment file and no repository in any spelling, nothing
below a path that is not a folder afterwards, no two paths that some file system would treat as one, and no symlink out
of the project. It is a closed list of refusals by spelling; checks that need the project are in `checks.py`. Source:
docs/spec/8-agents.md, "Refused in a tar".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from threegate.core import limits
from threegate.plugins.changes.project_paths import collision_key, folded, is_environment, is_guard, is_own
from threegate.plugins.changes.table import LINK, ChangeSetError, Row, folders_above
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
    """Why a path may not be in a change set, in words; None for one that may. Pure: the spelling decides.

    A path is a name on Linux and nothing else: what Windows takes for a device (``aux.c``) or a drive (``a: b``), and a
    shell for a home folder (``~~~``), is an ordinary name.
    """
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "is not a plain path inside the project"
    try:
        size, longest = len(path.encode()), max(len(part.encode()) for part in parts)
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    if has_hidden(path) or {"\n", "\t", "\\"} & set(path):
        return "has a name with hidden characters or backslashes"
    if len(parts) > limits.TAR_DEPTH - 1 or size > limits.TAR_PATH_BYTES - 8:
        return f"is more than {limits.TAR_DEPTH - 1} folders deep, or has more than {limits.TAR_PATH_BYTES - 8} bytes"
    if longest > limits.TAR_NAME_BYTES:
        return f"has a name of more than {limits.TAR_NAME_BYTES} bytes"
    names = tuple(parts)
    if is_own(names):
        return "belongs to ThreeGate"
    if is_guard(names):
        return "is a guard's own settings"
    if any(map(is_environment, parts)) or any(map(is_repository, parts)):
        return "is protected"
    if any(part[-1].isspace() for part in parts):
        return "has a name that ends with a blank"
    return None


@lru_cache(maxsize=1 << 14)
def is_repository(name: str) -> bool:
    """Whether a system of version control, on any file system, would take a name for its folder, or for the file that
    lists repositories inside.
    """
    plain = folded(name)
    return plain in _REPOSITORIES or plain in _REPOSITORY_FILES or _SHORT.fullmatch(plain) is not None


def link_parts(path: str, target: str) -> tuple[str, ...]:
    """Where a symlink at `path` leads, as parts below the project's root. Raises ChangeSetError if it leads out of it.

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
    # Else a link would be another name for what no change set may name.
    if parts and (problem := path_problem("/".join(parts))) is not None:
        raise ChangeSetError(f"{path}: is a link to a path that {problem}")
    return tuple(parts)


def check_paths(rows: Sequence[Row], targets: Mapping[str, str]) -> None:
    """Refuse a change set by its paths and links alone. `targets` is path → target of a link. Raises ChangeSetError."""
    for path, problem in spelling_problems(rows, targets):
        raise ChangeSetError(f"{path}: {problem}")


def spelling_problems(rows: Sequence[Row], targets: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The paths for which `check_paths` refuses a change set, each with the reason."""
    for row in rows:
        if (problem := path_problem(row.path)) is not None:
            yield row.path, problem
        elif row.after is not None and row.after.mode == LINK:
            try:
                link_parts(row.path, targets[row.path])
            except ChangeSetError as error:
                yield row.path, str(error).removeprefix(f"{row.path}: ")
    by_path = {row.path: row for row in rows}
    for row in rows:
        above = [by_path.get(folder) for folder in folders_above(row.path)]
        if row.after is not None and any(item and not (item.after and item.after.folder) for item in above):
            yield row.path, "is added below a path that is not a folder afterwards"
        if row.before is not None and any(item and not (item.before and item.before.folder) for item in above):
            yield row.path, "its parent is not a folder before"
    yield from collisions(row.path for row in rows if row.after is not None)


def collisions(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each path that a forgiving file system takes for another one, in itself or in a folder above it."""
    spelled: dict[tuple[str, ...], str] = {}
    for path in paths:
        parts = path.split("/")
        keys = tuple(map(collision_key, parts))
        for depth in range(1, len(parts) + 1):
            name = spelled.setdefault(keys[:depth], parts[depth - 1])
            if name != parts[depth - 1]:
                yield path, "differs from another path in case or Unicode form only"
                break


_GIT: Final = frozenset({"head", "objects", "refs"})
_SUBVERSION: Final = frozenset({"format", "hooks", "db"})
BARE: Final = _GIT | _SUBVERSION | {"commondir"}
"""With these in it a folder is a repository to git or Subversion, whose settings and hooks are programs to run."""
WORKSPACE: Final = frozenset({"threegate.toml", "tool-exec"})
"""A folder with these names is a workspace of ThreeGate."""


def looks_bare(names: Iterable[str]) -> bool:
    """Whether git or Subversion would take a folder with these names for a repository."""
    keys = set(map(collision_key, names))
    return keys >= _GIT or keys >= {"head", "commondir"} or keys >= _SUBVERSION


def is_workspace(names: Iterable[str]) -> bool:
    """Whether a folder with these names is a workspace of ThreeGate."""
    return set(names) >= WORKSPACE
