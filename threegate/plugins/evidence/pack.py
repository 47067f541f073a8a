"""`threegate audit pack`: a pack that an auditor checks with other programs only (docs/evidence.md).

Invariant: the content of a pack was verified as it was read; anything missing is named; nothing is signed
over a trail that does not verify. The trail is read three times from its start (verified; written; per
request), up to the event of the pack's checkpoint. Memory grows with what is open, chosen by id, pruned or
missing, not with the trail.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from threegate.approval.operators import load_operators
from threegate.core import durable, limits
from threegate.core.canonical import StrictJSONError, loads_strict, sha256_hex
from threegate.core.errors import InvalidInput, TrailError
from threegate.core.extras import require_extra
from threegate.core.workspace import Workspace
from threegate.judgement.policy import load_policy
from threegate.plugins.evidence.how_to_check import render_page
from threegate.plugins.evidence.pack_requests import BEGINS, PackedRequest, RequestPacker
from threegate.plugins.evidence.pack_writer import PackWriter
from threegate.plugins.evidence.tree_nodes import TreeNodes
from threegate.runners.backend import policy_facts
from threegate.trail.checkpoint import TrailCheckpoint, sign_trail_checkpoint
from threegate.trail.event import Event, format_time
from threegate.trail.history import RequestHistory
from threegate.trail.payloads import Approved, Pruned, SettingsChanged, WorkspaceAdopted, WorkspaceCreated
from threegate.trail.payloads.operator_events import OperatorsChanged
from threegate.trail.trail import Trail
from threegate.trail.verify import Verification, trail_checkpoint_folder, verify_trail
from threegate.trail.workspace_key import SigningKey, load_key

INDEX_TYPE: Final = "threegate-evidence/1"
_OF_ALL: Final = (WorkspaceCreated, WorkspaceAdopted, OperatorsChanged, SettingsChanged)
"""What every pack discloses besides the events of its requests: whose keys are valid, and which policy was in force."""
_CHECKPOINT: Final = re.compile(r"([0-9]{12})(\.[A-Za-z0-9][A-Za-z0-9._+-]{0,100})?")
"""A checkpoint, or the same with the cosignature of a witness, which is stored next to it."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What was written, and the fingerprints to compare over another channel."""

    path: Path
    requests: int
    events: int
    size: int
    """Number of lines that the pack's checkpoint signs; 0 if there is none."""
    log_keys: tuple[str, ...]
    """SHA-256 (hex) of each verifier key's line."""
    operator_keys: tuple[str, ...]
    """``SHA256:…`` as ssh-keygen prints it."""
    masked: int
    missing: tuple[dict[str, str], ...]
    """`file` and `why` of what should be in the pack and is not."""


def write_pack(workspace: Workspace, out: Path, *, ids: Iterable[str] = (), since: datetime | None = None) -> Packed:
    """Write a folder, or a zip when `out` ends in .zip. Without `ids` and `since` it holds the whole trail.

    Raises InvalidInput (nothing to pack, `out` is there), Unavailable (no key here, not the extra `export`),
    TrailError, OSError.
    """
    require_extra("an evidence pack", "export")
    survey = _Survey(frozenset(ids), format_time(since.astimezone(UTC)) if since else None)
    verified = verify_trail(workspace, on_event=survey.see)
    survey.finish(verified)
    key = load_key(verified.workspace_id)
    with PackWriter(out) as writer, tempfile.TemporaryFile() as entries:
        for problem in verified.problems:
            told = str(problem).removeprefix(f"{workspace.audit}{os.sep}")
            writer.lacks("trail.jsonl", f"the trail does not verify: {told}")
        pack = _Pack(workspace, writer, survey, verified, key if verified.ok else None)
        pack.write_trail()
        pack.write_requests(entries)
        pack.write_policies()
        operator_keys = pack.write_operators()
        log_keys = pack.write_log_keys()
        facts = {
            "type": INDEX_TYPE,
            "workspace": verified.workspace_id,
            "made_utc": format_time(datetime.now(UTC)),
            "whole": survey.whole,
            "checkpoint": pack.checkpoint,
            "events": pack.events,
            "log_keys": log_keys,
            "operator_keys": operator_keys,
            "policies_not_kept": sorted(pack.policies),
            "masked": writer.masked,
            "missing": writer.missing,
        }
        _write_index(writer, facts, entries)
        page = render_page(
            workspace_id=verified.workspace_id,
            requests=pack.requests,
            whole=survey.whole,
            log_keys=log_keys,
            operator_keys=operator_keys,
        )
        writer.seal(key, page)
        return Packed(
            writer.out,
            pack.requests,
            pack.events,
            pack.size if pack.checkpoint else 0,
            tuple(log_keys),
            tuple(operator_keys),
            len(writer.masked),
            tuple(writer.missing),
        )


def _write_index(writer: PackWriter, facts: dict[str, Any], entries: Any) -> None:
    """index.json: the facts, and `requests` as the lines of `entries`, one a request."""
    entries.seek(0)
    with writer.open("index.json") as sink:
        sink.write(json.dumps(facts, indent=1).encode("ascii").removesuffix(b"\n}") + b',\n "requests": [')
        for number, line in enumerate(entries):
            sink.write((b",\n  " if number else b"\n  ") + line.rstrip(b"\n"))
        sink.write(b"\n ]\n}\n")


@dataclass(slots=True)
class _Survey:
    """The first pass: which requests are packed, where the last of them ends, what was pruned, whose keys count."""

    wanted: frozenset[str]
    since: str | None
    chosen: set[str] = field(default_factory=set)
    last: int = 0
    """Number of the last event that is disclosed for the sake of a chosen request."""
    pruned: dict[str, int] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    """Verifier keys of the log, as the trail names them."""

    @property
    def whole(self) -> bool:
        """Whether all requests are packed, and the whole trail."""
        return not self.wanted and self.since is None

    def see(self, event: Event) -> None:
        request_id, payload = event.request_id, event.payload
        if request_id is not None and (
            request_id in self.wanted or (self.since is not None and event.time >= self.since)
        ):
            self.chosen.add(request_id)
            self.last = event.seq
        match payload:
            case Pruned():
                for name in (*([request_id] if request_id else ()), *(payload.inputs or ())):
                    self.pruned[name] = event.seq
            case WorkspaceCreated(vkey=str(vkey)) | WorkspaceAdopted(vkey=str(vkey)):
                self.keys.append(vkey)

    def finish(self, verified: Verification) -> None:
        """Raises InvalidInput when there is nothing to pack."""
        if not verified.workspace_id:
            raise InvalidInput("there is no trail to pack; see: threegate audit verify")
        if unknown := sorted(self.wanted - self.chosen):
            raise InvalidInput(f"the trail has no request {unknown[0]}; see: threegate audit show")
        if not self.whole and not self.chosen:
            raise InvalidInput("--since: no request has an event since then; see: threegate audit show")

    def covers(self, event: Event) -> bool:
        """Whether an event belongs to a packed request."""
        return event.request_id is not None and (self.whole or event.request_id in self.chosen)

    def discloses(self, event: Event) -> bool:
        """Whether the pack has the event itself, not only its hash in proofs."""
        return self.whole or self.covers(event) or isinstance(event.payload, _OF_ALL)


@dataclass(slots=True)
class _Pack:
    """The second and the third pass."""

    workspace: Workspace
    writer: PackWriter
    survey: _Survey
    verified: Verification
    key: SigningKey | None
    """None: the trail does not verify; nothing is signed over it."""
    requests: int = 0
    events: int = 0
    size: int = 0
    """Number of lines that the pack covers."""
    checkpoint: str | None = None
    policies: dict[str, str | None] = field(default_factory=dict)
    """By digest of a policy that requests were approved under: the pinned input that has its bytes. At the end those
    that the pack does not have.
    """
    _operators: dict[str, str] = field(default_factory=dict)
    """Each recorded state of the operators' files: its digest, and which file it is."""
    _pinned_by: dict[str, str | None] = field(default_factory=dict)
    """The digest of operators.passkeys that was recorded with each state of operators."""

    def _events(self) -> Iterator[Event]:
        """The events up to `size`; they end early if the trail does not verify (the first pass reports that)."""
        try:
            for event in Trail(self.workspace).events():
                if event.seq > self.size:
                    return
                yield event
        except TrailError:
            if self.verified.ok:
                raise

    # ---- the trail

    def write_trail(self) -> None:
        """trail.jsonl, the checkpoints, and the proofs of what is disclosed of a trail that is not packed whole."""
        kept = self._kept_checkpoints()
        last = self.verified.seq if self.survey.whole else self.survey.last
        # A kept checkpoint is better than a new one: somebody may have a copy, and witnesses may have cosigned it.
        standing = next((size for size in sorted(kept) if size >= last), None)
        self.size = standing if standing is not None else self.verified.seq
        disclosed = array("Q")
        with TreeNodes() as nodes:
            with self.writer.open("trail.jsonl") as sink:
                for event in self._events():
                    nodes.add(event.line)
                    if self.survey.discloses(event):
                        sink.write(event.line + b"\n")
                        disclosed.append(event.seq)
                    if isinstance(event.payload, OperatorsChanged):
                        self._saw_operators(event.payload)
            self.events = len(disclosed)
            if self.key is None:
                self.writer.lacks("checkpoints/", "nothing is signed over a trail that does not verify")
            else:
                self._write_checkpoints(kept, standing, self.key, nodes)
                if not self.survey.whole:
                    self._write_proofs(disclosed, nodes)

    def _kept_checkpoints(self) -> dict[int, list[str]]:
        """Names in audit/checkpoints by the size of their tree: the note, and its companion files."""
        folder, kept = trail_checkpoint_folder(self.workspace), dict[int, list[str]]()
        for name in sorted(os.listdir(folder)) if folder.is_dir() else ():
            if match := _CHECKPOINT.fullmatch(name):
                kept.setdefault(int(match[1]), []).append(name)
        return {size: names for size, names in kept.items() if names[0] == f"{size:012d}"}

    def _write_checkpoints(
        self, kept: dict[int, list[str]], standing: int | None, key: SigningKey, nodes: TreeNodes
    ) -> None:
        """The pack's checkpoint: a kept one that covers everything, else a new one; of a whole trail all."""
        name = f"checkpoints/{self.size:012d}"
        for size, names in kept.items():
            if size == standing or (self.survey.whole and size <= self.size):
                for other in names:
                    path = trail_checkpoint_folder(self.workspace) / other
                    data = durable.read_regular(path, max_bytes=limits.TRAIL_CHECKPOINT_BYTES)
                    try:
                        TrailCheckpoint.parse(data)
                    except InvalidInput as error:
                        self.writer.lacks(f"checkpoints/{other}", str(error))
                    else:
                        self.writer.put(f"checkpoints/{other}", data)
        if standing is None:
            self.writer.put(name, sign_trail_checkpoint(key, nodes.size, nodes.root()).render())
        self.checkpoint = name

    def _write_proofs(self, disclosed: Iterable[int], nodes: TreeNodes) -> None:
        """proofs.jsonl: for each line of trail.jsonl its place from 0 and its audit path (RFC 6962, 2.1.1)."""
        with self.writer.open("proofs.jsonl") as sink:
            for seq in disclosed:
                path = [base64.b64encode(item).decode("ascii") for item in nodes.path(seq - 1, self.size)]
                sink.write(json.dumps({"index": seq - 1, "path": path}).encode("ascii") + b"\n")

    # ---- the requests

    def write_requests(self, entries: Any) -> None:
        """A folder for each request, written when it ends; what has not ended is written as it is now."""
        packer = RequestPacker(self.workspace, self.writer, self.key, self.survey.pruned)
        running: dict[str, PackedRequest] = {}
        # Hashes instead of ids: they are all that is kept of a request that has ended, however long the trail is.
        done: set[int] = set()

        def write(request: PackedRequest) -> None:
            entries.write(json.dumps(packer.pack(request)).encode("ascii") + b"\n")
            done.add(hash(request.history.request_id))
            self.requests += 1

        for event in self._events():
            request_id, payload = event.request_id, event.payload
            if request_id is None or not self.survey.covers(event) or hash(request_id) in done:
                continue
            if request_id not in running and not isinstance(payload, BEGINS):
                continue
            request = running.setdefault(request_id, PackedRequest(RequestHistory(request_id, event)))
            request.see(event)
            if isinstance(payload, Approved) and payload.policy_sha256 is not None:
                kept = payload.kept_policy_sha256 or self.policies.get(payload.policy_sha256)
                self.policies[payload.policy_sha256] = kept
            if request.history.end is not None:
                write(running.pop(request_id))
            elif request.history.abandoned:
                del running[request_id]
        for request in running.values():
            write(request)

    # ---- what was in force

    def write_policies(self) -> None:
        """The policies that requests were approved under, with their contracts, as far as they were kept."""
        written: set[str] = set()
        for digest, kept in sorted(self.policies.items()):
            found = self._policy(digest, kept)
            if found is None:
                continue
            del self.policies[digest]
            document, contracts = found
            self.writer.add(f"policies/{digest}.json", document, digest=digest)
            for name, data in sorted(contracts.items()):
                if name not in written:
                    written.add(name)
                    self.writer.add(f"contracts/{name}", data, digest=name)

    def _policy(self, digest: str, kept: str | None) -> tuple[bytes, dict[str, bytes]] | None:
        """A policy's document and its contracts by digest: as kept, else today's if it is that one. None: neither."""
        if kept is not None:
            try:
                data = durable.read_regular(self.workspace.inputs / kept, max_bytes=limits.INPUT_FILE_BYTES)
                value = loads_strict(data, max_bytes=limits.INPUT_FILE_BYTES)
                contracts = {name: base64.b64decode(text) for name, text in value["contracts"].items()}
                document = value["policy"].encode()
            except (OSError, StrictJSONError, ValueError, KeyError, TypeError, AttributeError):
                return None
            return (document, contracts) if sha256_hex(document) == digest else None
        # A request under a grant keeps no copy; today's policy may be the one.
        try:
            policy = load_policy(self.workspace, facts=policy_facts())
        except InvalidInput:
            return None  # unreadable settings are not a policy
        if policy.digest != digest:
            return None
        files = policy.contract_files
        return policy.document, {policy.contract_digests[name]: data for name, data in files.items()}

    def _saw_operators(self, changed: OperatorsChanged) -> None:
        if changed.operators_sha256 is not None:
            self._operators[changed.operators_sha256] = "operators"
            self._pinned_by[changed.operators_sha256] = changed.passkeys_sha256
        if changed.revoked_sha256 is not None:
            self._operators[changed.revoked_sha256] = "operators.revoked"
        if changed.passkeys_sha256 is not None:
            self._operators[changed.passkeys_sha256] = "operators.passkeys"

    def write_operators(self) -> list[str]:
        """operators/<sha256>: each state that the trail recorded; returns the fingerprints of all keys, in order.

        Commands only ever append lines, so an earlier state is the beginning of the file of today.
        """
        found: dict[str, bytes] = {}
        for path in (self.workspace.operators_file, self.workspace.revoked_file, self.workspace.passkeys_file):
            try:
                data = durable.read_regular(path, max_bytes=limits.OPERATORS_FILE_BYTES)
            except OSError:
                continue
            whole, digest, beginning = hashlib.sha256(data).hexdigest(), hashlib.sha256(), b""
            found[digest.hexdigest()] = b""
            for line in data.splitlines(keepends=True):
                digest.update(line)
                beginning += line
                found[digest.hexdigest()] = beginning
            found[whole] = data
        fingerprints: dict[str, None] = {}
        for digest_, file in self._operators.items():
            if (state := found.get(digest_)) is None:
                self.writer.lacks(f"operators/{digest_}", f"this state of {file} was replaced by hand since")
                continue
            self.writer.add(f"operators/{digest_}", state, digest=digest_)
            if file == "operators":
                pins = self._pinned_by[digest_]
                for entry in load_operators(state, None, None if pins is None else found.get(pins)).entries:
                    fingerprints[entry.key.fingerprint] = None
        return list(fingerprints)

    def write_log_keys(self) -> list[str]:
        """log-keys: the verifier keys that the trail names, one a line; returns the SHA-256 of each line."""
        lines = [f"{vkey}\n".encode("ascii") for vkey in dict.fromkeys(self.survey.keys)]
        self.writer.put("log-keys", b"".join(lines))
        return [sha256_hex(line) for line in lines]
