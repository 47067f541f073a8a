"""`threegate audit prune --older-than 90d`: remove old runs, inputs and snapshots."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.audit.prune import prune as remove
from threegate.cli.invocation import JsonFlag, moment_ago, report, workspace_here
from threegate.cli.progress import busy
from threegate.core.errors import InvalidInput
from threegate.setup.init import account


def prune(
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="90d", help="Only for requests that ended longer ago than this."),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be removed.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Remove runs and inputs that are no longer needed.

    Files of drafts that are gone (inputs in the inbox, snapshots) are removed too, and the folders of agents' runs,
    with their homes. The trail, results and request files stay.

    Example: threegate audit prune --older-than 30d --dry-run
    """
    try:
        before = moment_ago(older_than)
    except ValueError as error:
        raise InvalidInput(f"--older-than {older_than}: {error}") from None
    with busy("looking for unused files"):
        done = remove(workspace_here(), before=before, actor=account(), dry_run=dry_run)
    value = {
        "dry_run": dry_run,
        "runs": list(done.runs),
        "inputs": list(done.inputs),
        "snapshots": list(done.snapshots),
        "agent_runs": list(done.requesters),
        "bytes": done.bytes,
        "kept": list(done.kept),
    }
    lines = [
        f"{'would remove' if dry_run else 'removed'} {len(done.runs)} runs, {len(done.inputs)} inputs, "
        f"{len(done.snapshots)} files of drafts and {len(done.requesters)} agent runs, {done.bytes} bytes"
    ]
    if done.kept:
        lines.append(f"kept {len(done.kept)} runs that are still needed, or whose backend is not here")
    report(json_, value, lines)
