"""Unpack a root file system for ERA without an engine (docs/spec/6-runners.md, "Roots").

The packages come from Debian's archive with apt, which checks the signature of its lists; nothing of them is run. The
digest of the whole tree is computed once, here, and written beside it.

Invariant: the folder has a whole root or none: a new one takes the place of the last one when it is complete, and a run
that is under way keeps the one that it has.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from threegate.core import durable
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.settings import EraSettings
from threegate.core.workspace import Workspace
from threegate.runners.era.platforms import PROGRAM
from threegate.runners.era.root_identity import DESCRIPTION, TREE, Root, describe, identify, refuse_writable
from threegate.setup.run_tool import run_tool
from threegate.setup.sandbox import BUILD_SECONDS, change_settings, sandbox_folder
from threegate.trail.payloads import SettingsChanged

_MODE: Final = 0o755


def unpack_root(folder: Path) -> Root:
    """Unpack a root into a folder, or a newer one in its place (a minute). Raises InvalidInput, Unavailable."""
    folder = folder.resolve()
    if folder.exists() and not (folder / DESCRIPTION).is_file():
        raise InvalidInput(f"{folder}: is there and is not an unpacked root; name a folder that does not exist")
    if not os.access(PROGRAM, os.X_OK):
        raise Unavailable(f"{PROGRAM} is not installed, which runs commands in the root; apt-get install bubblewrap")
    if not folder.parent.is_dir():
        raise InvalidInput(f"{folder.parent}: there is no such folder; make it first")
    new, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)  # of an attempt that was ended
    new.mkdir(_MODE)
    try:
        new.chmod(_MODE)  # whatever the umask
        refuse_writable(new)
        words = [str(sandbox_folder() / "bootstrap"), "--rootfs", str(new / TREE)]
        run_tool(words, "sandbox/bootstrap", seconds=BUILD_SECONDS)
        inside = [PROGRAM, "--unshare-all", "--ro-bind", str(new / TREE), "/", "--", "/usr/bin/python3"]
        durable.deliver(new / DESCRIPTION, describe(new / TREE, tree_digest(new / TREE), inside), 0o644)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    finally:
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)
    return identify(EraSettings(root=str(folder)))


def enter_root(workspace: Workspace, folder: Path, root: Root, *, actor: str) -> None:
    """Write the folder into threegate.toml, with an event that names the digest."""
    changed = SettingsChanged(reason="root for ERA", image=root.digest)
    change_settings(workspace, changed, {"runners.era.root": str(folder)}, actor=actor)


def tree_digest(tree: Path) -> str:
    """SHA-256 over path, type, mode, and link target or SHA-256 of each entry, sorted by path. Raises Unavailable."""
    whole = hashlib.sha256()
    for path, facts in _entries(tree):
        if stat.S_ISLNK(facts.st_mode):
            kind, what = "link", str(path.readlink())
        elif stat.S_ISREG(facts.st_mode):
            kind = "file"
            with path.open("rb") as file:
                what = hashlib.file_digest(file, "sha256").hexdigest()
        elif stat.S_ISDIR(facts.st_mode):
            kind, what = "folder", ""
        else:
            raise Unavailable(f"{path}: neither file, folder nor link; no package of Debian has one")
        name = os.fsencode(path.relative_to(tree))
        mode = f"{stat.S_IMODE(facts.st_mode):o}"
        # No name contains NUL, so no entry can be read as two.
        whole.update(b"\0".join((name, kind.encode(), mode.encode(), os.fsencode(what), b"")))
    return whole.hexdigest()


def _entries(tree: Path) -> Iterator[tuple[Path, os.stat_result]]:
    names = []
    for folder, folders, files in os.walk(tree):
        names += [Path(folder, name) for name in (*folders, *files)]
    for path in sorted(names):
        yield path, path.lstat()
