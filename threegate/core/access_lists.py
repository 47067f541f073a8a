"""POSIX access control lists: the accounts other than its owner that a folder is open to.

Invariant: our lists name accounts, and give the owning group and all others nothing. What is made in a folder
with a default list gets that list from the kernel; the file's mode then bounds what the list may give.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ACCESS: Final = "system.posix_acl_access"
DEFAULT: Final = "system.posix_acl_default"
READ: Final = 5
"""r-x: list a folder and read its files."""
WRITE: Final = 7
"""rwx"""
_VERSION: Final = 2
_USER_OBJ, _USER, _GROUP_OBJ, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_NO_ID: Final = 0xFFFFFFFF
_ALL: Final = 7


def access_list(users: Mapping[int, int]) -> bytes:
    """A list in the kernel's format (linux/posix_acl_xattr.h): all rights for the owner, and rights by uid. 8 bytes an
    entry, in this order.
    """
    entries = [(_USER_OBJ, _ALL, _NO_ID)]
    entries += [(_USER, users[uid], uid) for uid in sorted(users)]
    entries += [(_GROUP_OBJ, 0, _NO_ID), (_MASK, _ALL, _NO_ID), (_OTHER, 0, _NO_ID)]
    return struct.pack("<I", _VERSION) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def default_list(folder: Path) -> bytes | None:
    """The list that new files in a folder get; None without one. Raises OSError."""
    try:
        return os.getxattr(folder, DEFAULT, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return None
        raise


def file_mode(folder: Path) -> int:
    """The mode of a new file for the readers of a folder: those of its default list, or the owner alone. Raises
    OSError.

    With a list the bits of the group are the bound on all its entries, so 0640 is what lets them read.
    """
    return 0o600 if default_list(folder) is None else 0o640


def open_to_readers_of(readers: Path, folder: Path) -> None:
    """Give an empty folder, and what is made in it later, the readers of another folder. Raises OSError."""
    listed = default_list(readers)
    if listed is not None:
        os.setxattr(folder, ACCESS, listed, follow_symlinks=False)
        os.setxattr(folder, DEFAULT, listed, follow_symlinks=False)
