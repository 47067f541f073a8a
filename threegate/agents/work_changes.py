"""What an agent changed in its work copy, as the change set that a request carries. Only while it is frozen or gone.

Invariant: whatever is in the copy is reached beneath a held descriptor and through no link (`changes/trees.py`); nothing of it is
run, and no git looks at it. A path is looked at when the agent touched it, so what others do to the project meanwhile is not
taken for the agent's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from threegate.agents.project_survey import Original
from threegate.agents.work_copy import TREE, UPPER, WorkCopy
from threegate.changes.make import LeftOut, MadeChangeSet, make_change_set
from threegate.changes.path_rules import is_git
from threegate.changes.table import ChangeSetError, Node, Row
from threegate.changes.trees import HeldTree, OverlayTree, Tree
from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.held_folder import HeldFolder, open_inside
from threegate.core.workspace import AgentRun

_OWN_STATES: Final = "made.json"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_changes(
    copy: WorkCopy, *, paths: tuple[str, ...] = (), include_ignored: bool = False
) -> MadeChangeSet:
    """The change set of a work copy, or of some paths of it.

    Where somebody else changed the project since the start, a path is left out; what was applied for this run is no such change.

    Raises InvalidInput for a change that is too large, Unavailable when it cannot be read or does not stand still.
    """
    try:
        with _trees(copy) as (project, work, touched):
            wanted = [path for path in touched if not paths or _is_within(path, paths)]
            compare = partial(
                make_change_set, project, work, hidden=copy.start.hidden, include_ignored=include_ignored
            )
            moved = [path for path in wanted if path not in copy.start.hidden and _moved_on(copy, path)]
            own = _own_states(copy.run) if moved else {}
            foreign = {
                row.path
                for row in (compare(candidates=moved).rows if moved else ())
                if _state(row.before) not in own.get(row.path, ())
            }
            moved = [path for path in moved if any(_is_within(other, (path,)) for other in foreign)]
            made = compare(candidates=[path for path in wanted if path not in moved])
    except ChangeSetError as error:
        raise InvalidInput(f"the agent's changes: {error}") from None
    except OSError as error:
        raise Unavailable(f"the agent's changes cannot be read ({error.strerror or error})") from None
    others = tuple(LeftOut(path, "changed in the project too since the run began") for path in moved)
    return replace(made, left_out=(*others, *made.left_out))


def keep_bases(copy: WorkCopy, rows: tuple[Row, ...]) -> None:
    """Keep the project's bytes of changed files in the run's `base`, where they are still those of the start, and what each
    row makes of its path: once that is applied, it is no change by somebody else. Raises OSError."""
    own = _own_states(copy.run)
    for row in rows:
        own[row.path] = sorted({*own.get(row.path, ()), _state(row.after)})
    durable.overwrite(copy.run.base / _OWN_STATES, json.dumps(own).encode())
    with _held(copy.root) as top:
        for row in rows:
            entry, kept = copy.start.entries.get(row.path), copy.run.base / base_name(row.path)
            if entry is None or entry.kind != "file" or kept.exists() or entry.size > limits.AGENT_BASE_BYTES:
                continue
            with suppress(OSError):
                descriptor = open_inside(top.fileno(), row.path)
                try:
                    if Original.of(os.fstat(descriptor)) == entry:
                        data = durable.read_regular_fd(descriptor, kept, max_bytes=limits.AGENT_BASE_BYTES)
                        durable.overwrite(kept, data)
                finally:
                    os.close(descriptor)


def base_name(path: str) -> str:
    """The name of a file in a run's `base`."""
    return sha256(os.fsencode(path)).hexdigest()


def _own_states(run: AgentRun) -> dict[str, list[str]]:
    """By path: what change sets of this run made of it. Without it a path is somebody else's, and is left out."""
    with suppress(OSError, ValueError):
        value = json.loads(
            durable.read_regular(run.base / _OWN_STATES, max_bytes=limits.AGENT_MANIFEST_BYTES)
        )
        return value if isinstance(value, dict) else {}
    return {}


def _state(node: Node | None) -> str:
    return f"{node.mode} {node.sha256}" if node else ""


@contextmanager
def _trees(copy: WorkCopy) -> Iterator[tuple[Tree, Tree, list[str]]]:
    """The project, the work copy, and the paths that the agent touched. Raises OSError."""
    place = copy.run.work / (UPPER if copy.kind == "overlay" else TREE)
    with _held(copy.root) as root, _held(place) as top:
        project, mine = HeldTree(root), HeldTree(top)
        if copy.kind == "overlay":
            yield project, OverlayTree(mine, project), list(_touched_above(copy, mine))
        else:
            yield project, mine, list(_touched_in(copy, mine, top))


@contextmanager
def _held(path: Path) -> Iterator[HeldFolder]:
    with HeldFolder(os.open(path, _FOLDER), path) as folder:
        yield folder


def _touched_above(copy: WorkCopy, upper: HeldTree) -> Iterator[str]:
    """What is in the upper folder of an overlay: copied up, made or whited out there. A folder of it is more than its name
    only when it is new or hides what the project has."""
    left = [""]
    while left:
        folder = left.pop()
        for name, entry in upper.names(folder).items():
            path = f"{folder}/{name}" if folder else name
            if is_git(name) or (path in copy.start.hidden and entry.kind == "whiteout"):
                continue
            known = copy.start.entries.get(path)
            if (
                entry.kind == "folder"
                and known is not None
                and known.kind == "folder"
                and not upper.opaque(path)
            ):
                left.append(path)
            else:
                yield path


def _touched_in(copy: WorkCopy, tree: HeldTree, top: HeldFolder) -> Iterator[str]:
    """Of a plain copy: what is not the entry that was copied, and what is gone."""
    seen = set()
    left = [""]
    while left:
        folder = left.pop()
        for name, entry in tree.names(folder).items():
            path = f"{folder}/{name}" if folder else name
            if is_git(name):
                continue
            seen.add(path)
            known = copy.start.entries.get(path)
            if known is None:
                yield path
            elif entry.kind == "folder" and known.kind == "folder":
                left.append(path)
            else:
                facts = _facts(top, path)
                if facts is None or (facts.st_ctime_ns, facts.st_ino) != copy.start.copied.get(path):
                    yield path
    gone = (path for path in copy.start.entries if path not in seen)
    yield from (path for path in gone if path.rpartition("/")[0] in seen | {""})


def _moved_on(copy: WorkCopy, path: str) -> bool:
    """Whether the project has something else at a path than it had at the start; a folder's own entry is not compared."""
    try:
        with _held(copy.root) as top:
            facts = _facts(top, path)
    except OSError:
        return True
    before = copy.start.entries.get(path)
    now = None if facts is None else Original.of(facts)
    if before is None or now is None or before.kind == now.kind == "folder":
        return (before is None) != (facts is None)
    return before != now


def _facts(top: HeldFolder, path: str) -> os.stat_result | None:
    """What `lstat` says of a path beneath a held folder; None when nothing is there. Raises OSError."""
    above, _, name = path.rpartition("/")
    try:
        parent = open_inside(top.fileno(), above or ".", _FOLDER)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    finally:
        os.close(parent)


def _is_within(path: str, paths: tuple[str, ...]) -> bool:
    return any(path == asked or path.startswith(f"{asked.rstrip('/')}/") for asked in paths)
