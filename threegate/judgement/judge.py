"""Where approval, AANA and contracts meet; the only maker of a Clearance.

Invariant: `Clearance` cannot be made outside this module, and this module makes one only if all gates said
yes to exactly this job. Everything here is a pure function of its arguments. A request's statements about its own
trustworthiness reach a gate only as a user's claim; summaries are fixed sentences and references carry digests only
(docs/spec/3-aana.md and docs/spec/4-contracts.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from threegate import aana
from threegate.approval.facts import LaunchFacts, VerifiedApproval
from threegate.approval.launch import check_launch
from threegate.approval.way import NOT_JUDGED
from threegate.contracts.reasons import PASSING
from threegate.contracts.state import Decision
from threegate.core.errors import Refused
from threegate.judgement.policy import Policy
from threegate.request.job import Job
from threegate.request.model import Request
from threegate.trail.history import UNKNOWN_EVENT

Authorization = Literal["confirmed", "validated", "user_claimed"]
_SEAL = object()


@dataclass(frozen=True, slots=True)
class Clearance:
    """Permission to run one job once. Made only by `judge`."""

    request_id: str
    request_sha256: str
    job_sha256: str
    approval_sha256: str | None
    policy_sha256: str
    approved_by: str
    approved_utc: datetime
    nonce: str
    seal: object = field(repr=False)
    grant: str | None = None
    """id of the grant that it runs under."""

    def __post_init__(self) -> None:
        if self.seal is not _SEAL:
            raise TypeError("only the judge makes a Clearance")

    def must_cover(self, job: Job) -> None:
        """Every runner calls this first. Raises TypeError for any job other than the cleared one."""
        if job.digest != self.job_sha256:
            raise TypeError("this clearance is for another job")


@dataclass(frozen=True, slots=True)
class Assessment:
    """The decisions of gates 3a and 3b on a job: AANA's route and blockers, the contract decision."""

    route: str
    gate_decision: str
    blockers: tuple[str, ...]
    aana_reasons: tuple[str, ...]
    contract: Decision
    shadow: bool
    event: Mapping[str, Any]
    result: Mapping[str, Any]

    @property
    def contract_holds(self) -> bool:
        """Whether the contract gate allows the call (in shadow mode it always does)."""
        return self.shadow or self.contract.verdict == "allow"

    @property
    def would_block(self) -> bool:
        """In shadow mode: whether the contract gate would have blocked this call."""
        return self.shadow and self.contract.verdict != "allow"

    def to_json(self) -> dict[str, Any]:
        """`judgement` of a verdict file: codes and paths only, never a value."""
        return {
            "route": self.route,
            "blockers": list(self.blockers),
            "contract": {
                "verdict": self.contract.verdict,
                "shadow": self.shadow,
                "would_block": self.would_block,
                "reasons": [{"code": item.code, "path": item.path} for item in self.contract.reasons],
            },
        }


@dataclass(frozen=True, slots=True)
class Cleared:
    """All gates said yes: the permission to run, and its basis."""

    clearance: Clearance
    approval: VerifiedApproval
    assessment: Assessment


@dataclass(frozen=True, slots=True)
class NotCleared:
    """A gate said no: `wait` for now, `refuse` for good. With approval and assessment, if the gates got that far."""

    verdict: Literal["wait", "refuse"]
    code: str
    message: str
    approval: VerifiedApproval | None = None
    assessment: Assessment | None = None


Judgement = Cleared | NotCleared
"""The answer to "should this run now?"."""


def tool_name(job: Job) -> str:
    """The tool of a job: the one it names or calls, else ``threegate.<backend>``."""
    return job.tool or backend_tool(job)


def backend_tool(job: Job) -> str:
    """``threegate.era`` or ``threegate.monty``: its contract applies to every request of the backend. A
    server's tool has only its own name, which does not depend on the request's text.
    """
    return f"threegate.{job.backend.lower()}"


def call_arguments(job: Job) -> dict[str, Any]:
    """A request's arguments as contracts and AANA see them (docs/spec/4-contracts.md, "Arguments of a request")."""
    return job.action.gate_arguments(job.workdir, _shared(job))


def _shared(job: Job) -> dict[str, Any]:
    return {
        "inputs": {item.name: item.sha256 for item in job.inputs},
        "limits": {
            "cpu": float(job.limits.cpu),
            "memory_mb": job.limits.memory_mb,
            "time_sec": job.limits.time_sec,
        },
        "network": list(job.network),
    }


def category(job: Job, *, side_effect_above_read: bool) -> str:
    """The strictest category known for a job: public_read, private_read or write (docs/spec/3-aana.md)."""
    if (
        job.action.least_category == "write"
        or job.network
        or job.effective_risk == "high"
        or side_effect_above_read
        or (job.proposal_sha256 is not None and job.effective_risk != "low")
    ):
        return "write"
    if job.data_sensitivity != "public" or job.inputs or job.action.least_category == "private_read":
        return "private_read"
    if aana.is_identity_bound(tool_name(job), call_arguments(job)):
        return "private_read"
    return "public_read"


def aana_event(
    request: Request,
    job: Job,
    *,
    authorization: Authorization,
    risk_domain: str,
    approval_sha256: str | None,
    approved_utc: datetime | None,
    now: datetime,
    granted: bool = False,
    side_effect_above_read: bool = False,
) -> dict[str, Any]:
    """The Agent Action Contract event of a request, in production form (structured references only).

    `granted`: an operator signed a grant that covers the request, and not the request itself.
    """
    arguments = job.action.aana_arguments(job.workdir, _shared(job))
    tool = tool_name(job)
    references: list[dict[str, Any]] = []
    if approval_sha256 is not None and approved_utc is not None:
        source, kind, about = f"approval.sha256.{approval_sha256}", "approval", [tool]
        if authorization == "validated":
            kind, summary, about = "policy", "Request validated; covered by a grant that an operator signed.", []
        elif granted:
            summary = "Operator confirmed calls of this form by signature."
        else:
            summary = "Operator confirmed exactly this request by signature."
            about.append(f"arguments:sha256:{aana.arguments_sha256(arguments)}")
        reference = _reference(source, kind, summary, approved_utc)
        references.append({**reference, "supports": about} if about else reference)
    elif authorization == "validated" and approved_utc is not None:
        summary = "Request validated; promoted by hand into a guarded folder."
        references.append(_reference(f"promotion.sha256.{request.sha256}", "policy", summary, approved_utc))
    summary = "Request is allowed by every rule of the reader."
    references.append(_reference(f"validation.sha256.{request.sha256}", "policy", summary, now))
    references.extend(
        _reference(f"input.sha256.{item.sha256}", "system_state", "Input bytes pinned by digest.", now)
        for item in job.inputs
    )
    references.extend(_claimed(item) for item in request.evidence)
    return {
        "tool_name": tool,
        "tool_category": category(job, side_effect_above_read=side_effect_above_read),
        "authorization_state": authorization,
        "evidence_refs": references,
        "risk_domain": request.risk_domain or risk_domain,
        "proposed_arguments": arguments,
        "recommended_route": "accept",
        "request_id": request.request_id,
    }


def _reference(source: str, kind: str, summary: str, when: datetime) -> dict[str, Any]:
    return {
        "source_id": source,
        "kind": kind,
        "trust_tier": "verified",
        "redaction_status": "redacted",
        "summary": summary,
        "freshness": {"status": "fresh"},
        "provenance": "threegate",
        "retrieved_at": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _claimed(item: Any) -> Any:
    """Evidence supplied by the request is a claim of its author, whatever it states about itself."""
    if isinstance(item, Mapping):
        return {**item, "kind": "other", "trust_tier": "user_claimed"}
    return {
        "source_id": str(item),
        "kind": "other",
        "trust_tier": "user_claimed",
        "redaction_status": "unknown",
        "summary": "",
        "freshness": {"status": "unknown"},
        "provenance": "request",
    }


def assess(
    request: Request,
    job: Job,
    policy: Policy,
    contract: Decision,
    *,
    authorization: Authorization,
    approval_sha256: str | None,
    approved_utc: datetime | None,
    side_effect_above_read: bool,
    now: datetime,
    granted: bool = False,
) -> Assessment:
    """Ask AANA about a job, with the contract decision already made. Raises nothing itself."""
    event = aana_event(
        request,
        job,
        authorization=authorization,
        risk_domain=policy.settings.aana.risk_domain,
        approval_sha256=approval_sha256,
        approved_utc=approved_utc,
        now=now,
        granted=granted,
        side_effect_above_read=side_effect_above_read,
    )
    result = aana.check_tool_call(event, now=now, evidence_mode="production")
    return Assessment(
        route=str(result["architecture_decision"]["route"]),
        gate_decision=str(result["gate_decision"]),
        blockers=tuple(str(item) for item in result["hard_blockers"]),
        aana_reasons=tuple(str(item) for item in result["reasons"]),
        contract=contract,
        shadow=policy.settings.contracts.mode == "shadow",
        event=event,
        result=result,
    )


def judge(facts: LaunchFacts, policy: Policy, contract: Decision, *, side_effect_above_read: bool = False) -> Judgement:
    """Approval, then AANA and the contract, for a launch. Never raises Refused: that is a return value.

    Request, job and the time used for the whole judgement are those of the facts: what is cleared is what was approved.
    """
    request, job = facts.request, facts.job
    try:
        # First, because AANA gets the authorization that is verified here, never one that the request states.
        approval = check_launch(facts)
    except Refused as refusal:
        verdict: Literal["wait", "refuse"] = "wait" if refusal.code in WAITING_CODES else "refuse"
        return NotCleared(verdict, refusal.code, str(refusal))
    assessment = assess(
        request,
        job,
        policy,
        contract,
        authorization=approval.authorization,
        approval_sha256=approval.approval_sha256,
        approved_utc=approval.approved_utc,
        granted=approval.under is not None,
        side_effect_above_read=side_effect_above_read,
        now=facts.now,
    )
    blocked = _blocked(assessment)
    if blocked is not None:
        verdict, code, message = blocked
        return NotCleared(verdict, code, message, approval, assessment)
    clearance = Clearance(
        request_id=request.request_id,
        request_sha256=request.sha256,
        job_sha256=job.digest,
        approval_sha256=approval.approval_sha256,
        policy_sha256=policy.digest,
        approved_by=approval.approved_by,
        approved_utc=approval.approved_utc,
        nonce=approval.nonce,
        seal=_SEAL,
        grant=approval.under.grant if approval.under is not None else None,
    )
    return Cleared(clearance, approval, assessment)


def replay_clearance(about: Mapping[str, Any], request: Request, job: Job) -> Clearance:
    """Permission to run an ended job once more, to compare (docs/spec/6-runners.md, Monty). `about` is the
    content of a verified act.

    Raises Refused unless it names exactly this request and this job, or if the job has network.
    """
    # What reached the network may have changed something there the first time.
    if job.network:
        raise Refused("replay_has_network", "a request with network is not run again: it could act twice")
    named = (about.get("request_id"), about.get("request_sha256"), about.get("job_sha256"))
    if named != (request.request_id, request.sha256, job.digest) or request.approved_utc is None:
        raise Refused(
            "job_changed",
            f"it would not mean today what it meant then; draft it again: threegate draft --again {request.request_id}",
        )
    return Clearance(
        request_id=request.request_id,
        request_sha256=request.sha256,
        job_sha256=job.digest,
        approval_sha256=None,
        policy_sha256="",
        approved_by=request.approved_by or "",
        approved_utc=request.approved_utc,
        nonce="",
        seal=_SEAL,
    )


STOPPING_CODES = frozenset({"operators_changed", "clock_went_back"})
"""Approval failures that concern the workspace and not one request: nothing is launched meanwhile."""

WAITING_CODES = STOPPING_CODES | {"quorum_missing", "no_backend", NOT_JUDGED, UNKNOWN_EVENT}
"""Approval failures that a person or the clock can fix without a new approval: the request stays in approved/."""


def _blocked(assessment: Assessment) -> tuple[Literal["wait", "refuse"], str, str] | None:
    contract = assessment.contract
    # The contracts' reason is given before AANA's: it names the rule that an operator wrote.
    if not assessment.contract_holds:
        code = contract.reasons[0].code if contract.reasons else "contract_blocked"
        if contract.verdict == "checkpoint":
            return ("wait", code, "a contract asks a person first: threegate contracts checkpoints")
        if {item.code for item in contract.reasons} <= PASSING:
            return ("wait", code, f"the contract gate lets it through later ({code})")
        return ("refuse", code, f"the contract gate blocks this call ({code})")
    if assessment.route == "refuse":
        code = assessment.blockers[0] if assessment.blockers else "aana_refused"
        return ("refuse", code, f"AANA refuses this call ({code})")
    if assessment.route != "accept" or assessment.gate_decision != "pass" or assessment.blockers:
        code = assessment.blockers[0] if assessment.blockers else f"aana_{assessment.route}"
        return ("wait", code, f"AANA says {assessment.route} ({code})")
    return None
