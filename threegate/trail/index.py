"""The content of the trail so far, as one value that grows event by event.

Invariant: the index is a pure function of the events that were added, in order, or of a kept index of the
first of them and the rest; nothing here reads a clock, and it reads the disk only through `event_at`, for
lines that the kept index names.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple

from threegate.core.canonical import sha256_hex
from threegate.core.errors import TrailError
from threegate.trail.event import Event, parse_line, plugin_kinds
from threegate.trail.history import Record, RequestHistory, Settled
from threegate.trail.kept_index import ROW, KeptIndex
from threegate.trail.payloads import (
    PAYLOADS,
    Applied,
    ApprovalAbandoned,
    Approved,
    Cancelled,
    CancelRequested,
    Claimed,
    Countersigned,
    OperatorAdded,
    OperatorsChanged,
    Payload,
    Placed,
    Promoted,
    Pruned,
    Rejected,
    SettingsChanged,
    SignedAct,
    TreeAnnounced,
    WorkspaceAdopted,
    WorkspaceCreated,
)
from threegate.trail.payloads.payload import Owner
from threegate.trail.reserved import reserved
from threegate.trail.spilled_index import SpilledIndex
from threegate.trail.tree import Frontier

_ANNOUNCES_NONCE: Final = (Approved, Countersigned)
"""Their nonce belongs to a later use."""

_USES_NONCE: Final = (Claimed, SignedAct)
"""Their nonce was used up by the event itself."""

_MAY_BE_SIGNED: Final = (Cancelled, CancelRequested, OperatorAdded, Rejected)

ReadLine = Callable[[int], bytes]
"""Gives the line at a position of the trail (all its files one after the other). Raises TrailError."""


class Head(NamedTuple):
    """The last event: how many there are, its hash (the workspace's id when there is none) and its time."""

    seq: int
    hash: str
    time: str


class KnownRun(NamedTuple):
    """A run of an agent that the trail names."""

    run: str
    profile: str
    requester: str
    """Who its requests come from, as gates name it."""
    project: str | None
    """The one project that it may ask to change."""
    ended: bool = False


class Drills(NamedTuple):
    """What the trail says about drills: whether an operator consented, which one is open, and the last event
    about them.
    """

    on: bool = False
    open: str | None = None
    """Commitment of the drill that is open."""
    last_time: str = ""
    last_hash: str = ""


class TrailIndex:
    """Everything that a gate, a command or the daemon asks the trail for."""

    def __init__(self, kept: KeptIndex | SpilledIndex | None = None, read_line: ReadLine | None = None) -> None:
        self.workspace_id = ""
        self.epoch = 1
        self.vkey: str | None = None
        """The workspace's public key as a C2SP vkey, from the first event."""
        self.operators: tuple[str | None, ...] = (None, None, None)
        """Recorded sha256 of operators, operators.revoked and operators.passkeys (None: no such file)."""
        self.contracts_sha256: str | None = None
        """Recorded digest of the names and digests of the contracts that a daemon took up (None: none recorded)."""
        self.notes: Mapping[str, str] = {}
        """The file of notes that changed last, by its name in memory/, and the digest that was announced."""
        self.files: dict[str, str] = {}
        """What kinds of plugins announced last of each file of theirs below tool-exec/: its digest, by its path."""
        self.problem: str | None = None
        """The first event whose effect cannot be read (`trail.reserved`), and why, as one line: nothing is launched."""
        self.head = Head(0, "", "")
        self.frontier = Frontier()
        self.last_checkpoint = 0
        """Size of the tree at the last `checkpoint` or `rotated` event."""
        self.last_checkpoint_root: str | None = None
        """Its root hash; None when an older version kept the index."""
        self.answers = 0
        """Answers of witnesses since then."""
        self.cosigned: Mapping[str, Any] | None = None
        """The last cosignature that was announced: the data of its event."""
        self.counts: dict[str, int] = {}
        self.kept = kept
        """The kept index of the first events, or None: then all of them were added here."""
        self._read_line = read_line
        self._requests: dict[str, RequestHistory | Settled] = {}
        self._nonces: set[str] = set()
        self._known_nonces: set[str] = set()
        self._void: set[str] = set()
        self._names: dict[str, str | None] = {}
        self._announced: set[int] = set()
        """Keyed hashes of ``state/file`` names; Python's own, with this process's random key."""
        self.grants: dict[str, int] = {}
        """How often each standing grant was used that was given and not revoked."""
        self.known_runs: dict[str, KnownRun] = {}
        """The runs of agents, by their ids, in the order of their starts."""
        self.drills = Drills()
        self._spent: set[str] = set()
        """Digests of request ids that events spent for ever."""
        self._session_seqs: list[int] = []
        self._session_events: list[Event] = []
        self._rows = bytearray()
        """Position and hash of each event that was put in here, as the kept index has them."""
        self._placed = True
        if kept is not None:
            self.begin_from(kept.header)

    def begin_from(self, header: dict[str, Any]) -> None:
        """What `to_header` gave, taken up again."""
        self.workspace_id, self.epoch, self.vkey = header["workspace_id"], header["epoch"], header["vkey"]
        self.operators = (*header["operators"], None)[:3]  # an older version kept two
        self.last_checkpoint_root = header.get("last_checkpoint_root")
        self.contracts_sha256 = header.get("contracts_sha256")  # an older version kept none
        self.notes = header.get("notes", {})  # an older version kept none
        self.files, self.problem = dict(header.get("files", {})), header.get("problem")
        self._spent = set(header.get("spent", ()))
        self.head = Head(header["seq"], header["hash"], header["time"])
        self.frontier = Frontier.of(header["seq"], [bytes.fromhex(node) for node in header["nodes"]])
        self.last_checkpoint, self.counts = header["last_checkpoint"], dict(header["counts"])
        self.answers, self.cosigned = header.get("answers", 0), header.get("cosigned")
        self.grants, self._session_seqs = dict(header["grants"]), list(header["sessions"])
        self.known_runs = {run[0]: KnownRun(*run) for run in header.get("runs", ())}  # an older version kept none
        self.drills = Drills(*header.get("drills", ()))

    def to_header(self) -> dict[str, Any]:
        """What `TrailIndex(kept)` begins from, as a JSON object; requests, nonces and names are not in it."""
        witnessed = {"answers": self.answers, "cosigned": self.cosigned} if self.cosigned else {}
        return {
            **witnessed,
            **({"drills": list(self.drills)} if self.drills.last_hash else {}),
            **({"notes": dict(self.notes)} if self.notes else {}),
            **({"files": self.files} if self.files else {}),
            **({"spent": sorted(self._spent)} if self._spent else {}),
            **({"problem": self.problem} if self.problem else {}),
            "kinds": sorted(plugin_kinds()),
            "workspace_id": self.workspace_id,
            "epoch": self.epoch,
            "vkey": self.vkey,
            "operators": list(self.operators),
            "contracts_sha256": self.contracts_sha256,
            "seq": self.head.seq,
            "hash": self.head.hash,
            "time": self.head.time,
            "nodes": [node.hex() for node in self.frontier.nodes],
            "last_checkpoint": self.last_checkpoint,
            "last_checkpoint_root": self.last_checkpoint_root,
            "counts": self.counts,
            "grants": self.grants,
            "runs": [list(run) for run in self.known_runs.values()],
            "sessions": [*self._session_seqs, *(event.seq for event in self._session_events)],
        }

    def to_rows(self) -> Iterator[bytes] | None:
        """Position and hash of every event, in pieces; None when events were put in without their position."""
        if not self._placed:
            return None
        return chain(self.kept.row_blocks() if self.kept else (), (bytes(self._rows),))

    def spilled(self, is_open: Callable[[RequestHistory], bool], read_line: ReadLine) -> TrailIndex:
        """The same index, with what was put in here moved to disk; `read_line` fetches what is asked for again."""
        spilled = self.kept if isinstance(self.kept, SpilledIndex) else SpilledIndex()
        header = {**self.to_header(), "open": self.open_requests(is_open)}
        spilled.take(header, bytes(self._rows), self.to_table())
        return TrailIndex(spilled, read_line)

    @property
    def unkept(self) -> int:
        """How many events were put in here."""
        return len(self._rows) // ROW.size

    def open_requests(self, is_open: Callable[[RequestHistory], bool]) -> list[str]:
        """Ids of the requests that something has still to become of."""
        return [history.request_id for history in self.open_histories() if is_open(history)]

    def to_table(self) -> dict[bytes, bytes]:
        """What was learnt since the kept index, as keys and values; an empty value takes a key away."""
        table = {b"n" + nonce.encode(): b"u" if self.nonce_used(nonce) else b"k" for nonce in self._known_nonces}
        table |= {b"v" + mark.encode(): b"v" for mark in self._void}
        table |= {b"f" + name.encode(): (request or "").encode() for name, request in self._names.items()}
        table |= {b"r" + name.encode(): Record.of(_plain(item, name)) for name, item in self._requests.items()}
        return table

    def add(self, event: Event, position: int | None = None) -> None:
        """Take the next event; that it is the next one was checked before. `position` is where its line starts."""
        self.head = Head(event.seq, event.hash, event.time)
        self.frontier.add(event.line)
        self._placed = self._placed and position is not None
        self._rows += ROW.pack(position or 0, bytes.fromhex(event.hash))
        kind, payload = event.type, event.payload
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if payload.moves_sessions():
            self._session_events.append(event)
        if isinstance(payload, Placed) and payload.state is not None and payload.file is not None:
            self._announced.add(hash((payload.state, payload.file)))
        if kind not in PAYLOADS:
            self._add_of_plugin(event, payload)
        elif isinstance(payload, _USES_NONCE) and payload.nonce is not None:
            self._use_up(payload.nonce)
        elif isinstance(payload, _ANNOUNCES_NONCE) and payload.nonce is not None:
            self._known_nonces.add(payload.nonce)
        elif isinstance(payload, _MAY_BE_SIGNED) and payload.signed is not None:
            self._use_up(payload.signed.nonce)
        if isinstance(payload, Applied | Pruned) and payload.note_sha256 is not None:
            self.notes = payload.files or {}
        if event.request_id is None:
            self._add_to_workspace(event, payload)
        else:
            self._add_request(event, event.request_id, payload)

    def _use_up(self, nonce: str) -> None:
        self._known_nonces.add(nonce)
        self._nonces.add(nonce)

    def _add_of_plugin(self, event: Event, payload: Payload) -> None:
        """What an event does that is of no kind of the core: its reserved keys, then what its plugin asks for."""
        said = reserved(event)
        for nonce in said.nonces:
            self._use_up(nonce)
        self._spent |= said.ids
        for path, digest in said.files.items():
            self.files.pop(path, None)
            if digest is not None:
                self.files[path] = digest
        if said.problem is not None and self.problem is None:
            self.problem = f"event {event.seq} ({event.type}) {said.problem}"
        payload.learn(self, event)

    def _add_to_workspace(self, event: Event, payload: Payload) -> None:
        """Apply an event of the core that is about no request: workspace, operators and the trail itself."""
        match payload:
            case WorkspaceCreated():
                self.workspace_id, self.vkey = event.prev, payload.vkey
            case WorkspaceAdopted(epoch=int(epoch)):
                self.epoch = epoch
            case SettingsChanged(contracts_sha256=str(digest)):
                self.contracts_sha256 = digest
            case OperatorsChanged():
                self.operators = (payload.operators_sha256, payload.revoked_sha256, payload.passkeys_sha256)
            case TreeAnnounced(size=int(size)):
                self.last_checkpoint, self.last_checkpoint_root, self.answers = size, payload.root, 0

    @property
    def runs(self) -> tuple[KnownRun, ...]:
        """The runs of agents, in the order of their starts."""
        return tuple(self.known_runs.values())

    def run(self, owner: Owner | None) -> KnownRun | None:
        """The run that asks; None where none does. A run that the trail does not know is one without a project."""
        if not isinstance(owner, str):
            return None
        return self.known_runs.get(owner) or KnownRun(owner, "agent", owner, None, ended=True)

    def grant_uses(self, grant: str) -> int | None:
        """How often a standing grant was used, or None when it was never given here or was revoked."""
        return self.grants.get(grant)

    def _add_request(self, event: Event, request_id: str, payload: Payload) -> None:
        if isinstance(payload, Claimed) and payload.grant in self.grants:
            self.grants[payload.grant] += 1
        history = self._history(request_id)
        if history is None:
            history = RequestHistory(request_id, event)
        if isinstance(payload, ApprovalAbandoned):
            self._make_void(history, payload)
        history.add(event)
        self._requests[request_id] = Settled(history) if history.end is not None else history
        name = payload.file if isinstance(payload, (Approved, Claimed)) else None
        if name is not None and self.request_of(name) is None:
            self._names[name] = request_id

    def _make_void(self, history: RequestHistory, void: ApprovalAbandoned) -> None:
        """Use up what approved a request, and free its file name. In trails of earlier versions only the event that
        approved it names it.
        """
        approved, promoted = Approved.of(history.approved), Promoted.of(history.promoted)
        if approved is not None:
            self._names[approved.file or ""] = None
        self._void.update(void.marks, approved.marks if approved else (), promoted.marks if promoted else ())

    def _history(self, request_id: str) -> RequestHistory | None:
        """The history itself, not a copy of it where it is still open."""
        known = self._requests.get(request_id)
        if known is not None:
            return known.history(request_id) if isinstance(known, Settled) else known
        record = self._record(request_id)
        return record.history(self.event_at) if record else None

    def _record(self, request_id: str) -> Record | None:
        data = self._kept(b"r", request_id)
        return Record(request_id, data) if data else None

    def history(self, request_id: str) -> RequestHistory | None:
        """What is known about a request now, or None when the trail never named it. Later events do not change it.

        Raises TrailError when a line that the kept index names is not any more what it was.
        """
        history = self._history(request_id)
        return history.snapshot() if history is not None else None

    def histories(self) -> Iterator[RequestHistory]:
        """All requests, in the order of their first event; only for an index without a kept one."""
        if self.kept is not None:
            raise ValueError("ask LockedTrail.whole_index for all requests")
        for request_id, known in self._requests.items():
            yield known.history(request_id) if isinstance(known, Settled) else known.snapshot()

    def open_histories(self) -> Iterator[RequestHistory]:
        """The requests that something may still have to be done about: those that the kept index calls open, and all
        that events were put in for since."""
        kept = self.kept.header["open"] if self.kept else []
        for request_id in {**dict.fromkeys(kept), **dict.fromkeys(self._requests)}:
            if (history := self.history(request_id)) is not None:
                yield history

    def unended_histories(self) -> Iterator[RequestHistory]:
        """The requests of `open_histories` that have not ended. They are not copies: read them while the trail is
        locked.
        """
        kept = self.kept.header["open"] if self.kept else []
        known = (self._history(request_id) for request_id in kept if request_id not in self._requests)
        for history in (*known, *self._requests.values()):
            if isinstance(history, RequestHistory) and history.end is None:
                yield history

    def is_void(self, *marks: str | None) -> bool:
        """Whether the approval with one of these marks (`Approved.marks`) is void: it never runs."""
        given = [mark for mark in marks if mark is not None]
        return any(mark in self._void for mark in given) or any(self._kept(b"v", mark) for mark in given)

    def nonce_used(self, nonce: str) -> bool:
        """Whether a claim, another act, or the end of its approval used this nonce up (an approval alone does not)."""
        return nonce in self._nonces or self._kept(b"n", nonce) == b"u" or self.is_void(nonce)

    def nonce_known(self, nonce: str) -> bool:
        """Whether any event names this nonce, approvals and countersignatures too."""
        return nonce in self._known_nonces or self._kept(b"n", nonce) is not None

    def _kept(self, kind: bytes, key: str) -> bytes | None:
        """What the kept index has under a key of this kind (`trail.kept_index`), or None."""
        return self.kept.get(kind + key.encode("utf-8", "replace")) if self.kept else None

    def name_used(self, file_name: str) -> bool:
        """Whether an approved or claimed request had this file name (an abandoned approval frees it)."""
        return self.request_of(file_name) is not None

    def request_of(self, file_name: str) -> str | None:
        """The request that was approved or claimed under this file name, or None."""
        if file_name in self._names:
            return self._names[file_name]
        found = self._kept(b"f", file_name)
        return found.decode() if found else None

    def id_used(self, request_id: str) -> bool:
        """Whether this id is taken for ever: approved and not abandoned, claimed, ended, or spent."""
        if self.is_spent(request_id):
            return True
        known = self._requests.get(request_id)
        if known is None:
            record = self._record(request_id)
            return record is not None and record.taken
        return isinstance(known, Settled) or bool(known.approved or known.claimed)

    def is_spent(self, request_id: str) -> bool:
        """Whether an event of a plugin's kind spent this id (that of a drill, open or over): nothing has it again."""
        return bool(self._spent) and sha256_hex(request_id.encode("utf-8", "surrogatepass")) in self._spent

    def announced(self, state: str, file_name: str) -> bool:
        """Whether some event that was put in here led a file of this name into this state folder."""
        return hash((state, file_name)) in self._announced

    def session_events_after(self, seq: int) -> list[Event]:
        """What moves the sessions of the contract gate after event `seq`, in order (`contracts.session` folds them)."""
        kept = self._session_seqs[bisect_right(self._session_seqs, seq) :]
        new = self._session_events[bisect_right(self._session_events, seq, key=itemgetter(0)) :]
        return [*map(self.event_at, kept), *new]

    def hash_at(self, seq: int) -> str | None:
        """The hash of an event, or None when there is no event of this number."""
        if self.kept is not None and 0 < seq <= self.kept.seq:
            return self.kept.row(seq)[1]
        place = (seq - 1 - (self.kept.seq if self.kept else 0)) * ROW.size
        if not 0 <= place < len(self._rows):
            return None
        digest: bytes = ROW.unpack_from(self._rows, place)[1]
        return digest.hex()

    def event_at(self, seq: int) -> Event:
        """One of the events covered by the kept index, from its line. Raises TrailError if that was
        changed.
        """
        if self.kept is None or self._read_line is None:
            raise ValueError(f"event {seq}: not covered by a kept index")
        position, digest = self.kept.row(seq)
        try:
            event = parse_line(self._read_line(position))
        except ValueError as error:
            raise TrailError(f"event {seq}: the line {error}; look with: threegate audit verify") from None
        if (event.seq, event.hash) != (seq, digest):
            raise TrailError(f"event {seq}: is another one than before; look with: threegate audit verify")
        return event


def _plain(known: RequestHistory | Settled, request_id: str) -> RequestHistory:
    return known.history(request_id) if isinstance(known, Settled) else known
