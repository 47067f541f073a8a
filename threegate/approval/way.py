"""The ways to an approval: what a request is approved by, and what is checked of that.

The core has two: a signature over exactly this request (launch.py), and a guarded folder (`ByHand`), which replaces a
signature only for small, low-risk requests where `approval.signature = "optional"` (docs/spec/2-approval.md). A plugin
can add one (`WAYS`): an act that an operator signed, and that covers requests which nobody signed one by one.

Invariant: a way adds checks and replaces none. What holds for each approval, the operator's signature first of all, is
checked by approval/launch.py, whatever the way. Nothing is known of a file before it was read completely. An act that
no way judges, because its plugin is off or absent, approves nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import ClassVar, Final

from threegate.approval.facts import LaunchFacts, Under
from threegate.approval.quorum import Signer
from threegate.approval.ssh_wire import NAMESPACE_ACT
from threegate.approval.statement import SignedBytes, is_act
from threegate.core import limits
from threegate.core.errors import Refused
from threegate.core.plugins import Place
from threegate.request.model import Request

NOT_JUDGED: Final = "approval_not_judged"
"""The code of a request that was approved by an act which no plugin that is on can judge."""

Step = tuple[str, Callable[[], str]]
"""A check: its name, and a function that returns what it found. Raises Refused, NotReadError."""


class NotReadError(Exception):
    """A check needs what was signed, but none could be read."""


class Way(ABC):
    """What one request is approved by, in the checks of one launch. The properties raise NotReadError."""

    def __init__(self, facts: LaunchFacts) -> None:
        self.facts = facts
        self.signers: list[Signer] = []
        """Whose signatures were verified."""

    @abstractmethod
    def checks(self) -> Iterable[Step]:
        """The checks that belong to this way, after the signature."""

    def last_checks(self) -> Iterable[Step]:
        """Those that come after all others."""
        return ()

    @property
    @abstractmethod
    def approver(self) -> str | None:
        """Who approved it."""

    @property
    @abstractmethod
    def approved_utc(self) -> datetime:
        """When it was approved."""

    @property
    @abstractmethod
    def expires_utc(self) -> datetime:
        """Until when it may be claimed."""

    @property
    @abstractmethod
    def nonce(self) -> str:
        """What is used up by running it."""

    @property
    def approval_sha256(self) -> str | None:
        """Digest of the signed statement."""
        return None

    @property
    def under(self) -> Under | None:
        """What it runs under, if that covers other requests too."""
        return None

    @property
    def marks(self) -> tuple[str, ...]:
        """What the trail calls void of such an approval (`payloads.Approved.marks`)."""
        return (self.facts.request.sha256,)


class SignedWay(Way):
    """A way by a file that an operator signed."""

    namespace: ClassVar[str] = NAMESPACE_ACT
    """Of the signature."""
    file_check: ClassVar[str] = "signature file"
    signature_check: ClassVar[str] = "signature"
    """The names of the two checks."""

    @abstractmethod
    def read(self, data: bytes) -> str:
        """Read the signature file completely, and return what it is. Raises Refused."""

    @property
    @abstractmethod
    def signed(self) -> SignedBytes:
        """What was signed."""

    @property
    @abstractmethod
    def approver(self) -> str:
        """Who signed it."""

    @property
    def approval_sha256(self) -> str | None:
        return self.signed.sha256

    @property
    def signed_utc(self) -> datetime:
        """When it was signed."""
        return self.approved_utc


class ActWay(SignedWay):
    """A way that a plugin brings: by an act that covers requests which nobody signed one by one."""

    @classmethod
    @abstractmethod
    def is_mine(cls, data: bytes) -> bool:
        """Whether a signature file claims to be such an act; this only decides which checks are made."""


WAYS: Final = Place[type[ActWay]]("way")


def refuse_unjudged(facts: LaunchFacts) -> None:
    """Raises Refused for an act that could be one of a plugin that is off or absent: the request waits, as long as
    `approval.ttl` allows, since only an operator can say whether the plugin comes back.
    """
    why = WAYS.why_unused(facts.settings.plugins.off)
    if why is None or not is_act(facts.signature or b""):
        return
    if facts.now >= approved_utc_of(facts.request) + timedelta(seconds=facts.ttl_sec):
        raise Refused("expired", "approved longer ago than approval.ttl allows")
    raise Refused(
        NOT_JUDGED,
        f"nobody signed this request itself, and nothing judges what covers it: {why}; it waits for that plugin, or: "
        "threegate cancel, threegate draft --again, and approve the new draft",
    )


def approved_utc_of(request: Request) -> datetime:
    """The time that the file names. Raises Refused (signature_missing)."""
    if request.approved_utc is None:
        raise Refused("signature_missing", "there is no signature, and the request names no time of approval")
    return request.approved_utc


class ByHand(Way):
    """By whoever put the file into approved/, without a signature."""

    def checks(self) -> Iterable[Step]:
        return ("unsigned promotion", self._check_limits), ("time", self._check_time)

    @property
    def approver(self) -> str | None:
        return self.facts.request.approved_by

    @property
    def approved_utc(self) -> datetime:
        return approved_utc_of(self.facts.request)

    @property
    def expires_utc(self) -> datetime:
        return self.approved_utc + timedelta(seconds=self.facts.ttl_sec)

    @property
    def nonce(self) -> str:
        return self.facts.request.sha256[:32]

    def _check_limits(self) -> str:
        """Only requests so limited that a guarded folder is enough."""
        facts = self.facts
        needed: int = getattr(facts.quorum, facts.job.effective_risk)
        reasons = (
            (facts.request.signature_needed, "what it does stays done"),
            (needed > 1, "more than one operator must sign it"),
            (facts.job.effective_risk != "low", "its effective risk is not low"),
            (bool(facts.job.network), "it asks for network"),
            (facts.was_approved, "it was approved with a signature before"),
            (bool(facts.countersignatures), "countersignatures exist for it"),
            (not facts.request.approved_by or facts.request.approved_utc is None, "it names no approver"),
        )
        for wrong, reason in reasons:
            if wrong:
                raise Refused("signature_missing", f"there is no signature, and it needs one: {reason}")
        return "no signature; this workspace lets it run unsigned"

    def _check_time(self) -> str:
        """Within approval.ttl of the time that the file names. Raises Refused (not_yet_valid, expired)."""
        facts, approved = self.facts, self.approved_utc
        check_began(facts, approved)
        if facts.now >= approved + timedelta(seconds=facts.ttl_sec):
            raise Refused("expired", "approved longer ago than approval.ttl allows")
        return "within approval.ttl"


def check_began(facts: LaunchFacts, approved: datetime) -> None:
    """created_utc <= approved_utc, and not more than a minute ahead. Raises Refused (not_yet_valid)."""
    if approved < facts.request.created_utc:
        raise Refused("not_yet_valid", "approved before it was created")
    if approved > facts.now + timedelta(seconds=limits.APPROVED_AHEAD_SECONDS):
        raise Refused("not_yet_valid", f"approved_utc lies ahead of now ({facts.now:%Y-%m-%dT%H:%M:%SZ})")
