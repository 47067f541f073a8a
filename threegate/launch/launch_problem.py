"""Why all launches are blocked now: the clock, the trail's workspace, its folders, the operators' files.

Invariant: cheap enough for a read-only screen, and the same for it and for a launch.
"""

from __future__ import annotations

from pathlib import Path

from threegate.approval.operators import Operators, load_operators
from threegate.core import durable, limits
from threegate.core.workspace import Workspace
from threegate.trail.trail import LockedTrail


def read_operators(workspace: Workspace) -> Operators:
    """The operators' files, read once; an unreadable file is a problem in the value, never a pass."""
    files = (workspace.operators_file, workspace.revoked_file, workspace.passkeys_file)
    return load_operators(*map(_read, files))


def _read(path: Path) -> bytes | None:
    try:
        return durable.read_regular(path, max_bytes=limits.OPERATORS_FILE_BYTES)
    except FileNotFoundError:
        return None
    except OSError:
        return b"unreadable\n"  # such a line is allowed in none of them, so every approval is refused


def launch_problem(workspace: Workspace, workspace_id: str, held: LockedTrail) -> tuple[str, str] | None:
    """Reason code and one line if all launches are blocked now, or None. Raises Unavailable."""
    if held.clock_behind_seconds > limits.CLOCK_BEHIND_SECONDS:
        return (
            "clock_went_back",
            f"the system clock is {int(held.clock_behind_seconds)} s behind the trail; "
            "set the clock (timedatectl); nothing is started until then",
        )
    if held.index.workspace_id != workspace_id:
        return ("workspace_mismatch", "the trail belongs to another workspace than the one in threegate.toml")
    if held.index.problem is not None:
        return (
            "event_unreadable",
            f"{held.index.problem}: what it used up is not known, and nothing is started; find out what wrote it: "
            "threegate audit verify",
        )
    outside = held.outside_problem()
    if outside is not None:
        return (
            "workspace_mismatch",
            f"{outside}; if this is intended: threegate settings adopt",
        )
    replaced = workspace.replaced_folder()
    if replaced is not None:
        return ("folder_replaced", replaced)
    return operators_problem(workspace, held)


def operators_problem(workspace: Workspace, held: LockedTrail) -> tuple[str, str] | None:
    """The same if it is because of the operators' files: then nothing can be signed either."""
    operators = read_operators(workspace)
    if operators.problem is not None or operators.digests != held.index.operators:
        what = operators.problem or "tool-exec/operators is not what the trail last recorded"
        return ("operators_changed", f"{what}; check it, then: threegate operator record --yes")
    return None
