"""Give a standing grant, and revoke it.

Invariant: a grant is in the trail before its file is in grants/, so a file that no event announced covers nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from threegate.acts.pinning import check_pinned, pin, texts_to_pin
from threegate.approval.signature import KeySource, sign_statement
from threegate.approval.signer import verify_signer
from threegate.approval.ssh_wire import NAMESPACE_ACT
from threegate.approval.statement import Act, format_utc, render_signed
from threegate.approval.way import POLICY_PARTS
from threegate.core import durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.durable import disk_reserve
from threegate.core.errors import InvalidInput, Refused
from threegate.core.screen_parts import Field, Item, Note, Section
from threegate.launch.approved_file import Approved
from threegate.launch.context import Context
from threegate.launch.launch_facts import changed_standing
from threegate.launch.launch_problem import read_operators
from threegate.plugins.grants.grant import GRANT_TYPE, Grant, refuse_write, terms
from threegate.plugins.grants.grants_kinds import Granted, GrantRevoked, grant_path, policy_path
from threegate.plugins.grants.near_misses import examples, said_value
from threegate.plugins.grants.section import GrantSettings
from threegate.plugins.grants.standing_grants import find_grant, parse_grant
from threegate.plugins.grants.widened import IMAGE, Widened
from threegate.request.job import Job
from threegate.review.countersign import read_waiting, review_waiting
from threegate.review.named_request import FINISHED, find_request
from threegate.review.review_sections import review_sections
from threegate.review.reviewed_draft import refuse_bad_clock
from threegate.trail import moves, payloads
from threegate.trail.payloads.payload import Owner

_MODE = 0o600


def new_grant(
    context: Context,
    approved: Approved,
    *,
    widened: Sequence[Widened],
    max_uses: int,
    seconds: int,
    name: str,
    key: KeySource,
) -> Grant:
    """Sign a grant made from a finished request, as it was shown. Raises Refused, InvalidInput, TrailError,
    Unavailable.
    """
    given = payloads.Approved.of(approved.history.approved) if approved.history else None
    owner = given.owner if given else None
    if owner is None:
        raise Refused("grant_mismatch", f"{approved.request.request_id}: the trail does not say who drafted it")
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
    key: KeySource,
) -> Grant:
    """Sign a grant of calls or jobs like `job`; `from_request` is empty if it is not made from a request.
    Raises the same as `new_grant`.
    """
    refuse_write(job, allowed=context.policy.settings.section(GrantSettings).allow_write)
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
            policy_sha256=context.policy.standing,
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
    with (
        context.trail.locked() as held,
        texts_to_pin(context.workspace, context.policy.standing_document) as texts,
    ):
        check_pinned(context.workspace, texts)
        # The signer was checked by what these files say, so the trail must know them as they are.
        if operators.problem is not None or operators.digests != held.index.operators:
            raise Refused("operators_changed", "operators is not what the trail last recorded")
        folder = context.workspace.grants
        if not folder.is_dir():
            durable.make_folder(folder, 0o700)
        moves.announce(
            held,
            Granted(
                grant=grant.id,
                from_=grant.from_request or None,
                calls=grant.calls,
                widened=tuple(item.part for item in grant.widened),
                max_uses=grant.max_uses,
                expires_utc=format_utc(grant.expires_utc),
                key=fingerprint,
                nonce=act.nonce,
                files={
                    grant_path(grant.id): sha256_hex(data),
                    policy_path(grant.policy_sha256): grant.policy_sha256,
                },
            ),
            actor=f"operator:{name}",
        )
        pin(context.workspace, texts)
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
            Field("would run", said_value(example.widened.part, example.runs)),
            Field("would wait", said_value(example.widened.part, example.waits)),
        ]
    if job.image:
        parts.append(Note(_which_root(job, widened)))
    parts.append(
        Note("all else that runs is the same byte for byte, or it waits; id, times and words about it may differ")
    )
    return Section("WHAT MAY DIFFER", tuple(parts))


def _which_root(job: Job, widened: Sequence[Widened]) -> str:
    """Whether a grant is for exactly this image or root, or for others of its kind, too."""
    what = "image" if job.platform.engine else "root (this machine's packages, or the unpacked folder)"
    if any(item.part == IMAGE for item in widened):
        return f"by {job.platform.way}, on any {what} that {IMAGE} above allows: what its programs do may differ"
    return f"on exactly this {what}: after an upgrade the next request waits for you"


def finished_request(context: Context, which: str) -> Approved:
    """The request that a grant is made from. Raises Refused (grants_off, grant_mismatch), InvalidInput."""
    refuse_off(context)
    named = find_request(context.workspace, which, FINISHED, trail=context.trail)
    request_id, path = named.request_id or which, named.path
    if path is None or path.parent != context.workspace.finished:
        raise InvalidInput(f"{request_id}: has not finished; a grant is made from a request that ran")
    found = read_waiting(context, path)
    if found.job.action.stateful:
        raise Refused(
            "grant_mismatch",
            f"{request_id}: a grant for a stateful server covers calls whatever was called before, and only the screen "
            "of a grant for a tool says so; give it there: threegate grant tool SERVER TOOL --max-uses N --expires 8h",
        )
    return found


def refuse_off(context: Context) -> None:
    """Raises Refused (grants_off)."""
    if not context.policy.settings.section(GrantSettings).allow:
        raise Refused("grants_off", "grants are off: set grants.allow = true in threegate.toml first")


def why_void(context: Context, grant: Grant) -> str | None:
    """What of the policy changed since a grant, by name; None while it is the same."""
    if grant.policy_sha256 == context.policy.standing:
        return None
    return ", ".join(changed_standing(context.workspace, context.policy, grant.policy_sha256)) or POLICY_PARTS


def revoke_grant(context: Context, which: str, *, actor: str) -> Grant:
    """End a grant for good; waiting requests promoted under it do not run. A full disk does not prevent it. Raises
    InvalidInput, TrailError.
    """
    standing = find_grant(context.workspace, context.trail, which)
    with disk_reserve(context.workspace.reserve), context.trail.locked() as held:
        moves.announce(held, GrantRevoked(grant=standing.grant.id), actor=actor)
    return standing.grant
