"""The agent's permission to write to the inbox: access control lists and the sticky bit, set at once.

Invariant: the operator stays the owner of `inbox/` and `inbox/files/`, and the sticky bit keeps the agent
from renaming or removing files it does not own: it can add files and remove its own, and cannot replace a
folder.
"""

from __future__ import annotations

import os
import pwd
import struct
from typing import Final

from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.workspace import Workspace

_ACCESS: Final = "system.posix_acl_access"
_DEFAULT: Final = "system.posix_acl_default"
_VERSION: Final = 2
_USER_OBJ, _USER, _GROUP_OBJ, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_NO_ID: Final = 0xFFFFFFFF
_RWX: Final = 7
_MODE: Final = 0o1770


def account_uid(name: str) -> int:
    """The uid of an account, by name or number. Raises InvalidInput."""
    try:
        return pwd.getpwnam(name).pw_uid if not name.isdigit() else pwd.getpwuid(int(name)).pw_uid
    except (KeyError, OverflowError):
        raise InvalidInput(f"--agent {name}: no such account; create it with: adduser {name}") from None


def let_agent_write(workspace: Workspace, uid: int) -> None:
    """Give `uid` write access to inbox/ and inbox/files/, and to nothing else. Raises InvalidInput, Unavailable."""
    owner = os.geteuid()
    if uid == owner:
        raise InvalidInput("--agent names the account that runs this; the agent needs a separate account")
    for folder in (workspace.inbox, workspace.files):
        try:
            with workspace.hold(folder) as held:
                place = f"/proc/self/fd/{held.fileno()}"
                os.chmod(place, _MODE)
                os.setxattr(place, _ACCESS, _acl({uid: _RWX}))
                os.setxattr(place, _DEFAULT, _acl({uid: _RWX, owner: _RWX}))
        except OSError as error:
            raise Unavailable(
                f"{folder}: access for the agent cannot be set ({error.strerror}); put the workspace on a file system "
                "with POSIX ACLs, such as ext4 or xfs"
            ) from None


def _acl(users: dict[int, int]) -> bytes:
    """An access control list in the kernel's format (linux/posix_acl_xattr.h): 8 bytes per entry, in this
    order.
    """
    entries = [(_USER_OBJ, _RWX, _NO_ID)]
    entries += [(_USER, users[uid], uid) for uid in sorted(users)]
    entries += [(_GROUP_OBJ, 0, _NO_ID), (_MASK, _RWX, _NO_ID), (_OTHER, 0, _NO_ID)]
    return struct.pack("<I", _VERSION) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
