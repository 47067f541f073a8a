"""The content of the trail so far, as one value that grows event by event.

Invariant: the index is a pure function of the events that were added, in order, wherever they are kept: those of a long
trail are in a file (`trail.index_file`), and the last ones in memory, because what is not synced must not be in the
file. Nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from threegate.core.canonical import sha256_hex
from threegate.core.errors import TrailError
from threegate.trail.event import Event, parse_line, plugin_kinds
from threegate.trail.history import RequestHistory, from_record, to_record
from threegate.trail.past_uses import PastUses
from threegate.trail.payloads import (
    PAYLOADS,
    Applied,
    ApprovalAbandoned,
    Approved,
    Cancelled,
    CancelRequested,
    Claimed,
    Countersigned,
    Finished,
    OperatorAdded,
    OperatorsChanged,
    Payload,
    Pruned,
    Rejected,
    SettingsChanged,
    SignedAct,
    Started,
    TreeAnnounced,
    WorkspaceAdopted,
    WorkspaceCreated,
)
from threegate.trail.payloads.payload import Owner
from threegate.trail.reserved import reserved
from threegate.trail.tree import Frontier

if TYPE_CHECKING:
    from threegate.trail.index_file import IndexFile

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
    closed_hosts: tuple[str, ...] = ()
    """Hosts that a person took back from it."""
    tools: tuple[str, ...] = ()
    """Tools of servers that it may call, as SERVER or SERVER/GLOB; empty: all of them."""


def run_of(known: Mapping[str, KnownRun], owner: Owner | None) -> KnownRun | None:
    """The run that asks; None where none does. A run that the trail does not know is one without a project."""
    if not isinstance(owner, str):
        return None
    return known.get(owner) or KnownRun(owner, "agent", owner, None, ended=True)


class Drills(NamedTuple):
    """What the trail says about drills: whether an operator consented, which one is open, and the last event
    about them.
    """

    on: bool = False
    open: str | None = None
    """Commitment of the drill that is open."""
    last_time: str = ""
    last_hash: str = ""


_AS_IT_IS: Final = (
    "workspace_id",
    "epoch",
    "vkey",
    "contracts_sha256",
    "notes",
    "files",
    "problem",
    "last_checkpoint",
    "last_checkpoint_root",
    "answers",
    "cosigned",
    "counts",
    "backends",
    "grants",
)
"""The attributes that are in the header of the file as they are."""


class TrailIndex:
    """Everything that a gate, a command or the daemon asks the trail for.

    Of a long trail, `file` has what the first `saved` events said; what came since is in memory until the next `save`.
    """

    def __init__(
        self, file: IndexFile | None = None, header: Mapping[str, Any] | None = None, read_line: ReadLine | None = None
    ) -> None:
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
        """Its root hash."""
        self.answers = 0
        """Answers of witnesses since then."""
        self.cosigned: Mapping[str, Any] | None = None
        """The last cosignature that was announced: the data of its event."""
        self.counts: dict[str, int] = {}
        """How many events there are of each kind."""
        self.backends: dict[str, int] = {}
        """How many runs began in each backend."""
        self.grants: dict[str, int] = {}
        """How often each standing grant was used that was given and not revoked."""
        self.uses = PastUses()
        """What the requests used that ran."""
        self.known_runs: dict[str, KnownRun] = {}
        """The runs of agents, by their ids, in the order of their starts."""
        self.drills = Drills()
        self.saved = 0
        """How many events the file has."""
        self._spent: set[str] = set()
        """Digests of request ids that events spent for ever."""
        self._file = file
        self._read_line = read_line
        self._open: list[str] = []
        """Ids of the requests in the file that something has still to become of."""
        self._requests: dict[str, RequestHistory] = {}
        self._table: dict[bytes, bytes] = {}
        """What is learnt, as the file keeps it: ``n`` nonce → known or used up, ``v`` mark of a void approval, ``f``
        file name → request (empty: the name is free again). The file has requests as well, ``r``, and the numbers of
        the events that move sessions, ``s``.
        """
        self._session_events: list[Event] = []
        self._rows: list[tuple[int, int, bytes]] = []
        """Number, position in the trail and hash of each event that is not saved."""
        if header is not None:
            self.begin_from(header)

    def begin_from(self, header: Mapping[str, Any]) -> None:
        """What `to_header` gave, taken up again."""
        for name in _AS_IT_IS:
            setattr(self, name, header[name])
        self.operators = tuple(header["operators"])
        self.head = Head(*header["head"])
        self.frontier = Frontier.of(self.head.seq, [bytes.fromhex(node) for node in header["nodes"]])
        self.uses = PastUses.from_json(header["uses"])
        self.known_runs = {run[0]: KnownRun(*run[:5], *map(tuple, run[5:])) for run in header["runs"]}
        self.drills = Drills(*header["drills"])
        self._spent, self._open, self.saved = set(header["spent"]), list(header["open"]), self.head.seq

    def to_header(self, is_open: Callable[[RequestHistory], bool] = lambda _: False) -> dict[str, Any]:
        """Everything but requests, nonces, names and events, as a JSON object. `is_open` says for which requests
        something may still have to be done.
        """
        return {
            **{name: getattr(self, name) for name in _AS_IT_IS},
            "kinds": sorted(plugin_kinds()),
            "operators": list(self.operators),
            "head": list(self.head),
            "nodes": [node.hex() for node in self.frontier.nodes],
            "runs": [list(run) for run in self.known_runs.values()],
            "drills": list(self.drills),
            "uses": self.uses.to_json(),
            "spent": sorted(self._spent),
            "open": [history.request_id for history in self.open_histories() if is_open(history)],
        }

    def save(
        self,
        path: Path,
        segments: list[tuple[str, int]],
        is_open: Callable[[RequestHistory], bool],
        read_line: ReadLine,
    ) -> bool:
        """Move what is in memory to the file at `path`; False if that cannot be done: it only spares time and memory.

        `segments` are names and sizes of the closed files of the trail. The caller holds the trail's lock, and the
        events are on disk. Raises TrailError.
        """
        import sqlite3  # here: a short trail needs none, and it takes 7 ms to load

        from threegate.trail.index_file import IndexFile

        header = {**self.to_header(is_open), "segments": segments}
        sessions = {b"s" + event.seq.to_bytes(8, "big"): b"s" for event in self._session_events}
        requests = {b"r" + name.encode(): to_record(history) for name, history in self._requests.items()}
        try:
            file = self._file or IndexFile.create(path)
            file.save(header, self._rows, self._table | sessions | requests)
        except (OSError, sqlite3.Error):
            return False
        self._file, self._read_line = file, read_line
        self._open, self.saved = header["open"], self.head.seq
        for kept in (self._requests, self._table, self._session_events, self._rows):
            kept.clear()
        return True

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()

    def add(self, event: Event, position: int = 0) -> None:
        """Take the next event; that it is the next one was checked before. `position` is where its line starts."""
        self.head = Head(event.seq, event.hash, event.time)
        self.frontier.add(event.line)
        self._rows.append((event.seq, position, bytes.fromhex(event.hash)))
        kind, payload = event.type, event.payload
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if payload.moves_sessions():
            self._session_events.append(event)
        if kind not in PAYLOADS:
            self._add_of_plugin(event, payload)
        elif isinstance(payload, _USES_NONCE) and payload.nonce is not None:
            self._use_up(payload.nonce)
        elif isinstance(payload, _ANNOUNCES_NONCE) and payload.nonce is not None:
            # What is used up stays used up, even if a later approval names it again.
            if not self.nonce_known(payload.nonce):
                self._table[_key(b"n", payload.nonce)] = b"k"
        elif isinstance(payload, _MAY_BE_SIGNED) and payload.signed is not None:
            self._use_up(payload.signed.nonce)
        if isinstance(payload, Applied | Pruned) and payload.note_sha256 is not None:
            self.notes = payload.files or {}
        if event.request_id is None:
            self._add_to_workspace(event, payload)
        else:
            self._add_request(event, event.request_id, payload)

    def _use_up(self, nonce: str) -> None:
        self._table[_key(b"n", nonce)] = b"u"

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

    def files_in(self, folder: str) -> dict[str, str]:
        """What kinds of plugins announced last of the files in a folder of tool-exec/: digests, by their names."""
        start = f"{folder}/"
        return {path.removeprefix(start): digest for path, digest in self.files.items() if path.startswith(start)}

    @property
    def runs(self) -> tuple[KnownRun, ...]:
        """The runs of agents, in the order of their starts."""
        return tuple(self.known_runs.values())

    def run(self, owner: Owner | None) -> KnownRun | None:
        """The run that asks; None where none does."""
        return run_of(self.known_runs, owner)

    def grant_uses(self, grant: str) -> int | None:
        """How often a standing grant was used, or None when it was never given here or was revoked."""
        return self.grants.get(grant)

    def _add_request(self, event: Event, request_id: str, payload: Payload) -> None:
        if isinstance(payload, Claimed) and payload.grant in self.grants:
            self.grants[payload.grant] += 1
        if isinstance(payload, Started) and payload.backend is not None:
            self.backends[payload.backend] = self.backends.get(payload.backend, 0) + 1
        history = self._history(request_id) or RequestHistory(request_id, event)
        if isinstance(payload, ApprovalAbandoned):
            self._make_void(history, payload)
        if isinstance(payload, Finished):
            self.uses.take(history, payload, event.time)
        history.add(event)
        self._requests[request_id] = history
        name = payload.file if isinstance(payload, (Approved, Claimed)) else None
        # The first request with a name keeps it.
        if name is not None and self.request_of(name) is None:
            self._table[_key(b"f", name)] = request_id.encode()

    def _make_void(self, history: RequestHistory, void: ApprovalAbandoned) -> None:
        """Use up what approved a request, and free its file name."""
        approved = Approved.of(history.approved)
        if approved is not None:
            self._table[_key(b"f", approved.file or "")] = b""
        for mark in (*void.marks, *(approved.marks if approved else ())):
            self._table[_key(b"v", mark)] = b"v"

    def _get(self, kind: bytes, name: str) -> bytes | None:
        """What is known under a name of this kind (`_table`): empty or None where nothing is."""
        key = _key(kind, name)
        value = self._table.get(key)
        # In memory an empty value says that a name is free again, before the file knows it.
        return self._file.get(key) if value is None and self._file is not None else value

    def _history(self, request_id: str) -> RequestHistory | None:
        """The history itself, not a copy of it where it is in memory."""
        known = self._requests.get(request_id)
        if known is None and (record := self._get(b"r", request_id)):
            return from_record(request_id, record, self.event_at)
        return known

    def history(self, request_id: str) -> RequestHistory | None:
        """What is known about a request now, or None when the trail never named it. Later events do not change it.

        Raises TrailError when a line that the file names is not any more what it was.
        """
        history = self._history(request_id)
        return history.snapshot() if history is not None else None

    def histories(self) -> Iterator[RequestHistory]:
        """All requests. Raises TrailError, as `history`."""
        saved = [key[1:].decode() for key in self._file.keys(b"r", b"s")] if self._file else []
        return self._each([*saved, *self._requests])

    def ids_beginning(self, text: str) -> list[str]:
        """The ids in the trail that begin with this text. Raises TrailError."""
        first = _key(b"r", text)
        saved = [key[1:].decode() for key in self._file.keys(first[:-1], first + b"\xff")] if self._file else []
        return [name for name in dict.fromkeys([*saved, *self._requests]) if name.startswith(text)]

    def open_histories(self) -> Iterator[RequestHistory]:
        """The requests that something may still have to be done about: those that were open at the last `save`, and all
        that events were added for since.
        """
        return self._each([*self._open, *self._requests])

    def _each(self, request_ids: list[str]) -> Iterator[RequestHistory]:
        for request_id in dict.fromkeys(request_ids):
            if (history := self.history(request_id)) is not None:
                yield history

    def unended_histories(self) -> Iterator[RequestHistory]:
        """The requests of `open_histories` that have not ended. They are not copies: read them while the trail is
        locked.
        """
        saved = (self._history(request_id) for request_id in self._open if request_id not in self._requests)
        for history in (*saved, *self._requests.values()):
            if history is not None and history.end is None:
                yield history

    def is_void(self, *marks: str | None) -> bool:
        """Whether the approval with one of these marks (`Approved.marks`) is void: it never runs."""
        return any(self._get(b"v", mark) for mark in marks if mark is not None)

    def nonce_used(self, nonce: str) -> bool:
        """Whether a claim, another act, or the end of its approval used this nonce up (an approval alone does not)."""
        return self._get(b"n", nonce) == b"u" or self.is_void(nonce)

    def nonce_known(self, nonce: str) -> bool:
        """Whether any event names this nonce, approvals and countersignatures too."""
        return self._get(b"n", nonce) is not None

    def name_used(self, file_name: str) -> bool:
        """Whether an approved or claimed request had this file name (an abandoned approval frees it)."""
        return self.request_of(file_name) is not None

    def request_of(self, file_name: str) -> str | None:
        """The request that was approved or claimed under this file name, or None."""
        found = self._get(b"f", file_name)
        return found.decode() if found else None

    def id_used(self, request_id: str) -> bool:
        """Whether this id is taken for ever: approved and not abandoned, claimed, ended, or spent."""
        if self.is_spent(request_id):
            return True
        known = self._history(request_id)
        return known is not None and bool(known.approved or known.claimed or known.end)

    def is_spent(self, request_id: str) -> bool:
        """Whether an event of a plugin's kind spent this id (that of a drill, open or over): nothing has it again."""
        return bool(self._spent) and sha256_hex(request_id.encode("utf-8", "surrogatepass")) in self._spent

    def session_events_after(self, seq: int) -> list[Event]:
        """What moves the sessions of the contract gate after event `seq`, in order (`contracts.session` folds them)."""
        saved = self._file.keys(b"s" + seq.to_bytes(8, "big"), b"t") if self._file else []
        new = (event for event in self._session_events if event.seq > seq)
        return [*(self.event_at(int.from_bytes(key[1:], "big")) for key in saved), *new]

    def hash_at(self, seq: int) -> str | None:
        """The hash of an event, or None when there is no event of this number."""
        if not 0 < seq <= self.head.seq:
            return None
        if self._file is not None and seq <= self.saved:
            return self._file.row(seq)[1]
        return self._rows[seq - self.saved - 1][2].hex()

    def event_at(self, seq: int) -> Event:
        """One of the events that the file has, from its line. Raises TrailError if that was changed."""
        if self._file is None or self._read_line is None:
            raise ValueError(f"event {seq}: is not in a file")
        position, digest = self._file.row(seq)
        try:
            event = parse_line(self._read_line(position))
        except ValueError as error:
            raise TrailError(f"event {seq}: the line {error}; look with: threegate audit verify") from None
        if (event.seq, event.hash) != (seq, digest):
            raise TrailError(f"event {seq}: is another one than before; look with: threegate audit verify")
        return event


def _key(kind: bytes, name: str) -> bytes:
    # Names that differ only in what cannot be encoded share a key: then more counts as used, and never less.
    return kind + name.encode("utf-8", "replace")
