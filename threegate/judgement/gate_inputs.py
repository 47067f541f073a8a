"""What the gates see of a request: the AANA event and the contract call (docs/spec/3-aana.md and
docs/spec/4-contracts.md).

Invariant: a request's statements about its own trustworthiness reach a gate only as a user's claim; summaries
are fixed sentences and references carry digests only.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from threegate.aana import arguments_sha256, is_identity_bound
from threegate.request.job import Job
from threegate.request.model import Request

Authorization = Literal["confirmed", "validated", "user_claimed"]


def tool_name(job: Job) -> str:
    """The tool of a job: the one it names or calls, else ``threegate.<backend>``."""
    return job.tool or backend_tool(job)


def backend_tool(job: Job) -> str:
    """``threegate.era`` or ``threegate.monty``: its contract applies to every request of the backend. A
    server's tool has only its own name, which does not depend on the request's text.
    """
    return f"threegate.{job.backend.lower()}"


def call_arguments(job: Job) -> dict[str, Any]:
    """The arguments of a request as contracts and AANA see them (docs/spec/4-contracts.md, "Arguments of a
    request").
    """
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
    if is_identity_bound(tool_name(job), call_arguments(job)):
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
        source = f"approval.sha256.{approval_sha256}"
        if authorization == "validated":
            summary = "Request validated; covered by a grant that an operator signed."
            references.append(_reference(source, "policy", summary, approved_utc))
        elif granted:
            summary = "Operator confirmed calls of this form by signature."
            references.append({**_reference(source, "approval", summary, approved_utc), "supports": [tool]})
        else:
            summary = "Operator confirmed exactly this request by signature."
            about = [tool, f"arguments:sha256:{arguments_sha256(arguments)}"]
            references.append({**_reference(source, "approval", summary, approved_utc), "supports": about})
    elif authorization == "validated" and approved_utc is not None:
        references.append(
            _reference(
                f"promotion.sha256.{request.sha256}",
                "policy",
                "Request validated; promoted by hand into a guarded folder.",
                approved_utc,
            )
        )
    references.append(
        _reference(
            f"validation.sha256.{request.sha256}",
            "policy",
            "Request is allowed by every rule of the reader.",
            now,
        )
    )
    references.extend(
        _reference(f"input.sha256.{item.sha256}", "system_state", "Input bytes pinned by digest.", now)
        for item in job.inputs
    )
    references.extend(_claimed(item) for item in request.evidence)
    return {
        "tool_name": tool,
        "tool_category": category(
            job,
            side_effect_above_read=side_effect_above_read,
        ),
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
