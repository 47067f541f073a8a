"""What a draft pins from the project and the notes: read once, here, as bytes.

Invariant: this is the only part of the lanes that reads the disk. Its result (`primary` files) and the
proposal determine every byte of the draft.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from threegate.core import canonical, durable, limits
from threegate.core.settings import Settings
from threegate.plugins.changes.changes_section import ARCHIVE
from threegate.plugins.changes.project import Project, ProjectEntry, ProjectError
from threegate.plugins.changes.section import ProjectSettings
from threegate.plugins.changes.snapshot import take_snapshot
from threegate.plugins.proposals.project_change import propose_cleanup, propose_write
from threegate.plugins.proposals.proposal_verdict import AllowedProposal


@dataclass(frozen=True, slots=True)
class ProposalSources:
    """Where drafts may read: the settings' project, and the folder of notes (None: there are no notes)."""

    settings: Settings
    memory: Path | None
    told: list[str] = field(default_factory=list)
    """What the proposer should know besides the draft: why a path is kept."""

    def project(self) -> Project:
        """The project. Raises ProjectError if none is set."""
        return Project.open(self.settings.section(ProjectSettings).root)


def gather(verdict: AllowedProposal, sources: ProposalSources) -> dict[str, bytes]:
    """The primary input files of an allowed proposal, by name. Raises ProjectError, PathBlocked."""
    entry = _READERS.get(verdict.proposal.tool.name)
    return entry[0](verdict, sources) if entry is not None else {}


def primary_names(tool: str) -> frozenset[str]:
    """The names of the primary files that a tool's draft may have."""
    entry = _READERS.get(tool)
    return entry[1] if entry is not None else frozenset()


def _current(verdict: AllowedProposal, sources: ProposalSources) -> dict[str, bytes]:
    """The one file for read, diff and write; None if it does not exist."""
    project = sources.project()
    path = verdict.paths["path"]
    data = project.read(path, max_bytes=limits.PROPOSAL_FILE_BYTES)
    if data is not None:
        return {"current": data}
    tool, optional = verdict.proposal.tool.name, verdict.proposal.args.get("optional")
    if tool != "file.write_safe" and optional is not True:
        raise ProjectError("there is no such file in the project")
    if tool == "file.write_safe":
        with project.folder(path.parts[:-1]):
            pass
    return {}


def _listing(verdict: AllowedProposal, sources: ProposalSources) -> dict[str, bytes]:
    args = verdict.proposal.args
    most = int(args.get("maxEntries", limits.PROPOSAL_LIST_ENTRIES))
    project = sources.project()
    start = verdict.paths["path"]
    entries: list[dict[str, Any]] = []
    more = False
    for entry, _ in project.walk(start.parts, depth=int(args.get("maxDepth", limits.PROPOSAL_LIST_DEPTH))):
        # One more than may be listed: that there are more must be said.
        if len(entries) >= most:
            more = True
            break
        entries.append({"path": _shown(entry), "kind": entry.kind, "size": entry.size, "protected": entry.protected})
    return {"manifest.json": _json({"entries": entries, "more": more})}


def _write(verdict: AllowedProposal, sources: ProposalSources) -> dict[str, bytes]:
    _current(verdict, sources)  # refuses anything there that is not a regular file
    return {ARCHIVE: propose_write(verdict, sources.settings)}


def _cleanup(verdict: AllowedProposal, sources: ProposalSources) -> dict[str, bytes]:
    data, stays = propose_cleanup(verdict, sources.settings)
    sources.told.extend(stays)
    return {ARCHIVE: data}


def _snapshot(verdict: AllowedProposal, sources: ProposalSources) -> dict[str, bytes]:
    git = verdict.proposal.tool.name.startswith("git.")
    snapshot = take_snapshot(sources.project(), with_git=git)
    return {"project.tar": snapshot.data, "withheld.json": _json([list(item) for item in snapshot.withheld])}


def _notes(_verdict: AllowedProposal, sources: ProposalSources) -> dict[str, bytes]:
    """Every note, one JSON object per line, in the order of file names."""
    lines: list[bytes] = []
    total = 0
    folder = sources.memory
    for path in sorted(folder.glob("*.jsonl")) if folder is not None else ():
        try:
            data = durable.read_regular(path, max_bytes=limits.MEMORY_BYTES)
        except OSError as error:
            raise ProjectError(f"{path.name}: the notes cannot be read ({error.strerror or error})") from None
        total += len(data)
        if total > limits.MEMORY_BYTES:
            raise ProjectError("there are too many notes to search; prune tool-exec/memory/")
        for number, line in enumerate(data.splitlines(), start=1):
            try:
                lines.append(_json(read_note(line)))
            except ValueError as error:
                raise ProjectError(f"{path.name}:{number}: not a note: {error}") from None
    return {"memory.jsonl": b"".join(lines)}


def read_note(line: bytes) -> dict[str, Any]:
    """A stored note. Raises ValueError, which says what is wrong with the line."""
    note = canonical.loads_strict(line, max_bytes=limits.MEMORY_NOTE_BYTES)
    if not isinstance(note, dict) or not isinstance(note.get("content"), str):
        raise ValueError("it needs a content")
    return note


def _shown(entry: ProjectEntry) -> str:
    """A path for a manifest; bytes that are not UTF-8 are shown as escapes."""
    return entry.path.encode("utf-8", "backslashreplace").decode()


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode() + b"\n"


_Reader = Callable[[AllowedProposal, ProposalSources], dict[str, bytes]]
_FILE, _MANIFEST = frozenset({"current"}), frozenset({"manifest.json"})
_TREE, _CHANGES = frozenset({"project.tar", "withheld.json"}), frozenset({ARCHIVE})
_READERS: Final[dict[str, tuple[_Reader, frozenset[str]]]] = {
    "file.list": (_listing, _MANIFEST),
    "file.read": (_current, _FILE),
    "file.diff": (_current, _FILE),
    "file.write_safe": (_write, _CHANGES),
    "project.cleanup_safe": (_cleanup, _CHANGES),
    "shell.execute_approved": (_snapshot, _TREE),
    "git.status": (_snapshot, _TREE),
    "git.diff": (_snapshot, _TREE),
    "git.log": (_snapshot, _TREE),
    "memory.search": (_notes, frozenset({"memory.jsonl"})),
}
"""How each tool's primary files are read, and their names."""
