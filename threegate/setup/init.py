"""Create a workspace: folders, settings, identity, the first operator.

Invariant: an existing workspace is never changed; an interrupted creation can be repeated with the same
command, because the trail's first event is the last step except the operator's own.
"""

from __future__ import annotations

import getpass
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from threegate.acts.operator import add_operator
from threegate.core import durable, limits
from threegate.core.durable import fill_reserve
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.workspace import Workspace
from threegate.setup.agent_access import account_uid, let_agent_in
from threegate.setup.settings_file import render_settings
from threegate.trail.trail import Trail


@dataclass(frozen=True)
class MadeWorkspace:
    """What `init` created: the workspace, the operator, and the key that was enrolled."""

    workspace: Workspace
    workspace_id: str
    operator: str
    fingerprint: str
    image: str


def free_for_workspace(root: Path) -> Path:
    """The folder as a workspace names itself. Raises InvalidInput if there is one already, or no folder can be made."""
    # Without `..`: the path is stored, and compared with the shell's name for this folder.
    root = Path(os.path.normpath(root.absolute()))
    if Workspace(root).settings_file.exists():
        raise InvalidInput(f"{root}: already a workspace; nothing was changed")
    if root.exists() and not root.is_dir():
        raise InvalidInput(f"{root}: not a folder; choose another path")
    return root


def new_workspace_id() -> str:
    """An id that no other workspace has."""
    return f"ws-{secrets.token_hex(16)}"


def init_workspace(
    root: Path, line: str, *, operator: str = "operator", agent: str = "", workspace_id: str = ""
) -> MadeWorkspace:
    """Create a workspace at `root`; `line` is the public key of its first operator, `agent` names the account that may
    write to its inbox, `workspace_id` is a new one. Raises InvalidInput if there is one, Unavailable, OSError.
    """
    root = free_for_workspace(root)
    workspace = Workspace(root)
    agent_uid = account_uid(agent) if agent else None
    root.mkdir(parents=True, exist_ok=True)
    workspace.make_folders()
    fill_reserve(workspace.reserve)
    if agent_uid is not None:
        let_agent_in(workspace, agent_uid)
    workspace_id = workspace_id or new_workspace_id()
    values: dict[str, object] = {"workspace.id": workspace_id}
    image, egress = _images()
    if image:
        values["runners.era.image"] = image
    if egress:
        values["runners.era.egress_image"] = egress
    Trail.create(workspace, workspace_id=workspace_id, actor=account())
    entry = add_operator(workspace, operator, line, actor=account())
    durable.deliver(workspace.settings_file, render_settings(values).encode(), 0o644)
    return MadeWorkspace(workspace, workspace_id, operator, entry.key.fingerprint, image)


def _images() -> tuple[str, str]:
    """Digests of this version's images, if the default engine has them; empty without an engine."""
    from threegate.setup.sandbox import known_images

    try:
        images = known_images("")
    except Unavailable:
        return "", ""
    return images.era, images.egress


def account() -> str:
    """The actor for the trail: the name of the account that runs the command."""
    try:
        return f"account:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"account:{os.getuid()}"


def read_public_key(path: Path) -> str:
    """The one line of a .pub file. Raises InvalidInput."""
    try:
        text = durable.read_regular(path, max_bytes=limits.KEY_TEXT_BYTES).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: cannot be read as a public key ({error}); give --key FILE.pub") from None
    if "PRIVATE KEY" in text:
        raise InvalidInput(f"{path}: a private key; give the .pub file next to it")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if len(lines) != 1 or len(lines[0].split()) < 2:
        raise InvalidInput(f"{path}: must contain exactly one public key line")
    return lines[0].strip()
