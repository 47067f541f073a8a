"""Standing grants: create one, revoke it, and promote drafts that it covers.

Invariant: a draft is promoted under a grant only if the check of a launch passes with the grant instead of an
approval; the number of uses is checked again at each claim, under the trail's lock.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from threegate.acts.approve import Promoted, Sealed, facts_of_draft, seal, write_approved_status
from threegate.acts.list_drafts import drafts_of
from threegate.acts.pinning import check_pinned, pin
from threegate.acts.standing_grants import find_grant, list_grants, parse_grant
from threegate.approval import (
    GRANT_TYPE,
    NAMESPACE_ACT,
    Act,
    Grant,
    Widened,
    covers,
    format_utc,
    render_signed,
    sign_statement,
    terms,
    verify_signer,
)
from threegate.approval.grant import refuse_write
from threegate.approval.launch import check_launch
from threegate.approval.near_misses import Example, examples
from threegate.core import durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.durable import disk_reserve
from threegate.core.errors import InvalidInput, Refused, ThreeGateError, TrailError
from threegate.launch.approved_file import Approved
from threegate.launch.context import Context
from threegate.launch.launch_problem import read_operators
from threegate.proposals.in_workspace import input_place
from threegate.request.job import Job, build_job
from threegate.request.model import Request
from threegate.request.shown_whole import unread_inputs
from threegate.review.countersign import read_waiting, review_waiting
from threegate.review.review_sections import review_sections
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
from threegate.review.show import show_request
from threegate.shown.parts import Field, Item, Note, Section
from threegate.trail import Owner, TrailIndex, moves, payloads
from threegate.trail.payloads.placed import owner_fields

_MODE = 0o600


def new_grant(
    context: Context,
    request_id: str,
    *,
    widened: Sequence[Widened],
    max_uses: int,
    seconds: int,
    name: str,
    key: Path,
) -> Grant:
    """Sign a grant made from a finished request. Raises Refused, InvalidInput, TrailError, Unavailable."""
    approved = finished_request(context, request_id)
    given = payloads.Approved.of(approved.history.approved) if approved.history else None
    owner = given.owner if given else None
    if owner is None:
        raise Refused("grant_mismatch", f"{request_id}: the trail does not say who drafted it")
    return sign_grant(
        context,
        approved.job,
        from_request=approved.request.request_id,
        widened=widened,
        owner=owner,
        max_uses=max_uses,
        seconds=seconds,
        name=name,
        key=key,
    )


def sign_grant(
    context: Context,
    job: Job,
    *,
    from_request: str,
    widened: Sequence[Widened],
    owner: Owner,
    max_uses: int,
    seconds: int,
    name: str,
    key: Path,
) -> Grant:
    """Sign a grant of calls or jobs like `job`; `from_request` is empty if it is not made from a request.
    Raises the same as `new_grant`.
    """
    refuse_write(job, allowed=context.policy.settings.approval.grants_write)
    with context.trail.locked() as held:
        refuse_bad_clock(held)
        now, epoch = max(held.now, datetime.now(UTC)).replace(microsecond=0), held.index.epoch
    act = Act(
        type=GRANT_TYPE,
        workspace_id=context.policy.settings.workspace.id,
        epoch=epoch,
        acted_by=name,
        acted_utc=now,
        nonce=secrets.token_hex(16),
        about=terms(
            job,
            from_request=from_request,
            widened=widened,
            owner=owner,
            policy_sha256=context.policy.digest,
            max_uses=max_uses,
            expires_utc=now + timedelta(seconds=seconds),
        ),
    )
    statement = act.to_bytes()
    data = render_signed(statement, sign_statement(statement, key, NAMESPACE_ACT))
    if len(data) > limits.SIGNATURE_FILE_BYTES:
        raise Refused("grant_mismatch", "too much to sign in one grant; widen less, or approve each request")
    grant = parse_grant(data)
    operators = read_operators(context.workspace)
    fingerprint = verify_signer(statement, grant.signed.signature, name, NAMESPACE_ACT, operators, at=(now,))
    with context.trail.locked() as held:
        if operators.problem is not None or operators.digests != held.index.operators:
            raise Refused("operators_changed", "operators is not what the trail last recorded")
        folder = context.workspace.grants
        if not folder.is_dir():
            durable.make_folder(folder, 0o700)
        moves.announce(
            held,
            payloads.Granted(
                grant=grant.id,
                from_=grant.from_request or None,
                calls=grant.calls,
                widened=tuple(item.part for item in grant.widened),
                max_uses=grant.max_uses,
                expires_utc=format_utc(grant.expires_utc),
                key=fingerprint,
                nonce=act.nonce,
                files={"": sha256_hex(data)},
            ),
            actor=f"operator:{name}",
        )
        durable.deliver(folder / f"{grant.id}.grant", data, _MODE)
    return grant


def grant_sections(context: Context, approved: Approved, widened: Sequence[Widened], operator: str) -> list[Section]:
    """What would run under a grant of a finished request: the parts that may differ, with examples, and all
    that runs.

    Raises Refused for what no grant may cover.
    """
    differs = what_may_differ(approved.job, widened)
    reviewed = review_waiting(context, approved)
    sections = review_sections(reviewed, context.policy.settings, operator=operator)
    return [differs, *(section for section in sections if section.title == "WHAT RUNS")]


def what_may_differ(job: Job, widened: Sequence[Widened]) -> Section:
    """Each widened part with one value that would run and one that would wait. Raises Refused for what no
    grant may cover.
    """
    parts: list[Item] = []
    for example in examples(job, widened):
        parts += [
            Field("widened", str(example.widened)),
            Field("would run", _shown(example, example.runs)),
            Field("would wait", _shown(example, example.waits)),
        ]
    parts.append(
        Note("all else that runs is the same byte for byte, or it waits; id, times and words about it may differ")
    )
    return Section("WHAT MAY DIFFER", tuple(parts))


def _shown(example: Example, value: object) -> str:
    """A value of a part, in the form the part has."""
    if example.widened.part.startswith("inputs."):
        return f"any content of {value} bytes"
    return json.dumps(value, ensure_ascii=False)


def finished_request(context: Context, request_id: str) -> Approved:
    """The request that a grant is made from. Raises Refused (grants_off, grant_mismatch), InvalidInput."""
    refuse_off(context)
    path = show_request(context.workspace, request_id).path
    if path is None or path.parent != context.workspace.finished:
        raise InvalidInput(f"{request_id}: has not finished; a grant is made from a request that ran")
    found = read_waiting(context, path)
    server = found.job.server
    if server is not None and server.state is not None:
        raise Refused(
            "grant_mismatch",
            f"{request_id}: a grant for a stateful server covers calls whatever was called before, and only the screen "
            "of: threegate grant tool says so; give it there",
        )
    return found


def refuse_off(context: Context) -> None:
    """Raises Refused (grants_off)."""
    if not context.policy.settings.approval.grants:
        raise Refused("grants_off", "grants are off: set approval.grants = true in threegate.toml first")


def revoke_grant(context: Context, which: str, *, actor: str) -> Grant:
    """End a grant for good; waiting requests promoted under it do not run. A full disk does not prevent it. Raises
    InvalidInput, TrailError.
    """
    standing = find_grant(context.workspace, context.trail, which)
    with disk_reserve(context.workspace.reserve), context.trail.locked() as held:
        moves.announce(held, payloads.GrantRevoked(grant=standing.grant.id), actor=actor)
    return standing.grant


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
    if not context.policy.settings.approval.grants or not context.workspace.grants.is_dir():
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
    policy = context.policy
    places = {
        item.name: input_place(context.workspace, draft.path.parent, item.name, item.sha256).name
        for item in request.inputs
    }
    with context.workspace.hold(draft.path.parent / "files") as files:
        sizes = {item.sha256: files.stat(places[item.name]).st_size for item in request.inputs}
        unread = unread_inputs(request, lambda item: os.fdopen(files.open_regular(places[item.name])[0], "rb"))
    job = build_job(
        request,
        input_sizes=sizes,
        platform=policy.platform,
        write_class=context.contracts.write_class(policy, request),
        time_cap_sec=context.contracts.time_cap_sec(policy, request),
        unread=unread,
    )
    return any(covers(grant, job) for grant in grants)


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
