"""What a draft pins of the project and of the notes: read once, here, as bytes.

Invariant: this is the only part of the lanes that looks at a disk. What it gives (`primary` files) and the proposal
decide every byte of the draft.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from threegate.changes.project_paths import PathBlocked, ProjectPath, read_path
from threegate.core import canonical, durable, limits
from threegate.core.settings import Settings
from threegate.proposals.project import Entry, Project, ProjectError, read_at
from threegate.proposals.proposal_verdict import AllowedProposal
from threegate.proposals.snapshot import take_snapshot

CLEANED: Final = (
    "build",
    "dist",
    "coverage",
    "node_modules",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".cache",
    "tmp",
)
"""What a cleanup without `include` speaks of."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where drafts may read: the settings' project, and the folder of notes (None: there are no notes)."""

    settings: Settings
    memory: Path | None

    def project(self) -> Project:
        """The project. Raises ProjectError when none is set."""
        return Project.open(self.settings.project.root)


def gather(verdict: AllowedProposal, sources: Sources) -> dict[str, bytes]:
    """The primary input files of an allowed proposal, by name. Raises ProjectError, PathBlocked."""
    entry = _READERS.get(verdict.proposal.tool.name)
    return entry[0](verdict, sources) if entry is not None else {}


def primary_names(tool: str) -> frozenset[str]:
    """The names of the primary files that a tool's draft may have."""
    entry = _READERS.get(tool)
    return entry[1] if entry is not None else frozenset()


def _current(verdict: AllowedProposal, sources: Sources) -> dict[str, bytes]:
    """The one file that read, diff and write speak of; nothing when it is not there."""
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


def _listing(verdict: AllowedProposal, sources: Sources) -> dict[str, bytes]:
    args = verdict.proposal.args
    most = int(args.get("maxEntries", limits.PROPOSAL_LIST_ENTRIES))
    project = sources.project()
    start = verdict.paths["path"]
    entries: list[dict[str, Any]] = []
    more = False
    for entry, _ in project.walk(start.parts, depth=int(args.get("maxDepth", limits.PROPOSAL_LIST_DEPTH))):
        if len(entries) >= most:
            more = True
            break
        entries.append(
            {"path": _shown(entry), "kind": entry.kind, "size": entry.size, "protected": entry.protected}
        )
    return {"manifest.json": _json({"entries": entries, "more": more})}


def _cleanup(verdict: AllowedProposal, sources: Sources) -> dict[str, bytes]:
    project = sources.project()
    start = verdict.paths["path"]
    entries: list[dict[str, Any]] = []
    skipped: list[dict[str, str]] = []
    for text in dict.fromkeys(verdict.proposal.args.get("include", CLEANED)):
        path = read_path(f"{start.text}/{text}", writing=True)
        reason, facts = _removable(project, path)
        if reason is not None:
            skipped.append({"path": path.text, "reason": reason})
        elif facts is not None:
            entries.append(facts)
    return {"manifest.json": _json({"entries": entries, "skipped": skipped})}


def _removable(project: Project, path: ProjectPath) -> tuple[str | None, dict[str, Any] | None]:
    """Why a path stays, or what of it would go. (None, None): it is not there."""
    if not path.parts or path.protected:
        return "protected", None
    try:
        kind = project.kind_of(path)
        if kind is None:
            return None, None
        if kind not in ("file", "folder"):
            return kind, None
        return None, removal_facts(project, path)
    except (PathBlocked, ProjectError) as error:
        return str(error), None


def removal_facts(project: Project, path: ProjectPath) -> dict[str, Any]:
    """`{path, kind, files, bytes, sha256}` of what a cleanup would move; the sha256 is of every name and byte below.

    Raises ProjectError for what may not go: something protected or unreadable in it, or too much.
    """
    lines: list[Any] = []
    size = 0
    if project.kind_of(path) == "file":
        data = project.read(path, max_bytes=limits.SNAPSHOT_BYTES) or b""
        return {
            "path": path.text,
            "kind": "file",
            "files": 1,
            "bytes": len(data),
            "sha256": canonical.sha256_hex(data),
        }
    files = 0
    for entry, folder in project.walk(path.parts):
        if entry.protected:
            raise ProjectError("has something protected in it")
        if entry.kind == "file":
            try:
                data = read_at(folder, entry.parts[-1], max_bytes=limits.SNAPSHOT_BYTES)
            except OSError as error:
                raise ProjectError(f"a file in it cannot be read ({error.strerror or error})") from None
            size, files = size + len(data), files + 1
            lines.append([_shown(entry), entry.kind, canonical.sha256_hex(data)])
        elif entry.kind == "folder":
            lines.append([_shown(entry), entry.kind, ""])
        else:
            raise ProjectError(f"has a {entry.kind} in it")
        if len(lines) > limits.SNAPSHOT_ENTRIES or size > limits.SNAPSHOT_BYTES:
            raise ProjectError("is too large to be checked; name a part of it")
    return {
        "path": path.text,
        "kind": "folder",
        "files": files,
        "bytes": size,
        "sha256": canonical.digest(lines),
    }


def _snapshot(verdict: AllowedProposal, sources: Sources) -> dict[str, bytes]:
    git = verdict.proposal.tool.name.startswith("git.")
    snapshot = take_snapshot(sources.project(), with_git=git)
    return {
        "project.tar": snapshot.data,
        "withheld.json": _json([list(item) for item in snapshot.withheld]),
    }


def _notes(_verdict: AllowedProposal, sources: Sources) -> dict[str, bytes]:
    """Every note, one JSON object a line, in the order of file names."""
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
            lines.append(_note_line(line, path.name, number))
    return {"memory.jsonl": b"".join(line + b"\n" for line in lines)}


def _note_line(line: bytes, name: str, number: int) -> bytes:
    try:
        note = canonical.loads_strict(line, max_bytes=limits.PROPOSAL_BYTES)
    except canonical.StrictJSONError as error:
        raise ProjectError(f"{name}:{number}: no note: {error}") from None
    if not isinstance(note, dict) or not isinstance(note.get("content"), str):
        raise ProjectError(f"{name}:{number}: no note: it needs a content")
    return _json(note).rstrip(b"\n")


def _shown(entry: Entry) -> str:
    """A path for a manifest; bytes that are no UTF-8 are shown as escapes."""
    return entry.path.encode("utf-8", "backslashreplace").decode()


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode() + b"\n"


_Reader = Callable[[AllowedProposal, Sources], dict[str, bytes]]
_FILE, _MANIFEST = frozenset({"current"}), frozenset({"manifest.json"})
_TREE = frozenset({"project.tar", "withheld.json"})
_READERS: Final[dict[str, tuple[_Reader, frozenset[str]]]] = {
    "file.list": (_listing, _MANIFEST),
    "file.read": (_current, _FILE),
    "file.diff": (_current, _FILE),
    "file.write_safe": (_current, _FILE),
    "project.cleanup_safe": (_cleanup, _MANIFEST),
    "shell.execute_approved": (_snapshot, _TREE),
    "git.status": (_snapshot, _TREE),
    "git.diff": (_snapshot, _TREE),
    "git.log": (_snapshot, _TREE),
    "memory.search": (_notes, frozenset({"memory.jsonl"})),
}
"""How each tool's primary files are read, and what they are called."""
