"""`threegate doctor`: check and measure what is enforced on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli.invocation import JsonFlag, report, wants_json, workspace_here
from threegate.cli.progress import busy
from threegate.core.errors import EXIT_REFUSED, NoWorkspace
from threegate.core.extras import require_extra
from threegate.runners.era.platforms import era_platforms
from threegate.setup.doctor import examine


def doctor(
    probes: Annotated[
        bool, typer.Option("--probes/--no-probes", help="Test the sandboxes with short runs (a few seconds).")
    ] = True,
    sandbox: Annotated[
        bool,
        typer.Option("--sandbox", help="Run only a test that tries to break every restriction of ERA."),
    ] = False,
    network: Annotated[
        bool, typer.Option("--network/--no-network", help="With --sandbox: also test the network through the proxy.")
    ] = True,
    json_: JsonFlag = False,
) -> None:
    """Check and measure what is enforced on this machine.

    Every problem comes with a way to fix it. Exit 2 if something has failed, or if a test run breaks a
    restriction.

    Examples: threegate doctor
              threegate doctor --sandbox --no-network
    """
    if sandbox:
        _check_sandbox(network=network, as_json=wants_json(json_))
        return
    try:
        workspace = workspace_here()
    except NoWorkspace:
        workspace = None
    with busy("measuring"):
        lines = examine(workspace, probes=probes)
    ok = all(line.state != "failure" for line in lines)
    found = [{"name": line.name, "state": line.state, "seen": line.seen, "fix": line.fix} for line in lines]
    fixes = [f"  → {line.fix}" if line.fix else "" for line in lines]
    shown = [f"{line.state:<8} {line.name}: {line.seen}{fix}" for line, fix in zip(lines, fixes, strict=True)]
    report(json_, {"lines": found, "ok": ok}, shown)
    if not ok:
        raise typer.Exit(EXIT_REFUSED)


def _check_sandbox(*, network: bool, as_json: bool) -> None:
    settings = workspace_here().load_settings().runners.era
    with busy("testing every restriction"):
        if era_platforms(settings).now[0].engine:
            require_extra("ERA", "era")
            from threegate.runners.era.era_doctor import prove_era  # late: it needs the extra

            outcome, walls = prove_era(settings, network=network and bool(settings.egress_image))
        else:
            from threegate.runners.era.bubblewrap_doctor import prove_bubblewrap

            outcome, walls = prove_bubblewrap(settings, network=network)
    value = {
        "walls": [{"name": wall.name, "held": wall.held, "seen": wall.seen} for wall in walls],
        "effective_limits": outcome.effective_limits,
        "runtime": outcome.runtime,
        "image": outcome.image,
    }
    lines = [f"{'held ' if wall.held else 'BROKE'}  {wall.name}  ({wall.seen})" for wall in walls]
    report(as_json, value, [*lines, *(f"       {name}: {limit}" for name, limit in outcome.effective_limits.items())])
    if not all(wall.held for wall in walls):
        raise typer.Exit(EXIT_REFUSED)
