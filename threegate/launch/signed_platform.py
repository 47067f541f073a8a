"""On which platform a launch takes place: the one that was signed, as long as it is possible here.

Invariant: what an approval says of its Job only chooses between the platforms of this machine; whether the Job is the
signed one is decided by the check of the approval (approval/launch.py).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from threegate.approval.ssh_wire import MalformedError
from threegate.approval.statement import SignedApproval
from threegate.request.job import Job, Platform, Platforms
from threegate.trail.history import RequestHistory
from threegate.trail.payloads import Approved


@dataclass(frozen=True, slots=True)
class ApprovedAs:
    """What is said of the Job of an approved request: digests, and the platform that the trail recorded."""

    request_id: str
    digests: frozenset[str]
    platform: Platform | None


def approved_as(request_id: str, signature: bytes | None, history: RequestHistory | None) -> ApprovedAs:
    """What the signature file and the trail say; nothing of it is verified."""
    recorded = Approved.of(history.approved) if history is not None else None
    digests = {recorded.job_sha256} if recorded is not None else set()
    if signature is not None:
        with suppress(MalformedError):  # an act of a plugin, or one that is refused later
            digests.add(SignedApproval.parse(signature, request_id).statement.job_sha256)
    platform = None if recorded is None or recorded.platform is None else Platform.from_json(recorded.platform)
    return ApprovedAs(request_id, frozenset(filter(None, digests)), platform)


def choose_platform(
    possible: Platforms, build: Callable[..., Job], approved: ApprovedAs
) -> tuple[Platform, tuple[str, str] | None]:
    """The platform whose Job was approved, else the preferred one; and in that case, if the platform is all that
    differs, code and words for it. `build` makes the Job of a `platform`.
    """
    jobs = [build(platform=platform) for platform in possible.now]
    for platform, job in zip(possible.now, jobs, strict=True):
        if job.digest in approved.digests:
            return platform, None
    preferred, signed = possible.now[0], approved.platform
    if signed is None or build(platform=signed).digest not in approved.digests:
        return preferred, None  # nothing was approved, or something else changed, too
    if possible.unknown and not signed.engine:
        return preferred, ("no_backend", possible.unknown)
    changed = signed.difference([job.platform for job in jobs])
    return preferred, (
        "job_changed",
        f"{changed} since it was approved; draft it again: threegate draft --again {approved.request_id}",
    )
