"""`threegate sandbox build|check`."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli.invocation import JsonFlag, emit_json, say, wants_json, workspace_here
from threegate.cli.progress import busy

app = typer.Typer(no_args_is_help=True)


@app.command()
def build(json_: JsonFlag = False) -> None:
    """Build missing images and record their digests.

    The digests are written to threegate.toml.

    Example: threegate sandbox build
    """
    from threegate.setup.init import account
    from threegate.setup.sandbox import build_images, enter_images

    workspace = workspace_here()
    with busy("building the images (minutes, the first time)"):
        images = build_images(workspace.load_settings().runners.era.engine)
    changed = enter_images(workspace, images, actor=account())
    if wants_json(json_):
        emit_json({"image": images.era, "egress_image": images.egress, "settings_changed": changed})
        return
    for way in images.ways:
        say(way)
    say(f"image         {images.era}")
    say(f"egress_image  {images.egress}")
    say("written to threegate.toml; earlier approvals are no longer valid" if changed else "already in threegate.toml")


@app.command()
def check(
    network: Annotated[
        bool, typer.Option("--network/--no-network", help="Also test network access through the proxy.")
    ] = True,
    json_: JsonFlag = False,
) -> None:
    """Run a test container that tries to break every restriction.

    Exit 2 if it breaks one.

    Example: threegate sandbox check --no-network
    """
    from threegate.core.errors import EXIT_REFUSED
    from threegate.core.extras import require_extra

    require_extra("ERA", "era")
    from threegate.runners.era.era_doctor import prove_era

    settings = workspace_here().load_settings().runners.era
    with busy("testing every restriction"):
        outcome, walls = prove_era(settings, network=network and bool(settings.egress_image))
    if wants_json(json_):
        emit_json(
            {
                "walls": [{"name": wall.name, "held": wall.held, "seen": wall.seen} for wall in walls],
                "effective_limits": outcome.effective_limits,
                "runtime": outcome.runtime,
                "image": outcome.image,
            }
        )
    else:
        for wall in walls:
            say(f"{'held ' if wall.held else 'BROKE'}  {wall.name}  ({wall.seen})")
        for name, value in outcome.effective_limits.items():
            say(f"       {name}: {value}")
    if not all(wall.held for wall in walls):
        raise typer.Exit(EXIT_REFUSED)
