"""`threegate cancel`."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.acts.cancel import CANCEL, cancel_about, cancel_request
from threegate.cli import tab_completion
from threegate.cli.invocation import JsonFlag, argument, context_here, emit_json, say, wants_json
from threegate.cli.signing_options import KeyOption, NameOption, decision_here
from threegate.core.errors import EXIT_FAILED, EXIT_REFUSED
from threegate.review.show import show_request


def cancel(
    which: Annotated[str, argument("ID|FILE", "A request by its id or file.", tab_completion.open_requests)],
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
    request_id = show_request(context.workspace, which).request_id or which
    by = decision_here(context, CANCEL, cancel_about(request_id, reason), name, key)
    done = cancel_request(context, request_id, by=by, reason=reason, wait_seconds=wait)
    if wants_json(json_):
        emit_json(
            {
                "request_id": done.request_id,
                "outcome": done.outcome,
                "last_event": done.last_event,
                "was": done.was,
                "waited_seconds": done.waited_seconds,
                "ran_ms": done.ran_ms,
            }
        )
    else:
        say(str(done))
    if done.outcome == "requested":
        raise typer.Exit(EXIT_FAILED)
    if done.outcome == "ended":
        raise typer.Exit(EXIT_REFUSED)
