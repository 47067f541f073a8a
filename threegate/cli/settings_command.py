"""`threegate settings`: check and show them, and what is entered into them or set up once."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from threegate.acts.adopt import adopt as adopt_now
from threegate.acts.adopt import adopt_about
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    context_here,
    emit_json,
    report,
    say,
    wants_json,
    warn,
    workspace_here,
)
from threegate.cli.progress import busy
from threegate.cli.service_command import app as service
from threegate.cli.signing_options import KeyOption, NameOption, YesOption, acting_here, ask
from threegate.core import durable, limits
from threegate.core.settings import SECTIONS, parse_settings
from threegate.core.workspace import Workspace
from threegate.setup.init import account
from threegate.setup.root_folder import enter_root, unpack_root
from threegate.setup.sandbox import build_images, enter_images
from threegate.setup.settings_file import toml_value

app = typer.Typer()
app.add_typer(service, name="service")


@app.command()
def check(
    file: Annotated[Path | None, argument("FILE", "The settings file; default: the workspace's.")] = None,
    json_: JsonFlag = False,
) -> None:
    """Check the settings.

    Exit 2 with the location of the first error.

    Example: threegate settings check
    """
    if file is None:
        settings = workspace_here().load_settings()
    else:
        settings = parse_settings(durable.read_named(file, max_bytes=limits.SETTINGS_BYTES), file)
    unread = {name: plugin.why_absent() for name, plugin in settings.unread().items()}
    for name, why in unread.items() if not wants_json(json_) else ():
        warn(f"[{name}] is not read: {why}")
    report(json_, {"valid": True, "unread": unread}, ["the settings are valid"])


@app.command()
def adopt(
    as_: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
    json_: JsonFlag = False,
) -> None:
    """Report why launches stopped, and continue from here.

    Earlier approvals become void.

    Example: threegate settings adopt --as alice --key ~/.ssh/id_ed25519
    """
    context = context_here()
    about = adopt_about(context)
    if not wants_json(json_):
        say(f"{about['path']}: {about['problem']}")
        say(f"the trail ends at event {about['seq']}; epoch {about['epoch']} begins and earlier approvals become void")
    ask("Adopt this workspace?", yes)
    done = adopt_now(context, acting_here(context, as_, key), about)
    new_key = ["a new workspace key was created; keep the output of: threegate audit checkpoint"]
    value = {"epoch": done.epoch, "problem": done.problem, "new_key": done.new_key}
    report(json_, value, [f"adopted: epoch {done.epoch}", *(new_key if done.new_key else ())])


@app.command()
def images(
    rootfs: Annotated[
        Path | None,
        typer.Option(
            "--rootfs",
            metavar="FOLDER",
            help="Unpack Debian packages into FOLDER instead, as the root of commands that run without an engine.",
        ),
    ] = None,
    json_: JsonFlag = False,
) -> None:
    """Build missing images and record their digests.

    The digests are written to threegate.toml. Without a container engine no image is needed.

    Examples: threegate settings images
              threegate settings images --rootfs ~/threegate-root
    """
    workspace = workspace_here()
    if rootfs is not None:
        _unpack(workspace, rootfs, wants_json(json_))
        return
    with busy("building the images (minutes, the first time)"):
        made = build_images(workspace.load_settings().runners.era.engine)
    changed = enter_images(workspace, made, actor=account())
    new = "written to threegate.toml; approvals of requests that run in the former images are no longer valid"
    report(
        json_,
        {"image": made.era, "egress_image": made.egress, "settings_changed": changed},
        [
            *made.ways,
            f"image         {made.era}",
            f"egress_image  {made.egress}",
            new if changed else "already in threegate.toml",
        ],
    )


def _unpack(workspace: Workspace, folder: Path, as_json: bool) -> None:
    folder = folder.expanduser().resolve()
    with busy("unpacking packages (a minute)"):
        root = unpack_root(folder)
    enter_root(workspace, folder, root, actor=account())
    report(
        as_json,
        {"root": str(folder), "digest": root.digest, "programs": len(root.programs), "python": root.python},
        [
            f"root    {folder}: {len(root.programs)} programs, Python {root.python}",
            f"digest  {root.digest}",
            "written to threegate.toml (runners.era.root); approvals that name another root are no longer valid",
        ],
    )


@app.command()
def show(
    origin: Annotated[bool, typer.Option("--origin", help="Print where each value comes from.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Print every setting in the form of threegate.toml.

    An address that may contain a secret is shown by its scheme only.

    Example: threegate settings show --origin
    """

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
