"""What a worker checks before anything runs: the envelope, then the request, by the very gates of the daemon.

Invariant: `verify` gives a Clearance only from `judge`, over a Job that was built here from the request's own bytes,
with signatures that this worker's own operators file allows. Nothing that the envelope says beyond the signed bytes can
change what runs: it goes into the Job's digest, which the operator signed, or it only narrows.

What stays the daemon's, since no worker can know it: contracts and sessions, whether a grant was revoked, the policy
behind `policy_sha256`, the text that the operator was shown, who owns the draft, and whether another worker ran the
same request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from threegate.approval.facts import LaunchFacts, PinnedFile, VerifiedApproval
from threegate.approval.operators import Operators
from threegate.contracts.state import Decision, Reason
from threegate.core import limits
from threegate.core.errors import Refused
from threegate.core.settings import Settings
from threegate.judgement.judge import Clearance, NotCleared, judge
from threegate.judgement.policy import Policy, make_policy
from threegate.plugins.cluster.job_envelope import JobEnvelope, open_envelope
from threegate.plugins.cluster.worker.journal import NonceJournal, Spent
from threegate.request.backend import BACKENDS
from threegate.request.job import Job, build_job
from threegate.request.model import Request
from threegate.request.reader import read_request
from threegate.runners.backend import policy_facts
from threegate.trail.workspace_key import VerifierKey

DAEMON_DECIDED = Decision(
    "allow", (Reason(0, "decided_by_the_daemon", "", "contracts and sessions are judged by the daemon"),)
)


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom this worker believes: its own name, the workspace's key, its operators, and the settings it judges by."""

    worker: str
    workspace_id: str
    workspace_key: VerifierKey
    operators: Operators
    settings: Settings


@dataclass(frozen=True, slots=True)
class VerifiedJob:
    """An envelope that passed, with what it lets run."""

    envelope: JobEnvelope
    job: Job
    clearance: Clearance
    approval: VerifiedApproval

    def spent(self, now: datetime) -> Spent:
        """What the journal keeps of its start."""
        return Spent(
            nonce=self.envelope.nonce,
            approval=self.approval.nonce,
            request_id=self.clearance.request_id,
            grant=self.clearance.grant,
            expires=max(self.envelope.expires, int(self.approval.expires_utc.timestamp()) + 1),
            at=int(now.timestamp()),
        )


def verify(data: bytes, trust: Trust, journal: NonceJournal, *, now: datetime) -> VerifiedJob:
    """Everything, in order. Raises Refused with the reason code of the first check that failed, Unavailable."""
    envelope = open_envelope(data, trust.workspace_key)
    check_envelope(envelope, trust, journal, now=now)
    request = _request_of(envelope, trust, now)
    job = _job_of(envelope, request)
    facts = _facts(envelope, request, job, trust, journal, now)
    judgement = judge(
        facts,
        _policy(trust.settings, envelope),
        DAEMON_DECIDED,
        side_effect_above_read=envelope.write_class,
    )
    if isinstance(judgement, NotCleared):
        raise Refused(judgement.code, judgement.message)
    return VerifiedJob(envelope, job, judgement.clearance, judgement.approval)


def check_envelope(envelope: JobEnvelope, trust: Trust, journal: NonceJournal, *, now: datetime) -> None:
    """For this worker, from this workspace, now, and never before. Raises Refused."""
    if envelope.worker != trust.worker:
        raise Refused("envelope_misdirected", f"the envelope is for another worker than {trust.worker}")
    if envelope.workspace_id != trust.workspace_id:
        raise Refused("workspace_mismatch", "the envelope is of another workspace than this worker serves")
    if journal.clock_behind(now) > limits.CLOCK_BEHIND_SECONDS:
        raise Refused("clock_went_back", "this worker's clock is behind its nonce journal; set it right")
    seconds = now.timestamp()
    if envelope.issued > seconds + limits.CLUSTER_CLOCK_SECONDS:
        raise Refused("not_yet_valid", "the envelope is ahead of this worker's clock; set both clocks")
    if seconds >= envelope.expires:
        raise Refused("envelope_expired", "the envelope has expired")
    if journal.used(envelope.nonce):
        raise Refused("replayed", "this envelope was used here before")


def _request_of(envelope: JobEnvelope, trust: Trust, now: datetime) -> Request:
    report = read_request(
        envelope.request,
        path=envelope.file_name,
        settings=trust.settings.request,
        now=now,
        stage="approved",
    )
    if report.request is None:
        first = report.first_error
        raise Refused("request_invalid", f"{first.rule} at line {first.line}: {first.message}")
    return report.request


def _job_of(envelope: JobEnvelope, request: Request) -> Job:
    """The Job, built with the daemon's own code; what the envelope says about it must match."""
    try:
        job = build_job(
            request,
            input_sizes=envelope.inputs,
            platform=envelope.platform_value(),
            write_class=envelope.write_class,
            time_cap_sec=envelope.time_cap_sec,
            proposal_sha256=envelope.proposal_sha256,
            unread=envelope.unread,
        )
    except KeyError:
        raise Refused("input_missing", "the envelope lacks an input that the request declares") from None
    if job.digest != envelope.job_sha256:
        raise Refused("job_changed", "the request means another job here than the daemon says")
    if job.meaning()["limits"] != envelope.limits or envelope.inputs.keys() != {item.sha256 for item in job.inputs}:
        raise Refused("job_changed", "the envelope's limits or inputs are not those of the job")
    if BACKENDS[job.backend].container and job.seccomp_sha256 != policy_facts()["seccomp"]:
        raise Refused("job_changed", "the job names another seccomp profile than this version has")
    return job


def _facts(
    envelope: JobEnvelope,
    request: Request,
    job: Job,
    trust: Trust,
    journal: NonceJournal,
    now: datetime,
) -> LaunchFacts:
    """What gate 2 asks, by this worker's own files; `recorded_operators` is its own file, since it has no trail."""
    return LaunchFacts(
        request=request,
        job=job,
        signature=envelope.signature,
        operators=trust.operators,
        recorded_operators=trust.operators.digests,
        workspace_id=trust.workspace_id,
        epoch=envelope.epoch,
        policy_sha256=envelope.policy_sha256,
        standing_sha256=envelope.policy_sha256,  # the daemon sends that of the way to this approval
        settings=trust.settings,
        now=now,
        clock_behind_sec=journal.clock_behind(now),
        pinned={sha256: PinnedFile(size) for sha256, size in envelope.inputs.items()},
        nonce_used=journal.used,
        id_used=journal.ran(request.request_id),
        shown_sha256=None,
        countersignatures=envelope.countersignatures,
        requesters=_requesters(trust.settings, envelope),
        owner=envelope.owner,
        was_approved=True,
        grant_uses=journal.grant_uses,
    )


def _requesters(settings: Settings, envelope: JobEnvelope) -> Mapping[str, str]:
    """This worker's names, and the name that the daemon's trail has for the requesting run."""
    if envelope.run is None:
        return settings.requesters
    return {**settings.requesters, envelope.run: envelope.requester or envelope.run}


def _policy(settings: Settings, envelope: JobEnvelope) -> Policy:
    """This worker's settings as a policy, under the digest that the operator signed."""
    own = make_policy(settings, _NO_CONTRACTS, facts=policy_facts(), environment={})
    return Policy(own.settings, own.contracts, envelope.policy_sha256)


_NO_CONTRACTS: Mapping[str, Any] = {}
