"""JSON action proposals: what `threegate validate --as proposal` and `threegate draft --proposal` do with them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import typer

from threegate.cli.invocation import (
    ROOT,
    emit_data,
    emit_json,
    put_foreign,
    say,
    workspace_here,
)
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import EXIT_REFUSED, InvalidInput, NoWorkspace, Unavailable
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.proposals.proposal_draft import draft_from_proposal, links_of
from threegate.plugins.proposals.proposal_verdict import AllowedProposal, ProposalVerdict
from threegate.plugins.proposals.rules import judge_proposal


def validate_proposals(files: Sequence[str], *, jsonl: bool, as_json: bool, explain: bool) -> bool:
    """Print the verdicts with every error, and with the reasons to `explain` them; return whether all are allowed: auto
    or approval.
    """
    _, settings = _workspace_and_settings()
    links = links_of(settings)
    allowed = True
    for data in _all_proposals(files, jsonl):
        verdict = judge_proposal(data, settings=settings, links=links)
        allowed = allowed and verdict.allowed
        if as_json:
            _emit(verdict.to_json(), one_line=jsonl)
        else:
            _say_verdict(verdict, explain=explain)
    return allowed


def draft_proposal(file: str, *, jsonl: bool, as_json: bool, drop: bool) -> None:
    """Print the draft that each proposal would become; to `drop` it, put it into the inbox instead. Exit 2 if one is
    not allowed. Raises Unavailable if there is no draft of one that is.
    """
    workspace, settings = _workspace_and_settings()
    refused = False
    missing: str | None = None
    for data in _proposals(file, jsonl):
        if drop:
            _drop(workspace, data)
            continue
        result = draft_from_proposal(data, settings=settings, workspace=workspace, now=datetime.now(UTC))
        refused = refused or not result.verdict.allowed
        if jsonl or as_json:
            value = {
                **result.verdict.to_json(),
                "problem": result.problem,
                "request_id": result.request_id,
                "file_name": result.file_name,
                "draft": result.draft.decode() if result.draft else None,
            }
            _emit(value, one_line=jsonl)
        elif result.draft is not None:
            put_foreign(result.draft.decode())
        else:
            _say_verdict(result.verdict, explain=True)
        missing = missing or result.problem
    if missing is not None:
        raise Unavailable(f"{file}: no draft: {missing}")
    if refused:
        raise typer.Exit(EXIT_REFUSED)


def _all_proposals(files: Sequence[str], jsonl: bool) -> Iterator[bytes]:
    for file in files:
        yield from _proposals(file, jsonl)


def _drop(workspace: Workspace | None, data: bytes) -> None:
    """Put a proposal into the inbox, as an agent would. Raises InvalidInput if the name is taken, OSError."""
    workspace = workspace or workspace_here()
    name = f"AP-{sha256_hex(data)[:16]}.json"
    path = workspace.inbox / name
    try:
        with workspace.hold(workspace.inbox) as inbox:
            inbox.deliver(name, data, 0o644)
    except FileExistsError:
        raise InvalidInput(f"{path}: is taken; give another name") from None
    say(str(path))


def _workspace_and_settings() -> tuple[Workspace | None, Settings]:
    """The workspace and its settings; the default settings if there is no workspace and none was named."""
    try:
        workspace = workspace_here()
    except NoWorkspace:
        if ROOT.workspace:
            raise
        return None, Settings()
    return workspace, workspace.load_settings()


def _proposals(file: str, jsonl: bool) -> Iterator[bytes]:
    """The bytes of each proposal. Raises InvalidInput if the file cannot be read."""
    try:
        with sys.stdin.buffer if file == "-" else Path(file).open("rb") as stream:
            if not jsonl:
                yield stream.read(limits.PROPOSAL_BYTES + 1)
                return
            while line := stream.readline(limits.PROPOSAL_BYTES + 2):
                whole = line.endswith(b"\n") or len(line) < limits.PROPOSAL_BYTES + 2
                while not whole:
                    rest = stream.readline(limits.PROPOSAL_BYTES)
                    whole = not rest or rest.endswith(b"\n")
                if line.strip():
                    yield line.rstrip(b"\r\n")
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read ({error.strerror}); name a proposal file") from None


def _emit(value: object, *, one_line: bool) -> None:
    if one_line:
        emit_data(json.dumps(value, ensure_ascii=True) + "\n")
    else:
        emit_json(value)


def _say_verdict(verdict: ProposalVerdict, *, explain: bool) -> None:
    say(f"{verdict.verdict}  risk {verdict.risk or 'unknown'}  becomes {verdict.becomes}")
    for problem in verdict.errors:
        say(f"  {problem.path or '/'}: {problem.code}: {problem.message}")
    if not explain:
        return
    if verdict.proposal is not None:
        tool = verdict.proposal.tool
        least = f", never proposed below {tool.least}" if tool.least else ""
        say(f"  tool {tool.name}: {tool.verdict} by itself, risk {tool.risk}{least}")
    for reason in verdict.reasons:
        say(f"  - {reason}")
    if isinstance(verdict, AllowedProposal):
        for name, path in verdict.paths.items():
            say(f"  {name} is {path.text} in the project{' (protected)' if path.protected else ''}")
        for url in verdict.urls.values():
            say(f"  the host to be contacted is {url.host}, port {url.port}")
