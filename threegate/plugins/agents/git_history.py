"""A repository for the agent that has the project's history, and no blob of a file that is hidden from it.

Invariant: the agent's repository has exactly the objects that its references and its index reach, in a pack of its
own. It shares nothing with the project's object store, in which unreachable objects, stashes and alternates also are.
If no hidden blob is in the history, every object keeps its id. Otherwise a placeholder takes the place of each, the
trees with them and the commits and tags above are rewritten, and everything else keeps its bytes. Hidden files that
are tracked are skipped by the index (`skip-worktree`), so nothing takes them for deleted.

git never runs in the project or in the copy: it runs in a scratch repository with its own configuration, whose
alternate is the project's object store.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from threegate.core import durable, limits, removal
from threegate.core.secretscan.certain import find_certain
from threegate.plugins.agents.file_findings import KEY, is_fixture
from threegate.plugins.agents.git_repository import NoHistory, Repository, find_git, git_environment, run_git
from threegate.plugins.agents.secret_files import text_of
from threegate.plugins.changes.git_objects import is_id, object_id, pack_head, packed

_TREE, _LINK, _REGULAR = 0o40000, 0o120000, 0o100000
_FILE: Final = b"100644"
_NOTHING, _SECRET, _KEYS_ONLY = range(3)
"""What was found in a blob. Private keys alone do not count as secrets if only folders for tests, examples and
documents have them, as in the copy (docs/spec/8-agents.md, "Secrets in a project").
"""
_RULES: Final = 2
"""Number of the rules by which blobs are scanned."""
_MISSING: Final = b"missing"
"""The kind of an object that a partial clone does not have."""
_ONE_INDEX: Final = ("--no-split-index", "--clear-resolve-undo", "--no-untracked-cache", "--force-write-index")
"""Options of update-index: all entries in one file, and nothing of other names or earlier blobs."""
_PLACEHOLDER: Final = b"ThreeGate hides this file from the agent.\n"
_PIECE: Final = 1 << 20
_AT_ONCE: Final = 128
"""Objects that are asked for before the first is read; their ids fit into a pipe."""
_QUICK: Final = ("--window=0", "--compression=0")
"""Objects in the project's packs are taken as they are, and the others are neither compared nor compressed: for 80 MB
of loose notebooks git would take half a minute.
"""
_BROKEN: Final = (subprocess.SubprocessError, BrokenPipeError, RecursionError, ValueError, KeyError, IndexError)
"""What objects that git cannot read, or that were not made by git, lead to."""
_NAMED: Final = 8
"""References that a line names."""
_REWRITTEN: Final = (
    "git: {versions} versions of hidden files are placeholders in the history, so {commits} commits have other ids"
)
_TOO_LONG: Final = (
    "git: one commit of what is visible, because the whole history takes more than "
    f"{limits.AGENT_HISTORY_SECONDS} s to check"
)
_UNREADABLE: Final = (
    "git: one commit of what is visible, because git cannot read all objects of the history; try: git fsck"
)
_GONE: Final = "git: the agent does not have {names}, because the object is missing; try: git fsck"


class _TooLong(Exception):
    """More time than AGENT_HISTORY_SECONDS."""


@dataclass(frozen=True, slots=True)
class History:
    """What was made: HEAD, the references, the index and the shallow list as files of a `.git`, and lines about it."""

    head: bytes
    packed_refs: bytes
    index: bytes | None
    shallow: bytes
    index_ns: int
    """When the project's index was written: git checks files that are not older for changes."""
    skipped: tuple[bytes, ...]
    """Paths of the index that are hidden."""
    notes: tuple[str, ...]

    def write(self, repository: Repository, git: Path, objects: str) -> None:
        """Make the `.git` of a checkout, with the settings of the project's; `objects` is where its objects are in the
        jail. Raises OSError, ProjectError.
        """
        for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
            (git / folder).mkdir(parents=True)
        for name, data in (
            ("config", repository.config(without_cone=bool(self.skipped))),
            ("HEAD", self.head),
            ("packed-refs", self.packed_refs),
            ("index", self.index),
            ("shallow", self.shallow),
            ("objects/info/alternates", f"{objects}\n".encode()),
            *((f"info/{name}", data) for name, data in repository.patterns(self.skipped).items()),
        ):
            if data:
                (git / name).write_bytes(data)
        if self.index is not None and self.index_ns:
            os.utime(git / "index", ns=(self.index_ns, self.index_ns))


class _Staged(NamedTuple):
    """An entry of the index."""

    path: str
    oid: str
    stage: str


def make_history(
    repository: Repository,
    place: Path,
    *,
    hides: Callable[[str], bool],
    shown: Callable[[str], bytes | None],
    clean: Collection[str] = (),
    kept: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> History:
    """Make `place/objects` with what the agent may have.

    `hides` reports whether a path, whose folders are not hidden, is hidden from the agent; `shown` returns the bytes of
    a visible file of the project now: they stay wherever else they are. `clean` are ids of blobs, and of beginnings of
    blobs, that were scanned just now, with the rules of this process, and have no secret. `kept` is a folder for what
    the next run can use: which blobs have a secret, and the objects that were rewritten. `progress` is called with
    the number of versions of files read and of all. Raises NoHistory, ProjectError, OSError.
    """
    find_git()
    if "\n" in str(repository.common):
        raise NoHistory("its path has a line break")
    with _Making(repository, place, hides, shown, clean, kept, progress) as making:
        try:
            return making.whole()
        except _TooLong:
            return making.one_commit(_TOO_LONG)
        except _BROKEN:
            return making.one_commit(_UNREADABLE)


class _Making:
    """One history while it is made."""

    def __init__(
        self,
        repository: Repository,
        place: Path,
        hides: Callable[[str], bool],
        shown: Callable[[str], bytes | None],
        clean: Collection[str],
        kept: Path | None,
        progress: Callable[[int, int], None],
    ) -> None:
        self._repository, self._place = repository, place
        self._hides, self._shown = cache(hides), shown
        self._clean, self._progress = clean, progress
        name = hashlib.sha256(os.fsencode(repository.common)).hexdigest()[:32]
        self._scanned = _Scanned.load(kept and kept / f"blobs-{_RULES}-{name}.json")
        self._kept = _Kept(kept and kept / f"objects-{name}")
        self._until = time.monotonic() + limits.AGENT_HISTORY_SECONDS
        self._scratch = place / "scratch"
        self._index = self._scratch / "index"
        self._environment = git_environment(GIT_DIR=str(self._scratch))
        self._algorithm = repository.algorithm
        self._partial = ("--missing=allow-any",) if repository.is_partial else ()
        self._raw = hashlib.new(self._algorithm).digest_size
        self._read: dict[str, tuple[bytes, bytes]] = {}
        """Commits and tags that were read, and what was rewritten."""
        self._new: dict[str, tuple[bytes, bytes]] = {}
        self._trees: dict[str, list[tuple[bytes, bytes, str]]] = {}
        self._walked: set[tuple[str, str]] = set()
        self._rewritten: dict[str, str] = {}
        self._blobs: dict[str, None] = {}
        self._hidden: set[str] = set()
        """Blobs that are at a hidden path."""
        self._bad: set[str] = set()
        """Blobs that the agent does not get."""
        self._elsewhere: set[str] = set()
        """Blobs that are at a path which is not below a folder for tests, examples or documents."""
        self._gone: set[str] = set()
        """Blobs that a partial clone does not have."""
        self._index_ns = 0
        self._skipped: tuple[bytes, ...] = ()
        self._notes: list[str] = []
        self._held = ExitStack()
        self._objects: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _Making:
        for folder in ("objects/info", "objects/pack", "refs", "tree"):
            (self._scratch / folder).mkdir(parents=True)
        for folder in ("objects", "objects/info", "objects/pack"):
            (self._place / folder).mkdir()
        for folder in ("", "objects", "objects/info", "objects/pack"):
            os.chmod(self._place / folder, 0o755)  # noqa: S103  (below a closed folder; bound read-only)
        (self._scratch / "config").write_bytes(self._repository.format())
        (self._scratch / "HEAD").write_bytes(b"ref: refs/heads/none\n")
        (self._scratch / "objects/info/alternates").write_bytes(os.fsencode(f"{self._repository.common / 'objects'}\n"))
        if shallow := self._repository.shallow():
            (self._scratch / "shallow").write_bytes(shallow)
        for index in self._kept.lend(self._scratch / "objects/pack"):
            try:
                listed = self._git("show-index", given=index.read_bytes())
            except (_TooLong, subprocess.SubprocessError):
                index.unlink()
                continue
            self._kept.ids |= {line.split()[1].decode() for line in listed.splitlines()}
        self._restart()
        return self

    def __exit__(self, *error: object) -> None:
        if self._objects is not None:
            self._objects.kill()
        self._held.close()
        self._scanned.save()
        removal.remove_tree(self._scratch)

    def _restart(self) -> None:
        """Start the process that reads objects; an earlier one may have died, or have answers that nobody read."""
        if self._objects is not None:
            self._objects.kill()
        self._objects = self._held.enter_context(
            subprocess.Popen(
                [find_git(), "cat-file", "--batch"], env=self._environment, cwd=self._scratch,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )
        )  # fmt: skip

    # ---- the two forms of a history

    def whole(self) -> History:
        """The whole history. Raises _TooLong."""
        references = self._references()
        head, name = self._head()
        detached = [name] if is_id(name) else []
        tips = list(dict.fromkeys([*references.values(), *detached]))
        order = self._load(tips)
        staged = self._staged()
        for commit in order:
            self._in_time()
            self._walk(_header(self._object(commit, b"commit"), b"tree"), "")
        for tip in tips:
            self._walk_tip(tip)
        self._judge(staged)
        made = self._rewrite_commits(order)
        renamed = {ref: self._mapped(oid, made) for ref, oid in references.items()}
        top = made.get(name if detached else references.get(name, ""))
        index = self._make_index(staged, top and _header(self._object(top, b"commit"), b"tree"))
        shallow = _lines(made.get(oid, oid) for oid in self._repository.shallow().decode("ascii").split())
        if shallow:  # git must not look for the parents of rewritten commits
            (self._scratch / "shallow").write_bytes(shallow)
        self._pack([*renamed.values(), *(made[oid] for oid in detached), *self._visible(staged)])
        changed = sum(one != other for one, other in made.items())
        if changed:
            self._notes.append(_REWRITTEN.format(versions=len(self._bad), commits=changed))
        refs = b"".join(os.fsencode(f"{oid} {ref}\n") for ref, oid in renamed.items())
        return self._made(f"{made[name]}\n".encode() if detached else head, refs, index, shallow)

    def _head(self) -> tuple[bytes, str]:
        """HEAD, and the reference or the id that it has."""
        head = self._repository.read_own("HEAD")
        return head, os.fsdecode(head).strip().removeprefix("ref: ")

    def _made(self, head: bytes, refs: bytes, index: bytes | None, shallow: bytes = b"") -> History:
        return History(head, refs, index, shallow, self._index_ns, self._skipped, tuple(self._notes))

    def _references(self) -> dict[str, str]:
        """The references that lead to an object: git itself only warns about the others."""
        found = self._repository.references()
        objects = self._many(list(dict.fromkeys(found.values())), missing=True)
        gone = {oid for oid, kind, _ in objects if kind == _MISSING}
        names = [name for name, oid in found.items() if oid in gone]
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            self._notes.append(_GONE.format(names=", ".join(names[:_NAMED]) + more))
        return {name: oid for name, oid in found.items() if oid not in gone}

    def one_commit(self, why: str) -> History:
        """One commit with what is visible of HEAD. Raises NoHistory."""
        self._until = time.monotonic() + limits.AGENT_HISTORY_SECONDS
        for found in (self._rewritten, self._blobs, self._walked):
            found.clear()
        self._restart()
        head, name = self._head()
        oid = name if is_id(name) else self._repository.references().get(name, "")
        try:
            staged = self._staged()
            tree = _header(self._object(oid, b"commit"), b"tree")
            self._walk(tree, "")
            self._judge(staged)
            stamp = b"ThreeGate <threegate@localhost> 0 +0000"
            new = self._tree(tree)
            body = b"tree %s\nauthor %s\ncommitter %s\n\n%s\n" % (
                new.encode(), stamp, stamp, b"The project without its history",
            )  # fmt: skip
            commit = self._write(b"commit", body)
            index = self._make_index(staged, new)
            self._pack([commit, *self._visible(staged)])
        except (_TooLong, *_BROKEN):
            if why == _UNREADABLE:
                raise NoHistory("git cannot read its objects; try: git fsck") from None
            raise NoHistory("its repository is too large") from None
        self._notes = [why]
        if is_id(name):
            return self._made(f"{commit}\n".encode(), b"", index)
        return self._made(head, os.fsencode(f"{commit} {name}\n"), index)

    def _load(self, tips: list[str]) -> list[str]:
        """Read all commits and trees, many at a time. The commits, parents before their children."""
        if not tips:
            return []
        order = self._git("rev-list", "--topo-order", "--reverse", "--stdin", given=_lines(self._commits(tips)))
        listed = self._git(
            "rev-list", "--objects", "--filter=blob:none", *self._partial, "--stdin", given=_lines(tips)
        )  # fmt: skip
        for oid, kind, data in self._many([line.split(b" ", 1)[0].decode() for line in listed.splitlines()]):
            if kind == b"tree":
                self._trees[oid] = self._parsed(data)
            else:
                self._read[oid] = kind, data
        return order.decode().split()

    # ---- finding what is hidden

    def _walk(self, tree: str, prefix: str, hidden: bool = False) -> None:
        """Note the blobs of a tree, and those of them that are at a hidden path."""
        key = (tree, f"{prefix}\0" if hidden else prefix)
        if key in self._walked:
            return
        self._walked.add(key)
        self._in_time()
        public = is_fixture(prefix)
        for mode, name, oid in self._entries(tree):
            path = prefix + os.fsdecode(name)
            kind = _kind(mode)
            below = hidden or (kind is not None and self._hides(path))
            if kind == _TREE:
                self._walk(oid, f"{path}/", below)
            elif kind is not None:
                self._note_blob(oid, public=public, hidden=below)

    def _note_blob(self, oid: str, *, public: bool, hidden: bool) -> None:
        self._blobs[oid] = None
        if not public:
            self._elsewhere.add(oid)
        if hidden:
            self._hidden.add(oid)

    def _walk_tip(self, oid: str) -> None:
        """The same for a reference that does not lead to a commit."""
        kind, data = self._any(oid)
        if kind == b"tag":
            self._walk_tip(_header(data, b"object"))
        elif kind == b"tree":
            self._walk(oid, "")
        elif kind == b"blob":
            self._note_blob(oid, public=False, hidden=False)

    def _judge(self, staged: list[_Staged]) -> None:
        """Decide which blobs the agent does not get."""
        for row in staged:
            self._note_blob(row.oid, public=is_fixture(row.path), hidden=self._hides_any(row.path))
        # The empty blob tells nothing, and visible files have it too.
        self._hidden.discard(self._id(b"blob", b""))
        left = [oid for oid in self._blobs if oid not in self._hidden]
        for oid in left:
            if oid in self._clean and not self._partial:  # which of its blobs a partial clone has is not known yet
                self._scanned.note(oid, _NOTHING)
        unknown = [oid for oid in left if oid not in self._scanned.known]
        for count, (oid, kind, data) in enumerate(self._many(unknown), 1):
            self._progress(count, len(unknown))
            if kind == _MISSING:
                self._gone.add(oid)
            elif len(data) == limits.AGENT_SCANNED_BYTES and self._id(b"blob", data) in self._clean:
                self._scanned.note(oid, _NOTHING)
            else:
                kinds = {found.kind for found in find_certain(text_of(data))}
                self._scanned.note(oid, _NOTHING if not kinds else _KEYS_ONLY if kinds == {KEY} else _SECRET)
        for oid in left:
            hit = self._scanned.known.get(oid, _NOTHING)
            if hit == _SECRET or (hit == _KEYS_ONLY and oid in self._elsewhere):
                self._hidden.add(oid)
        there = {row.oid for row in staged if row.oid in self._hidden and self._is_shown(row.path, row.oid)}
        self._bad = self._hidden - there

    def _is_shown(self, path: str, oid: str) -> bool:
        """Whether the agent sees these very bytes in its copy: an empty file, or one that `--with` shows."""
        data = self._shown(path)
        return data is not None and self._id(b"blob", data) == oid

    def _hides_any(self, path: str) -> bool:
        parts = path.split("/")
        return any(self._hides("/".join(parts[:depth])) for depth in range(1, len(parts) + 1))

    # ---- rewriting

    def _rewrite_commits(self, order: list[str]) -> dict[str, str]:
        """The new id of each commit; parents come before their children."""
        made: dict[str, str] = {}
        for commit in order:
            self._in_time()
            data = self._object(commit, b"commit")
            head, blank, message = data.partition(b"\n\n")
            lines = head.split(b"\n")
            for number, line in enumerate(lines):
                key, _, value = line.partition(b" ")
                if key == b"tree":
                    lines[number] = b"tree " + self._tree(value.decode()).encode()
                elif key == b"parent":
                    lines[number] = b"parent " + made.get(value.decode(), value.decode()).encode()
                elif key != b"":
                    break
            written = b"\n".join(lines) + blank + message
            made[commit] = commit if written == data else self._write(b"commit", written)
        return made

    def _tree(self, tree: str) -> str:
        """The id of a tree with placeholders for what the agent does not get."""
        if tree not in self._rewritten:
            self._in_time()
            old = self._entries(tree)
            new = [
                (mode, name, self._tree(oid)) if _kind(mode) == _TREE
                else (_FILE if _kind(mode) == _LINK else mode, name, self._placeholder()) if oid in self._bad
                else (mode, name, oid)
                for mode, name, oid in old
            ]  # fmt: skip
            data = b"".join(mode + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in new)
            self._rewritten[tree] = tree if new == old else self._write(b"tree", data)
        return self._rewritten[tree]

    def _placeholder(self) -> str:
        return self._write(b"blob", _PLACEHOLDER)

    def _mapped(self, oid: str, made: dict[str, str]) -> str:
        """The new id of the object that a reference leads to."""
        if oid in made:
            return made[oid]
        kind, data = self._any(oid)
        if kind == b"tree":
            return self._tree(oid)
        if kind != b"tag":
            return self._placeholder() if oid in self._bad else oid
        target = _header(data, b"object")
        new = self._mapped(target, made)
        return oid if new == target else self._write(b"tag", data.replace(target.encode(), new.encode(), 1))

    def _write(self, kind: bytes, body: bytes) -> str:
        oid = self._id(kind, body)
        self._read[oid] = kind, body
        if oid not in self._kept.ids:
            self._new[oid] = kind, body
        return oid

    def _id(self, kind: bytes, body: bytes) -> str:
        return object_id(self._algorithm, kind, body)

    # ---- the index and the pack

    def _staged(self) -> list[_Staged]:
        """The entries of the index; none without an index that can be read."""
        try:
            self._repository.copy_index(self._scratch)
            self._index_ns = os.lstat(self._repository.own / "index").st_mtime_ns
            # One that is in two files, or has folders for entries, is one with all files afterwards.
            self._git("update-index", *_ONE_INDEX, index=True)
            return self._listed()
        except (OSError, subprocess.SubprocessError):
            self._index.unlink(missing_ok=True)
            return []

    def _listed(self) -> list[_Staged]:
        rows = [row.split(b"\t", 1) for row in self._git("ls-files", "-s", "-z", index=True).split(b"\0") if row]
        words = [(os.fsdecode(path), *facts.decode().split()) for facts, path in rows]
        return [_Staged(path, oid, stage) for path, mode, oid, stage in words if _kind(mode.encode()) is not None]

    def _visible(self, staged: list[_Staged]) -> list[str]:
        """The blobs of the index that the agent gets."""
        return [row.oid for row in staged if row.oid not in self._bad and row.oid not in self._gone]

    def _make_index(self, staged: list[_Staged], tree: str | None) -> bytes | None:
        """The index, with the entries of `tree` where a blob is staged that the agent does not get; hidden paths are
        skipped. Without an index that can be read it is that of `tree`.
        """
        if not self._index.exists():
            if tree is None:
                return None
            self._git("read-tree", tree, index=True)
        lines = []
        for row in staged:
            if row.oid in self._bad:
                name = os.fsencode(row.path)
                mode, _, there = self._find(tree, name.split(b"/")) or (b"0", b"", "0" * 2 * self._raw)
                lines += [b"0 %s\t%s" % (b"0" * 2 * self._raw, name), b"%s %s\t%s" % (mode, there.encode(), name)]
        if lines:
            self._git("update-index", "-z", "--index-info", given=b"\0".join([*lines, b""]), index=True)
        self._skipped = tuple(
            os.fsencode(row.path) for row in self._listed() if row.stage == "0" and self._hides_any(row.path)
        )
        if self._skipped:
            paths = b"\0".join([*self._skipped, b""])
            self._git("update-index", "-z", "--skip-worktree", "--stdin", given=paths, index=True)
        return self._index.read_bytes()

    def _find(self, tree: str | None, parts: list[bytes]) -> tuple[bytes, bytes, str] | None:
        """The entry at a path of a rewritten tree; None if there is none."""
        for entry in self._entries(tree) if tree is not None else ():
            if entry[1] == parts[0]:
                return entry if len(parts) == 1 else self._find(entry[2], parts[1:])
        return None

    def _pack(self, wanted: list[str]) -> None:
        """Write the pack of the agent's repository: what these reach, of the project and of what was rewritten."""
        if self._new:
            made = hashlib.new(self._algorithm)
            place = self._scratch / "objects" / "pack" / "new.pack"
            with place.open("wb") as file:
                pieces = (packed(kind, body) for kind, body in self._new.values())
                for piece in chain([pack_head(len(self._new))], pieces):
                    made.update(piece)
                    file.write(piece)
                file.write(made.digest())
            self._git("index-pack", str(place))
            self._kept.add(place, made.hexdigest())
        if not wanted:
            return
        given, revs = _lines(dict.fromkeys(wanted)), ["--revs"]
        if self._partial:  # pack-objects itself fails for a tree that is not there
            listed = self._git("rev-list", "--objects", *self._partial, "--stdin", given=given)
            lines = listed.splitlines(keepends=True)
            given = b"".join(line for line in lines if line[: 2 * self._raw].decode() not in self._gone)
            revs = []
        packs = self._place / "objects" / "pack"
        self._git("pack-objects", *revs, "-q", "--delta-base-offset", *_QUICK, str(packs / "pack"), given=given)
        if self._partial:
            for pack in packs.glob("*.pack"):
                pack.with_suffix(".promisor").touch()

    # ---- reading

    def _commits(self, tips: list[str]) -> Iterator[str]:
        """The commits that references lead to."""
        for oid in tips:
            kind, data = self._any(oid)
            while kind == b"tag":
                oid = _header(data, b"object")
                kind, data = self._any(oid)
            if kind == b"commit":
                yield oid

    def _entries(self, tree: str) -> list[tuple[bytes, bytes, str]]:
        """Mode, name and id of each entry of a tree."""
        if tree not in self._trees:
            kind, data = self._any(tree)
            if kind not in (b"tree", _MISSING):
                raise ValueError(tree)
            self._trees[tree] = self._parsed(data)
        return self._trees[tree]

    def _parsed(self, data: bytes) -> list[tuple[bytes, bytes, str]]:
        at, found = 0, []
        while at < len(data):
            end = data.index(b"\0", at)
            mode, name = data[at:end].split(b" ", 1)
            at = end + 1 + self._raw
            found.append((mode, name, data[end + 1 : at].hex()))
        return found

    def _object(self, oid: str, kind: bytes) -> bytes:
        found, data = self._any(oid)
        if found != kind:
            raise ValueError(oid)
        return data

    def _any(self, oid: str) -> tuple[bytes, bytes]:
        """Kind and bytes of an object. Raises ValueError, IndexError."""
        if oid not in self._read:
            for _, kind, data in self._many([oid]):
                self._read[oid] = kind, data
        return self._read[oid]

    def _many(self, wanted: list[str], *, missing: bool = False) -> Iterator[tuple[str, bytes, bytes]]:
        """Id, kind and the first bytes of each object; without `missing` only a partial clone may lack one. Raises
        ValueError, _TooLong.
        """
        assert self._objects is not None and self._objects.stdin is not None
        for begin in range(0, len(wanted), _AT_ONCE):
            some = wanted[begin : begin + _AT_ONCE]
            self._in_time()
            self._objects.stdin.write(_lines(some))
            self._objects.stdin.flush()
            answers = [(oid, *self._answer()) for oid in some]
            if not missing and not self._partial and any(kind == _MISSING for _, kind, _ in answers):
                raise ValueError(_MISSING)
            yield from answers

    def _answer(self) -> tuple[bytes, bytes]:
        """Kind and first bytes of the next object. Raises ValueError, IndexError."""
        assert self._objects is not None and self._objects.stdout is not None
        _, kind, *size = self._objects.stdout.readline().split()
        if kind == _MISSING:
            return kind, b""
        most = limits.AGENT_SCANNED_BYTES if kind == b"blob" else limits.AGENT_GIT_OBJECT_BYTES
        left = int(size[0])
        data = self._objects.stdout.read(min(left, most))
        if len(data) < min(left, most):
            raise ValueError(kind)  # git died over an object that is damaged
        left -= len(data)
        while left:
            piece = len(self._objects.stdout.read(min(left, _PIECE)))
            if not piece:
                raise ValueError(kind)
            left -= piece
        self._objects.stdout.read(1)
        return kind, data

    def _git(self, *words: str, given: bytes = b"", index: bool = False) -> bytes:
        """What git prints in the scratch repository. Raises SubprocessError, _TooLong."""
        tree = self._scratch / "tree"
        more = {"GIT_INDEX_FILE": str(self._index), "GIT_WORK_TREE": str(tree)} if index else {}
        left = max(0.1, self._until - time.monotonic())
        try:
            return run_git([*words], {**self._environment, **more}, given=given, cwd=tree, seconds=left)
        except subprocess.TimeoutExpired:
            raise _TooLong from None

    def _in_time(self) -> None:
        if time.monotonic() > self._until:
            raise _TooLong


@cache
def _kind(mode: bytes) -> int | None:
    """The kind that an entry of a tree has for git; None for a submodule. Raises ValueError."""
    kind = stat.S_IFMT(int(mode, 8))  # old repositories have odd forms (`040000`, `100664`)
    return kind if kind in (_TREE, _LINK, _REGULAR) else None


def _header(data: bytes, key: bytes) -> str:
    """The value of the first line of a commit or tag that has this key. Raises ValueError."""
    found, _, value = data.split(b"\n", 1)[0].partition(b" ")
    if found != key:
        raise ValueError(key)
    return value.decode("ascii")


def _lines(words: Iterable[str]) -> bytes:
    return "".join(f"{word}\n" for word in words).encode()


@dataclass(slots=True)
class _Kept:
    """Packs of the objects that were rewritten for earlier runs on a project: to write them took most of the time.
    What a run gets is decided each time; an object is taken from here only if it was made again.
    """

    folder: Path | None
    ids: set[str] = field(default_factory=set)

    def lend(self, place: Path) -> list[Path]:
        """Give the packs to a repository, where they stay whatever happens here; the paths of their indexes."""
        found = []
        for index in sorted(self.folder.glob("*.idx")) if self.folder is not None else ():
            with suppress(OSError):
                for file in (index.with_suffix(".pack"), index):
                    _link_or_copy(file, place / f"kept-{file.name}")
                found.append(place / f"kept-{index.name}")
        return found

    def add(self, pack: Path, name: str) -> None:
        """Keep a pack for the next run; if that fails, it only costs time."""
        if self.folder is None:
            return
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            old = sorted(self.folder.iterdir())
            size = sum(file.stat().st_size for file in old) + pack.stat().st_size
            if len(old) > 2 * limits.AGENT_KEPT_PACKS or size > limits.AGENT_KEPT_PACK_BYTES:
                for file in old:
                    file.unlink(missing_ok=True)
            for ending in (".pack", ".idx"):  # without its index a pack does not count
                temporary = self.folder / f".{secrets.token_hex(8)}{ending}.tmp"
                _link_or_copy(pack.with_suffix(ending), temporary)
                os.replace(temporary, self.folder / f"{name}{ending}")


def _link_or_copy(source: Path, target: Path) -> None:
    """Give a file that is never written again a second name; a copy on another file system. Raises OSError."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
            raise
        shutil.copyfile(source, target)


@dataclass(slots=True)
class _Scanned:
    """Which blobs of a repository have a secret, by id: an id stands for its bytes."""

    file: Path | None
    known: dict[str, int]
    changed: bool = False

    @classmethod
    def load(cls, file: Path | None) -> _Scanned:
        """What was found before; nothing if it cannot be read."""
        known: dict[str, int] = {}
        if file is not None:
            with suppress(OSError, ValueError, TypeError, AttributeError):
                rows = json.loads(durable.read_regular(file, max_bytes=limits.AGENT_SCANNED_LIST_BYTES))
                known = {oid: int(hit) for hit, oids in rows.items() for oid in oids}
        return cls(file, known)

    def note(self, oid: str, hit: int) -> None:
        """Note what was found in a blob."""
        self.changed = self.changed or self.known.get(oid) != hit
        self.known[oid] = hit

    def save(self) -> None:
        """Save what is new; if that fails, it only costs time."""
        if self.file is None or not self.changed:
            return
        rows = {hit: [oid for oid, has in self.known.items() if has == hit] for hit in range(3)}
        with suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            durable.overwrite(self.file, json.dumps(rows).encode())
