"""Whether the folders agree with the trail: every state file, every signature, every artifact, every result.

Invariant: whatever lies in a state folder, in `runs/`, `results/` or `inputs/` was announced by an event and has the bytes
that the event names. Works on the stream of events: memory grows with the requests that are open, not with
the trail; only when something disagrees a second pass names it.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput
from threegate.core.workspace import STATES, Workspace
from threegate.results import read_record, render_result, result_name, validate_result
from threegate.trail import ENDS, Event
from threegate.trail.verify_report import Verification

_END_STATUS = {
    "refused": "refused",
    "rejected": "refused",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
}
_ACTING = ENDS | {"pruned", "quarantined", "approval_abandoned"}
"""Types that change what must lie in the folders even where they name no place."""


@dataclass(slots=True)
class FolderAudit:
    """Takes the events in order (`see`), then looks at the folders (`finish`)."""

    workspace: Workspace
    result: Verification
    exact: bool = False
    """The second pass: keep every name, so that a disagreement can be named."""
    _open: dict[str, str] = field(default_factory=dict)
    _approved: dict[str, Event] = field(default_factory=dict)
    _settled: int = 0
    """XOR of the digests of all names that ended requests have: order does not matter, memory does not grow."""
    _names: dict[str, int] = field(default_factory=dict)
    _missing_runs: dict[str, int] = field(default_factory=dict)
    _changed: dict[str, tuple[Path, str, int]] = field(default_factory=dict)
    """Approved files that are not what was approved, by request, until a refusal says that it saw just that."""
    _salt: bytes = field(default_factory=lambda: os.urandom(16))

    def see(self, event: Event) -> None:
        """Take the next event."""
        _, _, kind, request_id, _, data, _, _, _ = event
        if kind not in _ACTING and "state" not in data:
            return
        state, name = data.get("state"), data.get("file")
        place = f"{state}/{name}" if isinstance(state, str) and isinstance(name, str) else None
        if kind == "pruned":
            self._missing_runs.pop(request_id or "", None)
        if request_id is None:
            return
        if kind == "quarantined":
            if place:
                self._settle(place, event.seq)
        elif kind == "approval_abandoned":
            self._open.pop(request_id, None)
            self._approved.pop(request_id, None)
        elif kind in ENDS:
            before = self._open.pop(request_id, None)
            if place or before:
                self._settle(place or str(before), event.seq)
            if approved := self._approved.pop(request_id, None):
                # what a refusal found may be what it was refused for: then its own event says what lies there
                self._check_approved(event if kind == "refused" else approved, place or str(before))
            if place:
                self._check_end(event, request_id)
        elif place and state in STATES:
            self._open[request_id] = place
            if kind == "approved":
                self._approved[request_id] = event

    def finish(self) -> bool:
        """Compare with the folders; False when the names disagree (a second, exact pass then says which)."""
        for request_id, seq in self._missing_runs.items():
            self._bad(
                self.workspace.run_folder(request_id), f"event {seq} recorded this run; it is not there"
            )
        for path, _, seq in self._changed.values():
            self._bad(path, f"is not the request that event {seq} approved: it was changed")
        self._changed.clear()
        expected = self._settled
        for place in self._open.values():
            expected ^= self._digest(place)
        for request_id, event in self._approved.items():
            self._check_approved(event, self._open[request_id])
        found = 0
        names = []
        for state in STATES:
            for name in _request_names(self.workspace.state_folder(state)):
                found ^= self._digest(f"{state}/{name}")
                if self.exact:
                    names.append(f"{state}/{name}")
        self._check_inputs()
        if not self.exact:
            return found == expected
        self._name_differences(set(names))
        return True

    def _name_differences(self, there: set[str]) -> None:
        wanted = dict.fromkeys(self._open.values(), 0) | self._names
        for place in sorted(there - wanted.keys()):
            self._bad(self.workspace.tool_exec / place, "no event led this file here")
        for place in sorted(wanted.keys() - there):
            name = place.partition("/")[2]
            at = next((other for other in sorted(there - wanted.keys()) if other.endswith(f"/{name}")), None)
            now = f"it is in {at.partition('/')[0]}/" if at else "it is nowhere"
            self._bad(
                self.workspace.tool_exec / place,
                f"the trail says that this file lies here; {now} (after a crash: threegate run --once)",
            )

    def _settle(self, place: str, seq: int) -> None:
        self._settled ^= self._digest(place)
        if self.exact:
            self._names[place] = seq

    def _digest(self, place: str) -> int:
        return int.from_bytes(
            hashlib.blake2b(place.encode("utf-8", "surrogateescape"), key=self._salt, digest_size=32).digest()
        )

    def _bad(self, path: Path | str, message: str) -> None:
        self.result.add(path, 0, message)

    # ---- bytes

    def _check_approved(self, event: Event, place: str) -> None:
        """The approved bytes and the signed statement, where the trail says that they lie by now."""
        path = self.workspace.tool_exec / place
        data = self._read(path, limits.REQUEST_BYTES)
        if data is None:
            return
        wanted = event.data.get("request_sha256")
        if isinstance(wanted, str) and hashlib.sha256(data).hexdigest() != wanted:
            self._bad(path, f"is not the request that event {event.seq} names: it was changed")
        if event.type == "refused":
            return
        signature = self._read(path.with_name(path.name + ".sig"), limits.SIGNATURE_FILE_BYTES)
        wanted = event.data.get("approval_sha256")
        if (
            signature is not None
            and isinstance(wanted, str)
            and hashlib.sha256(signature.split(b"\n", 1)[0]).hexdigest() != wanted
        ):
            self._bad(f"{path}.sig", f"is not the statement that event {event.seq} recorded: it was changed")

    def _check_end(self, event: Event, request_id: str) -> None:
        """The record of the run, its artifacts, and the result that was made of them."""
        changed = self._changed.get(request_id)
        if changed is not None and event.type == "refused" and event.data.get("request_sha256") == changed[1]:
            del self._changed[request_id]
        folder = self.workspace.run_folder(request_id)
        record = event.data.get("record_sha256")
        expected: bytes | None = None
        if isinstance(record, str):
            if not folder.is_dir():
                self._missing_runs[request_id] = event.seq
            else:
                expected = self._check_run(event, folder, record)
        path = self._result_path(event, request_id)
        if path is None:
            self._bad(
                self.workspace.results / result_name(event.when, request_id),
                f"event {event.seq} ended {request_id}; its result is not there",
            )
            return
        data = self._read(path, limits.RESULT_BYTES) or b""
        named = event.data.get("result_sha256")
        if isinstance(named, str):
            if hashlib.sha256(data).hexdigest() != named:
                self._bad(path, f"is not the result of event {event.seq}: it was changed")
        elif expected is not None and data != expected:
            self._bad(path, f"is not the result of event {event.seq}: it was changed")
        elif expected is None:
            self._check_result_alone(event, request_id, path, data)

    def _check_run(self, event: Event, folder: Path, record: str) -> bytes | None:
        try:
            facts = read_record(folder, created_utc=event.when, trail_seq=event.seq, sha256=record)
        except InvalidInput as error:
            self.result.add(folder / "record.json", 0, str(error).partition(": ")[2] or str(error))
            return None
        for artifact in facts.artifacts:
            path = folder / "out" / artifact.path
            try:
                if _hash_file(path) != artifact.sha256:
                    self._bad(path, f"does not have the hash of event {event.seq}'s record: it was changed")
            except OSError as error:
                self._bad(path, f"cannot be read ({error.strerror or error}), event {event.seq} recorded it")
        return render_result(facts)

    def _check_result_alone(self, event: Event, request_id: str, path: Path, data: bytes) -> None:
        """A result without a record (refused, interrupted, pruned): form, and agreement with its event."""
        if problems := validate_result(data):
            self.result.add(path, problems[0].line, problems[0].message)
            return
        front: dict[str, Any] = yaml.load(data.split(b"\n---\n", 1)[0][4:], Loader=yaml.CSafeLoader)
        status = event.data.get("status") or _END_STATUS.get(event.type)
        wanted = {
            "request_id": request_id,
            "trail_seq": event.seq,
            "status": status,
            **{
                key: event.data[key]
                for key in ("request_sha256", "approval_sha256", "stdout_sha256", "stderr_sha256")
                if isinstance(event.data.get(key), str)
            },
        }
        for key, value in wanted.items():
            if front.get(key) != value:
                self._bad(path, f"{key} is not what event {event.seq} says: it was changed")
                return

    def _result_path(self, event: Event, request_id: str) -> Path | None:
        """The result that names this event: its own name, or a numbered one."""
        from threegate.trail.moves import numbered
        from threegate.trail.truncation_check import result_trail_seq

        first = self.workspace.results / result_name(event.when, request_id)
        number = 1
        while os.path.lexists(path := numbered(first, number)):
            if result_trail_seq(path) == event.seq:
                return path
            number += 1
        return None

    def _check_inputs(self) -> None:
        """Pinned bytes have the hash that is their name."""
        try:
            names = sorted(os.listdir(self.workspace.inputs))
        except OSError:
            return
        for name in names:
            if name.startswith("."):
                continue
            path = self.workspace.inputs / name
            try:
                if _hash_file(path) != name:
                    self._bad(path, "does not have the hash that is its name: it was changed")
            except OSError as error:
                self._bad(path, f"cannot be read ({error.strerror or error})")

    def _read(self, path: Path, max_bytes: int) -> bytes | None:
        try:
            return durable.read_regular(path, max_bytes=max_bytes)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._bad(path, f"cannot be read ({error.strerror or error})")
            return None


def _request_names(folder: Path) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.endswith(".md") and not name.startswith(".")]
    except OSError:
        return []


def _hash_file(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
