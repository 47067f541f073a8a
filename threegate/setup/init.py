"""Create a workspace: folders, settings, identity, the first operator.

Invariant: an existing workspace is never changed; an interrupted creation can be repeated with the same
command, because the trail's first event is the last step except the operator's own.
"""

from __future__ import annotations

import getpass
import os
import secrets
import subprocess
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

_PUBLIC_KEYS = ("id_ed25519.pub", "id_ecdsa.pub", "id_ed25519_sk.pub", "id_ecdsa_sk.pub")


@dataclass(frozen=True)
class MadeWorkspace:
    """What `init` created: the workspace, the operator, the public key used, and the private key if it is
    new.
    """

    workspace: Workspace
    workspace_id: str
    operator: str
    public_key: Path
    new_key: Path | None
    image: str


def init_workspace(
    root: Path, *, operator: str = "operator", public_key: Path | None = None, agent: str = ""
) -> MadeWorkspace:
    """Create a workspace at `root`; `agent` names the account that may write to its inbox. Raises
    InvalidInput if there is one, Unavailable, OSError.
    """
    # Without `..`: the path is stored, and compared with the shell's name for this folder.
    root = Path(os.path.normpath(root.absolute()))
    workspace = Workspace(root)
    agent_uid = account_uid(agent) if agent else None
    if workspace.settings_file.exists():
        raise InvalidInput(f"{root}: already a workspace; nothing was changed")
    if root.exists() and not root.is_dir():
        raise InvalidInput(f"{root}: not a folder; choose another path")
    root.mkdir(parents=True, exist_ok=True)
    new_key = None
    if public_key is None:
        public_key = _own_public_key()
    if public_key is None:
        private_key, made_now = _make_key()
        new_key = private_key if made_now else None
        public_key = private_key.with_suffix(".pub")
    line = read_public_key(public_key)
    workspace.make_folders()
    fill_reserve(workspace.reserve)
    if agent_uid is not None:
        let_agent_in(workspace, agent_uid)
    workspace_id = f"ws-{secrets.token_hex(16)}"
    values: dict[str, object] = {"workspace.id": workspace_id}
    image, egress = _images()
    if image:
        values["runners.era.image"] = image
    if egress:
        values["runners.era.egress_image"] = egress
    Trail.create(workspace, workspace_id=workspace_id, actor=account())
    add_operator(workspace, operator, line, actor=account())
    durable.deliver(workspace.settings_file, render_settings(values).encode(), 0o644)
    return MadeWorkspace(workspace, workspace_id, operator, public_key, new_key, image)


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


def _own_public_key() -> Path | None:
    folder = Path.home() / ".ssh"
    return next((folder / name for name in _PUBLIC_KEYS if (folder / name).is_file()), None)


def _make_key() -> tuple[Path, bool]:
    """ThreeGate's own key of this account, and whether it was created now."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    folder = Path(base) / "threegate"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / "operator_ed25519"
    if path.with_suffix(".pub").is_file() and path.is_file():
        return path, False
    try:
        subprocess.run(
            [
                "/usr/bin/ssh-keygen",
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-C",
                "threegate-operator",
                "-f",
                str(path),
            ],
            check=True,
            capture_output=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(
            f"{path}: ssh-keygen could not make a key ({type(error).__name__}); install openssh-client or give --key "
            "PUB"
        ) from None
    return path, True


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
