"""Proposals in the inbox become drafts.

Invariant: one proposal makes only one draft, ever (its request id is derived from its content, and the trail
knows the id); `proposed` is on disk before the draft appears; a proposal is judged by the policy in force,
which the daemon read and verified: the settings file is not read again here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from threegate.core import durable
from threegate.core.canonical import sha256_hex
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.launch.results.verdict import State, Verdict, write_verdict
from threegate.plugins.proposals.in_workspace import sweep
from threegate.plugins.proposals.proposal_draft import DraftResult, draft_from_proposal
from threegate.review.draft_sources import Say
from threegate.trail import moves
from threegate.trail.payloads import Observed, Proposed
from threegate.trail.payloads.payload import Owner, owner_fields
from threegate.trail.trail import Trail


class Proposer:
    """Processes the proposals in the inbox one by one; the daemon calls it with the bytes it read."""

    def __init__(self, workspace: Workspace, trail: Trail, say: Say, settings: Callable[[], Settings]) -> None:
        self._workspace = workspace
        self._trail = trail
        self._say = say
        self._settings = settings
        """The settings in force, never those of a file that is being edited or is broken."""

    def __call__(self, path: Path, data: bytes, owner: Owner) -> None:
        """Judge and draft it, and write its verdict. Raises TrailError, OSError."""
        sweep(self._workspace)
        settings = self._settings()
        with self._trail.locked() as held:
            now = held.now
        result = draft_from_proposal(data, settings=settings, workspace=self._workspace, now=now)
        state, reason, earlier = self._deliver(path, result, owner)
        if reason == "drafted_before":
            result = replace(result, file_name=earlier)
        verdict = _verdict_file(path.name, result, state, reason)
        write_verdict(self._workspace.requester_folders(owner), verdict)
        self._say("proposal", path.name, f"{result.verdict.verdict}: {reason or 'drafted'}")

    def _deliver(self, path: Path, result: DraftResult, owner: Owner) -> tuple[State, str | None, str | None]:
        """Record and write the draft; return the proposal's state, the reason if there is no draft, and the name of
        an earlier draft. A tool that makes none is done with its verdict.
        """
        tool = result.verdict.proposal.tool.name if result.verdict.proposal else None
        with self._trail.locked() as held:
            if result.draft is None or result.request_id is None:
                reason = _why_no_draft(result)
                seen = Observed(
                    file=path.name,
                    proposal_sha256=result.proposal_sha256,
                    tool=tool,
                    verdict=result.verdict.verdict,
                    risk=result.verdict.risk,
                    **owner_fields(owner),
                    reason=reason,
                    codes=tuple(sorted({problem.code for problem in result.verdict.errors})),
                )
                held.append(seen, actor="daemon")
                held.sync()
                if not result.verdict.allowed:
                    return "invalid", reason, None
                return ("finished" if reason == "verdict_only" else "draft"), reason, None
            history = held.index.history(result.request_id)
            if history is not None and (
                history.approved or history.claimed or history.end or self._lies_there(result.request_id)
            ):
                return "draft", "drafted_before", history.file
            # Another account has a request with this id; its draft must not be replaced.
            if history is not None and history.owner not in (None, owner):
                return "invalid", "id_taken", None
            *files, proposal, draft = result.deliveries(self._workspace)
            moves.deliver(
                held,
                [proposal, draft],
                Proposed(
                    proposal_sha256=result.proposal_sha256,
                    tool=tool,
                    verdict=result.verdict.verdict,
                    risk=result.verdict.risk,
                    **owner_fields(owner),
                    from_=path.name,
                    inputs={name: sha256_hex(content) for name, content in sorted(result.inputs.items())},
                ),
                request_id=result.request_id,
                actor="daemon",
                # Before the draft: without its input files it could not be read.
                prepare=lambda: self._put_inputs(files),
            )
        return "draft", None, None

    def _lies_there(self, request_id: str) -> bool:
        """Whether the draft of this proposal is in tool-exec/drafts/ (a crash may have prevented that)."""
        mark = f"-{request_id.removeprefix('proposal-')[:12]}."
        return any(mark in entry.name and entry.name.endswith(".md") for entry in self._workspace.drafts.iterdir())

    def _put_inputs(self, files: list[tuple[Path, bytes, int]]) -> None:
        folder = self._workspace.draft_files
        if not folder.is_dir():
            durable.make_folder(folder, 0o700)
        for path, data, mode in files:
            if not os.path.lexists(path):
                durable.deliver(path, data, mode)


def _why_no_draft(result: DraftResult) -> str:
    if not result.verdict.allowed:
        return result.verdict.errors[0].code
    return "no_draft" if result.problem else "verdict_only"


def _verdict_file(name: str, result: DraftResult, state: State, reason: str | None) -> Verdict:
    """The verdict for CORE and the operator: the proposal's, in the format of a request's."""
    judgement = {**result.verdict.to_json(), "draft": result.file_name, "problem": result.problem}
    return Verdict(
        file=name,
        sha256=result.proposal_sha256,
        request_id=result.request_id,
        stage="draft",
        valid=state != "invalid",
        state=state,
        reason=reason,
        findings=tuple(problem._asdict() for problem in result.verdict.errors),
        judgement=judgement,
    )
