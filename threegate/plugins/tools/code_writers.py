"""Who else may write the code of a server.

Invariant: code is used only if nobody but root and this process's account may change it, one of its folders, or a
folder above it: between the check and the start, such a one could exchange it.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from threegate.core.errors import Refused
from threegate.plugins.tools.code_folders import Entries, is_system, unread

_LOCK_OF_UV: Final = ".lock"
"""uv makes this empty file in each environment for everybody; it is pinned, and nothing loads it."""


def refuse_writers(places: Mapping[Path, Entries], named: Iterable[Path]) -> None:
    """Refuse code that others may write: everything in `places`, and the folders above it and above the paths by which
    it is named. Raises Refused `tools_unsafe`, Unavailable.
    """
    groups: dict[int, bool] = {}
    own = {place: entries for place, entries in places.items() if not is_system(place)}
    for folder in dict.fromkeys(above for path in (*own, *named) for above in path.parents):
        try:
            facts = os.lstat(folder)
        except OSError as error:
            raise unread(error, folder) from None
        _refuse_writer(folder, ".", facts, groups, above=True)
    for place, entries in own.items():
        for name, facts in entries:
            locks = os.path.basename(name) == _LOCK_OF_UV and (place / name).with_name("pyvenv.cfg").is_file()
            if not locks:
                _refuse_writer(place, name, facts, groups, above=False)


def _refuse_writer(place: Path, name: str, facts: os.stat_result, groups: dict[int, bool], *, above: bool) -> None:
    """In a folder above, a sticky bit keeps others from exchanging what is not theirs."""
    mode, why = facts.st_mode, ""
    if facts.st_uid not in (0, os.geteuid()):
        why = f"belongs to {_user(facts.st_uid)}"
    elif not stat.S_ISLNK(mode) and not (above and mode & stat.S_ISVTX):  # a link's own mode means nothing
        if mode & stat.S_IWOTH:
            why = "everybody may write to it"
        elif mode & stat.S_IWGRP and (_has_access_list(place / name) or _has_others(facts.st_gid, groups)):
            why = "others of its group may write to it"
    if why:
        raise Refused(
            "tools_unsafe",
            f"{place if name == '.' else place / name}: {why}, so the server's code could be exchanged; only "
            f"{' and '.join(sorted({_user(0), _user(os.geteuid())}))} may be able to write it",
        )


def _has_access_list(path: Path) -> bool:
    """Whether the bits of the group are those of an access list."""
    try:
        os.getxattr(path, "system.posix_acl_access", follow_symlinks=False)
    except OSError:
        return False
    return True


def _has_others(gid: int, groups: dict[int, bool]) -> bool:
    """Whether a group has members besides root and this process's account."""
    if gid not in groups:
        try:
            members = set(grp.getgrgid(gid).gr_mem)
        except KeyError:
            members = set()
        members |= {entry.pw_name for entry in pwd.getpwall() if entry.pw_gid == gid}
        groups[gid] = not members <= {_user(0), _user(os.geteuid())}
    return groups[gid]


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
