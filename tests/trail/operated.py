"""A workspace with settings and a real operator key, made in this process."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from threegate.acts.operator import add_operator
from threegate.core.workspace import Workspace
from threegate.setup.settings_file import render_settings
from threegate.trail.trail import Trail


def make_operated(folder: Path) -> tuple[Workspace, Path]:
    """The workspace at ``folder/ws`` and the private key of its operator."""
    key = folder / "operator_key"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "op", "-f", str(key)],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    workspace = Workspace(folder / "ws")
    workspace.root.mkdir(parents=True)
    workspace.make_folders()
    workspace_id = "ws-" + hashlib.sha256(str(folder).encode()).hexdigest()[:32]
    Trail.create(workspace, workspace_id=workspace_id, actor="account:test")
    add_operator(workspace, "operator", key.with_suffix(".pub").read_text().strip(), actor="account:test")
    workspace.settings_file.write_text(render_settings({"workspace.id": workspace_id}))
    return workspace, key
