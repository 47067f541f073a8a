"""Whether the files below tool-exec/ are those that the trail announced.

Invariant: every file below tool-exec/ is announced by an event, with its digest, and is where the trail says, or it is
a problem that names its path. Exempt are the files of EXEMPT, the space reserved for results and the run folders of
requests in flight, and nothing else. What is neither a plain file nor a folder is a problem wherever it is, and is
never opened.

Works on the stream of events: memory grows with what is open (requests that wait or run, pinned inputs), not with the
trail. Names are compared as a sum; only when something disagrees a second, exact pass under the trail's lock names it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from threegate.audit.tool_exec_files import ToolExecFiles
from threegate.core import limits
from threegate.core.canonical import canonical_bytes, sha256_hex
from threegate.core.canonical import digest as canonical_digest
from threegate.core.durable import STAGED, is_temporary, staged
from threegate.core.errors import InvalidInput
from threegate.core.plugins import PLUGINS, announced_folders
from threegate.core.workspace import STATES, Workspace
from threegate.launch.results.released import OUTPUTS_FILE
from threegate.launch.results.space import PREFIX as RESERVED
from threegate.launch.results.space import reserved_place
from threegate.trail import moves, payloads
from threegate.trail.chain import SEGMENT
from threegate.trail.event import Event
from threegate.trail.history import result_name
from threegate.trail.reserved import reserved
from threegate.trail.truncation_check import trail_seq_of
from threegate.trail.verify import Verification

EXEMPT: Final = (
    ".daemon.lock",
    "agents/",
    "audit/decisions.jsonl",
    "audit/decisions.jsonl.salt",
    "audit/lock",
    "contracts/.state/",
    "control/",
    "verdicts/",
    *(f"{folder}/" for plugin in PLUGINS for folder in plugin.folders),
)
"""Files, and folders with all that is in them, whose bytes no event announces: locks, what is derived and may be
deleted at any time, what agents left in the folders of their runs (nothing of it counts until a request brings it to
gate 1), what plugins keep in folders of theirs (such as the drill that is open: nothing of it can be run, and the event
that ends it opens the commitment of the one that placed it), and the log of decisions, which is appended without the
trail.
"""

_ANNOUNCED: Final = announced_folders()
_FOLDERS: Final = frozenset(
    (
        *STATES,
        "audit",
        "audit/checkpoints",
        "contracts",
        "control",
        "drafts",
        "drafts/files",
        "inputs",
        "memory",
        "results",
        "runs",
        "verdicts",
        *_ANNOUNCED,
    )
)
_DIGEST = re.compile(r"[0-9a-f]{64}").fullmatch
_RUN = re.compile(r"runs/[^/]+").fullmatch
_REPLAY = re.compile(r"runs/[^/]+/replay-[1-9][0-9]{0,4}").fullmatch
_RELEASED = re.compile(r"results/[^/]+").fullmatch
_OUT = re.compile(r"runs/[^/]+/(replay-[0-9]+/)?out(/.*)?", re.DOTALL).fullmatch
_CONTRACT = re.compile(r"contracts/(?!.*(^|/)\.).*\.(yaml|yml|json)", re.DOTALL).fullmatch
_NOTES = "memory/notes.jsonl"
_PRUNED = "runs/.pruned-"
_PINNED: Final = "inputs/"


@dataclass(slots=True)
class _Request:
    """An approved request that has not ended: where its file is, and the digests of it ("") and of its signatures
    (".sig…").
    """

    place: str
    seq: int
    files: dict[str, str]
    """Empty: the event lacks the digest, which was reported."""
    approval_sha256: str | None
    inputs: tuple[str, ...] = ()
    claimed: bool = False
    marks: tuple[str, ...] = ()
    """What tells its approval from every other one (`payloads.Approved.marks`)."""
    batch: tuple[str | None, int | None] = (None, None)
    """Digest of the batch that the approval was announced in, and where in it."""


@dataclass(slots=True)
class _Draft:
    """A draft that was made from a proposal: its path, and the digests of it, of the proposal and of its input files
    (see `_Request`).
    """

    place: str
    seq: int
    files: dict[str, str]
    inputs: tuple[str, ...]


class _Names:
    """The names that must be there against those that are. Without `exact` only their sums are kept."""

    def __init__(self, exact: bool) -> None:
        self._exact = exact
        self._salt = os.urandom(16)
        self._sum = 0
        """XOR of keyed digests: the order does not matter, memory does not grow, and the key cannot be
        predicted.
        """
        self.wanted: dict[str, int] = {}
        self.there: set[str] = set()

    def want(self, path: str, seq: int) -> None:
        self._sum ^= self._digest(path)
        if self._exact:
            self.wanted[path] = seq

    def find(self, path: str) -> None:
        self._sum ^= self._digest(path)
        if self._exact:
            self.there.add(path)

    @property
    def agree(self) -> bool:
        return self._sum == 0

    def _digest(self, path: str) -> int:
        data = path.encode("utf-8", "surrogateescape")
        return int.from_bytes(hashlib.blake2b(data, key=self._salt, digest_size=32).digest())


@dataclass(slots=True)
class FolderAudit:
    """Takes the events in order (`see`), then looks at the folders (`finish`)."""

    workspace: Workspace
    result: Verification
    exact: bool = False
    """The second pass: keep every name, so that a disagreement can be named."""
    newest: payloads.TreeAnnounced | None = None
    """The last trail checkpoint that was announced."""
    _names: _Names = field(init=False)
    _files: ToolExecFiles = field(init=False)
    _open: dict[str, _Request] = field(default_factory=dict)
    _drafts: dict[str, _Draft] = field(default_factory=dict)
    _leaving: dict[str, _Draft] = field(default_factory=dict)
    """Decided drafts that are taken away after their event: there or not."""
    _inputs: dict[str, int] = field(default_factory=dict)
    """How many approvals need each pinned input; with 0 (pruned, or the approval was abandoned) it may be gone."""
    _missing_runs: dict[str, int] = field(default_factory=dict)
    _missing_released: dict[str, int] = field(default_factory=dict)
    _unread_runs: set[str] = field(default_factory=set)
    """Folders of runs whose record cannot be trusted: it is unknown what belongs there."""
    _pruned_runs: set[str] = field(default_factory=set)
    _single: dict[str, tuple[str | None, int]] = field(default_factory=dict)
    """Files that are replaced as a whole: the digest that the last event names, and that event."""
    _contracts: tuple[int, str, Mapping[str, str] | None] | None = None
    _of_plugins: set[str] = field(default_factory=set)
    """Which files kinds of plugins ever announced; what they are now is in `_single`."""
    _seen: dict[str, Any] = field(default_factory=dict)
    """What kinds of plugins remember of the events before (`Payload.contradicts`)."""
    _void: dict[str, int] = field(default_factory=dict)
    """The marks of void approvals, and the event that made each void."""

    def __post_init__(self) -> None:
        self._names = _Names(self.exact)
        self._files = ToolExecFiles(self.workspace.tool_exec, self._bad)

    # ---- events

    def see(self, event: Event) -> None:
        """Take the next event."""
        handler = _HANDLERS.get(event.type)
        if handler is not None:
            handler(self, event, event.payload)
        elif event.type not in payloads.PAYLOADS:
            self._of_plugin(event)

    def _of_plugin(self, event: Event) -> None:
        """What an event of no kind of the core announces, and what its plugin says about it, if that is here."""
        said = reserved(event)
        for path, digest in said.files.items():
            self._of_plugins.add(path)
            known = self._single.pop(path, None) is not None
            if digest is not None:
                self._single[path] = (digest, event.seq)
            if path.startswith(_PINNED):
                name = path.removeprefix(_PINNED)
                self._inputs[name] = max(0, self._inputs.get(name, 0) + (digest is not None) - known)
        contradiction = event.payload.contradicts(self._seen)
        for what in (said.problem, contradiction):
            if what is not None:
                self.result.add(self.workspace.trail_file, 0, f"event {event.seq} ({event.type}) {what}")

    def _created(self, event: Event, created: payloads.WorkspaceCreated) -> None:
        key = str(created.vkey).encode("utf-8", "replace") + b"\n"
        self._single["audit/workspace.pub"] = (hashlib.sha256(key).hexdigest(), event.seq)

    def _operators(self, event: Event, changed: payloads.OperatorsChanged) -> None:
        self._single["operators"] = (changed.operators_sha256, event.seq)
        self._single["operators.revoked"] = (changed.revoked_sha256, event.seq)
        self._single["operators.passkeys"] = (changed.passkeys_sha256, event.seq)

    def _proposed(self, event: Event, proposed: payloads.Proposed) -> None:
        if (place := _place(proposed)) is None or event.request_id is None:
            return
        unnamed = {"": None, ".proposal.json": proposed.proposal_sha256}
        files = self._complete(event, place, unnamed, proposed.files)
        inputs = tuple((proposed.inputs or {}).values())
        self._drafts[event.request_id] = _Draft(place, event.seq, files, inputs)

    def _approved(self, event: Event, approved: payloads.Approved) -> None:
        if (place := _place(approved)) is None or event.request_id is None:
            return
        files = self._complete(event, place, {"": approved.request_sha256, ".sig": None}, approved.files)
        inputs = tuple(approved.pinned or ())
        self._open[event.request_id] = _Request(
            place,
            event.seq,
            files,
            approved.approval_sha256,
            inputs,
            marks=approved.marks,
            batch=(approved.batch_sha256, approved.batch_index),
        )
        for digest in inputs:
            self._inputs[digest] = self._inputs.get(digest, 0) + 1
        self._decided(event.request_id)

    def _countersigned(self, event: Event, signed: payloads.Countersigned) -> None:
        request = self._open.get(event.request_id or "")
        if request is not None:
            unnamed = {f".sig.{signed.countersigned_by}": None}
            request.files |= self._complete(event, request.place, unnamed, signed.files)

    def _moved(self, event: Event, moved: payloads.Placed) -> None:
        """A request goes on to another state; one that was never approved (promoted by hand) begins here."""
        if (place := _place(moved)) is None or event.request_id is None:
            return
        request = self._open.get(event.request_id)
        if request is None:
            known = moved.request_sha256 if isinstance(moved, payloads.Claimed) else None
            files = self._complete(event, place, {"": known}, moved.files)
            request = self._open[event.request_id] = _Request(place, event.seq, files, None)
        request.place = place
        request.claimed = request.claimed or isinstance(moved, payloads.Claimed)
        if isinstance(moved, payloads.Claimed):
            self._refuse_void(event, moved)

    def _refuse_void(self, event: Event, claimed: payloads.Claimed) -> None:
        """What the trail called void was never to run, also when its file came back: gate 2 refuses it."""
        for mark in (claimed.nonce, claimed.approval_sha256, claimed.request_sha256):
            if (seq := self._void.get(mark or "")) is not None:
                what = f"event {event.seq} runs {event.request_id} by an approval that is void since event {seq}"
                self.result.add(self.workspace.trail_file, 0, what)
                return

    def _abandoned(self, event: Event, _: payloads.ApprovalAbandoned) -> None:
        if (request := self._open.pop(event.request_id or "", None)) is not None:
            self._void.update(dict.fromkeys(request.marks, event.seq))
            for digest in request.inputs:
                self._inputs[digest] = max(0, self._inputs[digest] - 1)

    def _quarantined(self, event: Event, aside: payloads.Quarantined) -> None:
        """A file was put aside: a torn end of the trail, or a further file of a known request, whose state it does
        not change.
        """
        if aside.kept_as is not None:
            self._single[f"audit/{aside.kept_as}"] = (aside.sha256, event.seq)
        elif (place := _place(aside)) is not None:
            self._settle(event, place, self._found(event, aside, place))
            self._check_result(event, aside, event.request_id or "")

    def _ended(self, event: Event, end: payloads.End) -> None:
        request = self._open.pop(event.request_id or "", None)
        self._decided(event.request_id)
        place = _place(end)
        if place is None and request is not None:
            place = request.place
        if place is None:
            return
        if request is None or end.files is not None:
            # A refusal may be about the very files found here: its own event says what they are.
            self._settle(event, place, self._found(event, end, place))
        else:
            # What the gate refused may be another file than the one that was approved.
            if isinstance(end, payloads.Refused) and end.request_sha256 is not None:
                request.files[""] = end.request_sha256
            self._settle(event, place, request.files, request)
        if event.request_id is not None:
            self._check_end(event, end, event.request_id)

    def _found(self, event: Event, stopped: payloads.Stopped, place: str) -> dict[str, str]:
        """The digests of a file and of its signatures, by the event that moves them away."""
        return self._complete(event, place, {"": stopped.request_sha256}, stopped.files)

    def _complete(
        self, event: Event, place: str, needed: Mapping[str, str | None], files: Mapping[str, str] | None
    ) -> dict[str, str]:
        """The digests that an event names of the files of a place; one that it lacks is a problem."""
        complete = {**needed, **(files or {})}
        for suffix, digest in complete.items():
            if digest is None:
                self._bad(place + suffix, f"event {event.seq} names no digest of this file")
        return {suffix: digest or "" for suffix, digest in complete.items()}

    def _pruned(self, event: Event, pruned: payloads.Pruned) -> None:
        if pruned.note_sha256 is not None and _NOTES in self._single:
            left = self._complete(event, "memory/", {"notes.jsonl": None}, pruned.files)
            self._single[_NOTES] = (left["notes.jsonl"], event.seq)
        if event.request_id is not None:
            self._missing_runs.pop(event.request_id, None)
            self._missing_released.pop(event.request_id, None)
            if self._files.is_there(f"{_PRUNED}{event.request_id}"):
                self._pruned_runs.add(f"{_PRUNED}{event.request_id}")
        for digest in pruned.inputs or ():
            if digest in self._inputs:
                self._inputs[digest] = 0

    def _replayed(self, event: Event, replayed: payloads.Replayed) -> None:
        folder = f"runs/{event.request_id}/{replayed.replay}"
        if replayed.record_sha256 is not None and _REPLAY(folder):
            self._check_run(event, folder, replayed.record_sha256)

    def _applied(self, event: Event, applied: payloads.Applied) -> None:
        if applied.note_sha256 is not None:
            files = self._complete(event, "memory/", {"notes.jsonl": None}, applied.files)
            self._single[_NOTES] = (files["notes.jsonl"], event.seq)

    def _settings_changed(self, event: Event, changed: payloads.SettingsChanged) -> None:
        if changed.contracts_sha256 is not None:
            self._contracts = (event.seq, changed.contracts_sha256, changed.contracts)

    def _checkpoint(self, event: Event, announced: payloads.TreeAnnounced) -> None:
        self.newest = announced
        if announced.size is not None:
            self._names.want(f"audit/checkpoints/{announced.size:012d}", event.seq)

    def _decided(self, request_id: str | None) -> None:
        """The draft is taken away after this event, its proposal and inputs by the daemon's next look at proposals."""
        draft = self._drafts.pop(request_id or "", None)
        if draft is not None and any(self._files.is_there(path) for path in _paths(draft)):
            self._leaving[draft.place] = draft

    # ---- requests

    def _settle(self, event: Event, place: str, files: Mapping[str, str], request: _Request | None = None) -> None:
        """The file of a request that ended, and its signatures, where they stay."""
        for suffix, digest in files.items():
            self._names.want(place + suffix, event.seq)
            self._check_request_file(event.seq, place, suffix, digest, request)

    def _check_request_file(self, seq: int, place: str, suffix: str, digest: str, request: _Request | None) -> None:
        path = place + suffix
        seq = seq if request is None else request.seq
        if suffix == ".sig" and request is not None and request.batch != (None, None):
            self._check_statement(path, request)
        most = limits.SIGNATURE_FILE_BYTES if suffix else limits.REQUEST_BYTES
        what = "signature" if suffix else "request"
        self._compare(path, digest, most, f"is not the {what} that event {seq} names: it was changed")

    def _check_statement(self, path: str, request: _Request) -> None:
        """What was signed, the first line of the file, is the batch that has the statement at the place announced."""
        data = self._files.read(path, limits.SIGNATURE_FILE_BYTES)
        if data is None or request.approval_sha256 is None:
            return
        line = _member(data.split(b"\n", 1)[0], *request.batch)
        if hashlib.sha256(line).hexdigest() != request.approval_sha256:
            self._bad(path, f"is not the statement that event {request.seq} recorded: it was changed")

    # ---- runs and results

    def _check_end(self, event: Event, end: payloads.End, request_id: str) -> None:
        """The record of the run, its artifacts, and the result that was made of them."""
        if end.record_sha256 is not None:
            self._check_run(event, f"runs/{request_id}", end.record_sha256)
        if end.released_sha256 is not None and end.run is None:
            self._check_released(event, f"results/{request_id}", end.released_sha256)
        self._check_result(event, end, request_id)

    def _check_run(self, event: Event, folder: str, record: str) -> None:
        """The files of one run, by its record."""
        from threegate.launch.results.result_facts import read_record  # a trail without runs has no results

        try:
            with self._files.folder(folder) as held:
                # By the open folder: no link can lead elsewhere.
                place = Path(f"/proc/self/fd/{held.fileno()}")
                facts = read_record(place, created_utc=event.when, trail_seq=event.seq, sha256=record)
        except OSError:
            self._missing_runs[event.request_id or ""] = event.seq
            return
        except InvalidInput as error:
            where, _, message = str(error).partition(": ")
            self._bad(f"{folder}/{where.rpartition('/')[2]}", message)
            self._unread_runs.add(folder)
            return
        streams = [name for name in ("stdout", "stderr") if getattr(facts, name) is not None]
        for path in (f"{folder}/", *(f"{folder}/{name}" for name in ("record.json", *streams))):
            self._names.want(path, event.seq)
        message = f"does not have the hash of event {event.seq}'s record: it was changed"
        recorded = [(f"{folder}/{item.path}", item) for item in facts.kept]
        recorded += [(f"{folder}/out/{item.path}", item) for item in facts.artifacts]
        for path, item in recorded:
            self._names.want(path, event.seq)
            self._files.compare(path, item.sha256, item.size, message)

    def _check_released(self, event: Event, folder: str, digest: str) -> None:
        """The outputs that were given back, by the outputs.json that the event names."""
        manifest = f"{folder}/{OUTPUTS_FILE}"
        if not self._files.is_there(folder):
            self._missing_released[event.request_id or ""] = event.seq
            return
        data = self._files.read(manifest, limits.OUTPUTS_BYTES) or b""
        self._names.want(f"{folder}/", event.seq)
        self._names.want(manifest, event.seq)
        if hashlib.sha256(data).hexdigest() != digest:
            self._bad(manifest, f"is not what event {event.seq} announced: it was changed")
            self._unread_runs.add(folder)
            return
        for sha256 in sorted({row["sha256"] for row in json.loads(data)["outputs"] if row["released"]}):
            path = f"{folder}/{sha256}"
            self._names.want(path, event.seq)
            message = "does not have the hash that is its name: it was changed"
            self._files.compare(path, sha256, limits.RELEASED_BYTES, message)

    def _check_result(self, event: Event, stopped: payloads.Stopped, request_id: str) -> None:
        path, data = self._result(event, request_id)
        named = stopped.result_sha256
        if data is None:
            if isinstance(stopped, payloads.End) or named is not None:
                self._bad(path, f"event {event.seq} ended {request_id}; its result is not there")
            return
        self._names.want(path, event.seq)
        if named is None:
            self._bad(path, f"event {event.seq} names no digest of this file")
        elif sha256_hex(data) != named:
            self._bad(path, f"is not the result of event {event.seq}: it was changed")

    def _result(self, event: Event, request_id: str) -> tuple[str, bytes | None]:
        """The result that names this event, under its own name or a numbered one, and its bytes; without bytes, where
        it should be: the first name that is free.
        """
        first = Path("results") / result_name(event.when, request_id)
        number = 1
        while self._files.is_there(path := str(moves.numbered(first, number))):
            data = self._files.read(path, limits.RESULT_BYTES) or b""
            if trail_seq_of(data) == event.seq:
                return path, data
            number += 1
        return path, None

    # ---- the folders

    def finish(self) -> bool:
        """Compare with the folders; False when the names disagree (a second, exact pass then says which)."""
        for request_id, seq in self._missing_runs.items():
            self._bad(f"runs/{request_id}", f"event {seq} recorded this run; it is not there")
        for request_id, seq in self._missing_released.items():
            self._bad(f"results/{request_id}", f"event {seq} gave outputs back; they are not there")
        for request in self._open.values():
            for suffix, digest in request.files.items():
                self._names.want(request.place + suffix, request.seq)
                self._check_request_file(request.seq, request.place, suffix, digest, request)
        for draft in self._drafts.values():
            for suffix, digest in draft.files.items():
                self._names.want(draft.place + suffix, draft.seq)
                self._check_draft_file(draft, suffix, digest)
        for path, (announced, seq) in self._single.items():
            self._check_single(path, announced, seq)
        self._walk()
        if self.exact:
            self._name_differences()
        return self._names.agree

    def _check_draft_file(self, draft: _Draft, suffix: str, digest: str) -> None:
        most = limits.PROPOSAL_BYTES if suffix else limits.REQUEST_BYTES
        message = f"is not what event {draft.seq} announced: it was changed"
        self._compare(draft.place + suffix, digest, most, message)

    def _check_single(self, path: str, digest: str | None, seq: int) -> None:
        if path in ("operators.revoked", "operators.passkeys") and digest is None:
            return  # there is no such file: the names say whether there is
        # Where there is no file, the digest of no bytes is recorded.
        if path == "operators" and digest == hashlib.sha256(b"").hexdigest() and not self._files.is_there(path):
            return
        if path.startswith(_PINNED) or (self._is_changed_whole(path) and self._still_staged(path, digest)):
            return
        if not _is_exempt(path):
            self._names.want(path, seq)
        elif not self._files.is_there(path):
            self._bad(path, f"event {seq} says that this file is here; it is nowhere")
        if digest is None:
            self._bad(path, f"event {seq} names no digest of this file")
        else:
            message = f"is not what event {seq} announced: it was changed"
            self._compare(path, digest, limits.SINGLE_FILE_BYTES, message)

    def _is_changed_whole(self, path: str) -> bool:
        """Whether the next bytes of a file are stored next to it before the event that announces them."""
        return path in self._of_plugins or path == _NOTES or path.partition("/")[0] in _ANNOUNCED

    def _is_replaced(self, path: str) -> bool:
        """Whether it is what was there before: its next bytes are announced, and next to it."""
        return path in self._single and self._is_changed_whole(path) and self._still_staged(path, self._single[path][0])

    def _still_staged(self, path: str, digest: str | None) -> bool:
        """Whether the recorded bytes are still next to their destination: the next process that needs them
        moves them there.
        """
        data = self._files.read(str(staged(Path(path))), limits.SINGLE_FILE_BYTES)
        return data is not None and sha256_hex(data) == digest

    def _walk(self) -> None:
        """Find every file below tool-exec/."""
        drafted = dict.fromkeys((item for draft in self._leaving.values() for item in draft.inputs), 0)
        drafted |= dict.fromkeys((item for draft in self._drafts.values() for item in draft.inputs), 1)
        leaving_files = {
            draft.place + suffix: (draft, suffix) for draft in self._leaving.values() for suffix in draft.files
        }
        contracts: dict[str, str] = {}
        reserved = {f"results/{reserved_place(self.workspace, request_id).name}" for request_id in self._open}
        for path in self._files.below(self._goes_into, self._no_file):
            name = path.rpartition("/")[2]
            if _is_exempt(path):
                continue
            if is_temporary(name) or (path.endswith(STAGED) and self._is_changed_whole(path.removesuffix(STAGED))):
                self.result.note(
                    self.workspace.tool_exec / path,
                    "is being written, or was left by a crash (then: threegate run --once)",
                )
            elif path == "audit/trail.jsonl" or (path.startswith("audit/") and SEGMENT.fullmatch(name)):
                continue  # read line by line
            elif path.startswith(f"results/{RESERVED}") and path in reserved:
                continue
            elif path in leaving_files:
                draft, suffix = leaving_files[path]
                self._check_draft_file(draft, suffix, draft.files[suffix])
            elif self._is_replaced(path):
                continue
            elif path.startswith("memory/") and _NOTES not in self._single:
                self.result.note(
                    self.workspace.tool_exec / path,
                    "written by hand: the trail has no note before one is stored: threegate project note approve ID",
                )
            elif path.startswith("contracts/"):
                self._check_contract(path, contracts)
            elif path.startswith("inputs/"):
                self._check_pinned(path, name, self._inputs)
            elif path.startswith("drafts/files/"):
                self._check_pinned(path, name, drafted)
            else:
                self._names.find(path)
        self._check_missing("inputs/", self._inputs)
        self._check_missing("drafts/files/", drafted)
        self._check_contracts(contracts)

    def _check_pinned(self, path: str, name: str, announced: Mapping[str, int]) -> None:
        """A file that is named by its digest."""
        if name not in announced:
            self._bad(path, "no event announced this file")
        if _DIGEST(name):
            message = "does not have the hash that is its name: it was changed"
            self._files.compare(path, name, limits.INPUT_FILE_BYTES, message)

    def _check_missing(self, folder: str, announced: Mapping[str, int]) -> None:
        for digest, needed in announced.items():
            if needed and not self._files.is_there(folder + digest):
                self._bad(folder + digest, "a request of the trail needs these bytes; they are not there")

    def _check_contract(self, path: str, found: dict[str, str]) -> None:
        if not _CONTRACT(path):
            self.result.note(self.workspace.tool_exec / path, "is not a contract: nothing reads it")
            return
        if (data := self._files.read(path, limits.CONTRACT_FILE_BYTES)) is not None:
            found[path.removeprefix("contracts/")] = hashlib.sha256(data).hexdigest()

    def _check_contracts(self, found: Mapping[str, str]) -> None:
        """Operators edit contracts by hand: what no daemon has taken up yet is a note, and counts for nothing until
        one does.
        """
        seq, digest, names = self._contracts or (0, canonical_digest({}), {})
        if canonical_digest(dict(found)) == digest:
            return
        before = f"event {seq}" if seq else "the trail"
        if names is None:
            self.result.note(self.workspace.contracts, f"is not what {before} recorded: not yet taken up")
            return
        for name in sorted(found.keys() | names.keys()):
            if found.get(name) != names.get(name):
                what = "is not there any more" if name not in found else f"is not what {before} recorded"
                self.result.note(self.workspace.contracts / name, f"{what}: not yet taken up by a daemon")

    def _no_file(self, path: str) -> None:
        self._bad(path, "is not a regular file with one link; find out who put it there")
        self._names.find(path)

    def _goes_into(self, path: str) -> bool:
        """Whether the files of a folder belong to what is compared; a folder that nothing announced is a problem."""
        if (
            path in _FOLDERS
            or path.startswith(("contracts/", "verdicts/", "control/"))
            or _OUT(path)
            or any(other.startswith(f"{path}/") for other in self._of_plugins)
        ):
            if path.count("/") < limits.FOLDER_DEPTH:
                return True
            self._bad(path, f"is more than {limits.FOLDER_DEPTH} folders deep")
        elif path in self._pruned_runs:
            self.result.note(
                self.workspace.tool_exec / path,
                "an earlier prune left this; nothing reads it and nothing vouches for it",
            )
        elif f"{path}/" in EXEMPT or path in self._unread_runs or self._in_flight(path):
            pass
        elif _REPLAY(path) and self._files.is_locked(path):
            self.result.note(self.workspace.tool_exec / path, "a replay goes on here")
        else:
            self._names.find(f"{path}/")
            return _RELEASED(path) is not None or _RUN(path) is not None or _REPLAY(path) is not None
        return False

    def _in_flight(self, folder: str) -> bool:
        """Whether a run works in this folder now."""
        request = self._open.get(folder.removeprefix("runs/")) if _RUN(folder) else None
        return request is not None and request.claimed

    def _name_differences(self) -> None:
        wanted, there = self._names.wanted, self._names.there
        surplus = sorted(there - wanted.keys())
        for path in surplus:
            self._bad(path, "no event announced this file")
        for path in sorted(wanted.keys() - there):
            name = path.rpartition("/")[2]
            at = next((other for other in surplus if name and other.endswith(f"/{name}")), None)
            now = f"it is in {at.rpartition('/')[0]}/" if at else "it is nowhere"
            self._bad(
                path,
                f"event {wanted[path]} says that this file is here; {now} (after a crash: threegate run --once)",
            )

    def _compare(self, path: str, digest: str, most: int, message: str) -> None:
        if digest:  # that there is none was reported with its event
            self._files.compare(path, digest, most, message)

    def _bad(self, path: str, message: str) -> None:
        self.result.add(self.workspace.tool_exec / path, 0, message)


_HANDLERS: Final[Mapping[str, Callable[[FolderAudit, Event, Any], None]]] = {
    "workspace_created": FolderAudit._created,
    "operator_added": FolderAudit._operators,
    "operator_revoked": FolderAudit._operators,
    "proposed": FolderAudit._proposed,
    "approved": FolderAudit._approved,
    "countersigned": FolderAudit._countersigned,
    "claimed": FolderAudit._moved,
    "approval_abandoned": FolderAudit._abandoned,
    "quarantined": FolderAudit._quarantined,
    "finished": FolderAudit._ended,
    "refused": FolderAudit._ended,
    "rejected": FolderAudit._ended,
    "cancelled": FolderAudit._ended,
    "interrupted": FolderAudit._ended,
    "pruned": FolderAudit._pruned,
    "replayed": FolderAudit._replayed,
    "applied": FolderAudit._applied,
    "settings_changed": FolderAudit._settings_changed,
    "checkpoint": FolderAudit._checkpoint,
    "rotated": FolderAudit._checkpoint,
}
"""What each kind of event changes in the folders; all others change nothing there."""


def _place(placed: payloads.Placed) -> str | None:
    """Where the event leads the request's file: ``state/name``."""
    if placed.state is None or placed.file is None or "/" in placed.file:
        return None
    return f"{placed.state}/{placed.file}"


def _is_exempt(path: str) -> bool:
    return path in EXEMPT or any(path.startswith(item) for item in EXEMPT if item.endswith("/"))


def _paths(draft: _Draft) -> Iterator[str]:
    yield from (draft.place + suffix for suffix in draft.files)
    yield from (f"drafts/files/{digest}" for digest in draft.inputs)


def _member(line: bytes, batch_sha256: str | None, index: int | None) -> bytes:
    """The statement at this position of the batch in the line; empty if it is another batch, or has no such
    position.
    """
    if sha256_hex(line) != batch_sha256:  # first: only what an operator signed is parsed
        return b""
    try:
        return canonical_bytes(json.loads(line)["statements"][index])
    except (ValueError, LookupError, TypeError):
        return b""
