"""`threegate audit pack [ID...|--since WHEN] --out DIR`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from threegate.cli import tab_completion
from threegate.cli.invocation import JsonFlag, argument, emit_json, moment_of, say, wants_json, workspace_here
from threegate.cli.progress import busy
from threegate.core.errors import EXIT_REFUSED, InvalidInput
from threegate.plugins.evidence.pack import write_pack
from threegate.review.named_request import find_request

_SHOWN = 20
"""At most this many missing files are printed; the pack's index lists all of them."""


def pack(
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="The folder to write, or a zip file if it ends in .zip."),
    ],
    ids: Annotated[list[str] | None, argument("ID|FILE", "Only these requests.", tab_completion.with_result)] = None,
    since: Annotated[
        str,
        typer.Option("--since", metavar="WHEN", help="Only requests with an event since then: a date, or 24h, 7d."),
    ] = "",
    json_: JsonFlag = False,
) -> None:
    """Write a pack that an auditor checks without ThreeGate.

    Without IDs and --since, it covers the whole trail. Its HOW-TO-CHECK.md explains how to check it. Exit 2
    if something is missing from it.

    Example: threegate audit pack --since 30d --out evidence.zip
    """
    if ids and since:
        raise InvalidInput("give either IDs or --since, not both")
    workspace = workspace_here()
    wanted = [find_request(workspace, one).request_id or one for one in ids or ()]
    with busy("verifying the trail and writing the pack"):
        packed = write_pack(workspace, out, ids=wanted, since=moment_of(since) if since else None)
    if wants_json(json_):
        emit_json({**asdict(packed), "path": str(packed.path)})
    else:
        say(f"{packed.path}: {packed.requests} requests, {packed.events} of the trail's {packed.size} events")
        if packed.masked:
            say(
                f"secrets were masked in {packed.masked} files, so their digests cannot be checked (listed in "
                "index.json)"
            )
        say("send these fingerprints to the auditor over another channel:")
        for name, keys in (("log", packed.log_keys), ("operator", packed.operator_keys)):
            for key in keys:
                say(f"  {name:<9} {key}")
        for item in packed.missing[:_SHOWN]:
            say(f"missing: {item['file']}: {item['why']}")
        if len(packed.missing) > _SHOWN:
            say(f"... and {len(packed.missing) - _SHOWN} more (index.json)")
    if packed.missing:
        raise typer.Exit(EXIT_REFUSED)
