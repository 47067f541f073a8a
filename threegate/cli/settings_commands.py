"""`threegate settings check|show`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from threegate.cli.context import JsonFlag, emit_json, say, wants_json, workspace_here

app = typer.Typer(no_args_is_help=True, help="Check and show the settings.")


@app.command()
def check(
    file: Annotated[Path | None, typer.Argument(help="Another settings file than the workspace's.")] = None,
) -> None:
    """Say whether the settings hold; exit 2 and the place of the first mistake where they do not."""
    from threegate import durable
    from threegate.errors import InvalidInput
    from threegate.settings import SETTINGS_BYTES, parse_settings

    if file is None:
        workspace_here().load_settings()
        say("the settings hold")
        return
    try:
        data = durable.read_regular(file, max_bytes=SETTINGS_BYTES)
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read ({error.strerror or error})") from None
    parse_settings(data, file)
    say("the settings hold")


@app.command()
def show(
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value comes from.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Show every setting with its value."""
    import tomllib

    workspace = workspace_here()
    settings = workspace.load_settings()
    given = dict(_flat(tomllib.loads(workspace.settings_bytes().decode())))
    rows = dict(_flat(settings.model_dump(mode="json")))
    if wants_json(json_):
        emit_json(
            {
                name: {"value": value, "origin": "file" if name in given else "default"}
                for name, value in rows.items()
            }
        )
        return
    for name, value in rows.items():
        place = f"   # {workspace.settings_file.name if name in given else 'default'}" if origin else ""
        say(f"{name} = {value!r}{place}")


def _flat(value: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, item in value.items():
        if isinstance(item, dict) and item:
            rows += _flat(item, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", item))
    return rows
