"""A process that approves a group and is killed between its first member and the next: WORKSPACE DRAFT KEY."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from threegate.acts.approve_group import deliver_group, open_group, seal_group, sign_group
from threegate.core.workspace import Workspace
from threegate.launch.context import open_context
from threegate.review.reviewed_draft import read_draft


def main(root: Path, draft: Path, key: Path) -> None:
    """Deliver one member, and die as of a power cut."""
    context = open_context(Workspace(root))
    with open_group(context, read_draft(context.workspace, draft)) as group:
        sealed = seal_group(context, group, "alice")
        signature = sign_group(sealed, key)
        next(deliver_group(context, group, sealed, signature, actor="operator:alice"))
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
