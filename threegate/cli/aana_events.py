"""Events of the Agent Action Contract: `validate --as aana` checks them, `audit aana` sums up a log of decisions.

Invariant: unreadable input is a refusal, not an error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from threegate.aana import DecisionLog, EvidenceMode, check_bytes, summarise
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    emit_data,
    emit_json,
    say,
    utc_moment,
    wants_json,
    workspace_here,
)
from threegate.core import limits
from threegate.core.errors import InvalidInput, NoWorkspace


def check_events(
    files: Sequence[str], *, jsonl: bool, as_json: bool, now: str, evidence: EvidenceMode, log: str
) -> bool:
    """Print whether each proposed tool call should run now; return whether all should."""
    moment = _moment(now, "--now") if now else None
    path = Path(log) if log else _log_here()
    decision_log = DecisionLog(path) if path else None
    accepted = True
    for file in files:
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
                _say_result(result, as_json=as_json, one_line=jsonl)
    return accepted


def _say_result(result: dict[str, Any], *, as_json: bool, one_line: bool) -> None:
    if as_json and one_line:
        emit_data(json.dumps(result, ensure_ascii=True, separators=(",", ":")) + "\n")
    elif as_json:
        emit_json(result)
    elif one_line:
        blockers = ",".join(result["hard_blockers"])
        name = result["tool_name"] or "(no tool name)"
        say(f"{result['recommended_action']:<7} {name}  {blockers}".rstrip())
    else:
        _tell(result)


def aana(
    file: Annotated[str, argument("FILE|-", "A decision log; default: the workspace's.")] = "",
    since: Annotated[str, typer.Option(metavar="ISO", help="Count from this time on.")] = "",
    until: Annotated[str, typer.Option(metavar="ISO", help="Count up to this time.")] = "",
    json_: JsonFlag = False,
) -> None:
    """Count routes, blockers and tools of a decision log.

    Example: threegate audit aana --since 2026-05-10T00:00:00Z
    """
    if not file:
        try:
            file = str(workspace_here().decisions_file)
        except NoWorkspace:
            raise NoWorkspace(
                "no decision log named and no workspace here; name one: threegate audit aana FILE"
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


def _moment(text: str, option: str) -> datetime:
    try:
        return utc_moment(text)
    except ValueError:
        raise typer.BadParameter(f"{option} is not an ISO 8601 time such as 2026-05-10T00:00:00Z") from None


def _opened(file: str) -> AbstractContextManager[BinaryIO]:
    """The named file, or stdin, which stays open. Raises InvalidInput."""
    if file == "-":
        return nullcontext(sys.stdin.buffer)
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
