"""`threegate aana`: check events of the Agent Action Contract and summarize a decision log.

Invariant: exit 0 only when every event read is accepted; unreadable input is a refusal, not an error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import typer

from threegate.cli.invocation import JsonFlag, argument, emit_data, emit_json, say, wants_json, workspace_here
from threegate.core import limits
from threegate.core.errors import EXIT_REFUSED, InvalidInput, NoWorkspace

app = typer.Typer(no_args_is_help=True)


@app.command()
def check(
    file: Annotated[str, argument("FILE|-", "An event as JSON; - reads stdin.")],
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Read one event per line, print one result per line.")] = False,
    now: Annotated[str, typer.Option(metavar="ISO", help="The time at which the age of evidence is measured.")] = "",
    form: Annotated[
        Literal["text", "json"] | None, typer.Option("--format", help="Default: text, with --jsonl json.")
    ] = None,
    evidence: Annotated[
        Literal["quickstart", "production"],
        typer.Option(help="In production, evidence that is only a string is refused."),
    ] = "quickstart",
    log: Annotated[
        str, typer.Option(metavar="FILE", help="Append audit-safe events here; default: the workspace's log.")
    ] = "",
    json_: JsonFlag = False,
) -> None:
    """Say whether a proposed tool call should run now.

    Exit 0 only if it is accepted.

    Example: threegate aana check event.json --format json
    """
    from threegate.aana import DecisionLog, check_bytes

    as_json = form == "json" or wants_json(json_) or (jsonl and form is None)
    moment = _moment(now, "--now") if now else None
    path = Path(log) if log else _log_here()
    decision_log = DecisionLog(path) if path else None
    accepted = True
    with _opened(file) as stream:
        for data in _lines(stream) if jsonl else [stream.read(limits.AANA_EVENT_BYTES + 1)]:
            result = check_bytes(
                data,
                now=moment or datetime.now(UTC),
                evidence_mode=evidence,
                log=decision_log,
                surface="cli",
            )
            accepted = accepted and result["execution_allowed"]
            if as_json and jsonl:
                emit_data(json.dumps(result, ensure_ascii=True, separators=(",", ":")) + "\n")
            elif as_json:
                emit_json(result)
            elif jsonl:
                say(_line_of(result))
            else:
                _tell(result)
    if not accepted:
        raise typer.Exit(EXIT_REFUSED)


@app.command()
def summary(
    file: Annotated[str, argument("[FILE|-]", "A decision log; default: the workspace's.")] = "",
    since: Annotated[str, typer.Option(metavar="ISO", help="Count from this time on.")] = "",
    until: Annotated[str, typer.Option(metavar="ISO", help="Count up to this time.")] = "",
    json_: JsonFlag = False,
) -> None:
    """Count routes, blockers and tools of a decision log.

    Example: threegate aana summary --since 2026-05-10T00:00:00Z
    """
    from threegate.aana import summarise

    if not file:
        try:
            file = str(workspace_here().decisions_file)
        except NoWorkspace:
            raise NoWorkspace(
                "no decision log named and no workspace here; name one: threegate aana summary FILE"
            ) from None
    with _opened(file) as stream:
        total = summarise(
            _lines(stream),
            since=_moment(since, "--since") if since else None,
            until=_moment(until, "--until") if until else None,
        )
    if wants_json(json_):
        emit_json(total.as_json())
    else:
        say(f"{total.decisions} decisions")
        for title, counts in (
            ("routes", total.routes),
            ("blockers", total.blockers),
            ("tools", total.tools),
            ("surfaces", total.surfaces),
            ("verdicts of other gates", total.verdicts),
        ):
            say(f"{title}:")
            for name, count in counts.most_common():
                say(f"  {count:>7}  {name}")
    if total.unreadable_lines:
        raise InvalidInput(f"{file}: {total.unreadable_lines} lines are not audit-safe events and were not counted")


def _log_here() -> Path | None:
    """The decision log of the current workspace; None outside a workspace."""
    try:
        return workspace_here().decisions_file
    except NoWorkspace:
        return None


def _tell(result: dict[str, Any]) -> None:
    """Print a decision in a few lines, for a person."""
    say(f"{result['recommended_action']}: {result['tool_name'] or '(no tool name)'}")
    for blocker in result["hard_blockers"]:
        say(f"  blocked: {blocker}")
    for problem in result["validation_errors"]:
        say(f"  malformed: {problem['path'] or 'event'}: {problem['message']}")
    if result["deviations"]:
        say(f"  stricter than the documented SDK: {', '.join(result['deviations'])}")
    for reason in result["reasons"]:
        if reason.endswith("(D5)"):
            say(f"  {reason}")
    say(f"  {result['architecture_decision']['recovery']}")


def _line_of(result: dict[str, Any]) -> str:
    blockers = ",".join(result["hard_blockers"])
    name = result["tool_name"] or "(no tool name)"
    return f"{result['recommended_action']:<7} {name}  {blockers}".rstrip()


def _moment(text: str, option: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{option} is not an ISO 8601 time such as 2026-05-10T00:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _opened(file: str) -> BinaryIO:
    """The named file or stdin. Raises InvalidInput."""
    if file == "-":
        return sys.stdin.buffer
    try:
        return open(file, "rb")
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read ({error.strerror}); name a readable file or -") from None


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield all lines, blank ones included. A line is cut one byte past the length of the longest allowed
    event; the rest of it is skipped.
    """
    while line := stream.readline(limits.AANA_EVENT_BYTES + 2):
        data = line.removesuffix(b"\n")
        while line and not line.endswith(b"\n"):
            line = stream.readline(limits.AANA_EVENT_BYTES)
        yield data
