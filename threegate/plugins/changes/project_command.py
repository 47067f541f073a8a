"""`threegate project`: the folders that agents may propose changes to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.cli import tab_completion
from threegate.cli.draft_command import say_next
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    context_here,
    emit_json,
    say,
    wants_json,
    warn,
    workspace_here,
)
from threegate.cli.signing_options import KeyOption, NameOption, actor_here, decision_here
from threegate.cli.signing_screens import reveal
from threegate.cli.tab_completion import offer
from threegate.core.errors import EXIT_REFUSED, InvalidInput, Refused
from threegate.core.workspace import Workspace
from threegate.plugins.changes.action import Deliver
from threegate.plugins.changes.projects import find_project, project_names, read_projects
from threegate.plugins.changes.redraft import redraft as draft_again
from threegate.plugins.changes.registered_projects import add_project, project_remarks, remove_project, typed_path
from threegate.plugins.changes.requested_change import change_of
from threegate.plugins.changes.take_part import chosen_rows, take_part
from threegate.plugins.changes.undo_command import undo
from threegate.review.named_request import find_draft
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft
from threegate.setup.init import account

app = typer.Typer()
app.command()(undo)


def _projects(workspace: Workspace, _: typer.Context) -> list[str]:
    return [project.name for project in read_projects(workspace)]


_project_names = offer(_projects)


@app.command()
def add(
    name: Annotated[str, argument("NAME", "The name that requests use for it.")],
    folder: Annotated[Path, argument("DIR", "The project's folder.")],
    deliver: Annotated[
        str,
        typer.Option(
            "--deliver",
            metavar="tree|branch",
            help="What approved changes become: files in DIR, or a commit on a new branch of its repository.",
        ),
    ] = "tree",
    json_: JsonFlag = False,
) -> None:
    """Register a folder that change sets may be applied to.

    With --deliver branch nothing in DIR changes: each approved change is one commit on a branch threegate/RUN.

    Example: threegate project add web /srv/web
    """
    way: Deliver = "branch" if deliver == "branch" else "tree"
    if deliver != way:
        raise InvalidInput(f"--deliver {deliver}: must be tree or branch")
    workspace, typed = workspace_here(), typed_path(folder)
    place = add_project(workspace, name, str(typed), actor=account(), deliver=way)
    remarks = list(project_remarks(workspace, place))
    if str(typed) != place.path:
        remarks.append(f"{typed} leads there through a link; the project is the folder {place.path}")
    if wants_json(json_):
        emit_json({**place.to_json(), "remarks": remarks})
        return
    how = ", changes become branches" if place.deliver == "branch" else ""
    say(f"added     {place.name}: {place.path} (owned by uid {place.uid}{how})")
    for remark in remarks:
        warn(remark)


@app.command("list")
def list_(json_: JsonFlag = False) -> None:
    """List the registered projects.

    project.root of the settings is the default one.

    Example: threegate project list
    """
    workspace = workspace_here()
    settings = workspace.load_settings()
    rows = []
    for name in project_names(workspace, settings):
        try:
            rows.append({**find_project(workspace, settings, name).to_json(), "problem": None})
        except Refused as error:
            rows.append({"name": name, "problem": str(error)})
    if wants_json(json_):
        emit_json({"projects": rows})
        return
    for row in rows:
        how = " (changes become branches)" if row.get("deliver") == "branch" else ""
        say(f"{row['name']:<12} {row['problem'] or row['path']}{how}")
    if not rows:
        say("no project is registered; add one with: threegate project add NAME DIR")


@app.command()
def remove(
    name: Annotated[str, argument("NAME", "A project shown by `threegate project list`.", _project_names)],
    json_: JsonFlag = False,
) -> None:
    """Take a project off the list; its folder is not touched.

    Example: threegate project remove web
    """
    place = remove_project(workspace_here(), name, actor=account())
    if wants_json(json_):
        emit_json(place.to_json())
    else:
        say(f"removed   {place.name}: {place.path}")


@app.command()
def redraft(
    which: Annotated[str, argument("ID|FILE", "A waiting draft.", tab_completion.drafts)],
    json_: JsonFlag = False,
) -> None:
    """Draft a change set again after its project changed.

    Changes of both sides are merged, and what conflicts is left out by name; nothing is applied.

    Example: threegate project redraft TR-20261123-140501Z-changes-9be8da
    """
    context = context_here()
    draft = read_draft(context.workspace, find_draft(context.workspace, which, trail=context.trail))
    with open_reviewed_draft(context, draft, compared=False) as reviewed:
        done = draft_again(context, reviewed)
    if wants_json(json_):
        emit_json(
            {
                "file": str(done.path),
                "request_id": done.request_id,
                "of": reviewed.request.request_id,
                "merged": list(done.merged),
                "there_already": list(done.there_already),
                "left_out": dict(done.left_out),
            }
        )
        return
    say(f"draft {done.path} ({done.request_id}, again from {reviewed.request.request_id})")
    for path in done.merged:
        say(f"      merged with the project: {path}")
    for path, why in done.left_out.items():
        say(f"      left out: {path}: {why}")
    say_next(context.workspace, done.path)


@app.command()
def take(
    which: Annotated[str, argument("ID|FILE", "A waiting draft.", tab_completion.drafts)],
    paths: Annotated[list[str] | None, argument("PATH", "The paths to take; a folder stands for all in it.")] = None,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="PATH", help="Take all paths but this one; may be given several times."),
    ] = None,
    name: NameOption = "",
    key: KeyOption = None,
    json_: JsonFlag = False,
) -> None:
    """Take some files of a change and leave the others.

    The paths become a draft of their own, which you read and approve like any other; the old draft ends as superseded.
    What cannot be split, such as both halves of a rename, goes together.

    Examples: threegate project take TR-20261123-140501Z-changes-9be8da src/app.py tests
              threegate project take TR-20261123-140501Z-changes-9be8da --without Makefile
    """
    context = context_here()
    draft = read_draft(context.workspace, find_draft(context.workspace, which, trail=context.trail))
    with open_reviewed_draft(context, draft, compared=False) as reviewed:
        if (placed := draft.placed) is not None:
            change = change_of(draft.path.name, reviewed.bound).change
            rows = chosen_rows(change, only=paths or (), without=without or ())
            actor, taken = actor_here(context, name, key), [row.path for row in rows]
            told = reveal(context, draft, placed, yes=True, actor=actor, paths=taken, quiet=wants_json(json_))
            if wants_json(json_):
                emit_json(told)
            raise typer.Exit(EXIT_REFUSED)
        done = take_part(
            context,
            reviewed,
            only=paths or (),
            without=without or (),
            decided=lambda kind, about: decision_here(context, kind, about, name, key),
        )
    if wants_json(json_):
        emit_json(
            {
                "file": str(done.path),
                "request_id": done.request_id,
                "of": done.of,
                "taken": list(done.taken),
                "left_out": list(done.left_out),
            }
        )
        return
    total = len(done.taken) + len(done.left_out)
    say(f"draft {done.path} ({done.request_id}, {len(done.taken)} of {total} paths of {done.of})")
    for path in done.left_out:
        say(f"      left out: {path}")
    say_next(context.workspace, done.path)
