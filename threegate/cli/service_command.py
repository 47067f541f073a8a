"""`threegate settings service install|uninstall|status`: the daemon under systemd."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli.invocation import (
    JsonFlag,
    emit_data,
    emit_json,
    say,
    wants_json,
    workspace_here,
)
from threegate.cli.signing_options import YesOption, ask
from threegate.core.errors import EXIT_REFUSED, Unavailable
from threegate.setup import systemd_service
from threegate.setup.systemd_service import ServicePlan

app = typer.Typer(help="Run the daemon as a systemd service.", no_args_is_help=True)

_Name = Annotated[str, typer.Option("--name", help="The service's name.")]


@app.command()
def install(
    user: Annotated[
        str,
        typer.Option(
            "--user",
            help="The account to run as; default: threegate, with --era root, without sudo your own.",
        ),
    ] = "",
    era: Annotated[
        bool, typer.Option("--era", help="Run container requests too (as root, or in the engine's group).")
    ] = False,
    name: _Name = "threegate",
    print_: Annotated[bool, typer.Option("--print", help="Print the unit and do nothing.")] = False,
    yes: YesOption = False,
) -> None:
    """Write the systemd unit and start it.

    It prints what it will do and asks first.

    Example: threegate settings service install --user threegate
    """
    plan = systemd_service.plan_install(workspace_here(), name=name, user=user, era=era)
    if print_:
        emit_data(plan.unit)
        return
    systemd_service.need_systemd()
    systemd_service.need_manager(plan)
    _tell(plan)
    if plan.obstacles:
        raise Unavailable(plan.obstacles[0])
    ask("Install the service?", yes)
    systemd_service.carry_out(plan, lambda what: say(f"now   {what}"))
    of = "--user " if plan.own else ""
    say(f"runs  systemctl {of}status {name}; journalctl {of}-u {name}")


@app.command()
def uninstall(name: _Name = "threegate", yes: YesOption = False) -> None:
    """Stop the service and remove its unit.

    It prints what it will do and asks first. The workspace stays.

    Example: threegate settings service uninstall
    """
    systemd_service.need_systemd()
    plan = systemd_service.plan_uninstall(name)
    systemd_service.need_manager(plan)
    _tell(plan)
    ask("Remove the service?", yes)
    systemd_service.carry_out(plan, lambda what: say(f"now   {what}"))


@app.command()
def status(name: _Name = "threegate", json_: JsonFlag = False) -> None:
    """Show the state of the service in systemd.

    Exit 2 if it is not running.

    Example: threegate settings service status
    """
    systemd_service.need_systemd()
    state = systemd_service.service_state(name)
    running = state.get("ActiveState") in ("active", "reloading")
    if wants_json(json_):
        emit_json({"running": running, **state})
    else:
        for key, value in state.items():
            say(f"{key:<14} {value}")
    if not running:
        raise typer.Exit(EXIT_REFUSED)


def _tell(plan: ServicePlan) -> None:
    for step in plan.steps:
        say(f"will  {step.what}")
    for note in plan.notes:
        say(f"note  {note}")
    for obstacle in plan.obstacles:
        say(f"stop  {obstacle}")
