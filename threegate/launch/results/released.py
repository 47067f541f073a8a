"""Outputs that the policy returns to the requester: `results/<request_id>/<sha256>`, and `outputs.json` that
names them.

Invariant: only bytes that have their recorded digest and contain no secret, at most RELEASED_BYTES per
request. They are collected in the run's folder, so that the event of the end can name the digest of
outputs.json, and appear by one rename after it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from threegate.core import access_lists, canonical, durable, limits, removal
from threegate.core.held_folder import hold_path
from threegate.core.secretscan.scan import has_secret, mask_secrets
from threegate.core.workspace import AgentRun

if TYPE_CHECKING:
    from threegate.core.workspace import RequesterFolders, Workspace
    from threegate.runners.interface import Artifact

OUTPUTS_FILE: Final = "outputs.json"
OUTPUTS_SCHEMA: Final = "threegate.outputs/1"
_STAGED: Final = "released"


class StagedOutputs(NamedTuple):
    """What is given back, put together: the digest of outputs.json, and the files, which are not durable yet."""

    sha256: str
    files: tuple[Path, ...]


def stage_released(
    workspace: Workspace, run_folder: Path, request_id: str, artifacts: Iterable[Artifact]
) -> StagedOutputs | None:
    """Put together what is given back, for the readers of results/; None if there are no outputs. Raises OSError."""
    files: dict[str, bytes] = {}
    rows: list[dict[str, Any]] = []
    left = limits.RELEASED_BYTES
    for item in artifacts:
        why = "too_large"
        if item.size <= left:
            data = durable.read_regular(run_folder / "out" / item.path, max_bytes=item.size)
            why = _held_back(item, data)
            if not why:
                files[item.sha256] = data
                left -= item.size
        path = mask_secrets(item.path)
        rows.append({"path": path, "size": item.size, "sha256": item.sha256, "released": not why, "why": why})
    if not rows:
        return None
    manifest = json.dumps({"schema": OUTPUTS_SCHEMA, "request_id": request_id, "outputs": rows}, indent=1).encode()
    staged = run_folder / _STAGED
    if staged.is_dir():
        removal.remove_tree(staged)  # a crash left it
    try:
        # Its name need not last: recovery puts everything together again.
        with hold_path(run_folder) as folder:
            durable.make_folder_at(folder.fileno(), _STAGED, staged)
        access_lists.open_to_readers_of(workspace.results, staged)
        durable.write_files(staged, [*files.items(), (OUTPUTS_FILE, manifest)], access_lists.file_mode(staged))
    except OSError:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return StagedOutputs(canonical.sha256_hex(manifest), tuple(staged / name for name in (*files, OUTPUTS_FILE)))


def _held_back(item: Artifact, data: bytes) -> str:
    """Why an output is not given back; empty where it is. Secrets are ASCII, so any bytes are read as Latin-1."""
    if canonical.sha256_hex(data) != item.sha256:
        return "changed"
    return "secret" if has_secret(item.path) or has_secret(data.decode("latin-1")) else ""


def deliver_released(requester_folders: RequesterFolders, run_folder: Path, request_id: str) -> None:
    """Make the collected files appear; does nothing if they already exist, or if the run's folder was removed.

    Their name is durable when that of the result is, which comes next into the same folder. Raises OSError.
    """
    staged = run_folder / _STAGED
    if isinstance(requester_folders, AgentRun) and staged.is_dir():
        # The folder of a run is the operator's alone, but its jail may have another account.
        for path in staged.iterdir():
            path.chmod(0o644)
        staged.chmod(0o755)
    try:
        durable.rename(staged, requester_folders.results / request_id)
    except (FileExistsError, FileNotFoundError, NotADirectoryError):
        removal.remove_tree(staged)


def released_there(requester_folders: RequesterFolders, request_id: str) -> bool:
    """Whether the outputs of a request were given back."""
    return (requester_folders.results / request_id / OUTPUTS_FILE).is_file()
