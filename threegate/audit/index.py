"""What the trail says so far, kept as one value that grows event by event.

Invariant: the index is a pure function of the events that were put into it, in order; nothing here reads a
disk or a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from threegate.audit.event import Event, event_of_line
from threegate.audit.tree import Frontier

ENDS: Final = frozenset(("refused", "rejected", "cancelled", "interrupted", "finished"))
"""Event types after which a request never runs (again)."""

SESSION_TYPES: Final = frozenset(("session_opened", "session_killed", "checkpoint_answered"))
"""Event types that move sessions of the contract gate whatever their data says."""

_ANNOUNCED_ONLY: Final = frozenset(("approved", "countersigned"))
"""Types whose nonce belongs to a later use; in every other type the nonce was used up by the event itself."""

_RECENT = 4096


@dataclass(frozen=True, slots=True)
class Head:
    """The last event: how many there are, its hash (the workspace's id when there is none) and its time."""

    seq: int
    hash: str
    time: str


@dataclass(slots=True)
class RequestHistory:
    """What the trail says about one request, by the events that decide. None: no such event (any more).

    `end` is the last of `refused rejected cancelled interrupted finished`. A `quarantined` copy of a request
    (reason `replayed`) changes nothing here but `last`.
    """

    request_id: str
    last: Event
    approved: Event | None = None
    countersigned: list[Event] = field(default_factory=list)
    promoted: Event | None = None
    cleared: Event | None = None
    claimed: Event | None = None
    started: Event | None = None
    finished: Event | None = None
    cancel_requested: Event | None = None
    delivered: Event | None = None
    end: Event | None = None
    abandoned: bool = False
    """The last approval never reached its folder: the id and the file name are free again."""
    state: str | None = None
    """The state folder that the last announced move led to; None before the first."""
    file: str | None = None
    """The name of the request file in that folder."""
    owner_uid: int | None = None
    """uid of the owner of the draft (`owner_uid` of its events)."""
    proposal_sha256: str | None = None
    """Digest of the proposal that the draft was made of."""

    @property
    def last_type(self) -> str:
        """Type of the last event."""
        return self.last.type

    @property
    def interrupted(self) -> bool:
        """Claimed or started, and nothing says how it ended."""
        return self.claimed is not None and self.end is None

    def snapshot(self) -> RequestHistory:
        """This history as it is now; events that come later do not change it."""
        return replace(self, countersigned=list(self.countersigned))

    def add(self, event: Event) -> None:
        """Take the next event of this request."""
        kind, data = event.type, event.data
        self.last = event
        if kind == "quarantined":
            return
        if kind == "approved":
            self.abandoned = False
            self.approved = event
            self.countersigned.clear()
        elif kind == "countersigned":
            self.countersigned.append(event)
        elif kind == "approval_abandoned":
            self.abandoned = True
            self.approved = None
            self.state = self.file = None
            return
        elif kind in (
            "promoted",
            "cleared",
            "claimed",
            "started",
            "finished",
            "cancel_requested",
            "delivered",
        ):
            setattr(self, kind, event)
        if kind in ENDS:
            self.end = event
        if isinstance(state := data.get("state"), str) and isinstance(name := data.get("file"), str):
            self.state, self.file = state, name
        if type(owner := data.get("owner_uid")) is int:
            self.owner_uid = owner
        if isinstance(proposal := data.get("proposal_sha256"), str):
            self.proposal_sha256 = proposal


_EVENTS: Final = (
    "last",
    "approved",
    "promoted",
    "cleared",
    "claimed",
    "started",
    "finished",
    "cancel_requested",
    "delivered",
    "end",
)


class _Settled:
    """The history of an ended request in little memory: the lines of its events instead of the events."""

    __slots__ = ("countersigned", "facts", "lines")

    def __init__(self, history: RequestHistory) -> None:
        events: list[Event | None] = [getattr(history, name) for name in _EVENTS]
        self.lines = tuple(None if event is None else event.line for event in events)
        self.countersigned = tuple(event.line for event in history.countersigned)
        self.facts = (
            history.abandoned,
            history.state,
            history.file,
            history.owner_uid,
            history.proposal_sha256,
        )

    def history(self, request_id: str) -> RequestHistory:
        """The history again, as it was."""
        known = {line: event_of_line(line) for line in self.lines if line is not None}
        events = {
            name: None if line is None else known[line]
            for name, line in zip(_EVENTS, self.lines, strict=True)
        }
        abandoned, state, file, owner_uid, proposal_sha256 = self.facts
        last = events.pop("last")
        assert last is not None
        return RequestHistory(
            request_id,
            last,
            countersigned=[event_of_line(line) for line in self.countersigned],
            abandoned=abandoned,
            state=state,
            file=file,
            owner_uid=owner_uid,
            proposal_sha256=proposal_sha256,
            **events,
        )


class TrailIndex:
    """Everything that a gate, a command or the daemon asks the trail for."""

    def __init__(self) -> None:
        self.workspace_id = ""
        self.epoch = 1
        self.vkey: str | None = None
        """The workspace's public key as a C2SP vkey, from the first event."""
        self.operators: tuple[str | None, str | None] = (None, None)
        """Recorded sha256 of the operators file and of the revoked file (None: no such file)."""
        self.head = Head(0, "", "")
        self.frontier = Frontier()
        self.last_checkpoint = 0
        """Size of the tree at the last `checkpoint` or `rotated` event."""
        self.counts: dict[str, int] = {}
        self._requests: dict[str, RequestHistory | _Settled] = {}
        self._nonces: set[str] = set()
        self._known_nonces: set[str] = set()
        self._names: dict[str, str] = {}
        self._announced: set[int] = set()
        """Keyed hashes of ``state/file`` names; Python's own, with this process's random key."""
        self._grants: dict[str, int] = {}
        self.session_events: list[Event] = []
        """What moves the sessions of the contract gate, in order (`contracts.session` folds them)."""
        self._recent: deque[tuple[int, str]] = deque(maxlen=_RECENT)

    def add(self, event: Event) -> None:
        """Take the next event; that it is the next one was checked before."""
        self.head = Head(event.seq, event.hash, event.time)
        self.frontier.add(event.line)
        self._recent.append((event.seq, event.hash))
        kind, data = event.type, event.data
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if event.seq == 1:
            self.workspace_id = event.prev
            key = data.get("vkey")
            self.vkey = key if isinstance(key, str) else None
        if "contract" in data or kind in SESSION_TYPES or data.get("reason") == "checkpoint_required":
            self.session_events.append(event)
        if "operators_sha256" in data:
            self.operators = (_text(data["operators_sha256"]), _text(data.get("revoked_sha256")))
        if kind == "workspace_adopted" and type(epoch := data.get("epoch")) is int:
            self.epoch = epoch
        if kind in ("checkpoint", "rotated") and type(size := data.get("size")) is int:
            self.last_checkpoint = size
        if isinstance(grant := data.get("grant"), str):
            self._add_grant(kind, grant)
        if isinstance(state := data.get("state"), str) and isinstance(name := data.get("file"), str):
            self._announced.add(hash((state, name)))
        nonce = data.get("nonce")
        if isinstance(nonce, str):
            self._known_nonces.add(nonce)
            if kind not in _ANNOUNCED_ONLY:
                self._nonces.add(nonce)
        if event.request_id is not None:
            self._add_request(event, event.request_id)

    def _add_grant(self, kind: str, grant: str) -> None:
        if kind == "granted":
            self._grants.setdefault(grant, 0)
        elif kind == "grant_revoked":
            self._grants.pop(grant, None)
        elif kind == "claimed" and grant in self._grants:
            self._grants[grant] += 1

    def grant_uses(self, grant: str) -> int | None:
        """How often a standing grant was used, or None when it was never given here or was revoked."""
        return self._grants.get(grant)

    def _add_request(self, event: Event, request_id: str) -> None:
        known = self._requests.get(request_id)
        if known is None:
            history = self._requests[request_id] = RequestHistory(request_id, event)
        else:
            history = known.history(request_id) if isinstance(known, _Settled) else known
        if event.type == "approval_abandoned" and history.approved is not None:
            self._names.pop(str(history.approved.data.get("file")), None)
        history.add(event)
        if history.end is not None:
            self._requests[request_id] = _Settled(history)
        if event.type in ("approved", "claimed") and isinstance(name := event.data.get("file"), str):
            self._names.setdefault(name, request_id)

    def history(self, request_id: str) -> RequestHistory | None:
        """What is known about a request now, or None when the trail never named it. Later events do not change it."""
        known = self._requests.get(request_id)
        if known is None:
            return None
        return known.history(request_id) if isinstance(known, _Settled) else known.snapshot()

    def histories(self) -> Iterator[RequestHistory]:
        """All requests, in the order of their first event."""
        for request_id, known in self._requests.items():
            yield known.history(request_id) if isinstance(known, _Settled) else known.snapshot()

    def nonce_used(self, nonce: str) -> bool:
        """Whether a claim or another act used this nonce up (an approval alone does not)."""
        return nonce in self._nonces

    def nonce_known(self, nonce: str) -> bool:
        """Whether any event names this nonce, approvals and countersignatures too."""
        return nonce in self._known_nonces

    def name_used(self, file_name: str) -> bool:
        """Whether an approved or claimed request had this file name (an abandoned approval frees it)."""
        return file_name in self._names

    def request_of(self, file_name: str) -> str | None:
        """The request that was approved or claimed under this file name, or None."""
        return self._names.get(file_name)

    def id_used(self, request_id: str) -> bool:
        """Whether this id is taken for ever: approved and not abandoned, claimed, or ended."""
        known = self._requests.get(request_id)
        if known is None:
            return False
        return isinstance(known, _Settled) or bool(known.approved or known.claimed)

    def announced(self, state: str, file_name: str) -> bool:
        """Whether some event led a file of this name into this state folder."""
        return hash((state, file_name)) in self._announced

    def hash_at(self, seq: int) -> str | None:
        """The hash of a recent event, or None when it is not among the last few thousand."""
        if not self._recent or not self._recent[0][0] <= seq <= self._recent[-1][0]:
            return None
        return self._recent[seq - self._recent[0][0]][1]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
