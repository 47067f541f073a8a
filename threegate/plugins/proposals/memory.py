"""Notes: a proposed note is stored only after an operator approves it with a signed act.

Invariant: a stored note has the bytes that the trail's `finished` names, and contains no secret. A file of
notes is replaced as a whole: its next bytes are on disk next to it before the event with their digest, and
are renamed over it afterwards. The next process to open the notes completes what was recorded and removes the
rest (`settle_notes`).
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
from threegate.plugins.proposals.proposal_finished import APPLY, FinishedProposal, finished_proposal, refuse_done
from threegate.trail import moves
from threegate.trail.payloads import Applied, Pruned
from threegate.trail.trail import LockedTrail

NOTES_FILE = "notes.jsonl"
_TOOLS = frozenset({"memory.propose"})


@dataclass(frozen=True, slots=True)
class ProposedNote:
    """A note that is waiting for the operator."""

    finished: FinishedProposal
    note: Mapping[str, Any]
    about: Mapping[str, Any]


def proposed_note(context: Context, request_id: str) -> ProposedNote:
    """The note of a finished memory.propose. Raises InvalidInput, Refused."""
    with context.trail.locked() as held:
        finished = finished_proposal(context, held, request_id, _TOOLS)
        refuse_done(held, request_id)
    data = finished.output("/out/note.json")
    note = canonical.loads_strict(data, max_bytes=2 * limits.PROPOSAL_BYTES)
    if note != finished.given["note"]:
        raise Refused("result_unverified", "/out/note.json: differs from the note that was proposed")
    if has_secret(str(note["content"])):
        raise InvalidInput(f"{request_id}: the note contains a secret and is not stored, because agents read notes")
    about = {
        "request_id": request_id,
        "approval_sha256": finished.approval_sha256,
        "note_sha256": canonical.sha256_hex(data),
    }
    return ProposedNote(finished, note, about)


def store_note(context: Context, proposed: ProposedNote, signed: bytes) -> None:
    """Record the signed act and add the note. Raises Refused, Unavailable, TrailError, OSError."""
    request_id = proposed.finished.request_id
    line = json.dumps({**proposed.note, "request_id": request_id}, ensure_ascii=True, sort_keys=True).encode() + b"\n"
    path = context.workspace.memory / NOTES_FILE
    with context.trail.locked() as held:
        settle_notes(context.workspace, held)
        refuse_done(held, request_id)
        actor, act = checked_act(context, held, signed, APPLY, proposed.about)
        old = durable.read_regular(path, max_bytes=limits.MEMORY_BYTES) if os.path.lexists(path) else b""
        if len(old) + len(line) > limits.MEMORY_BYTES:
            raise InvalidInput(f"{path}: is full; move old notes away")
        applied = Applied(tool="memory.propose", note_sha256=proposed.about["note_sha256"], **act)
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
    """All stored notes, in the order of files and lines. Raises InvalidInput for a line that is not a note,
    TrailError, OSError.
    """
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
                note = canonical.loads_strict(line, max_bytes=2 * limits.PROPOSAL_BYTES)
            except canonical.StrictJSONError as error:
                raise InvalidInput(f"{path}:{number}: not a note: {error}; fix or remove the line") from None
            if not isinstance(note, dict) or not isinstance(note.get("content"), str):
                raise InvalidInput(f"{path}:{number}: not a note: content is missing; fix or remove the line")
            found.append({"file": path.name, "line": number, **note})
    return found
