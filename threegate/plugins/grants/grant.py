"""Standing grants: one signed act that lets the same job run again, a few times, for a limited time
(docs/spec/2-approval.md, "Grants").

Invariant: a grant covers a Job only if its canonical meaning is the same, except for the values of the parts
that the operator widened individually, each with a constraint (widened.py); it never covers network or
effective risk high. It covers a tool call that writes only if the settings allow it, and no free text if the
server has network access.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from threegate.approval.ssh_wire import MalformedError
from threegate.approval.statement import Act, SignedBytes, format_utc, parse_utc
from threegate.core import limits
from threegate.core.errors import Refused
from threegate.core.json_operators import json_equal
from threegate.plugins.grants.widened import OpenJob, Widened, open_job
from threegate.request.job import Job
from threegate.trail.payloads.payload import Owner, owner_fields

GRANT_TYPE: Final = "threegate-grant/1"
_KEYS: Final = {"from", "pattern", "widened", "owner_uid", "policy_sha256", "max_uses", "expires_utc"}


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant as its file states it; not verified yet."""

    signed: SignedBytes
    act: Act
    from_request: str
    """The finished request that it was made from; empty if it was made from a tool's schema."""
    pattern: dict[str, Any]
    widened: tuple[Widened, ...]
    owner: Owner
    """Only drafts of this owner run under it."""
    policy_sha256: str
    max_uses: int
    expires_utc: datetime

    @property
    def id(self) -> str:
        """sha256 of the statement's bytes."""
        return self.signed.sha256

    @property
    def calls(self) -> str | None:
        """``SERVER.TOOL`` if it is for tool calls."""
        call = self.pattern.get("call")
        return f"{call.get('server')}.{call.get('tool')}" if isinstance(call, dict) else None

    @classmethod
    @lru_cache(maxsize=limits.GRANTS_KNOWN)
    def parse(cls, data: bytes) -> Grant:
        """Read a grant file. Raises MalformedError. The daemon reads every grant for each draft, so what bytes say
        is kept.
        """
        signed = SignedBytes.parse(data)
        act = Act.parse(signed.statement, GRANT_TYPE)
        about = act.about
        owner = about.get("run", about.get("owner_uid"))
        if about.keys() not in (_KEYS, _KEYS - {"owner_uid"} | {"run"}):
            raise MalformedError("does not have exactly the terms of a grant")
        pattern, widened, expires = about["pattern"], about["widened"], about["expires_utc"]
        if not isinstance(pattern, dict) or not isinstance(widened, list):
            raise MalformedError("has a term of a wrong type")
        if not all(isinstance(text, str) for text in (expires, about["from"], about["policy_sha256"])):
            raise MalformedError("has a term of a wrong type")
        if type(owner) is not (str if "run" in about else int) or type(uses := about["max_uses"]) is not int:
            raise MalformedError("has a term of a wrong type")
        if not 1 <= uses <= limits.GRANT_USES:
            raise MalformedError(f"does not allow 1 to {limits.GRANT_USES} uses")
        return cls(
            signed=signed,
            act=act,
            from_request=about["from"],
            pattern=pattern,
            widened=tuple(map(Widened.parse, widened)),
            owner=owner,
            policy_sha256=about["policy_sha256"],
            max_uses=uses,
            expires_utc=parse_utc(expires),
        )


def is_grant(data: bytes) -> bool:
    """Whether a signature file claims to be a grant and not an approval; this only decides which checks are
    made.
    """
    return f'"type":"{GRANT_TYPE}"'.encode() in data.partition(b"\n")[0]


def opened(job: Job, widened: Sequence[Widened]) -> OpenJob:
    """A Job without the open values. Raises Refused (grant_mismatch) for what no grant may cover."""
    if job.network or (job.effective_risk == "high" and not job.action.own_tool):
        raise Refused("grant_mismatch", "a grant never covers network or effective risk high; approve it by hand")
    if job.action.never_granted:
        raise Refused("grant_mismatch", f"a grant never covers {job.action.never_granted}; approve it by hand")
    if job.action.sends_out:
        for item in widened:
            if item.constraint.is_free_text:
                raise Refused(
                    "grant_mismatch",
                    f"{item.part}: the server has network, so a text that may be anything could carry anything out; "
                    "say what it may be",
                )
    return open_job(job, [item.part for item in widened])


def refuse_write(job: Job, *, allowed: bool) -> None:
    """A call whose contract does not declare ``side_effect: read`` has effective risk high. Raises Refused
    (grant_mismatch).
    """
    if job.action.own_tool and job.effective_risk == "high" and not allowed:
        raise Refused(
            "grant_mismatch",
            (f"{job.tool}: no contract says of it side_effect: read; write one, or set grants.allow_write = true"),
        )


def terms(
    job: Job,
    *,
    from_request: str,
    widened: Sequence[Widened],
    owner: Owner,
    policy_sha256: str,
    max_uses: int,
    expires_utc: datetime,
) -> dict[str, Any]:
    """What a grant states. Raises Refused for what no grant may cover, and if it would not cover `job`
    itself.
    """
    pattern = opened(job, widened).pattern
    for item in widened:
        if not matches(job, [item], opened(job, [item]).pattern):
            raise Refused("grant_mismatch", f"{item}: the request that ran does not match it itself")
    return {
        "from": from_request,
        "pattern": pattern,
        "widened": [item.to_json() for item in widened],
        **owner_fields(owner),
        "policy_sha256": policy_sha256,
        "max_uses": max_uses,
        "expires_utc": format_utc(expires_utc),
    }


def matches(job: Job, widened: Sequence[Widened], pattern: dict[str, Any]) -> bool:
    """Whether a Job matches the pattern, with a value in each widened part that its constraint accepts."""
    try:
        found = opened(job, widened)
    except Refused:
        return False
    return json_equal(found.pattern, pattern) and all(item.takes(found.values[item.part]) for item in widened)


def covers(grant: Grant, job: Job) -> bool:
    """Whether a grant is for this job."""
    return matches(job, grant.widened, grant.pattern)
