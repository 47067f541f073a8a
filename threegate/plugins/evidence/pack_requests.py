"""A pack's data on one request: its file and signatures, what was shown, the record, the result, the in-toto
statement.

Invariant: bytes go into the pack only with the digest that the trail names (if it names one); everything else
that the trail refers to is listed as missing, with the reason. Outputs are hashed and not copied.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput
from threegate.core.secretscan.scan import has_secret, mask_secrets
from threegate.core.workspace import STATES, Workspace
from threegate.launch.results.result_facts import ResultFacts, read_record
from threegate.plugins.evidence.export import attest
from threegate.plugins.evidence.pack_writer import PackWriter
from threegate.trail import moves
from threegate.trail.event import Event
from threegate.trail.history import RequestHistory, result_name
from threegate.trail.payloads import Approved, Claimed, Countersigned, End, Finished, under_grant
from threegate.trail.truncation_check import trail_seq_of
from threegate.trail.workspace_key import SigningKey

BEGINS: Final = (Approved, Claimed, End)
"""Prefixes of the events that a pack covers for a request; undecided drafts have only events."""
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SUFFIX: Final = re.compile(r"(\.sig(\.[A-Za-z0-9._@+-]{1,64})?)?")
_CHUNK: Final = 1 << 20


def folder_of(request_id: str) -> str:
    """A request's folder in a pack: its id, or a digest of it if it cannot be a file name (gate 1 refused it)."""
    safe = _SAFE.fullmatch(request_id) is not None
    return f"requests/{request_id if safe else hashlib.sha256(request_id.encode()).hexdigest()}"


@dataclass(slots=True)
class PackedRequest:
    """The trail's content about one request so far."""

    history: RequestHistory
    files: dict[str, str] = field(default_factory=dict)
    """Digests of the request file ("") and its signatures (".sig", ".sig.NAME"), by the last event that names them."""

    def see(self, event: Event) -> None:
        """Take the next event of the request."""
        if event.type == "quarantined":
            return  # another file of this name was moved away; the request itself is untouched
        self.history.add(event)
        payload = event.payload
        if isinstance(payload, Countersigned):
            self.files.update(payload.files or {})
        elif isinstance(payload, BEGINS):
            if payload.files is not None:
                self.files = dict(payload.files)
            elif payload.request_sha256 is not None:
                self.files = {**({} if isinstance(payload, Approved) else self.files), "": payload.request_sha256}


@dataclass(frozen=True, slots=True)
class RequestPacker:
    """Puts requests of one workspace into one pack."""

    workspace: Workspace
    writer: PackWriter
    key: SigningKey | None
    """Signs in-toto statements. None: the trail does not verify, so nothing is attested."""
    pruned: Mapping[str, int]
    """Number of the event that removed a run (by request id) or pinned bytes (by digest)."""

    def pack(self, request: PackedRequest) -> dict[str, Any]:
        """Write one request's folder; returns its entry in the index. Raises OSError."""
        history, folder = request.history, folder_of(request.history.request_id)
        approved = Approved.of(history.approved)
        self._request_files(request, folder)
        if approved is not None and approved.shown_sha256 is not None:
            self._shown(approved.shown_sha256, f"{folder}/shown.txt")
        end = history.end.payload if history.end is not None else None
        if history.end is not None and isinstance(end, End):
            self._result(history.end, end, folder, history.request_id)
            if end.record_sha256 is not None:
                self._run(history, history.end, end.record_sha256, folder)
        return {
            "request_id": history.request_id,
            "folder": folder,
            "ended": history.end.type if history.end is not None else None,
            "status": end.result_status if isinstance(end, End) else None,
            "approved_by": approved.approved_by if approved is not None else None,
            "signed": "nobody" if approved is None else "grant" if approved.grant else "operator",
            "under_grant": under_grant(approved.grant, approved.approved_by)
            if approved is not None and approved.grant
            else None,
        }

    # ---- the request and what was signed

    def _request_files(self, request: PackedRequest, folder: str) -> None:
        history = request.history
        if history.state not in STATES or history.file is None or "/" in history.file:
            return  # it has no file of its own: a draft, or one that was never promoted
        # An older version recorded no digests of signatures: the files next to the request are included.
        files: dict[str, str | None] = {"": None, **request.files}
        if history.approved is not None:
            files.setdefault(".sig", None)
        for suffix, digest in sorted(files.items()):
            if _SUFFIX.fullmatch(suffix) is None:
                continue
            most = limits.SIGNATURE_FILE_BYTES if suffix else limits.REQUEST_BYTES
            name = f"{folder}/request.md{suffix}"
            try:
                data = self._in_a_state(history.state, history.file + suffix, most)
            except OSError as error:
                if digest is not None or not suffix:
                    self.writer.lacks(name, _why(error))
                continue
            self.writer.add(name, data, digest=digest, signed=bool(suffix))

    def _in_a_state(self, state: str, name: str, most: int) -> bytes:
        """A file of a state folder; what has not ended may have moved on since the trail was read. Raises OSError."""
        for folder in (state, *STATES):
            try:
                return durable.read_regular(self.workspace.state_folder(folder) / name, max_bytes=most)
            except FileNotFoundError:
                continue
        raise FileNotFoundError(f"{name}: is in no state folder")

    def _shown(self, digest: str, name: str) -> None:
        try:
            text = durable.read_regular(self.workspace.inputs / digest, max_bytes=limits.SHOWN_TEXT_BYTES)
        except OSError as error:
            self.writer.lacks(name, self._gone(digest) or _why(error))
        else:
            self.writer.add(name, text, digest=digest)

    # ---- outcomes

    def _result(self, event: Event, end: End, folder: str, request_id: str) -> None:
        """The result that names this event, under its own name or a numbered one (`moves.numbered`)."""
        first, number = self.workspace.results / result_name(event.when, request_id), 1
        while True:
            try:
                data = durable.read_regular(moves.numbered(first, number), max_bytes=limits.RESULT_BYTES)
            except OSError as error:
                self.writer.lacks(f"{folder}/result.md", _why(error))
                return
            # A name that was taken got a number; the result itself says which event it belongs to.
            if trail_seq_of(data) == event.seq:
                self.writer.add(f"{folder}/result.md", data, digest=end.result_sha256)
                return
            number += 1

    def _run(self, history: RequestHistory, event: Event, record_sha256: str, folder: str) -> None:
        """The record of a run, whether its outputs are those that it names, and the statement about it."""
        request_id, name = history.request_id, f"{folder}/record.json"
        place = self.workspace.run_folder(request_id)
        if _SAFE.fullmatch(request_id) is None or not os.path.lexists(place):
            self.writer.lacks(name, self._gone(request_id) or "the folder of the run is not there")
        else:
            try:
                facts = read_record(place, created_utc=event.when, trail_seq=event.seq, sha256=record_sha256)
                data = durable.read_regular(place / "record.json", max_bytes=limits.RECORD_BYTES)
            except (InvalidInput, OSError) as error:
                self.writer.lacks(name, _why(error))
            else:
                self.writer.add(name, data, digest=record_sha256)
                self._outputs(facts, place, f"runs/{request_id}/out")
        if self.key is not None and Finished.of(event) is not None:
            self._statement(history, self.key, f"{folder}/run.intoto.json")

    def _outputs(self, facts: ResultFacts, place: Path, told: str) -> None:
        for artifact in facts.artifacts:
            name = mask_secrets(f"{told}/{artifact.path}")
            try:
                digest = self._digest(place / "out", artifact.path)
            except OSError as error:
                self.writer.lacks(name, _why(error))
            else:
                if digest != artifact.sha256:
                    self.writer.lacks(name, "it was changed: its digest is not the one in the record")

    def _digest(self, folder: Path, path: str) -> str:
        """SHA-256 of a run's output, reached without following a link. Raises OSError."""
        *folders, name = path.split("/")
        held = self.workspace.hold(folder)
        for part in folders:
            with held:
                held = held.folder(part)
        with held:
            descriptor, _ = held.open_regular(name)
        digest = hashlib.sha256()
        try:
            while chunk := os.read(descriptor, _CHUNK):
                digest.update(chunk)
        finally:
            os.close(descriptor)
        return digest.hexdigest()

    def _statement(self, history: RequestHistory, key: SigningKey, name: str) -> None:
        try:
            envelope = attest(self.workspace, history, key)
        except InvalidInput as error:
            self.writer.lacks(name, _why(error))
            return
        if has_secret(base64.b64decode(envelope["payload"]).decode("utf-8", "replace")):
            self.writer.lacks(name, "the name of an output is a secret, and what is signed cannot be masked")
            return
        self.writer.put(name, json.dumps(envelope, sort_keys=True, indent=2).encode() + b"\n")

    def _gone(self, what: str) -> str | None:
        """Why something is missing, if the trail says so."""
        seq = self.pruned.get(what)
        return f"it was pruned (event {seq})" if seq is not None else None


def _why(error: Exception) -> str:
    """What is wrong with a file, without the path of this machine in front of it."""
    if isinstance(error, FileNotFoundError):
        return "it is not there"
    if isinstance(error, OSError):
        return f"it cannot be read ({error.strerror or str(error).partition(': ')[2]})"
    return str(error).partition(": ")[2] or str(error)
