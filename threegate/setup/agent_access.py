"""The agent's permissions: to write to the inbox, and to read verdicts and results. Access control lists and the
sticky bit, set at once.

Invariant: the operator stays the owner of `inbox/` and `inbox/files/`, and the sticky bit keeps the agent
from renaming or removing files it does not own: it can add files and remove its own, and cannot replace a
folder. No account but the agent's and the operator's can read an answer.
"""

from __future__ import annotations

import os
import pwd
from typing import Final

from threegate.core.access_lists import ACCESS, DEFAULT, READ, WRITE, access_list
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.workspace import Workspace

_INBOX_MODE: Final = 0o1770


def account_uid(name: str) -> int:
    """The uid of an account, by name or number. Raises InvalidInput."""
    try:
        return pwd.getpwnam(name).pw_uid if not name.isdigit() else pwd.getpwuid(int(name)).pw_uid
    except (KeyError, OverflowError):
        raise InvalidInput(f"--agent {name}: no such account; create it with: adduser {name}") from None


def let_agent_in(workspace: Workspace, uid: int) -> None:
    """Give `uid` write access to inbox/ and inbox/files/, read access to verdicts/ and results/, and no other. Raises
    InvalidInput, Unavailable.
    """
    owner = os.geteuid()
    if uid == owner:
        raise InvalidInput("--agent names the account that runs this; the agent needs a separate account")
    writes = {uid: WRITE}, {uid: WRITE, owner: WRITE}
    reads = {uid: READ}, {uid: READ}
    for folder, mode, (here, below) in (
        (workspace.inbox, _INBOX_MODE, writes),
        (workspace.files, _INBOX_MODE, writes),
        (workspace.verdicts, 0o700, reads),
        (workspace.results, 0o700, reads),
    ):
        try:
            with workspace.hold(folder) as held:
                place = f"/proc/self/fd/{held.fileno()}"
                os.chmod(place, mode)
                os.setxattr(place, ACCESS, access_list(here))
                os.setxattr(place, DEFAULT, access_list(below))
        except OSError as error:
            raise Unavailable(
                f"{folder}: access for the agent cannot be set ({error.strerror}); put the workspace on a file system "
                "with POSIX ACLs, such as ext4 or xfs"
            ) from None
