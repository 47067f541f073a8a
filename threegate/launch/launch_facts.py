"""The facts that gate 2 checks for a launch: from the trail, the operators' files and the pinned inputs.

Invariant: everything here is read under the trail's lock, once, and passed on as values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from threegate.approval.facts import LaunchFacts, PinnedFile
from threegate.approval.shown.request_sections import changed_settings, requesters, shown_request, signed_text
from threegate.approval.statement import BatchPlace
from threegate.core import durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.workspace import STATES, Workspace
from threegate.judgement.policy import Policy, changed_parts
from threegate.launch.launch_problem import read_operators
from threegate.request.job import Job
from threegate.request.model import Request
from threegate.trail.history import RequestHistory
from threegate.trail.payloads import Approved
from threegate.trail.payloads.payload import Owner
from threegate.trail.trail import LockedTrail

_NO_POLICY: Final = (ValueError, KeyError, TypeError, AttributeError)
"""What reading a kept policy raises if it is not one."""


@dataclass(frozen=True, slots=True)
class DraftFacts:
    """Facts of a launch that neither folders nor trail have before the request is promoted."""

    owner: Owner | None
    pinned: Mapping[str, PinnedFile]
    batch: BatchPlace | None = None
    """The batch that its `approved` event is going to name."""


def facts_for_launch(
    workspace: Workspace,
    held: LockedTrail,
    policy: Policy,
    request: Request,
    job: Job,
    *,
    signature: bytes | None,
    countersignatures: Mapping[str, bytes],
    draft: DraftFacts | None = None,
    elsewhere: tuple[str, str] | None = None,
) -> LaunchFacts:
    """The current facts of a launch, under the trail's lock; `draft` for one that is not promoted yet. Raises
    TrailError, OSError.
    """
    index = held.index
    history = index.history(request.request_id)
    settings = policy.settings
    approved = Approved.of(history.approved) if history else None
    owner = draft.owner if draft is not None else draft_owner(history)
    operator = request.approved_by or ""

    # An agent's run is named by its registration, never by what its file says.
    run = index.run(owner)

    def shown() -> bytes:
        return signed_text(shown_request(request, job, settings, operator=operator, owner=owner, run=run))

    return LaunchFacts(
        request=request,
        job=job,
        signature=signature,
        operators=read_operators(workspace),
        recorded_operators=index.operators,
        workspace_id=settings.workspace.id,
        epoch=index.epoch,
        policy_sha256=policy.digest,
        settings=settings,
        now=held.now,
        clock_behind_sec=held.clock_behind_seconds,
        pinned=draft.pinned if draft is not None else pinned_inputs(workspace, job),
        nonce_used=index.nonce_used,
        id_used=index.is_spent(request.request_id) or id_used(workspace, history, request.request_id),
        countersignatures=countersignatures,
        requesters=requesters(settings, run),
        owner=owner,
        recorded_approval=approved.approval_sha256 if approved else None,
        recorded_batch=draft.batch if draft is not None else batch_place(approved),
        recorded_file=approved.file if approved else None,
        was_approved=approved is not None or (history is not None and history.abandoned),
        is_void=index.is_void,
        unknown_kind=history.unknown if history is not None else None,
        grant_uses=index.grant_uses,
        shown_sha256=lambda: sha256_hex(shown()),
        standing_sha256=policy.standing,
        changed_policy=partial(_changed_policy, workspace, approved, policy),
        changed_standing=partial(changed_standing, workspace, policy),
        changed_text=lambda: _changed_text(workspace, approved, shown()),
        elsewhere=elsewhere,
    )


def _changed_policy(workspace: Workspace, approved: Approved | None, policy: Policy) -> tuple[str, ...]:
    """What of the policy changed since an approval, as far as what was kept with it can be read."""
    kept = _kept(workspace, approved.kept_policy_sha256 if approved else None)
    with suppress(*_NO_POLICY):
        return changed_parts(json.loads(kept)["policy"].encode(), policy.document)
    return ()


def changed_standing(workspace: Workspace, policy: Policy, sha256: str) -> tuple[str, ...]:
    """What of the policy changed since a grant, which names the digest of its own; empty if that was not kept."""
    with suppress(*_NO_POLICY):
        return changed_parts(_kept(workspace, sha256), policy.standing_document)
    return ()


def _changed_text(workspace: Workspace, approved: Approved | None, today: bytes) -> tuple[str, ...]:
    signed = _kept(workspace, approved.shown_sha256 if approved else None)
    return changed_settings(signed, today) if signed else ()


def _kept(workspace: Workspace, sha256: str | None) -> bytes:
    """A text that was kept with an approval; empty if it is not there. It only serves the words of a refusal."""
    try:
        path = workspace.inputs / (sha256 or "-")
        data = durable.read_regular(path, max_bytes=limits.INPUT_FILE_BYTES)
    except (OSError, ValueError):  # a grant may name any text as its policy
        return b""
    return data if sha256_hex(data) == sha256 else b""


def batch_place(approved: Approved | None) -> BatchPlace | None:
    """The batch that an `approved` event names, and the position in it."""
    if approved is None or approved.batch_sha256 is None or approved.batch_index is None:
        return None
    return BatchPlace(approved.batch_sha256, approved.batch_index)


def draft_owner(history: RequestHistory | None) -> Owner | None:
    """Owner of the draft that was approved; a later draft that claims the same id must not change the requester."""
    if history is None:
        return None
    approved = Approved.of(history.approved)
    return approved.owner if approved and approved.owner is not None else history.owner


def pinned_inputs(workspace: Workspace, job: Job) -> dict[str, PinnedFile]:
    """The files in inputs/ for a job's inputs, by the digest in their name; hashed again during staging."""
    found = {}
    for item in job.inputs:
        try:
            facts = (workspace.inputs / item.sha256).lstat()
        except FileNotFoundError:
            continue
        found[item.sha256] = PinnedFile(facts.st_size)
    return found


def id_used(workspace: Workspace, history: RequestHistory | None, request_id: str) -> bool:
    """Whether a request with this id was claimed or has ended: by the trail, or by the folders where the trail does not
    know the id. A file in them with this name may be another request's, since whoever drafts one names it.
    """
    if history is not None and (history.claimed is not None or history.end is not None):
        return True
    # Only a claim makes this folder.
    if workspace.run_folder(request_id).exists():
        return True
    if history is not None:
        return False
    return any((workspace.state_folder(state) / f"{request_id}.md").exists() for state in STATES if state != "approved")
