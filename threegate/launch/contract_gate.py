"""Gate 3b as the daemon sees it: contracts and sessions asked about requests, and told how they ended.

Invariant: without contracts every answer is "no contracts, pass"; with contracts that do not compile, or with a
session that cannot be known, every answer is a block.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from threegate.contracts import Decision, Reason
from threegate.core.errors import Refused
from threegate.judgement.policy import Policy
from threegate.request.job import Job
from threegate.request.model import Request
from threegate.trail import LockedTrail, RequestHistory

NO_CONTRACTS = Decision("allow", (Reason(0, "no_contracts", "", "the contracts folder is empty"),))


class ContractGate(Protocol):
    """What the pipeline asks and tells. Everything that takes `held` is called under the trail's lock."""

    def write_class(self, policy: Policy, request: Request) -> bool:
        """Whether a contract that applies says that the side effect is above read."""

    def time_cap_sec(self, policy: Policy, request: Request) -> int | None:
        """The lowest `timeouts.total_ms` of the contracts that apply, in whole seconds (rounded up)."""

    def may_retry(self, policy: Policy, request: Request, status: str, attempts: int) -> bool:
        """Whether, after `attempts` of them, the contracts let an attempt that never started be made again."""

    def decide(
        self,
        held: LockedTrail,
        policy: Policy,
        request: Request,
        job: Job,
        now: datetime,
        *,
        owner_uid: int | None = None,
    ) -> Decision:
        """What contracts and session say about this call now. Changes nothing."""

    def reserve(
        self,
        held: LockedTrail,
        policy: Policy,
        request: Request,
        job: Job | None,
        history: RequestHistory | None,
    ) -> Mapping[str, Any] | Refused:
        """Decide once more and reserve the call; data for the `claimed` event. A Refused means: judge again."""

    def commit(
        self, held: LockedTrail, policy: Policy, request: Request, status: str, run_folder: Path
    ) -> Mapping[str, Any]:
        """The call ended: move the session; data for the event of the end."""

    def blocked(
        self, held: LockedTrail, policy: Policy, request: Request | None, job: Job | None, code: str
    ) -> Mapping[str, Any]:
        """The call was refused: data for its event, by which the breaker and the loop window move."""

    def lost(self, held: LockedTrail, history: RequestHistory) -> Mapping[str, Any]:
        """A claimed call was interrupted: give its reservation back; data for the event."""
