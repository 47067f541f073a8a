"""What a change set becomes as one commit on the project's HEAD, or as each of the agent's commits: computed from the
verified bytes, nothing written.

Invariant: the commit's difference to its parent is the change set, path by path, or there is no plan: what the project
has at a changed path must be what HEAD has there. Every other entry, hidden ones among them, is HEAD's. The tree's id
is in the Job, so it is what a person signs. Commits one by one begin at HEAD's tree, each at the tree of the one
before, and end at the very tree of the one commit. Source: docs/spec/8-agents.md, "A branch".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.plugins.changes.change_tar import ChangeSet
from threegate.plugins.changes.commit_chain import CarriedCommit
from threegate.plugins.changes.git_objects import Entry, object_id, tree_entries
from threegate.plugins.changes.project_repository import BranchRefused, ObjectStore, ProjectRepository
from threegate.plugins.changes.stored_form import Stored, how_stored, stored_bytes
from threegate.plugins.changes.table import EXECUTABLE, FILE, LINK, Row, TableNode, folders_above
from threegate.plugins.changes.trees import Tree

BRANCHES: Final = "threegate"
"""The folder of the branches that are made here."""
_TREE: Final = b"40000"
_MODES: Final[Mapping[str, bytes]] = {FILE: b"100644", EXECUTABLE: b"100755", LINK: b"120000"}
_ATTRIBUTES: Final = ".gitattributes"


@dataclass(slots=True)
class _Change:
    """What becomes of one name: a new entry, none, or (with neither) only what is below it."""

    entry: Entry | None = None
    gone: bool = False
    below: dict[bytes, _Change] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannedCommit:
    """One of the agent's commits: its tree, and each path that differs from the one before, as in a `BranchPlan`."""

    commit: CarriedCommit
    tree: str
    entries: Mapping[str, Entry | None]


@dataclass(frozen=True, slots=True)
class BranchPlan:
    """The commit's parent and tree, and what is new in the repository."""

    base: str
    tree: str
    entries: Mapping[str, Entry | None]
    """Each path that differs between the two, with its new entry; None for one that is gone."""
    trees: Mapping[str, bytes]
    """The new trees by id."""
    stored: Mapping[str, Stored]
    """How each new file is stored."""
    present: Mapping[str, bytes]
    """The blob that HEAD has, where that decides how a new file is stored."""
    notes: tuple[str, ...]
    """What of the change set is not in the commit."""
    commits: tuple[PlannedCommit, ...] = ()
    """The agent's commits, oldest first, where they are delivered one by one."""

    def blob(self, change: ChangeSet, archive: BinaryIO, path: str) -> bytes:
        """The bytes of a new blob, from the archive."""
        if path in change.targets:
            return change.targets[path].encode()
        return stored_bytes(change.read(archive, path), self.stored[path], self.present.get(path))


@contextmanager
def planned(
    repository: ProjectRepository,
    tree: Tree,
    change: ChangeSet,
    archive: BinaryIO,
    base: str = "",
    commits: Sequence[CarriedCommit] = (),
) -> Iterator[tuple[BranchPlan, ObjectStore]]:
    """The plan for a change set whose every "before" is the state of `tree`, and the open object store. `base` is the
    commit to build on, otherwise HEAD; `commits` are delivered one by one instead. Raises BranchRefused, OSError.
    """
    base = base or repository.head()
    settings = repository.settings()
    with ObjectStore(repository, base, settings) as store:
        yield _Planning(repository, store, settings, tree, change, archive, base).plan(commits), store


class _Planning:
    """One plan while it is made."""

    def __init__(
        self,
        repository: ProjectRepository,
        store: ObjectStore,
        settings: Mapping[str, str],
        tree: Tree,
        change: ChangeSet,
        archive: BinaryIO,
        base: str,
    ) -> None:
        self._repository, self._store, self._settings = repository, store, settings
        self._tree, self._change, self._archive, self._base = tree, change, archive, base
        self._raw = len(base) // 2
        self._top = ""
        self._read: dict[str, dict[bytes, Entry]] = {}
        self._new: dict[str, bytes] = {}
        self._blobs: dict[str, bytes] = {}
        """Those of the agent's commits."""

    def plan(self, commits: Sequence[CarriedCommit]) -> BranchPlan:
        """Raises BranchRefused, OSError."""
        _, commit = self._store.read(self._base, limits.COMMIT_OBJECT_BYTES)
        self._top = top = commit.split(b"\n", 1)[0].removeprefix(b"tree ").decode()
        leaves = [row for row in self._change.rows if _is_leaf(row.before) or _is_leaf(row.after)]
        was = {row.path: self._find(top, row.path) for row in leaves}
        old, new = self._forms(top, [row.path for row in leaves], leaves)
        entries: dict[str, Entry | None] = {}
        present: dict[str, bytes] = {}
        for row in leaves:
            entry = was[row.path]
            if old[row.path] == "guess" and entry is not None and entry[0] != _TREE:
                present[row.path] = self._store.read(entry[1], limits.TAR_BYTES)[1]
            self._check_before(row, entry, old[row.path], present.get(row.path))
            after = self._after(row, entry, new[row.path], present.get(row.path))
            if after != (entry if _is_leaf(row.before) else None):
                entries[row.path] = after
        if not entries:
            raise BranchRefused(
                "git would store nothing of this change that differs from HEAD, so a commit would be empty"
            )
        changes = _Change()
        for path, leaf in entries.items():
            _note(changes, path, leaf)
        tree = self._build(top, changes, "") or self._add({})
        return BranchPlan(
            self._base, tree, entries, self._new, {path: new[path] for path in entries}, present,
            tuple(self._notes(leaves, entries)), self._chain(top, commits, leaves, tree),
        )  # fmt: skip

    def _notes(self, leaves: list[Row], entries: Mapping[str, Entry | None]) -> Iterator[str]:
        same = len(leaves) - len(entries)
        if same:
            yield f"{same} changed paths are the same to git and not in the commit"
        folders = {row.path for row in self._change.rows if row.before is None and row.after and row.after.folder}
        filled = {folder for path in entries for folder in folders_above(path)}
        if empty := len(folders - filled):
            yield f"{empty} empty folders are not in the commit, because git keeps none"

    # ---- the agent's commits, one by one

    def _chain(
        self, top: str, commits: Sequence[CarriedCommit], leaves: list[Row], end: str
    ) -> tuple[PlannedCommit, ...]:
        """Each commit on the tree of the one before; the last has the tree `end`. Raises BranchRefused."""
        if not commits:
            return ()
        paths = {row.path: None for commit in commits for row in commit.change.rows}
        for path, how in self._forms(top, [*paths], leaves)[1].items():
            if how == "lfs":
                raise self._as_one(f"{path}: is kept by git-lfs, which needs the content of each version")
        planned, tree = [], top
        for number, commit in enumerate(commits, 1):
            entries: dict[str, Entry | None] = {}
            for row in commit.change.rows:
                entries[row.path] = self._step(tree, number, commit, row)
            changes = _Change()
            for path, entry in entries.items():
                _note(changes, path, entry)
            tree = self._build(tree, changes, "") or self._add({})
            planned.append(PlannedCommit(commit, tree, entries))
        if tree != end:
            raise self._as_one("after the last commit the files are not those of the change that is shown")
        return tuple(planned)

    def _step(self, tree: str, number: int, commit: CarriedCommit, row: Row) -> Entry | None:
        """What a row of a commit makes of the entry that the tree before it has."""
        if any(node is not None and node.folder for node in (row.before, row.after)):
            raise self._as_one(f"{row.path}: commit {number} has a folder of its own, and git keeps none")
        entry = self._find(tree, row.path)
        if row.before is None or entry is None:
            fits = row.before is None and entry is None
        else:
            fits = entry[0] == _MODES[row.before.mode] and sha256_hex(self._blob(entry[1])) == row.before.sha256
        if not fits:
            raise self._as_one(f"{row.path}: commit {number} was not made on what the project has in HEAD")
        if row.after is None:
            return None
        data = commit.content(row.path)
        oid = self._id(b"blob", data)
        self._blobs[oid] = data
        return _MODES[row.after.mode], oid

    def _blob(self, oid: str) -> bytes:
        return self._blobs[oid] if oid in self._blobs else self._store.read(oid, limits.AGENT_GIT_OBJECT_BYTES)[1]

    def _as_one(self, why: str) -> BranchRefused:
        return BranchRefused(f"{why}; deliver them as one commit (threegate approve --deliver branch)")

    # ---- what HEAD has, and what is stored

    def _check_before(self, row: Row, entry: Entry | None, how: Stored, present: bytes | None) -> None:
        """Refuse a path at which HEAD does not have what the project has."""
        if not _is_leaf(row.before):
            if entry is not None and (row.before is None or entry[0] != _TREE):
                raise self._differs(row)
            return
        assert row.before is not None
        if entry is None or entry[0] not in _MODES.values() or (entry[0] == b"120000") != (row.before.mode == LINK):
            raise self._differs(row)
        chmod = row.after is not None and _is_leaf(row.after) and row.after.mode != row.before.mode
        if chmod and entry[0] != _MODES[row.before.mode]:
            raise self._differs(row)
        is_link = row.before.mode == LINK
        data = self._tree.target(row.path) if is_link else b"".join(self._tree.chunks(row.path))
        if sha256_hex(data) != row.before.sha256:
            raise BranchRefused(f"{row.path}: the project moved on since the change was made", moved=True)
        forms = [data] if is_link else [data, stored_bytes(data, how, present)]
        if entry[1] not in (self._id(b"blob", form) for form in forms):
            raise self._differs(row)

    def _differs(self, row: Row) -> BranchRefused:
        missing = row.before is not None and self._find(self._top, row.path) is None
        what = "is not in HEAD" if missing else "differs from HEAD"
        return BranchRefused(
            f"{row.path}: {what}, so the commit would not be what is shown; commit your own changes first, or deliver "
            "it as files (threegate approve --deliver tree)"
        )

    def _after(self, row: Row, entry: Entry | None, how: Stored, present: bytes | None) -> Entry | None:
        """The new entry of a path; None if it is gone, or a folder."""
        if row.after is None or not _is_leaf(row.after):
            return None
        if row.after.mode == LINK:
            return _MODES[LINK], self._id(b"blob", self._change.targets[row.path].encode())
        data = self._change.read(self._archive, row.path)
        if sha256_hex(data) != row.after.sha256:
            raise BranchRefused(f"{row.path}: changes.tar changed while it was read")
        mode = _MODES[row.after.mode]
        if entry is not None and row.before is not None and row.before.mode == row.after.mode:
            mode = entry[0]  # where core.fileMode is false, the file's own bit says nothing
        return mode, self._id(b"blob", stored_bytes(data, how, present))

    def _forms(self, top: str, paths: list[str], leaves: list[Row]) -> tuple[dict[str, Stored], dict[str, Stored]]:
        """How each path is stored before and after these rows. Raises BranchRefused if a program decides that."""
        folders = {"", *(folder for path in paths for folder in folders_above(path))}
        files: dict[str, bytes] = {}
        for folder in folders:
            name = f"{folder}/{_ATTRIBUTES}" if folder else _ATTRIBUTES
            entry = self._find(top, name)
            if entry is not None and entry[0] in (b"100644", b"100755"):
                files[name] = self._store.read(entry[1], limits.GIT_ATTRIBUTES_BYTES)[1]
        old = self._stored(files, paths)
        later = dict(files)
        for row in leaves:
            if row.path.rpartition("/")[2] == _ATTRIBUTES:
                later.pop(row.path, None)
                if row.after is not None and row.after.file:
                    later[row.path] = self._change.read(self._archive, row.path)
        return old, old if later == files else self._stored(later, paths)

    def _stored(self, files: Mapping[str, bytes], paths: list[str]) -> dict[str, Stored]:
        found: dict[str, Stored] = {}
        autocrlf = self._settings.get("core.autocrlf")
        for path, attributes in self._attributes(files, paths).items():
            found[path], why = how_stored(attributes, autocrlf)
            if why:
                raise BranchRefused(f"{path}: {why}; deliver it as files (threegate approve --deliver tree)")
            if found[path] == "lfs" and "lfs.storage" in self._settings:
                raise BranchRefused(f"{path}: git-lfs keeps its files elsewhere here (lfs.storage); deliver as files")
        return found

    def _attributes(self, files: Mapping[str, bytes], paths: list[str]) -> dict[str, dict[str, str]]:
        """The attributes of each path with these `.gitattributes`, the project's own and the person's."""
        place = self._store.folder / "tree"
        made = []
        for name, data in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(data)
            made.append(place / name)
        own = self._repository.common / "info" / "attributes"
        if own.is_file():
            (self._store.folder / "info" / "attributes").write_bytes(own.read_bytes()[: limits.GIT_ATTRIBUTES_BYTES])
        try:
            return {path: {} for path in paths} | self._store.attributes(paths, self._persons())
        finally:
            for file in made:
                file.unlink()

    def _persons(self) -> str:
        """The file with the attributes of the project's owner."""
        named = self._settings.get("core.attributesfile", "")
        if named.startswith("~/"):
            return os.path.join(self._repository.home, named[2:])
        return named or os.path.join(self._repository.home, ".config/git/attributes")

    # ---- trees

    def _entries(self, tree: str) -> dict[bytes, Entry]:
        if tree not in self._read:
            data = self._new.get(tree)
            kind, data = ("tree", data) if data is not None else self._store.read(tree, limits.TREE_OBJECT_BYTES)
            try:
                if kind != "tree":
                    raise ValueError(kind)
                self._read[tree] = tree_entries(data, self._raw)
            except ValueError:
                raise BranchRefused(f"the project's repository has no valid tree {tree}; try: git fsck") from None
        return self._read[tree]

    def _find(self, tree: str, path: str) -> Entry | None:
        entry: Entry = _TREE, tree
        for name in os.fsencode(path).split(b"/"):
            if entry[0] != _TREE:
                return None
            below = self._entries(entry[1]).get(name)
            if below is None:
                return None
            entry = below
        return entry

    def _build(self, tree: str | None, change: _Change, prefix: str) -> str | None:
        """The id of a tree with the changes below it; None if nothing is left in it."""
        entries = {} if tree is None else dict(self._entries(tree))
        for name, inner in change.below.items():
            path = prefix + os.fsdecode(name)
            present = entries.pop(name, None)
            folder = present[1] if present is not None and present[0] == _TREE else None
            below = self._build(folder, inner, f"{path}/") if inner.below else folder
            if inner.entry is not None:
                if below is not None:
                    raise BranchRefused(
                        f"{path}: HEAD has files below it that the project does not have; commit that first"
                    )
                entries[name] = inner.entry
            elif present is not None and folder is None and not inner.gone:
                raise BranchRefused(f"{path}: is a folder in the project and not in HEAD; commit that first")
            elif below is not None:
                entries[name] = _TREE, below
        return self._add(entries) if entries else None

    def _add(self, entries: Mapping[bytes, Entry]) -> str:
        ordered = sorted(entries.items(), key=lambda item: item[0] + b"/" * (item[1][0] == _TREE))
        data = b"".join(mode + b" " + name + b"\0" + bytes.fromhex(oid) for name, (mode, oid) in ordered)
        oid = self._id(b"tree", data)
        self._new[oid] = data
        return oid

    def _id(self, kind: bytes, data: bytes) -> str:
        return object_id(self._store.algorithm, kind, data)


def _is_leaf(node: TableNode | None) -> bool:
    """Whether git has an entry of its own for it: a file or a link."""
    return node is not None and not node.folder


def _note(top: _Change, path: str, entry: Entry | None) -> None:
    at = top
    for name in os.fsencode(path).split(b"/"):
        at = at.below.setdefault(name, _Change())
    at.entry, at.gone = entry, entry is None
