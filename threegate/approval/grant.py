"""Standing grants: one signed act that lets the same job run again, a few times, for a while (docs/spec/2-approval.md, "Grants").

Invariant: a grant covers a Job only when every field of its canonical meaning is the same, but for the content of the
inputs that it names one by one (only where the backend's inputs are data); it never covers network or effective risk high.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from threegate.approval.ssh_wire import MalformedError
from threegate.approval.statement import Act, SignedBytes, format_utc, parse_utc
from threegate.core import limits
from threegate.core.errors import Refused
from threegate.request.backend_rules import BACKENDS
from threegate.request.job import Job
from threegate.trail import Owner
from threegate.trail.payloads.placed import owner_fields

GRANT_TYPE: Final = "threegate-grant/1"
_KEYS: Final = {"from", "pattern", "free_inputs", "owner_uid", "policy_sha256", "max_uses", "expires_utc"}


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant as its file says; nothing is verified yet."""

    signed: SignedBytes
    act: Act
    from_request: str
    pattern: dict[str, Any]
    free_inputs: tuple[str, ...]
    owner: Owner
    """Only drafts of this owner run under it."""
    policy_sha256: str
    max_uses: int
    expires_utc: datetime

    @property
    def id(self) -> str:
        """sha256 of the statement's bytes."""
        return self.signed.sha256

    @classmethod
    def parse(cls, data: bytes) -> Grant:
        """Read a grant file. Raises MalformedError."""
        signed = SignedBytes.parse(data)
        act = Act.parse(signed.statement, GRANT_TYPE)
        about = act.about
        owner = about.get("run", about.get("owner_uid"))
        if about.keys() not in (_KEYS, _KEYS - {"owner_uid"} | {"run"}):
            raise MalformedError("has not exactly the terms of a grant")
        pattern, names, expires = about["pattern"], about["free_inputs"], about["expires_utc"]
        if not isinstance(pattern, dict) or not isinstance(names, list) or not isinstance(expires, str):
            raise MalformedError("has a term of a wrong type")
        if not all(isinstance(name, str) for name in (*names, about["from"], about["policy_sha256"])):
            raise MalformedError("has a term of a wrong type")
        if type(owner) is not (str if "run" in about else int) or type(uses := about["max_uses"]) is not int:
            raise MalformedError("has a term of a wrong type")
        if not 1 <= uses <= limits.GRANT_USES:
            raise MalformedError(f"allows other than 1 to {limits.GRANT_USES} uses")
        return cls(
            signed=signed,
            act=act,
            from_request=about["from"],
            pattern=pattern,
            free_inputs=tuple(names),
            owner=owner,
            policy_sha256=about["policy_sha256"],
            max_uses=uses,
            expires_utc=parse_utc(expires),
        )


def is_grant(data: bytes) -> bool:
    """Whether a signature file claims to be a grant rather than an approval; decides only which checks are made."""
    return f'"type":"{GRANT_TYPE}"'.encode() in data.partition(b"\n")[0]


def pattern_of(job: Job, free_inputs: Sequence[str]) -> dict[str, Any]:
    """The canonical meaning of a Job with the content of the named inputs left open.

    Raises Refused (grant_mismatch) for what no grant may cover.
    """
    if job.network or job.effective_risk == "high":
        raise Refused(
            "grant_mismatch", "a grant never covers network or effective risk high; approve it by hand"
        )
    if job.project is not None:
        raise Refused("grant_mismatch", "a grant never covers a change of a project; approve it by hand")
    if free_inputs and not BACKENDS[job.backend].data_inputs:
        message = f"code in an {job.backend} input is code: no input of it can be left open"
        raise Refused("grant_mismatch", message)
    names = {item.name for item in job.inputs}
    for name in free_inputs:
        if name not in names:
            raise Refused("grant_mismatch", f"{name}: the request has no such input")
    meaning = job.meaning()
    for item in meaning["inputs"]:
        if item["name"] in free_inputs:
            item["sha256"] = item["size"] = None
    return meaning


def terms(
    job: Job,
    *,
    from_request: str,
    free_inputs: Sequence[str],
    owner: Owner,
    policy_sha256: str,
    max_uses: int,
    expires_utc: datetime,
) -> dict[str, Any]:
    """What a grant is about. Raises Refused for what no grant may cover."""
    names = sorted(set(free_inputs))
    return {
        "from": from_request,
        "pattern": pattern_of(job, names),
        "free_inputs": names,
        **owner_fields(owner),
        "policy_sha256": policy_sha256,
        "max_uses": max_uses,
        "expires_utc": format_utc(expires_utc),
    }


def covers(grant: Grant, job: Job) -> bool:
    """Whether the grant's pattern is this job's."""
    try:
        return pattern_of(job, grant.free_inputs) == grant.pattern
    except Refused:
        return False
