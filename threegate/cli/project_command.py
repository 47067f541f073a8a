"""`threegate project`: the folders that agents may ask to change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.cli.invocation import JsonFlag, emit_json, say, wants_json, workspace_here

app = typer.Typer(no_args_is_help=True, help="Projects that may be changed.", rich_markup_mode=None)


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="How requests name it.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder.")],
    json_: JsonFlag = False,
) -> None:
    """Register a folder that change sets may be applied to."""
    from threegate.acts.registered_projects import add_project
    from threegate.setup.init import account

    place = add_project(workspace_here(), name, str(folder.absolute()), actor=account())
    if wants_json(json_):
        emit_json(place.to_json())
    else:
        say(f"added     {place.name}: {place.path} (owned by uid {place.uid})")


@app.command("list")
def list_(json_: JsonFlag = False) -> None:
    """The registered projects, and project.root as the default one."""
    from threegate.changes.projects import find_project, project_names
    from threegate.core.errors import Refused

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
        say(f"{row['name']:<12} {row['problem'] or row['path']}")
    if not rows:
        say("no project is registered; add one with: threegate project add NAME DIR")


@app.command()
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `threegate project list` names it.")],
    json_: JsonFlag = False,
) -> None:
    """Take a project out of the list; its folder stays as it is."""
    from threegate.acts.registered_projects import remove_project
    from threegate.setup.init import account

    place = remove_project(workspace_here(), name, actor=account())
    if wants_json(json_):
        emit_json(place.to_json())
    else:
        say(f"removed   {place.name}: {place.path}")
