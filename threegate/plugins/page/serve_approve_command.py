"""`threegate serve passkeys`: the page that takes passkeys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threegate.cli.invocation import say, workspace_here
from threegate.core.errors import WrongUsage
from threegate.core.extras import require_extra

if TYPE_CHECKING:
    from threegate.core.settings import Settings


def passkeys(
    host: Annotated[
        str, typer.Option(help="The address to listen on; default: what the origin's name resolves to.")
    ] = "",
    cert: Annotated[
        Path | None, typer.Option("--cert", metavar="PEM", help="Certificate chain; with --key-file.")
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option("--key-file", metavar="PEM", help="Its private key; with --cert.")
    ] = None,
    make_ca: Annotated[
        bool,
        typer.Option("--make-ca", help="Make a certificate and a CA to import, then exit."),
    ] = False,
) -> None:
    """Serve the page that takes passkeys, until Ctrl-C.

    Its https address is the setting approval.passkey_origin.

    Examples: threegate serve passkeys --make-ca
              threegate serve passkeys --cert approve.pem --key-file approve.key
    """
    from threegate.core.web_origin import parse_origin
    from threegate.plugins.page.page_certificate import certificate_files, make_certificate

    workspace = workspace_here()
    origin = passkey_origin(workspace.load_settings())
    name, port = parse_origin(origin)
    if (cert is None) != (key_file is None):
        raise typer.BadParameter("--cert and --key-file belong together")
    if make_ca:
        made = make_certificate(workspace, name)
        say(f"authority    {made.authority}")
        say(f"fingerprint  SHA-256 {made.fingerprint}")
        say(f"for          {name} only, until {made.until:%Y-%m-%d}; the CA's key was deleted: it signs nothing else")
        say("Import it on the device you approve from, then run: threegate serve passkeys")
        return
    require_extra("this server", "http")
    files = (cert, key_file) if cert and key_file else certificate_files(workspace)
    from threegate.plugins.serve.listening import bind

    listener = bind(host or name, port, reachable=True)
    from threegate.plugins.page.passkey_app import create_passkey_server
    from threegate.plugins.serve.http_server import serve

    def ready(_url: str) -> None:
        say(f"listening on {origin}; press Ctrl-C to stop")

    serve(listener, create_passkey_server(workspace, origin), ready=ready, certificate=files)


def passkey_origin(settings: Settings) -> str:
    """The origin that passkeys are pinned to. Raises WrongUsage when none is set."""
    if not (origin := settings.approval.passkey_origin):
        raise WrongUsage(
            'set passkey_origin = "https://HOST:PORT" below [approval] in threegate.toml'
            " (docs/approve-from-elsewhere.md)"
        )
    return origin
