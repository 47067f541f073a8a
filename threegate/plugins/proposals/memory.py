"""Notes: a proposed note is stored only after an operator approves it with a signed act.

Invariant: a stored note has the bytes that the trail's `finished` names, was proposed by the `args.json` that the
approval bound, and contains no secret. A file of notes is replaced as a whole: its next bytes are on disk next to it
before the event with their digest, and are renamed over it afterwards. The next process to open the notes completes
what was recorded and removes the rest (`settle_notes`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from threegate.acts.signed_acts import checked_act
from threegate.core import canonical, durable, limits
from threegate.core.errors import InvalidInput, Refused
from threegate.core.secretscan.scan import has_secret
from threegate.core.workspace import Workspace
from threegate.launch.context import Context
from threegate.plugins.proposals.gather import read_note
from threegate.trail import moves
from threegate.trail.payloads import Applied, Approved, Finished, Pruned
from threegate.trail.trail import LockedTrail

APPLY = "threegate-apply/1"
"""The type of the signed act."""
NOTES_FILE = "notes.jsonl"
_TOOL = "memory.propose"


@dataclass(frozen=True, slots=True)
class ProposedNote:
    """A note that is waiting for the operator, and what the act says about it."""

    note: Mapping[str, Any]
    about: Mapping[str, str]


def proposed_note(context: Context, request_id: str) -> ProposedNote:
    """The note of a finished memory.propose.

    Raises InvalidInput if the request is not one or did not succeed; Refused("result_unverified") if bytes differ from
    what the trail recorded, Refused("replayed") if it was stored before.
    """
    with context.trail.locked() as held:
        history = held.index.history(request_id)
        _refuse_stored(held, request_id)
    if history is None:
        raise InvalidInput(f"{request_id}: not in the trail; threegate status lists them")
    approved, finished = Approved.of(history.approved), Finished.of(history.finished)
    if history.proposal_sha256 is None or approved is None:
        raise InvalidInput(f"{request_id}: was not made from a proposal")
    if finished is None or finished.status != "succeeded":
        raise InvalidInput(f"{request_id}: has not succeeded; only a successful run can be used")
    # Both files could have been changed since: each must have the digest that the trail has of it.
    pinned = str((approved.inputs or {}).get("args.json"))
    args = json.loads(_vouched(context.workspace.inputs / pinned, pinned, "args.json", 2 * limits.MEMORY_NOTE_BYTES))
    if args["proposal"]["sha256"] != history.proposal_sha256:
        raise Refused("result_unverified", f"{request_id}: its args.json belongs to another proposal")
    if (tool := args["proposal"]["tool"]) != _TOOL:
        raise InvalidInput(f"{request_id}: is a {tool}; this command is for {_TOOL}")
    digest = (finished.outputs or {}).get("note.json", "")
    place = context.workspace.run_folder(request_id) / "out" / "note.json"
    data = _vouched(place, digest, "/out/note.json", limits.OUT_FILE_BYTES)
    note = canonical.loads_strict(data, max_bytes=limits.MEMORY_NOTE_BYTES)
    if note != args["given"]["note"]:
        raise Refused("result_unverified", "/out/note.json: differs from the note that was proposed")
    if has_secret(str(note["content"])):
        raise InvalidInput(f"{request_id}: the note contains a secret and is not stored, because agents read notes")
    approval = approved.approval_sha256 or ""
    return ProposedNote(note, {"request_id": request_id, "approval_sha256": approval, "note_sha256": digest})


def _vouched(path: Path, digest: str, name: str, most: int) -> bytes:
    """A file's bytes, if they have the digest that the trail names. Raises Refused("result_unverified")."""
    try:
        data = durable.read_regular(path, max_bytes=most)
    except OSError as error:
        raise Refused("result_unverified", f"{name}: cannot be read ({error.strerror or error})") from None
    if canonical.sha256_hex(data) != digest:
        raise Refused("result_unverified", f"{name}: does not have the bytes that the trail recorded")
    return data


def _refuse_stored(held: LockedTrail, request_id: str) -> None:
    """An act on a request is done only once. Raises Refused("replayed")."""
    history = held.index.history(request_id)
    if history is not None and history.applied is not None:
        raise Refused("replayed", f"{request_id}: was already applied (trail line {history.applied.seq})")


def store_note(context: Context, proposed: ProposedNote, signed: bytes) -> None:
    """Record the signed act and add the note. Raises Refused, Unavailable, TrailError, OSError."""
    request_id = proposed.about["request_id"]
    line = json.dumps({**proposed.note, "request_id": request_id}, ensure_ascii=True, sort_keys=True).encode() + b"\n"
    # Read again under the lock, which was free while the operator was reading.
    path = context.workspace.memory / NOTES_FILE
    with context.trail.locked() as held:
        settle_notes(context.workspace, held)
        _refuse_stored(held, request_id)  # somebody else may have stored it while this operator read and signed
        actor, act = checked_act(context, held, signed, APPLY, proposed.about)
        old = durable.read_regular(path, max_bytes=limits.MEMORY_BYTES) if os.path.lexists(path) else b""
        if len(old) + len(line) > limits.MEMORY_BYTES:
            raise InvalidInput(f"{path}: is full; move old notes away")
        applied = Applied(tool=_TOOL, note_sha256=proposed.about["note_sha256"], **act)
        _change(held, path, old + line, applied, request_id, actor)


def remove_note(context: Context, which: str, *, actor: str) -> dict[str, Any]:
    """Record the removal of a stored note and remove it; `which` is its FILE:LINE, or the id of the request
    that proposed it. Returns the note. Raises InvalidInput, Unavailable, TrailError, OSError.
    """
    with context.trail.locked() as held:
        settle_notes(context.workspace, held)
        found = [
            note
            for note in _read_notes(context.workspace)
            if which in (f"{note['file']}:{note['line']}", note.get("request_id"))
        ]
        if len(found) != 1:
            raise InvalidInput(f"{which}: {len(found)} notes match; see: threegate project note list")
        path = context.workspace.memory / found[0]["file"]
        lines = durable.read_regular(path, max_bytes=limits.MEMORY_BYTES).splitlines(keepends=True)
        gone = lines.pop(found[0]["line"] - 1)
        pruned = Pruned(what="memory note", note_sha256=canonical.sha256_hex(gone))
        _change(held, path, b"".join(lines), pruned, None, actor)
    return found[0]


def notes(context: Context) -> list[dict[str, Any]]:
    """All stored notes, by file and line. Raises InvalidInput for a line that is not a note, TrailError, OSError."""
    with context.trail.locked() as held:
        settle_notes(context.workspace, held)
        return _read_notes(context.workspace)


def settle_notes(workspace: Workspace, held: LockedTrail) -> None:
    """Settle a change of the notes that a crash or a full disk interrupted: complete it if the trail recorded
    it, else undo it.

    Raises OSError.
    """
    moves.settle_changes(workspace.memory, held.index.notes, max_bytes=limits.MEMORY_BYTES)


def _change(
    held: LockedTrail, path: Path, data: bytes, event: Applied | Pruned, request_id: str | None, actor: str
) -> None:
    announced = replace(event, files={path.name: canonical.sha256_hex(data)})
    moves.change_file(held, path, data, announced, request_id=request_id, actor=actor)


def _read_notes(workspace: Workspace) -> list[dict[str, Any]]:
    found = []
    for path in sorted(workspace.memory.glob("*.jsonl")):
        for number, line in enumerate(durable.read_regular(path, max_bytes=limits.MEMORY_BYTES).splitlines(), start=1):
            try:
                found.append({"file": path.name, "line": number, **read_note(line)})
            except ValueError as error:
                raise InvalidInput(f"{path}:{number}: not a note: {error}; fix or remove the line") from None
    return found
