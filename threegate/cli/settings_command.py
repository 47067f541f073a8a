"""`threegate settings check|show`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from threegate.cli.invocation import JsonFlag, emit_json, say, wants_json, warn, workspace_here

app = typer.Typer(no_args_is_help=True)


@app.command()
def check(
    file: Annotated[Path | None, typer.Argument(help="The settings file; default: the workspace's.")] = None,
) -> None:
    """Check the settings.

    Exit 2 with the location of the first error.

    Example: threegate settings check
    """
    from threegate.core import durable, limits
    from threegate.core.settings import parse_settings

    if file is None:
        settings = workspace_here().load_settings()
    else:
        settings = parse_settings(durable.read_named(file, max_bytes=limits.SETTINGS_BYTES), file)
    for name, plugin in settings.unread().items():
        warn(f"[{name}] is not read: {plugin.why_absent()}")
    say("the settings are valid")


@app.command()
def show(
    origin: Annotated[bool, typer.Option("--origin", help="Print where each value comes from.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Print every setting in the form of threegate.toml.

    An address that may contain a secret is shown by its scheme only.

    Example: threegate settings show --origin
    """
    import tomllib

    from threegate.core.settings import SECTIONS
    from threegate.setup.settings_file import toml_value

    workspace = workspace_here()
    settings = workspace.load_settings()
    given = dict(_flat(tomllib.loads(workspace.settings_bytes().decode())))
    rows = dict(_flat(settings.to_json()))
    addresses = {f"{table}.{name}" for table, section in SECTIONS.all_named().items() for name in section.addresses}
    if wants_json(json_):
        emit_json(
            {
                name: {"value": _shown(name, value, addresses), "origin": "file" if name in given else "default"}
                for name, value in rows.items()
            }
        )
        return
    for name, value in rows.items():
        place = f"   # {workspace.settings_file.name if name in given else 'default'}" if origin else ""
        say(f"{name} = {toml_value(_shown(name, value, addresses))}{place}")


def _shown(name: str, value: Any, addresses: Collection[str]) -> Any:
    """The value; only the scheme of an address that may contain a password or a token."""
    return _scheme(value) if name in addresses else value


def _scheme(value: Any) -> Any:
    if isinstance(value, list):
        return [_scheme(item) for item in value]
    scheme, mark, _ = str(value).partition("://")
    return f"{scheme}{mark}..." if mark else "..." if value else ""


def _flat(value: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, item in value.items():
        if isinstance(item, dict) and item:
            rows += _flat(item, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", item))
    return rows
