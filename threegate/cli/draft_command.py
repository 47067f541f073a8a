"""``threegate draft``: a well-formed request from options, from an ended request, or from a proposal."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from threegate.acts.draft import DraftOptions, write_draft
from threegate.acts.retry import retry_request
from threegate.cli import invocation, output, tab_completion
from threegate.cli.nouns import given_by_plugin
from threegate.core import durable, limits
from threegate.core.errors import InvalidInput
from threegate.core.workspace import Workspace
from threegate.request.backend import BACKENDS, DEFAULT_BACKEND
from threegate.review.named_request import DRAFT, ENDED, find_request, where_now
from threegate.review.readiness import would_wait

_CHOICES = {
    "backend": tuple(name for name, rules in BACKENDS.items() if rules.version == "1"),
    "risk": ("low", "medium", "high"),
    "sensitivity": ("public", "internal", "confidential"),
}


def draft(
    purpose: Annotated[str, typer.Option(help="One sentence: what the run is for.")] = "",
    backend: Annotated[
        str, typer.Option(help="ERA (a command in a container) or monty (Python code).")
    ] = DEFAULT_BACKEND,
    command: Annotated[str, typer.Option(help="ERA: the command, on one line.")] = "",
    code: Annotated[str, typer.Option(metavar="FILE", help="monty: the file with the code.")] = "",
    variables: Annotated[
        str, typer.Option("--vars", metavar="FILE", help="monty: a JSON file with the inputs' values.")
    ] = "",
    inputs: Annotated[
        list[str] | None, typer.Option("--input", metavar="FILE", help="An input file (repeatable).")
    ] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option("--output", metavar="PATH", help="An expected output below /out/ (repeatable)."),
    ] = None,
    slug: Annotated[str, typer.Option(help="The end of the file's name; default: from the purpose.")] = "",
    requested_by: Annotated[str, typer.Option("--requested-by", help="Who makes the request.")] = "core",
    risk: Annotated[str, typer.Option(help="low, medium or high.")] = "low",
    sensitivity: Annotated[str, typer.Option(help="public, internal or confidential.")] = "internal",
    justification: Annotated[str, typer.Option(help="Why the run is worth its risk; default: the purpose.")] = "",
    network_allow: Annotated[
        list[str] | None,
        typer.Option("--network-allow", metavar="HOST[:PORT]", help="A host that the run may reach (repeatable)."),
    ] = None,
    network_rationale: Annotated[str, typer.Option("--network-rationale", help="Why the network is needed.")] = "",
    language: Annotated[str, typer.Option(help="ERA: the language of the code.")] = "python",
    cpu: Annotated[str, typer.Option(help="Cores, as a decimal number.")] = "1",
    memory: Annotated[int, typer.Option(help="Memory in MiB.")] = 256,
    time: Annotated[int, typer.Option(help="Seconds.")] = 60,
    again: Annotated[
        str,
        typer.Option(
            "--again",
            metavar="ID|FILE",
            help="Draft this ended request again, under a new id.",
            autocompletion=tab_completion.ended_requests,
        ),
    ] = "",
    proposal: Annotated[
        str, typer.Option("--proposal", metavar="FILE|-", help="Print the draft that this JSON proposal would become.")
    ] = "",
    drop: Annotated[bool, typer.Option("--drop", help="With --proposal: put it into the inbox.")] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="With --proposal: one proposal per line.")] = False,
    form: Annotated[Literal["text", "json"], typer.Option("--format", help="With --proposal: text or json.")] = "text",
    json_: invocation.JsonFlag = False,
) -> None:
    """Write a draft, or draft an ended request again.

    The draft is written into the inbox, and its inputs are hashed and copied to inbox/files/, each under its sha256. A
    draft of an ended request has a new id and needs a new approval.

    Examples: threegate draft --backend monty --code sum.py --input numbers.json --purpose 'Add up the numbers.'
              threegate draft --again TR-20261122-101500Z-sum
              threegate draft --proposal proposal.json --drop
    """
    ways = {"--purpose": purpose, "--again": again, "--proposal": proposal}
    if sum(map(bool, ways.values())) != 1:
        raise typer.BadParameter(f"give exactly one of {', '.join(ways)}: a new draft begins with its purpose")
    if proposal:
        given_by_plugin("draft --proposal")(
            proposal, jsonl=jsonl, as_json=form == "json" or invocation.wants_json(json_), drop=drop
        )
        return
    if again:
        _draft_again(again, json_)
        return
    for name, given in (("backend", backend), ("risk", risk), ("sensitivity", sensitivity)):
        if given not in _CHOICES[name]:
            raise typer.BadParameter(f"--{name} must be one of {', '.join(_CHOICES[name])}")
    options = DraftOptions(
        backend=cast(Any, backend),
        purpose=purpose,
        command=command or None,
        code=_text(code) if code else None,
        vars_json=_text(variables) if variables else None,
        inputs=tuple(Path(item) for item in inputs or ()),
        outputs=tuple(outputs or ()),
        slug=slug,
        requested_by=requested_by,
        risk=cast(Any, risk),
        sensitivity=cast(Any, sensitivity),
        justification=justification,
        network_allow=tuple(network_allow or ()),
        network_rationale=network_rationale,
        cpu=cpu,
        memory_mb=memory,
        time_sec=time,
        language=language,
    )
    workspace = invocation.workspace_here()
    drafted = write_draft(workspace, options, now=datetime.now(UTC))
    if invocation.wants_json(json_):
        request = drafted.report.request
        invocation.emit_json(
            {
                "path": str(drafted.path),
                "request_id": drafted.report.request_id,
                "sha256": drafted.report.sha256,
                "inputs": [{"name": item.name, "sha256": item.sha256} for item in request.inputs] if request else [],
                "copied": list(drafted.copied),
                "findings": [finding.to_json() for finding in drafted.report.findings],
            }
        )
        return
    for name in drafted.copied:
        invocation.say(f"copied {name} to inbox/files/")
    invocation.put(output.report_lines([drafted.report]))
    if drafted.report.valid:
        _tell_no_daemon(workspace)


def _draft_again(which: str, json_: bool) -> None:
    context = invocation.context_here()
    named = find_request(context.workspace, which, ENDED, trail=context.trail)
    if named.state == DRAFT:
        raise InvalidInput(f"{which}: {where_now(context.workspace, named, context.trail)}")
    if (source := named.path) is None:
        raise InvalidInput(f"{which}: its file no longer exists; write a new draft")
    done = retry_request(context, source)
    if invocation.wants_json(json_):
        invocation.emit_json(
            {
                "file": str(done.path),
                "request_id": done.request_id,
                "of": done.of,
                "restored": list(done.restored),
            }
        )
        return
    invocation.say(f"draft {done.path} ({done.request_id}, a retry of {done.of})")
    say_next(context.workspace, done.path)


def say_next(workspace: Workspace, draft: Path) -> None:
    """What to type after a command that made a draft, and whether no daemon would start it."""
    invocation.say(f"next  threegate approve {shlex.quote(str(draft))}", copied=True)
    _tell_no_daemon(workspace)


def _tell_no_daemon(workspace: Workspace) -> None:
    if line := would_wait(workspace):
        invocation.warn(line)


def _text(path: str) -> str:
    """Read a UTF-8 text file of the user."""
    try:
        return durable.read_regular(Path(path), max_bytes=limits.REQUEST_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(f"{path}: not UTF-8; save it as UTF-8") from None
