"""The trail for other programs: CSV, JSON lines, a trace for AgentAck, or one signed in-toto statement for each run.

Invariant: what is exported was verified as it was read; a statement names everything by digest: the request, the
approval, the policy and the inputs as materials, the outputs as products. Sources: in-toto Statement v1, DSSE.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from threegate.approval.shown.escaped_lines import safe
from threegate.approval.shown.messages import emit_data
from threegate.core import durable
from threegate.core.errors import InvalidInput
from threegate.core.extras import require_extra
from threegate.core.workspace import Workspace
from threegate.launch.results.result_facts import read_record
from threegate.plugins.evidence.ack_trace import ack_trace
from threegate.trail.event import Event
from threegate.trail.history import RequestHistory
from threegate.trail.payloads import Approved, Claimed, Finished
from threegate.trail.story import select, sentence
from threegate.trail.trail import Trail
from threegate.trail.workspace_key import SigningKey, load_key

if TYPE_CHECKING:
    from securesystemslib.signer import Key

PREDICATE_TYPE = "https://threegate.local/attestation/run/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
COLUMNS = ("seq", "time", "type", "request_id", "actor", "story", "data", "hash")
_BEGINS = frozenset(("approved", "claimed", "finished"))
"""Prefixes of the events that a statement is made from; drafts that were not approved are dropped."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def export_trail(workspace: Workspace, format: str, out: Path | None, *, request_id: str | None = None) -> int:
    """Write records to a file, a folder (in-toto) or stdout; how many. Raises InvalidInput, Unavailable, TrailError."""
    if format not in ("csv", "jsonl", "in-toto", "ack"):
        raise InvalidInput(f"--format {format}: give csv, jsonl, in-toto or ack")
    if format == "ack" and request_id is not None:
        raise InvalidInput("--format ack: covers the whole trail; leave --request out")
    if format == "in-toto":
        require_extra("a signed statement", "export")
        return _export_statements(workspace, out, request_id)
    events = select(Trail(workspace).events(), request_id=request_id)
    if out is None:
        return _write(events, format, emit_data, workspace)
    # It gets its name when it is complete.
    buffer = out.with_name(f".{out.name}.part")
    with buffer.open("w", encoding="ascii", newline="") as stream:
        count = _write(events, format, stream.write, workspace)
    buffer.replace(out)
    return count


def _write(events: Iterable[Event], format: str, write: Callable[[str], object], workspace: Workspace) -> int:
    count = 0
    if format == "ack":
        for line in ack_trace(events, workspace.load_settings().workspace.id):
            count += 1
            write(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n")
        return count
    rows = csv.writer(SimpleNamespace(write=write), lineterminator="\n") if format == "csv" else None
    if rows is not None:
        rows.writerow(COLUMNS)
    for event in events:
        count += 1
        if rows is None:
            write(event.line.decode("ascii") + "\n")
            continue
        data = json.dumps(event.data, sort_keys=True, separators=(",", ":"))
        row = (
            event.seq,
            event.time,
            event.type,
            event.request_id or "",
            event.actor,
            sentence(event),
            data,
            event.hash,
        )
        rows.writerow([_cell(item) for item in row])
    return count


def _cell(value: object) -> object:
    """A cell on one line that a spreadsheet cannot read as a formula."""
    if not isinstance(value, str):
        return value
    # A spreadsheet would run a cell that begins like a formula; an apostrophe makes it text.
    return safe(f"'{value}" if value.startswith(_FORMULA) else value)


# ---- in-toto


def _export_statements(workspace: Workspace, out: Path | None, request_id: str | None) -> int:
    events = Trail(workspace).events()
    first = next(events, None)
    if first is None:
        raise InvalidInput("there is no trail to export; see: threegate audit verify")
    key = load_key(first.prev)
    count = 0
    for history in finished_runs(chain([first], events)):
        if request_id not in (None, history.request_id):
            continue
        envelope = attest(workspace, history, key)
        text = json.dumps(envelope, sort_keys=True, indent=2).encode() + b"\n"
        if out is None:
            emit_data(text.decode())
        else:
            out.mkdir(parents=True, exist_ok=True)
            durable.overwrite((out / f"{history.request_id}.intoto.json").absolute(), text)
        count += 1
    if request_id is not None and not count:
        raise InvalidInput(f"{request_id}: no finished run of this name")
    return count


def finished_runs(events: Iterable[Event]) -> Iterator[RequestHistory]:
    """The history of each run, as it finishes: only requests that are approved and have not ended are in memory."""
    running: dict[str, RequestHistory] = {}
    for event in events:
        request_id = event.request_id
        if request_id is None or (request_id not in running and event.type not in _BEGINS):
            continue
        history = running.setdefault(request_id, RequestHistory(request_id, event))
        history.add(event)
        if history.end is None and not history.abandoned:
            continue
        del running[request_id]
        if event.type == "finished":
            yield history


def attest(workspace: Workspace, history: RequestHistory, key: SigningKey) -> dict[str, Any]:
    """The DSSE envelope of one finished run, as JSON. Raises InvalidInput if its record differs from the trail."""
    from google.protobuf import json_format
    from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
    from in_toto_attestation.v1.statement import Statement
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner

    event, finished = history.finished, Finished.of(history.finished)
    if event is None or finished is None:
        raise InvalidInput(f"{history.request_id}: has not finished; there is no run to attest")
    subjects = [
        ResourceDescriptor(name=name, digest={"sha256": digest}).pb
        for name, digest in _products(workspace, event, finished)
    ]
    statement = Statement(subjects, PREDICATE_TYPE, _predicate(history, event, finished))
    statement.validate()
    payload = json_format.MessageToJson(statement.pb, sort_keys=True).encode()
    signer = CryptoSigner(key.private, public_key(key))
    envelope = Envelope(payload, PAYLOAD_TYPE, {})
    envelope.sign(signer)
    value: dict[str, Any] = envelope.to_dict()
    return value


def public_key(key: SigningKey) -> Key:
    """The workspace's key as securesystemslib takes it; its id is the C2SP key id."""
    from securesystemslib.signer import SSlibKey

    keyid = f"{key.name}+{key.public.key_id.hex()}"
    return SSlibKey(keyid, "ed25519", "ed25519", {"public": key.public.raw.hex()})


def _products(workspace: Workspace, event: Event, finished: Finished) -> Iterator[tuple[str, str]]:
    """All outputs: those in the record, stdout and stderr."""
    record = finished.record_sha256
    folder = workspace.run_folder(str(event.request_id))
    if record is not None and folder.is_dir():
        facts = read_record(folder, created_utc=event.when, trail_seq=event.seq, sha256=record)
        yield from ((f"out/{item.path}", item.sha256) for item in facts.artifacts)
        if facts.stdout is not None and facts.stderr is not None:
            yield "stdout", facts.stdout.sha256
            yield "stderr", facts.stderr.sha256
    else:
        for path, digest in sorted((finished.outputs or {}).items()):
            yield f"out/{path}", digest
        for name, stream in (("stdout", finished.stdout_sha256), ("stderr", finished.stderr_sha256)):
            if stream is not None:
                yield name, stream
    if record is not None:
        yield "record.json", record


def _predicate(history: RequestHistory, event: Event, finished: Finished) -> dict[str, Any]:
    approved, claimed = Approved.of(history.approved) or Approved(), Claimed.of(history.claimed) or Claimed()
    materials = [
        {"name": name, "digest": {"sha256": digest}}
        for name, digest in (
            ("request", claimed.request_sha256 or approved.request_sha256),
            ("job", claimed.job_sha256 or approved.job_sha256),
            ("approval", claimed.approval_sha256 or approved.approval_sha256),
            ("policy", claimed.policy_sha256 or approved.policy_sha256),
            *((f"in/{name}", digest) for name, digest in sorted((approved.inputs or {}).items())),
        )
        if digest is not None
    ]
    return {
        "requestId": history.request_id,
        "approvedBy": approved.approved_by or "",
        "approvedOn": history.approved.time if history.approved else "",
        "startedOn": history.started.time if history.started else "",
        "finishedOn": event.time,
        "status": finished.status or "",
        "exitCode": finished.exit_code,
        "image": finished.image or "",
        "materials": materials,
        "trail": {"seq": event.seq, "hash": event.hash},
    }
