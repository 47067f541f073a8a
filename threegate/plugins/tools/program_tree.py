"""The program of a tool server: the files on this machine that its command line reaches, and their digest.

Invariant: everything that `reached_code` names is pinned wherever it is, unless `--data` names it: code with the whole
tree or folder that it was installed into, and everything that links, `.pth` files and editable installs in there lead
to; another file by itself. Of what the system installed below /usr (not /usr/local), only the named file is pinned.
Code that others may write, or that the server itself may write, is refused, and so is a launcher that fetches code
when it starts. Nothing is started to find out.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from threegate.core import canonical, limits
from threegate.core.errors import Refused, Unavailable
from threegate.plugins.tools.code_folders import (
    SYSTEM_FOLDER,
    Entries,
    forms_of,
    is_system,
    led_to,
    overlap,
    places_of,
    refuse_shared,
    unread,
    within_any,
)
from threegate.plugins.tools.code_writers import refuse_writers
from threegate.plugins.tools.manifest import Manifest
from threegate.plugins.tools.reached_code import named_paths
from threegate.runners.jail.program_folder import first_line

SYSTEM_PATH: Final = ("/usr/local/bin", "/usr/bin", "/bin")
"""The end of a server's PATH."""
_known: dict[tuple[str, tuple[Path, ...]], tuple[str, str]] = {}
"""For each hashed tree: the lstat results of all its entries, and the digest."""


def program_digests(manifest: Manifest) -> dict[str, str]:
    """The digest of each file and folder of a server's program, by its real path. Raises Refused `tools_unsafe` for
    one that others or the server itself may write, Unavailable.
    """
    data = _data_of(manifest)
    try:
        places, named = _places(manifest)
    except OSError as error:
        raise unread(error, Path(manifest.argv[0])) from None
    for place in places:
        for item in manifest.binds:
            bound = Path(item.path)
            if item.writable and overlap(place, bound) and not within_any(bound, data):
                raise Refused(
                    "tools_unsafe",
                    f"{bound}: the server may write there, and its program is {place}; bind a folder without code, or, "
                    f"if it is data, add --data {bound}",
                )
    refuse_writers(places, named)
    return {str(place): _digest(place, entries, data) for place, entries in sorted(places.items())}


def search_path(manifest: Manifest) -> tuple[str, ...]:
    """PATH of a server: the folders of its program and its interpreter, as far as they are pinned, then the system's.
    Raises Refused `tools_unsafe` if another interpreter than the pinned one would be found there, Unavailable.
    """
    line = first_line(Path(manifest.argv[0]).resolve())
    found = [Path(manifest.argv[0]).parent]
    if line is not None:
        found += [line.program.parent, line.program.resolve().parent]
    pinned = [
        str(folder)
        for folder in found
        if not folder.is_relative_to(SYSTEM_FOLDER) and within_any(folder.resolve(), map(Path, manifest.program))
    ]
    path = tuple(dict.fromkeys((*pinned, *SYSTEM_PATH)))
    if line is not None and line.searched:
        place = shutil.which(line.searched, path=os.pathsep.join(path))
        if place is None or not line.program.samefile(place):
            raise Refused(
                "tools_unsafe",
                f"{manifest.argv[0]}: its first line starts {line.searched}, which is not in a folder of its own; name "
                f"{line.program} in the first line, or start it: -- {line.program} {manifest.argv[0]}",
            )
    return path


def _places(manifest: Manifest) -> tuple[dict[Path, Entries], list[Path]]:
    """Every file and folder of the program, and the paths that name code. Raises Refused, Unavailable, OSError."""
    data, binds = _data_of(manifest), tuple(Path(item.path) for item in manifest.binds)
    found: dict[Path, Entries] = {}
    names: list[Path] = []
    for named in named_paths(manifest.argv, manifest.env):
        forms = forms_of(named.path)
        if manifest.place == "era" and not any(within_any(form, binds) for form in forms):
            continue  # the image has it, and is pinned
        if any(within_any(form, data) for form in forms):
            if named.role == "runs":
                raise Refused("tools_unsafe", f"--data: {named.path} is the server's own code; name its data only")
            continue
        if named.role == "absent":
            if any(item.writable and within_any(form, [Path(item.path)]) for item in manifest.binds for form in forms):
                raise Refused(
                    "tools_unsafe",
                    f"{named.path}: does not exist yet, and the server may write it; if it is data, add --data "
                    f"{named.path}",
                )
            continue
        if named.role == "folder" and manifest.place != "host" and not any(overlap(forms[0], bind) for bind in binds):
            continue  # nothing of this machine is there in a jail
        if not is_system(named.path):
            names.append(named.path)
        for place in places_of(named):
            if manifest.place != "era" or within_any(place, binds):
                _add(found, place, data)
            else:
                for bind in binds:
                    if within_any(bind, [place]):
                        _add(found, bind, data)
    waiting = list(found)
    while waiting:
        last = waiting.pop()
        for place in led_to(last, found[last]):
            seen = manifest.place != "era" or within_any(place, binds)
            if seen and not within_any(place, data) and _add(found, place, data):
                waiting.append(place)
    return {place: rows for place, rows in found.items() if not within_any(place.parent, found)}, names


def _add(found: dict[Path, Entries], place: Path, data: Sequence[Path]) -> bool:
    """Add a file or folder, unless one that is there contains it. Raises Refused, Unavailable, OSError."""
    if within_any(place, found):
        return False
    refuse_shared(place)
    found[place] = _entries(place, data)
    return True


def _data_of(manifest: Manifest) -> tuple[Path, ...]:
    return tuple(map(Path, manifest.data))


def _digest(root: Path, entries: Entries, data: Sequence[Path]) -> str:
    """sha256 of the canonical JSON of [path below root, kind, executable, sha256 or target of a link],
    sorted; links are not followed, and what is in the `data` folders is left out.

    A tree that has not changed since it was last hashed, according to the lstat of each entry (including
    change times), is not read again in this process. Raises Unavailable.
    """
    try:
        # Change times too: they cannot be set back by who may write the file.
        looked = canonical.sha256_hex(
            repr(
                [
                    (name, facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino)
                    for name, facts in entries
                ]
            ).encode("utf-8", "surrogateescape")
        )
        known = _known.get((str(root), tuple(data)))
        if known is None or known[0] != looked:
            rows = [_row(root, name, facts) for name, facts in entries]
            known = _known[str(root), tuple(data)] = (looked, canonical.digest(rows))
        return known[1]
    except OSError as error:
        raise unread(error, root) from None
    except ValueError:
        raise Unavailable(f"{root}: contains a name that is not UTF-8, so the program cannot be pinned") from None


def _entries(root: Path, data: Sequence[Path]) -> Entries:
    """Each entry below a root (the root itself as "."), sorted by path, without data. Raises OSError, Unavailable."""
    facts = os.lstat(root)
    found = [(".", facts)]
    folders = [""] if stat.S_ISDIR(facts.st_mode) else []
    size = facts.st_size
    left_out = {str(path) for path in data}
    while folders:
        folder = folders.pop()
        with os.scandir(root / folder) as listed:
            for entry in listed:
                if left_out and str(root / folder / entry.name) in left_out:
                    continue
                name, facts = f"{folder}{entry.name}", entry.stat(follow_symlinks=False)
                found.append((name, facts))
                size += facts.st_size
                if stat.S_ISDIR(facts.st_mode):
                    folders.append(f"{name}/")
        if len(found) > limits.TOOLS_TREE_ENTRIES or size > limits.TOOLS_TREE_BYTES:
            raise Unavailable(f"{root}: too large to be pinned; install the server into a separate folder")
    return sorted(found, key=lambda item: item[0])


def _row(root: Path, name: str, facts: os.stat_result) -> list[object]:
    path = root if name == "." else root / name
    if stat.S_ISDIR(facts.st_mode):
        return [name, "folder", False, ""]
    if stat.S_ISLNK(facts.st_mode):
        return [name, "link", False, str(path.readlink())]
    if not stat.S_ISREG(facts.st_mode):
        return [name, "other", False, ""]
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return [name, "file", bool(facts.st_mode & 0o111), hashlib.file_digest(file, "sha256").hexdigest()]
