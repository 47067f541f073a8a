"""Proposals at work: one from the inbox becomes a draft, and a draft is checked against its proposal again.

Invariant: one proposal makes one draft, ever (its request id is derived from what it says, and the trail knows the
id); `proposed` is on disk before the draft appears; input files that hold project bytes are readable by the operator only
until a human has approved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from threegate import canonical, durable, lifecycle, limits
from threegate.audit import Trail
from threegate.errors import InvalidInput, Refused
from threegate.proposals import (
    DraftResult,
    derive_again,
    draft_from_proposal,
    draft_inputs_folder,
    proposal_file,
)
from threegate.request.model import Request
from threegate.results import Verdict, write_verdict
from threegate.settings import Settings
from threegate.workspace import Workspace

_DIGESTS = re.compile(rb"[0-9a-f]{64}")

Say = Callable[[str, str, str], None]
"""Told (event, file, what) for the daemon's log."""


class Proposer:
    """Takes the proposals of the inbox, one by one; the daemon calls it with what it read."""

    def __init__(self, workspace: Workspace, trail: Trail, say: Say) -> None:
        self._workspace = workspace
        self._trail = trail
        self._say = say
        sweep(workspace)

    def __call__(self, path: Path, data: bytes, facts: os.stat_result) -> bool:
        """Judge, draft, tell; True when the file need not be looked at again. Raises TrailError, InvalidInput, OSError."""
        sweep(self._workspace)
        settings = self._workspace.load_settings()
        with self._trail.locked() as held:
            now = held.now
        result = draft_from_proposal(data, settings=settings, workspace=self._workspace, now=now)
        state, reason, earlier = self._deliver(path, result, facts.st_uid)
        if reason == "drafted_before":
            result = replace(result, file_name=earlier)
        verdict = _verdict_file(path.name, result, state == "draft", reason)
        write_verdict(self._workspace, verdict)
        self._say("proposal", path.name, f"{result.verdict.verdict}: {reason or 'drafted'}")
        return True

    def _deliver(self, path: Path, result: DraftResult, owner_uid: int) -> tuple[str, str | None, str | None]:
        """Announce and deliver the draft; what became of it, why when there is none, and the name of an earlier one."""
        shared: dict[str, Any] = {
            "file": path.name,
            "proposal_sha256": result.proposal_sha256,
            "tool": result.verdict.proposal.tool.name if result.verdict.proposal else None,
            "verdict": result.verdict.verdict,
            "risk": result.verdict.risk,
            "owner_uid": owner_uid,
        }
        with self._trail.locked() as held:
            if result.draft is None:
                reason = _why_no_draft(result)
                held.append(
                    "observed",
                    actor="daemon",
                    data={
                        **shared,
                        "reason": reason,
                        "codes": sorted({problem.code for problem in result.verdict.errors}),
                    },
                )
                held.sync()
                return ("draft" if result.verdict.allowed else "invalid"), reason, None
            assert result.request_id is not None
            history = held.index.history(result.request_id)
            if history is not None and (
                history.approved or history.claimed or history.end or self._lies_there(result.request_id)
            ):
                return "draft", "drafted_before", history.file
            *files, proposal, draft = result.deliveries(self._workspace)
            self._put_inputs(files)
            lifecycle.deliver(
                held,
                [proposal, draft],
                "proposed",
                request_id=result.request_id,
                actor="daemon",
                data={**shared, "from": path.name},
            )
        return "draft", None, None

    def _lies_there(self, request_id: str) -> bool:
        """Whether the draft of this proposal waits in tool-exec/drafts/ (a crash may have kept it from getting there)."""
        mark = f"-{request_id.removeprefix('proposal-')[:12]}."
        return any(
            mark in entry.name and entry.name.endswith(".md") for entry in self._workspace.drafts.iterdir()
        )

    def _put_inputs(self, files: list[tuple[Path, bytes, int]]) -> None:
        folder = draft_inputs_folder(self._workspace)
        if not folder.is_dir():
            durable.make_folder(folder, 0o700)
        for path, data, mode in files:
            if not os.path.lexists(path):
                durable.deliver(path, data, mode)


def check_proposal_draft(
    workspace: Workspace,
    draft: Path,
    data: bytes,
    request: Request,
    copies: Mapping[str, Path],
    *,
    settings: Settings,
    recorded_sha256: str | None,
) -> None:
    """Derive a draft of tool-exec/drafts/ again from its proposal. Drafts of the inbox have nothing to check.

    `copies` says where our copy of each input lies; `recorded_sha256` is the proposal's digest of the trail's
    `proposed` event. Raises Refused("proposal_changed") for every difference, and for a draft that nobody proposed.
    """
    if draft.parent != workspace.drafts:
        if recorded_sha256 is not None:
            raise Refused(
                "proposal_changed", f"{draft.name}: has the id of a proposal and lies in the inbox; reject it"
            )
        return
    place = proposal_file(draft)
    try:
        proposal = durable.read_regular(place, max_bytes=limits.PROPOSAL_BYTES)
    except OSError as error:
        raise Refused(
            "proposal_changed",
            f"{place.name}: the draft's proposal cannot be read ({error.strerror or error})",
        ) from None
    if canonical.sha256_hex(proposal) != recorded_sha256:
        raise Refused(
            "proposal_changed", f"{place.name}: is not the proposal that the trail recorded; reject the draft"
        )
    inputs: Mapping[str, bytes] = {
        item.name: durable.read_regular(copies[item.name], max_bytes=limits.INPUT_FILE_BYTES)
        for item in request.inputs
    }
    derive_again(data, proposal, inputs, settings=settings)


def input_place(workspace: Workspace, draft_folder: Path, name: str, sha256: str) -> Path:
    """Where an input file of a draft lies: by name for the inbox, by digest for drafts made from proposals."""
    if draft_folder == workspace.drafts:
        return draft_inputs_folder(workspace) / sha256
    return draft_folder / "files" / name


def sweep(workspace: Workspace) -> int:
    """Remove what `unneeded` names. Only the daemon calls this, and `prune` does the same with an event. Raises OSError."""
    gone = unneeded(workspace)
    for path in gone:
        durable.unlink(path)
    return len(gone)


def unneeded(workspace: Workspace) -> list[Path]:
    """What no waiting draft needs any more: proposals whose draft is gone, snapshots and other input files that no draft names.

    What was approved has its own copies in inputs/. Such files are put there under the trail's lock, always before their
    draft: who looks otherwise than the daemon's own thread holds the lock. Empty when a draft cannot be read. Raises OSError.
    """
    if not workspace.drafts.is_dir():
        return []
    named: set[str] = set()
    gone: list[Path] = []
    for path in sorted(workspace.drafts.iterdir()):
        if path.name.endswith(".proposal.json"):
            if not os.path.lexists(path.with_name(path.name.removesuffix(".proposal.json"))):
                gone.append(path)
        elif path.name.endswith(".md"):
            try:
                data = durable.read_regular(path, max_bytes=limits.REQUEST_BYTES)
            except OSError:
                return []
            named.update(match.decode() for match in _DIGESTS.findall(data))
    folder = draft_inputs_folder(workspace)
    if folder.is_dir():
        gone += [path for path in sorted(folder.iterdir()) if path.name not in named]
    return gone


def drop(workspace: Workspace, data: bytes, name: str) -> Path:
    """Put a proposal into the inbox, as an agent would. Raises InvalidInput when the name is taken, OSError."""
    path = workspace.inbox / name
    try:
        durable.deliver(path, data, 0o644)
    except FileExistsError:
        raise InvalidInput(f"{path}: is taken; give another name") from None
    return path


def _why_no_draft(result: DraftResult) -> str:
    if not result.verdict.allowed:
        return result.verdict.errors[0].code
    return "no_draft" if result.problem else "verdict_only"


def _verdict_file(name: str, result: DraftResult, valid: bool, reason: str | None) -> Verdict:
    """The verdict that CORE and the operator read. It is the proposal's, in the frame of a request's."""
    judgement = {**result.verdict.to_json(), "draft": result.file_name, "problem": result.problem}
    return Verdict(
        file=name,
        sha256=result.proposal_sha256,
        request_id=result.request_id,
        stage="draft",
        valid=valid,
        state="draft" if valid else "invalid",
        reason=reason,
        findings=tuple(problem.to_json() for problem in result.verdict.errors),
        judgement=judgement,
    )


def moment() -> datetime:
    """Now, for commands that draft without a trail."""
    return datetime.now(UTC)
