"""Promote the drafts that standing grants cover, as part of the daemon's work.

Invariant: a draft is promoted under a grant only if the check of a launch passes with the grant instead of an
approval; the number of uses is checked again at each claim, under the trail's lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path

from threegate.acts.approve import Promoted, Sealed, facts_of_draft, seal, write_approved_status
from threegate.acts.pinning import check_pinned, pin
from threegate.approval.launch import check_launch
from threegate.core.errors import DiskFull, InvalidInput, Refused, ThreeGateError, TrailError, Unavailable, place_of
from threegate.daemon.plugin_work import DaemonParts, Work
from threegate.launch.context import Context
from threegate.plugins.grants.grant import Grant, covers
from threegate.plugins.grants.section import GrantSettings
from threegate.plugins.grants.standing_grants import list_grants
from threegate.request.job import Job, build_job
from threegate.request.model import Request
from threegate.request.shown_whole import unread_inputs
from threegate.review.draft_sources import drafts_of
from threegate.review.reviewed_draft import (
    Draft,
    ReviewedDraft,
    open_reviewed_draft,
    read_draft,
    refuse_bad_clock,
    refuse_used,
    take_draft_away,
    validate_draft,
)
from threegate.runners.machine import platforms
from threegate.trail import moves, payloads
from threegate.trail.index import TrailIndex
from threegate.trail.payloads.payload import owner_fields

_MODE = 0o600
_COMPARED = 16
"""How many drafts are compared with the standing grants per turn."""


class Promotion(Work):
    """Promotes drafts that a standing grant covers, a few in each turn. A draft is compared with the grants once, and
    again after a new grant.
    """

    def __init__(self, daemon: DaemonParts) -> None:
        super().__init__(daemon)
        self._fresh: dict[Path, None] = {}
        """Drafts that were not compared yet."""
        self._changed = 0
        """When the folder of grants last changed, as far as drafts were compared with it."""

    def draft_seen(self, path: Path) -> None:
        self._fresh[path] = None

    def turn(self, context: Context, *, off: bool) -> int:
        """Return how many drafts were compared. Once it is on again, all of them are."""
        if off or not context.policy.settings.section(GrantSettings).allow:
            self._fresh.clear()
            self._changed = 0
            return 0
        with suppress(FileNotFoundError):
            changed = os.stat(context.workspace.grants).st_mtime_ns
            if changed != self._changed:
                self._changed = changed
                self._fresh.update(dict.fromkeys(sorted(self._daemon.drafts())))
        paths = list(islice(self._fresh, _COMPARED))
        if not paths:
            return 0
        try:
            promoted = use_grants(
                context,
                paths,
                failed=lambda path, error: self._daemon.log.say(
                    "grants", file=path.name, what=f"internal error: {place_of(error)}; please report it"
                ),
            )
        except DiskFull:
            raise
        except (InvalidInput, Unavailable) as error:
            self._daemon.log.say("grants", what=f"{error}; no grant is used until this is fixed")
            return 0
        for path in paths:
            self._fresh.pop(path, None)
        for item in promoted:
            self._daemon.log.say("granted", file=item.path.name, what=item.approval_sha256)
        return len(paths)


def use_grants(
    context: Context,
    paths: Iterable[Path] | None = None,
    *,
    failed: Callable[[Path, Exception], None] = lambda path, error: None,
) -> list[Promoted]:
    """Promote the drafts that a live grant covers: those in `paths`, or all in the inbox.

    Never raises for a single draft: a refused one waits for an operator, to whom `approve` gives the reason,
    and `failed` is called with an internal error. Raises TrailError, InvalidInput, Unavailable.
    """
    if not context.policy.settings.section(GrantSettings).allow or not context.workspace.grants.is_dir():
        return []
    live = [standing.grant for standing in list_grants(context.workspace, context.trail) if standing.live]
    if not live:
        return []
    done = []
    for path in drafts_of(context.workspace) if paths is None else paths:
        if path.parent == context.workspace.drafts:
            continue
        try:
            promoted = promote_granted(context, path, live)
        except TrailError:
            raise
        except (ThreeGateError, OSError):
            continue
        except Exception as error:  # noqa: BLE001 - one draft's failure never stops the others
            failed(path, error)
            continue
        if promoted is not None:
            done.append(promoted)
    return done


def promote_granted(context: Context, path: Path, grants: Sequence[Grant]) -> Promoted | None:
    """Promote one draft under the first grant that covers it; None if none does. Raises the same as
    `approve`.
    """
    draft = read_draft(context.workspace, path)
    mine = [grant for grant in grants if grant.owner == draft.owner]
    if not mine:
        return None
    valid = validate_draft(context, draft)
    if valid.request.inputs and not _declared_covered(context, draft, valid.request, mine):
        return None
    with open_reviewed_draft(context, draft, valid, compared=False) as reviewed:
        for grant in mine:
            if grant.owner == reviewed.owner and covers(grant, reviewed.job):
                return _promote(context, reviewed, grant)
    return None


def _declared_covered(context: Context, draft: Draft, request: Request, grants: Sequence[Grant]) -> bool:
    """Whether a grant covers what the draft declares. The inputs are copied and hashed only afterwards,
    because that takes time.
    """
    job = declared_job(context, draft, request)
    return any(covers(grant, job) for grant in grants)


def declared_job(context: Context, draft: Draft, request: Request) -> Job:
    """The Job of a draft by what it declares of its inputs. Raises OSError."""
    policy = context.policy
    places = {
        item.name: context.workspace.input_place(draft.path.parent, item.name, item.sha256).name
        for item in request.inputs
    }
    with context.workspace.hold(draft.path.parent / "files") as files:
        sizes = {item.sha256: files.stat(places[item.name]).st_size for item in request.inputs}
        unread = unread_inputs(request, lambda item: os.fdopen(files.open_regular(places[item.name])[0], "rb"))
    return build_job(
        request,
        input_sizes=sizes,
        platform=platforms(policy.settings, request.backend).now[0],
        write_class=context.contracts.write_class(policy, request),
        time_cap_sec=context.contracts.time_cap_sec(policy, request),
        unread=unread,
    )


def _promote(context: Context, reviewed: ReviewedDraft, grant: Grant) -> Promoted:
    sealed = _sealed(context, reviewed, grant.act.acted_by)
    data = grant.signed.to_bytes()
    name = reviewed.draft.path.name
    check_pinned(context.workspace, reviewed.inputs)
    with context.trail.locked() as held:
        refuse_bad_clock(held)
        refuse_used(held, sealed.request)
        verified = check_launch(facts_of_draft(context, held, reviewed, sealed, data))
        _refuse_promised(held.index, grant)
        target = context.workspace.approved / name
        paths = moves.deliver(
            held,
            [(target.with_name(f"{name}.sig"), data, _MODE), (target, sealed.data, _MODE)],
            payloads.Approved(
                request_sha256=sealed.request.sha256,
                job_sha256=sealed.job.digest,
                policy_sha256=context.policy.digest,
                inputs={item.name: item.sha256 for item in sealed.request.inputs},
                approved_by=verified.approved_by,
                grant=grant.id,
                **owner_fields(reviewed.owner),
                from_=reviewed.draft.path.parent.name,
                platform=sealed.job.platform.to_json(),
                risk=sealed.job.effective_risk,
            ),
            request_id=sealed.request.request_id,
            actor=f"grant:{grant.id}",
            prepare=lambda: pin(context.workspace, reviewed.inputs),
        )
    removed = take_draft_away(context.workspace, reviewed.draft)
    write_approved_status(context, reviewed.owner, paths[-1].name, sealed)
    return Promoted(paths[-1], grant.id, grant.expires_utc, verified.signers[0].fingerprint, False, removed)


def _sealed(context: Context, reviewed: ReviewedDraft, by: str) -> Sealed:
    """The bytes to promote. Promoting one draft twice in a second, as after a crash, would make the same bytes again;
    where the trail calls those void, it is dated a second later.
    """
    sealed = seal(context, reviewed, by)
    while _is_void(context, sealed.request.sha256):
        sealed = seal(context, reviewed, by, approved_utc=sealed.statement.approved_utc + timedelta(seconds=1))
    return sealed


def _is_void(context: Context, request_sha256: str) -> bool:
    with context.trail.locked() as held:
        return held.index.is_void(request_sha256)


def _refuse_promised(index: TrailIndex, grant: Grant) -> None:
    """Do not promote more drafts than the uses left, counting those that wait."""
    waiting = sum(
        1
        for history in index.unended_histories()
        if history.claimed is None
        and (given := payloads.Approved.of(history.approved)) is not None
        and given.grant == grant.id
    )
    if (index.grant_uses(grant.id) or 0) + waiting >= grant.max_uses:
        raise Refused("grant_used_up", "all remaining uses of the grant are taken by waiting requests")
