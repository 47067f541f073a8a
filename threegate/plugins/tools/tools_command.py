"""`threegate tools`: MCP tool servers whose calls agents may request."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from threegate.acts.signing_key import Acting
from threegate.approval.shown.escaped_lines import render_sections
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    emit_json,
    put,
    say,
    screen_width,
    wants_json,
    workspace_here,
)
from threegate.cli.signing_options import KeyOption, NameOption, YesOption, acting_here, actor_here, ask
from threegate.cli.tab_completion import offer
from threegate.core.errors import InvalidInput, ThreeGateError
from threegate.core.screen_parts import Section
from threegate.core.workspace import Workspace
from threegate.launch.context import Context, open_context
from threegate.plugins.tools.login_question import AskedLogin, log_in_again_here, looked_at
from threegate.plugins.tools.manifest import Manifest, read_manifest, server_names
from threegate.plugins.tools.process_states import count_processes
from threegate.plugins.tools.server_card import difference_section, runs_where, server_sections
from threegate.plugins.tools.server_process import open_fresh
from threegate.plugins.tools.tool_servers import (
    LookedAt,
    WantedServer,
    look_again,
    look_at_functions,
    pinned,
    program_changes,
    remove_server,
    sign_server,
)
from threegate.trail.trail import Trail

app = typer.Typer()


def _servers(workspace: Workspace, _: typer.Context) -> Iterable[str]:
    with Trail(workspace).locked() as held:
        return server_names(held.index)


servers = offer(_servers)
"""Completes a server's name."""
FunctionsOption = Annotated[
    Path | None,
    typer.Option(
        "--functions",
        metavar="FILE",
        help="No server: functions of a program that asks before it calls them; a JSON list of name, description and "
        "inputSchema.",
    ),
]
ServerName = Annotated[str, argument("NAME", "A server shown by `threegate tools list`.", servers)]


@app.command("add")
def add(
    server: Annotated[str, argument("NAME", "Its name: a letter, then up to 63 of A-Z a-z 0-9 _ -.")],
    command: Annotated[
        list[str] | None, argument("-- COMMAND", "The server's installed program; left out with --url and --functions.")
    ] = None,
    functions: FunctionsOption = None,
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="Instead of a program: a server elsewhere, by its https URL.")
    ] = "",
    client_id: Annotated[
        str,
        typer.Option("--client-id", metavar="ID", help="With --url: the client that you registered for its login."),
    ] = "",
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", metavar="SCOPE", help="With --url: what its login asks for, instead of what it names."),
    ] = None,
    bearer: Annotated[
        str,
        typer.Option("--bearer", metavar="NAME", help="With --url: a token from the file of the setting secrets.NAME."),
    ] = "",
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="HEADER=NAME", help="With --url: a header from the file of secrets.NAME."),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="An environment variable for it.")
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="NAME",
            help="An environment variable with the value of the setting secrets.NAME.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="HOST", help="A host it may send anything to (in a jail, only these)."),
    ] = None,
    bind: Annotated[
        list[str] | None,
        typer.Option("--bind", metavar="DIR[:rw]", help="A folder it can see; read-only without :rw."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            metavar="PATH",
            help="A file or folder of data, named by the command line or in the program's folder: it is not pinned.",
        ),
    ] = None,
    place: Annotated[str, typer.Option("--in", metavar="jail|era|host", help="Where it runs.")] = "jail",
    image: Annotated[
        str,
        typer.Option(
            "--image",
            metavar="IMAGE",
            help="With --in era: an image pinned by its digest; default: the one in the settings.",
        ),
    ] = "",
    stateful: Annotated[
        bool,
        typer.Option(
            "--stateful",
            help="Keep one process per agent run, with the state that calls leave in it; default: a fresh "
            "one per call.",
        ),
    ] = False,
    account: Annotated[
        str,
        typer.Option("--account", metavar="USER", help="When run as root: the account for it; default: nobody."),
    ] = "",
    name: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
    json_: JsonFlag = False,
) -> None:
    """Start a server once, show it and pin it; with --url, reach it once.

    Everything that the server reports about itself is shown and pinned with your signature.

    Example: threegate tools add notes --bind /srv/notes -- /opt/files/bin/mcp-server-filesystem /srv/notes
    """
    context = open_context(workspace_here())
    acting = acting_here(context, name, key)
    if functions is not None:
        given: dict[str, object] = {"-- COMMAND": command, "--url": url, "--client-id": client_id, "--scope": scope}
        given |= {"--bearer": bearer, "--header": header, "--env": env, "--secret": secret, "--allow": allow}
        given |= {"--bind": bind, "--data": data, "--image": image, "--stateful": stateful, "--account": account}
        given["--in"] = "" if place == "jail" else place
        if more := [option for option, value in given.items() if value]:
            raise InvalidInput(f"--functions: these run in their own program; leave out {', '.join(more)}")
        looked = look_at_functions(context, server, functions)
        if looked.before is not None:
            raise InvalidInput(
                f"{server}: already added; to sign its changes: threegate tools refresh {server} "
                f"--functions {functions}"
            )
        _sign_new(context, acting, looked, yes, json_)
        return
    wanted = WantedServer(
        server,
        tuple(command or ()),
        place,
        account,
        tuple(allow or ()),
        tuple(bind or ()),
        tuple(env or ()),
        tuple(secret or ()),
        stateful,
        image,
        tuple(data or ()),
        url,
    )
    asked = AskedLogin(client_id, tuple(scope or ()), bearer, tuple(header or ()))
    with looked_at(context, wanted, asked, yes=yes, quiet=wants_json(json_)) as looked:
        _sign_new(context, acting, looked, yes, json_)


@app.command("list")
def list_(json_: JsonFlag = False) -> None:
    """List the servers, and whether each still matches its signature.

    Example: threegate tools list
    """
    context = open_context(workspace_here())
    with context.trail.locked() as held:
        index = held.index
    rows: list[dict[str, Any]] = []
    for server in server_names(index):
        try:
            manifest = read_manifest(context.workspace, index, server)
            processes = count_processes(context.workspace, manifest.digest)
            rows.append({**_row(manifest), "processes": processes, "problem": None})
            text = f"{len(manifest.tools)} tools, {runs_where(manifest)}"
            if manifest.stateful:
                text += f"; stateful, {rows[-1]['processes']} running"
        except ThreeGateError as error:
            rows.append({"server": server, "problem": str(error)})
            text = str(error)
        if not wants_json(json_):
            say(f"{server:<16} {text}")
    if wants_json(json_):
        emit_json({"servers": rows})
    elif not rows:
        say("no tool servers yet; add one with: threegate tools add NAME -- COMMAND")


@app.command("show")
def show(server: ServerName, json_: JsonFlag = False) -> None:
    """Show everything that is pinned about a server.

    Example: threegate tools show notes
    """
    manifest = pinned(open_context(workspace_here()), server)
    if wants_json(json_):
        emit_json({"manifest_sha256": manifest.digest, **manifest.to_data()})
        return
    _show(server_sections(manifest), json_)


@app.command("refresh")
def refresh(
    server: ServerName,
    functions: FunctionsOption = None,
    name: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
    json_: JsonFlag = False,
) -> None:
    """Show what changed since a server was signed, and sign again.

    Example: threegate tools refresh notes
    """
    context = open_context(workspace_here())
    _refuse_other_form(pinned(context, server), functions)
    if functions is None and (program := program_changes(context, server)):
        _show([difference_section(program)], json_)
        ask(f"Its program changed. Start the current {server}, with its folders, hosts and secrets?", yes)
    looked = look_again(context, server) if functions is None else look_at_functions(context, server, functions)
    changed = [item.what for item in looked.changed]
    if changed:
        acting = acting_here(context, name, key)
        _show([difference_section(looked.changed)], json_)
        ask(f"Sign the current {server} as {acting.name}?", yes)
        sign_server(context, acting, looked)
    if wants_json(json_):
        emit_json({**_row(looked.manifest), "changed": changed})
    elif changed:
        say(f"signed the current {server} (manifest {looked.manifest.digest[:16]})")
    else:
        say(f"{server} matches what was signed; nothing was changed")


@app.command("remove")
def remove(server: ServerName, name: NameOption = "", key: KeyOption = None, json_: JsonFlag = False) -> None:
    """Remove a server; waiting calls of its tools are refused.

    Example: threegate tools remove notes
    """
    context = open_context(workspace_here())
    remove_server(context, server, actor=actor_here(context, name, key))
    if wants_json(json_):
        emit_json({"removed": server})
    else:
        say(f"removed {server}")


@app.command("login")
def login(server: ServerName, yes: YesOption = False, json_: JsonFlag = False) -> None:
    """Log in to a server at a URL again, by your browser.

    The first login is part of `threegate tools add NAME --url URL`. With --yes the link is printed, and no browser is
    opened.

    Example: threegate tools login tracker
    """
    context = open_context(workspace_here())
    log_in_again_here(context.policy.settings, pinned(context, server), yes=yes, json_=json_)


@app.command("test")
def test(server: ServerName, json_: JsonFlag = False) -> None:
    """Start a server and compare it with what was signed.

    It is started as for a call, but no tool is called.

    Example: threegate tools test notes
    """
    context = open_context(workspace_here())
    manifest = pinned(context, server)
    if manifest.place == "caller":
        raise InvalidInput(f"{server}: functions of a program, which nothing here starts")
    began = time.monotonic()
    with open_fresh(context.workspace, context.policy.settings, manifest) as reached:
        reached.check_pinned()
        took = round((time.monotonic() - began) * 1000)
    if wants_json(json_):
        emit_json({**_row(manifest), "ms": took})
    else:
        how = "answers" if manifest.url else "starts"
        say(f"{server} {how} and matches what was signed: {len(manifest.tools)} tools in {took} ms")


def _refuse_other_form(manifest: Manifest, functions: Path | None) -> None:
    if manifest.place == "caller" and functions is None:
        raise InvalidInput(f"{manifest.server}: functions of a program; name the file that has them: --functions FILE")
    if manifest.place != "caller" and functions is not None:
        raise InvalidInput(f"--functions: {manifest.server} is a server, which describes its tools itself")


def _sign_new(context: Context, acting: Acting, looked: LookedAt, yes: bool, json_: bool) -> None:
    manifest = looked.manifest
    _show(server_sections(manifest), json_)
    ask(f"Sign {'these functions' if manifest.place == 'caller' else 'this server'} as {acting.name}?", yes)
    sign_server(context, acting, looked)
    if wants_json(json_):
        emit_json(_row(manifest))
    else:
        count = len(manifest.tools)
        say(f"added {manifest.server} with {count} tool{'s' if count != 1 else ''} (manifest {manifest.digest[:16]})")


def _show(sections: list[Section], json_: bool) -> None:
    quiet = wants_json(json_)
    put(render_sections(sections, full=True, width=screen_width(to_stderr=quiet)), err=quiet)


def _row(manifest: Manifest) -> dict[str, Any]:
    return {
        "server": manifest.server,
        "place": manifest.place,
        "account": manifest.account,
        "stateful": manifest.stateful,
        "hosts": list(manifest.hosts),
        "tools": [tool.name for tool in manifest.tools],
        "manifest_sha256": manifest.digest,
    }
