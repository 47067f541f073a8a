"""`threegate audit replay`: run a finished request again and compare the outputs."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.acts.replay import ended_request
from threegate.acts.replay import replay as run_again
from threegate.cli import tab_completion
from threegate.cli.invocation import JsonFlag, argument, context_here, report
from threegate.cli.signing_options import KeyOption, NameOption, YesOption, acting_here, ask
from threegate.core.errors import EXIT_REFUSED
from threegate.review.named_request import finished_id
from threegate.runners.backend import make_runner


def replay(
    which: Annotated[str, argument("ID|FILE", "A request that ran to completion.", tab_completion.ran)],
    name: NameOption = "",
    key: KeyOption = None,
    yes: YesOption = False,
    json_: JsonFlag = False,
) -> None:
    """Run a finished request again and compare its outputs.

    It runs under the same limits. Exit 2 if an output differs.

    Example: threegate audit replay TR-20261122-101500Z-sum
    """
    context = context_here()
    request_id = finished_id(context, which, exact=yes)
    ended = ended_request(context, request_id)
    acting = acting_here(context, name, key)
    ask(f"Sign as {acting.name} and run {request_id} again, to compare?", yes)
    runner = make_runner(ended.job.backend, context.policy.settings, once=True)
    try:
        done = run_again(context, ended, acting, runner)
    finally:
        runner.close()
    value = {
        "request_id": request_id,
        "folder": str(done.folder),
        "status": done.status,
        "identical": not done.differences,
        "differences": list(done.differences),
    }
    last = f"{'identical' if not done.differences else 'different'} ({done.status}); {done.folder}"
    report(json_, value, [*(f"differs  {line}" for line in done.differences), last])
    if done.differences:
        raise typer.Exit(EXIT_REFUSED)
