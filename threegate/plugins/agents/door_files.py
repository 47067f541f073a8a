"""Files named in a call: in the run's work copy, or in inbox/files/ if there is no run.

Invariant: each file is opened below a folder descriptor, through no link and no mount, and its bytes are read
once, from the descriptor that was checked. What is hidden from the agent is hidden from its door too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from threegate.core import limits
from threegate.core.errors import InvalidInput
from threegate.core.held_folder import hold_path
from threegate.core.workspace import AgentRun, Workspace
from threegate.plugins.agents.names_layer import NamesTree
from threegate.plugins.agents.runs import RunFacts
from threegate.plugins.agents.work_copy import NAMES, TREE, UPPER
from threegate.plugins.changes.trees import HeldTree, OverlayTree, Tree


def read_files(workspace: Workspace, run: AgentRun | None, paths: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """(name, bytes) of each file. Raises InvalidInput with what to change, Unavailable."""
    found: list[tuple[str, bytes]] = []
    names: set[str] = set()
    left = limits.DOOR_FILES_BYTES
    try:
        with _tree(workspace, run) as tree:
            for number, path in enumerate(paths):
                name = path.rpartition("/")[2]
                if name in names:
                    raise InvalidInput(f"files: two files have the name {name!r}; rename one")
                try:
                    data = _read(tree, path, left)
                except InvalidInput as error:  # which one, without its name
                    raise InvalidInput(str(error).replace("files:", f"files[{number}]:", 1)) from None
                left -= len(data)
                names.add(name)
                found.append((name, data))
    except OSError as error:
        raise InvalidInput(f"files: cannot be read ({error.strerror or 'changed meanwhile'})") from None
    return found


def _read(tree: Tree, path: str, left: int) -> bytes:
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise InvalidInput("files: a path must be relative to the project, without ., .. and doubled slashes")
    entry = tree.look(path)
    if entry is None:
        raise InvalidInput("files: no such file; paths are relative to the project")
    if entry.kind != "file" or entry.links != 1:  # another name of it may be a file that is hidden
        raise InvalidInput(f"files: {parts[-1]!r} is not a regular file; folders and links are not allowed")
    if entry.size > left:
        raise InvalidInput(f"files: more than {limits.DOOR_FILES_BYTES // limits.MIB} MiB together")
    data = b"".join(tree.chunks(path))
    if len(data) > left:  # the agent may write while its files are read
        raise InvalidInput("files: a file grew while it was read; call again")
    return data


@contextmanager
def _tree(workspace: Workspace, run: AgentRun | None) -> Iterator[Tree]:
    """What the agent sees of the project. Raises OSError, Unavailable."""
    with ExitStack() as held:
        if run is None:
            yield HeldTree(held.enter_context(workspace.hold(workspace.files)))
            return
        facts = RunFacts.read(run)
        if facts.copy == "plain":
            yield HeldTree(held.enter_context(workspace.hold(run.work / TREE)))
            return
        upper, names = (HeldTree(held.enter_context(workspace.hold(run.work / part))) for part in (UPPER, NAMES))
        base = HeldTree(held.enter_context(hold_path(facts.root)))
        yield OverlayTree(upper, NamesTree(names, base))
