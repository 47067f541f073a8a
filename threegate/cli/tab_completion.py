"""Shell completion for arguments that take an id or a name.

Invariant: nothing is read, and no module of a gate imported, before the shell asks. Completion changes
nothing and never fails: what cannot be read is not offered. Only plain names are offered, so no character of
a file's name is special to a shell.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from threegate.core.errors import ThreeGateError

if TYPE_CHECKING:
    from threegate.contracts.session_table import SessionTable
    from threegate.core.workspace import Workspace

_plain = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+:-]*").fullmatch
_request_of_result = re.compile(r"TS-[0-9]{8}-[0-9]{6}Z-(.+)\.md").fullmatch
_Completion = Callable[[typer.Context, str], list[str]]


def offer(names: Callable[[Workspace, typer.Context], Iterable[str]]) -> _Completion:
    """The completion that offers what `names` returns for the command line's workspace."""

    def offered(ctx: typer.Context, incomplete: str) -> list[str]:
        from threegate.core.workspace import find_workspace

        try:
            workspace = find_workspace(explicit=ctx.find_root().params.get("workspace") or None)
            found = {name for name in names(workspace, ctx) if name.startswith(incomplete) and _plain(name)}
        except (ThreeGateError, OSError):
            return []
        return sorted(found)

    return offered


def _requests(workspace: Workspace, *folders: str) -> list[str]:
    """The names of the request files in folders, without their suffix, the slugs that one file alone has, and the ids
    that were seen in them; drills are included like any draft.
    """
    from collections import Counter

    from threegate.core import limits
    from threegate.core.file_names import is_request_name, slug_of
    from threegate.review.status import files_in, verdict_of

    found = [entry.path for folder in folders for entry in files_in(workspace, folder)]
    paths = [path for path in found if is_request_name(path.name)]
    slugs = Counter(slug_of(path.name) for path in paths)
    ids = []
    for path in paths[-limits.STATUS_ROWS_READ :]:
        with suppress(ThreeGateError, OSError):
            verdict = verdict_of(workspace, path)
            ids.append(verdict.request_id if verdict is not None and verdict.request_id else "")
    return [*(path.name.removesuffix(".md") for path in paths), *(slug for slug in slugs if slugs[slug] == 1), *ids]


def _drafts(workspace: Workspace, _: typer.Context) -> list[str]:
    from threegate.review.status import draft_folder_names

    return _requests(workspace, *draft_folder_names(workspace))


def _any_request(workspace: Workspace, ctx: typer.Context) -> list[str]:
    return [*_drafts(workspace, ctx), *_requests(workspace, "approved", "running", "finished", "refused")]


def _with_result(workspace: Workspace, _: typer.Context) -> list[str]:
    matches = map(_request_of_result, os.listdir(workspace.results))
    return [match[1] for match in matches if match]


def _checkpoints(workspace: Workspace, _: typer.Context) -> list[str]:
    from threegate.review.status import files_in, line_of

    lines = [line_of(workspace, entry) for entry in files_in(workspace, "approved")]
    return [line.request_id for line in lines if line.request_id and line.reason == "checkpoint_required"]


def _operators(workspace: Workspace, _: typer.Context) -> list[str]:
    from threegate.launch.launch_problem import read_operators

    return [entry.name for entry in read_operators(workspace).entries]


def _session_table(workspace: Workspace) -> SessionTable:
    from threegate.acts.session_acts import session_table
    from threegate.launch.context import open_context

    context = open_context(workspace)
    with context.trail.locked() as held:
        return session_table(context, held)


def _sessions(workspace: Workspace, _: typer.Context) -> Iterable[str]:
    return _session_table(workspace).sessions


def _workflows(workspace: Workspace, _: typer.Context) -> Iterable[str]:
    return _session_table(workspace).workflows


def _of_scope(workspace: Workspace, ctx: typer.Context) -> Iterable[str]:
    """The workflows or the sessions, by the first argument of `threegate contracts kill`."""
    table = _session_table(workspace)
    return table.workflows if ctx.params.get("scope") == "workflow" else table.sessions


drafts = offer(_drafts)
to_sign = offer(lambda workspace, ctx: [*_drafts(workspace, ctx), *_requests(workspace, "approved")])
waiting = offer(lambda workspace, _: _requests(workspace, "approved"))
open_requests = offer(lambda workspace, _: _requests(workspace, "approved", "running"))
ended_requests = offer(lambda workspace, _: _requests(workspace, "finished", "refused"))
any_request = offer(_any_request)
ran = offer(lambda workspace, _: [*_requests(workspace, "finished"), *os.listdir(workspace.runs)])
with_result = offer(_with_result)
checkpoints = offer(_checkpoints)
operators = offer(_operators)
sessions = offer(_sessions)
workflows = offer(_workflows)
of_scope = offer(_of_scope)
