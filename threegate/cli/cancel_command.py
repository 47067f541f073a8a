"""`threegate cancel`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from threegate.acts.cancel import CANCEL, cancel_about, cancel_request
from threegate.cli import tab_completion
from threegate.cli.invocation import JsonFlag, argument, context_here, emit_json, one_by_one, say, wants_json
from threegate.cli.signing_options import KeyOption, NameOption, decision_here
from threegate.core.errors import EXIT_FAILED, EXIT_REFUSED, Refused
from threegate.review.named_request import DRAFT, OPEN, Named, find_request


def cancel(
    which: Annotated[
        list[str], argument("ID|FILE", "Requests: their ids, files or slugs.", tab_completion.open_requests)
    ],
    reason: Annotated[str, typer.Option("--reason", help="The reason, for the trail.")] = "",
    wait: Annotated[
        float, typer.Option("--wait", min=0, max=600, help="Seconds to wait for a running request to stop.")
    ] = 5.0,
    name: NameOption = "",
    key: KeyOption = None,
    json_: JsonFlag = False,
) -> None:
    """Stop a waiting or running request.

    Exit 3 if the daemon has not answered yet. The cancellation is signed if your key needs no passphrase.

    Example: threegate cancel TR-20261122-101500Z-sum --reason 'Wrong month.'
    """
    context = context_here()
    found = [find_request(context.workspace, one, OPEN, trail=context.trail) for one in which]
    ids: dict[str, Named] = {named.request_id or one: named for one, named in zip(which, found, strict=True)}
    rows: list[dict[str, object]] = []

    def cancel_one(request_id: str, named: Named) -> None:
        if named.state == DRAFT:
            raise Refused("not_approved", f"{request_id}: is a draft; reject it with: threegate reject {named.label}")
        by = decision_here(context, CANCEL, cancel_about(request_id, reason), name, key)
        done = cancel_request(context, request_id, by=by, reason=reason, wait_seconds=wait)
        rows.append(
            {
                "request_id": done.request_id,
                "outcome": done.outcome,
                "last_event": done.last_event,
                "was": done.was,
                "waited_seconds": done.waited_seconds,
                "ran_ms": done.ran_ms,
            }
        )
        if not wants_json(json_):
            say(str(done))
        if done.outcome in ("requested", "ended"):
            raise typer.Exit(EXIT_FAILED if done.outcome == "requested" else EXIT_REFUSED)

    code = one_by_one([partial(cancel_one, request_id, named) for request_id, named in ids.items()])
    if wants_json(json_):
        emit_json(rows[0] if len(ids) == 1 else rows)
    if code:
        raise typer.Exit(code)
