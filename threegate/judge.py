"""The one place where approval, AANA and contracts meet; the only maker of a Clearance.

Invariant: `Clearance` cannot be made outside of this module, and this module makes one only when all gates
said yes to exactly this job.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

_SEAL = object()


@dataclass(frozen=True, slots=True)
class Clearance:
    """Leave to run one job once. Made only by `judge`."""

    request_id: str
    request_sha256: str
    job_sha256: str
    approval_sha256: str
    policy_sha256: str
    approved_by: str
    approved_utc: datetime
    nonce: str
    seal: object

    def __post_init__(self) -> None:
        if self.seal is not _SEAL:
            raise TypeError("only the judge makes a Clearance")
