"""A repository for the agent that has the project's history, and no blob of a file that is hidden from it.

Invariant: the agent's repository has exactly the objects that its references and its index reach, in a pack of its
own. It shares nothing with the project's object store, in which unreachable objects, stashes and alternates also are.
If no hidden blob is in the history, every object keeps its id. Otherwise the trees with hidden blobs, and the commits
and tags above them, are written anew, and everything else keeps its bytes.

git never runs in the project or in the copy: it runs in a scratch repository of our own, with a configuration of our
own, whose alternate is the project's object store.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from threegate.agents.secret_files import text_of
from threegate.core import durable, limits
from threegate.core.held_folder import hold_path, open_inside
from threegate.secretscan import has_certain_secret

_SCRATCH: Final = "scratch"
_KEPT: Final = ("refs/heads/", "refs/tags/", "refs/remotes/", "refs/notes/")
"""References that the agent gets: no stash, and nothing of a bisection or a replacement."""
_TREE, _LINK = b"40000", b"160000"
_RULES: Final = 1
"""Number of the rules by which blobs are scanned."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY
_PIECE: Final = 1 << 20
_AT_ONCE: Final = 128
"""Objects that are asked for before the first is read; their ids fit into a pipe."""
_QUICK: Final = ("--window=0", "--compression=0")
"""What is in packs of the project is taken as it is, and the rest is neither compared nor compressed: for 80 MB of
notebooks that are not yet packed, git would take half a minute.
"""
_PACK_KINDS: Final = {b"commit": 1, b"tree": 2, b"blob": 3, b"tag": 4}


class NoHistory(Exception):
    """There is no repository that can be given to the agent; one line that says why."""


class _TooLong(Exception):
    """More time than AGENT_HISTORY_SECONDS."""


@dataclass(frozen=True, slots=True)
class Repository:
    """Where a project's repository is: the folder of this checkout, and the one with objects and references."""

    own: Path
    common: Path

    @classmethod
    def of(cls, root: Path) -> Repository:
        """The repository of a checkout. A linked worktree or submodule counts if its repository names this folder
        too: else a file that came with the project could name any repository of this account. Raises NoHistory.
        """
        place = root / ".git"
        if place.is_symlink():
            raise NoHistory("its .git is a link")
        if place.is_dir():
            return cls(place, place)
        own = root / _first_line(place).removeprefix("gitdir: ")
        own = Path(os.path.realpath(own))
        with suppress(NoHistory):
            if Path(os.path.realpath(_first_line(own / "gitdir"))) == place:
                return cls(own, Path(os.path.realpath(own / _first_line(own / "commondir"))))
        with suppress(NoHistory):
            for line in _read(own, "config").decode("utf-8", "replace").splitlines():
                key, _, value = line.partition("=")
                if key.strip().lower() == "worktree" and Path(os.path.realpath(own / value.strip())) == root:
                    return cls(own, own)
        raise NoHistory("its .git names a repository elsewhere, which does not name this folder")

    def references(self) -> dict[str, str]:
        """The references by name, with the id that each has. Raises NoHistory."""
        found: dict[str, str] = {}
        with suppress(FileNotFoundError):
            for line in _read(self.common, "packed-refs").decode("utf-8", "replace").splitlines():
                oid, _, name = line.partition(" ")
                if _is_id(oid) and name.startswith(_KEPT):
                    found[name] = oid
        for place, _, names in os.walk(self.common / "refs"):
            for name in names:
                path = os.path.relpath(os.path.join(place, name), self.common)
                with suppress(OSError):
                    oid = _read(self.common, path).decode("utf-8", "replace").strip()
                    if _is_id(oid) and path.startswith(_KEPT):
                        found[path] = oid
        return dict(sorted(found.items()))


def _first_line(path: Path) -> str:
    try:
        return _read(path.parent, path.name).decode("utf-8", "surrogateescape").split("\n", 1)[0]
    except OSError:
        raise NoHistory("its repository cannot be read") from None


def _read(folder: Path, path: str) -> bytes:
    """The bytes of a file below a folder of a repository, through no link. Raises OSError."""
    with hold_path(folder) as held:
        descriptor = open_inside(held.fileno(), path)
    try:
        return durable.read_regular_fd(descriptor, folder / path, max_bytes=limits.SNAPSHOT_BYTES)
    finally:
        os.close(descriptor)


def _is_id(text: str) -> bool:
    return len(text) in (40, 64) and not set(text) - set("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class History:
    """What was made: HEAD, the references, the index and the shallow list as files of a `.git`, and what to say."""

    head: bytes
    packed_refs: bytes
    index: bytes | None
    shallow: bytes
    note: str = ""


def identity(repository: Repository) -> bytes:
    """Lines of a configuration with the name and address that the person commits with, those of the checkout first."""
    program = shutil.which("git", path=os.defpath)
    lines = [b"[user]\n"]
    for key, default in (("name", "agent"), ("email", "agent@localhost")):
        value = default
        for file in (repository.common / "config", Path.home() / ".gitconfig", Path.home() / ".config/git/config"):
            if program is None or not file.is_file():
                continue
            done = subprocess.run(
                [program, "config", "--no-includes", "--file", file, "--get", f"user.{key}"],
                env={"PATH": os.defpath, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}, cwd="/",
                stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=limits.AGENT_HISTORY_SECONDS,
            )  # fmt: skip
            found = done.stdout.decode("utf-8", "replace").removesuffix("\n")
            if done.returncode == 0 and found.isprintable() and 0 < len(found) <= limits.NAME_CHARS:
                value = found
                break
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'\t{key} = "{escaped}"\n'.encode())
    return b"".join(lines)


def make_history(
    repository: Repository,
    place: Path,
    config: bytes,
    *,
    hides: Callable[[str], bool],
    shown: Callable[[str], bytes | None],
    scanned: Path | None = None,
) -> History:
    """Make `place/objects` with what the agent may have.

    `hides` says of a path, whose folders are not hidden, whether it is hidden from the agent; `shown` has the bytes of
    a visible file of the project now: they stay wherever else they are. `config` is that of the scratch repository,
    `scanned` a folder that keeps which blobs have a secret. Raises NoHistory, OSError.
    """
    program = shutil.which("git", path=os.defpath)
    if program is None:
        raise NoHistory("git is not installed here; apt-get install git")
    if "\n" in str(repository.common):
        raise NoHistory("its path has a line break")
    with _Making(program, repository, place, config, hides, shown, _Scanned.load(scanned, repository)) as making:
        try:
            return making.whole()
        except _TooLong:
            return making.one_commit()
        except _BROKEN:
            raise NoHistory("git cannot read its objects; try: git fsck") from None


_BROKEN: Final = (subprocess.SubprocessError, BrokenPipeError, RecursionError, ValueError, KeyError, IndexError)
"""What objects that git cannot read, or that nobody made with git, lead to."""


class _Making:
    """One history while it is made."""

    def __init__(
        self,
        program: str,
        repository: Repository,
        place: Path,
        config: bytes,
        hides: Callable[[str], bool],
        shown: Callable[[str], bytes | None],
        scanned: _Scanned,
    ) -> None:
        self._repository, self._place = repository, place
        self._hides, self._shown, self._scanned = cache(hides), shown, scanned
        self._program = program
        self._until = time.monotonic() + limits.AGENT_HISTORY_SECONDS
        self._scratch = place / _SCRATCH
        self._index = self._scratch / "index"
        self._config = config
        self._algorithm = "sha256" if b"sha256" in config else "sha1"
        self._raw = hashlib.new(self._algorithm).digest_size
        self._read: dict[str, tuple[bytes, bytes]] = {}
        """Commits and tags that were read, and what was written anew."""
        self._new: dict[str, tuple[bytes, bytes]] = {}
        self._trees: dict[str, list[tuple[bytes, bytes, str]]] = {}
        self._walked: set[tuple[str, str]] = set()
        self._rewritten: dict[tuple[str, str], str | None] = {}
        self._blobs: dict[str, None] = {}
        self._hidden: set[str] = set()
        """Blobs that are at a hidden path."""
        self._bad: set[str] = set()
        """Blobs that the agent does not get."""
        self._held = ExitStack()

    def __enter__(self) -> _Making:
        for folder in ("objects/info", "objects/pack", "refs", "tree"):
            (self._scratch / folder).mkdir(parents=True)
        for folder in ("objects", "objects/info", "objects/pack"):
            (self._place / folder).mkdir()
        for folder in ("", "objects", "objects/info", "objects/pack"):
            os.chmod(self._place / folder, 0o755)  # noqa: S103  (below a closed folder; bound read-only)
        (self._scratch / "config").write_bytes(self._config)
        (self._scratch / "HEAD").write_bytes(b"ref: refs/heads/none\n")
        (self._scratch / "objects/info/alternates").write_text(f"{self._repository.common / 'objects'}\n")
        with suppress(FileNotFoundError):
            (self._scratch / "shallow").write_bytes(_read(self._repository.common, "shallow"))
        self._objects = self._held.enter_context(
            subprocess.Popen(
                [self._program, "cat-file", "--batch"],
                env=self._environment(),
                cwd=self._scratch,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._objects.kill()
        self._held.close()
        self._scanned.save()
        durable.remove_tree(self._scratch)

    # ---- the two forms of a history

    def whole(self) -> History:
        """The whole history. Raises _TooLong."""
        references = self._repository.references()
        head = _read(self._repository.own, "HEAD")
        tips = list(dict.fromkeys([*references.values(), *self._detached(head)]))
        commits = self._git("rev-list", "--topo-order", "--reverse", "--stdin", given=_lines(self._commits(tips)))
        staged = self._staged()
        order = commits.decode().split()
        self._load(tips)
        for commit in order:
            self._in_time()
            self._walk(_header(self._object(commit, b"commit"), b"tree"), "")
        for tip in tips:
            self._walk_tip(tip)
        self._judge(staged)
        made = self._rewrite_commits(order)
        renamed = {name: self._mapped(oid, made) for name, oid in references.items()}
        branch = _target(head)
        top = made.get(branch if _is_id(branch) else references.get(branch, ""))
        tree = top and _header(self._object(top, b"commit"), b"tree")
        index = self._make_index(staged, tree)
        kept = [oid for path, oid in staged if not self._is_bad(path, oid)]
        detached = [self._mapped(oid, made) for oid in self._detached(head)]
        self._pack([*filter(None, renamed.values()), *filter(None, detached), *kept])
        changed = sum(one != other for one, other in made.items())
        return History(
            f"{detached[0]}\n".encode() if detached and detached[0] else head,
            b"".join(f"{oid} {name}\n".encode() for name, oid in renamed.items() if oid),
            index or self._fresh_index(tree),
            _lines(made.get(oid, oid) for oid in self._shallow()),
            f"git: {len(self._bad)} hidden files are not in the history, so {changed} commits have other ids"
            if changed
            else "",
        )

    def one_commit(self) -> History:
        """One commit with what is visible of HEAD. Raises NoHistory."""
        self._until = time.monotonic() + limits.AGENT_HISTORY_SECONDS
        self._rewritten.clear()
        head = _read(self._repository.own, "HEAD")
        name = _target(head)
        oid = name if _is_id(name) else self._repository.references().get(name, "")
        staged = self._staged()
        try:
            tree = _header(self._object(oid, b"commit"), b"tree")
            self._blobs.clear()
            self._walked.clear()
            self._walk(tree, "")
            self._judge(staged)
            stamp = b"ThreeGate <threegate@localhost> 0 +0000"
            body = b"tree %s\nauthor %s\ncommitter %s\n\n%s\n" % (
                (self._tree(tree, "") or self._write(b"tree", b"")).encode(), stamp, stamp,
                b"The project without its history",
            )  # fmt: skip
            commit = self._write(b"commit", body)
            index = self._make_index(staged, _header(body, b"tree"))
            self._pack([commit, *(oid for path, oid in staged if not self._is_bad(path, oid))])
        except (_TooLong, *_BROKEN):
            raise NoHistory("its repository is too large, or cannot be read") from None
        if _is_id(name):
            return History(f"{commit}\n".encode(), b"", index, b"", _ONE_COMMIT)
        return History(head, f"{commit} {name}\n".encode(), index, b"", _ONE_COMMIT)

    def _load(self, tips: list[str]) -> None:
        """Read all commits and trees, many at a time."""
        listed = self._git("rev-list", "--objects", "--filter=blob:none", "--stdin", given=_lines(tips))
        for oid, kind, data in self._many([line.split(b" ", 1)[0].decode() for line in listed.splitlines()]):
            if kind == b"tree":
                self._trees[oid] = self._parsed(data)
            else:
                self._read[oid] = kind, data

    # ---- finding what is hidden

    def _walk(self, tree: str, prefix: str, hidden: bool = False) -> None:
        """Note the blobs of a tree, and those of them that are at a hidden path."""
        key = (tree, f"{prefix}\0" if hidden else prefix)
        if key in self._walked:
            return
        self._walked.add(key)
        self._in_time()
        for mode, name, oid in self._entries(tree):
            path = prefix + os.fsdecode(name)
            below = hidden or (mode != _LINK and self._hides(path))
            if mode == _TREE:
                self._walk(oid, f"{path}/", below)
            elif mode != _LINK:
                self._blobs[oid] = None
                if below:
                    self._hidden.add(oid)

    def _walk_tip(self, oid: str) -> None:
        """The same for a reference that does not lead to a commit."""
        kind, data = self._any(oid)
        if kind == b"tag":
            self._walk_tip(_header(data, b"object"))
        elif kind == b"tree":
            self._walk(oid, "")
        elif kind == b"blob":
            self._blobs[oid] = None

    def _judge(self, staged: list[tuple[str, str]]) -> None:
        """Decide which blobs the agent does not get."""
        for path, oid in staged:
            self._blobs[oid] = None
            if self._hides_any(path):
                self._hidden.add(oid)
        left = [oid for oid in self._blobs if oid not in self._hidden]
        for oid, _, data in self._many([oid for oid in left if oid not in self._scanned.known]):
            self._scanned.add(oid, data)
        self._hidden |= {oid for oid in left if self._scanned.known[oid]}
        there = {oid for path, oid in staged if oid in self._hidden and self._is_shown(path, oid)}
        self._bad = self._hidden - there

    def _is_shown(self, path: str, oid: str) -> bool:
        """Whether the agent sees these very bytes in its copy: an empty file, or one that `--with` shows."""
        data = self._shown(path)
        return data is not None and self._id(b"blob", data) == oid

    def _hides_any(self, path: str) -> bool:
        parts = path.split("/")
        return any(self._hides("/".join(parts[:depth])) for depth in range(1, len(parts) + 1))

    def _is_bad(self, path: str, oid: str) -> bool:
        return oid in self._bad or self._hides_any(path)

    # ---- writing anew

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
                    new = self._tree(value.decode(), "") or self._write(b"tree", b"")
                    lines[number] = b"tree " + new.encode()
                elif key == b"parent":
                    lines[number] = b"parent " + made.get(value.decode(), value.decode()).encode()
                elif key != b"":
                    break
            written = b"\n".join(lines) + blank + message
            made[commit] = commit if written == data else self._write(b"commit", written)
        return made

    def _tree(self, tree: str, prefix: str) -> str | None:
        """The id of a tree without what the agent does not get; None if nothing is left."""
        key = (tree, prefix)
        if key not in self._rewritten:
            self._in_time()
            kept, old = [], self._entries(tree)
            for mode, name, oid in old:
                path = prefix + os.fsdecode(name)
                if mode == _LINK:
                    kept.append((mode, name, oid))
                elif self._hides(path):
                    continue
                elif mode == _TREE:
                    below = self._tree(oid, f"{path}/")
                    if below is not None:
                        kept.append((mode, name, below))
                elif oid not in self._bad:
                    kept.append((mode, name, oid))
            new: str | None = tree
            if kept != old:
                data = b"".join(mode + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in kept)
                new = self._write(b"tree", data) if kept else None
            self._rewritten[key] = new
        return self._rewritten[key]

    def _mapped(self, oid: str, made: dict[str, str]) -> str | None:
        """The new id of what a reference leads to; None if the agent does not get it."""
        if oid in made:
            return made[oid]
        kind, data = self._any(oid)
        if kind == b"tree":
            return self._tree(oid, "")
        if kind != b"tag":
            return None if oid in self._bad else oid
        target = _header(data, b"object")
        new = self._mapped(target, made)
        if new is None or new == target:
            return oid if new else None
        return self._write(b"tag", data.replace(target.encode(), new.encode(), 1))

    def _write(self, kind: bytes, body: bytes) -> str:
        oid = self._id(kind, body)
        self._new[oid] = self._read[oid] = kind, body
        return oid

    def _id(self, kind: bytes, body: bytes) -> str:
        made = hashlib.new(self._algorithm, b"%s %d\0" % (kind, len(body)))
        made.update(body)
        return made.hexdigest()

    # ---- the index and the pack

    def _staged(self) -> list[tuple[str, str]]:
        """Path and blob of each entry of the index; nothing without one that git can read alone."""
        try:
            self._index.write_bytes(_read(self._repository.own, "index"))
            listed = self._git("ls-files", "-s", "-z", index=True)
        except (OSError, subprocess.SubprocessError):
            self._index.unlink(missing_ok=True)
            return []
        rows = [row.split(b"\t", 1) for row in listed.split(b"\0") if row]
        return [(os.fsdecode(path), facts.split()[1].decode()) for facts, path in rows if not facts.startswith(_LINK)]

    def _make_index(self, staged: list[tuple[str, str]], tree: str | None) -> bytes | None:
        """The index without hidden paths, so that git does not take them for deleted; and with what `tree` has where a
        hidden blob is staged at a visible path.
        """
        if not self._index.exists():
            return None
        lines = []
        for path, oid in staged:
            if self._is_bad(path, oid):
                name = os.fsencode(path)
                mode, _, there = self._find(tree, name.split(b"/")) or (b"0", b"", "0" * 2 * self._raw)
                lines += [b"0 %s\t%s" % (b"0" * 2 * self._raw, name), b"%s %s\t%s" % (mode, there.encode(), name)]
        if lines:
            self._git("update-index", "-z", "--index-info", given=b"\0".join([*lines, b""]), index=True)
        return self._index.read_bytes()

    def _fresh_index(self, tree: str | None) -> bytes | None:
        """The index of a tree that was packed, where the project's is in a form that needs more files."""
        if tree is None:
            return None
        self._git("read-tree", tree, index=True)
        return self._index.read_bytes()

    def _find(self, tree: str | None, parts: list[bytes]) -> tuple[bytes, bytes, str] | None:
        """The entry at a path of a tree that was written anew; None if there is none."""
        for entry in self._entries(tree) if tree is not None else ():
            if entry[1] == parts[0]:
                return entry if len(parts) == 1 else self._find(entry[2], parts[1:])
        return None

    def _pack(self, wanted: list[str]) -> None:
        """Write the pack of the agent's repository: what these reach, of the project and of what was written anew."""
        if self._new:
            made = hashlib.new(self._algorithm)
            place = self._scratch / "objects" / "pack" / "new.pack"
            with place.open("wb") as file:
                for piece in _packed(self._new):
                    made.update(piece)
                    file.write(piece)
                file.write(made.digest())
            self._git("index-pack", str(place))
        if wanted:
            base = str(self._place / "objects" / "pack" / "pack")
            words = ("pack-objects", "--revs", "-q", "--delta-base-offset", *_QUICK, base)
            self._git(*words, given=_lines(dict.fromkeys(wanted)))

    # ---- reading

    def _commits(self, tips: list[str]) -> Iterator[str]:
        """What of the references leads to a commit."""
        for oid in tips:
            kind, data = self._any(oid)
            while kind == b"tag":
                oid = _header(data, b"object")
                kind, data = self._any(oid)
            if kind == b"commit":
                yield oid

    def _detached(self, head: bytes) -> list[str]:
        return [_target(head)] if _is_id(_target(head)) else []

    def _shallow(self) -> list[str]:
        with suppress(FileNotFoundError):
            return (self._scratch / "shallow").read_text().split()
        return []

    def _entries(self, tree: str) -> list[tuple[bytes, bytes, str]]:
        """Mode, name and id of each entry of a tree."""
        if tree not in self._trees:
            self._trees[tree] = self._parsed(self._object(tree, b"tree"))
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

    def _many(self, wanted: list[str]) -> Iterator[tuple[str, bytes, bytes]]:
        """Id, kind and the first bytes of each object. Raises ValueError, _TooLong."""
        assert self._objects.stdin is not None
        for begin in range(0, len(wanted), _AT_ONCE):
            some = wanted[begin : begin + _AT_ONCE]
            self._in_time()
            self._objects.stdin.write(_lines(some))
            self._objects.stdin.flush()
            answers = [(oid, *self._answer()) for oid in some]
            yield from answers

    def _answer(self) -> tuple[bytes, bytes]:
        assert self._objects.stdout is not None
        _, kind, size = self._objects.stdout.readline().split()
        most = limits.AGENT_SCANNED_BYTES if kind == b"blob" else limits.AGENT_GIT_OBJECT_BYTES
        left = int(size)
        data = self._objects.stdout.read(min(left, most))
        left -= len(data)
        while left:
            left -= len(self._objects.stdout.read(min(left, _PIECE)))
        self._objects.stdout.read(1)
        return kind, data

    def _git(self, *words: str, given: bytes = b"", index: bool = False) -> bytes:
        """What git prints in the scratch repository. Raises SubprocessError, _TooLong."""
        more = {"GIT_INDEX_FILE": str(self._index), "GIT_WORK_TREE": str(self._scratch / "tree")} if index else {}
        try:
            return subprocess.run(
                [self._program, *words],
                env={**self._environment(), **more}, cwd=self._scratch / "tree", input=given, capture_output=True,
                check=True, timeout=max(0.1, self._until - time.monotonic()),
            ).stdout  # fmt: skip
        except subprocess.TimeoutExpired:
            raise _TooLong from None

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.defpath,
            "LC_ALL": "C",
            "HOME": "/nonexistent",
            "GIT_DIR": str(self._scratch),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }

    def _in_time(self) -> None:
        if time.monotonic() > self._until:
            raise _TooLong


_ONE_COMMIT: Final = (
    "git: one commit of what is visible, because the whole history takes more than "
    f"{limits.AGENT_HISTORY_SECONDS} s to check"
)


def _packed(objects: dict[str, tuple[bytes, bytes]]) -> Iterator[bytes]:
    """A pack of objects without its checksum (git, Documentation/gitformat-pack)."""
    yield b"PACK" + (2).to_bytes(4, "big") + len(objects).to_bytes(4, "big")
    for kind, body in objects.values():
        size = len(body)
        head = [_PACK_KINDS[kind] << 4 | size & 15]
        size >>= 4
        while size:
            head[-1] |= 128
            head.append(size & 127)
            size >>= 7
        yield bytes(head) + zlib.compress(body, 1)


def _target(head: bytes) -> str:
    """The reference or the id that HEAD has."""
    return head.decode("utf-8", "replace").strip().removeprefix("ref: ")


def _header(data: bytes, key: bytes) -> str:
    """The value of the first line of a commit or tag that has this key. Raises ValueError."""
    found, _, value = data.split(b"\n", 1)[0].partition(b" ")
    if found != key:
        raise ValueError(key)
    return value.decode("ascii")


def _lines(words: Iterator[str] | list[str] | dict[str, None]) -> bytes:
    return "".join(f"{word}\n" for word in words).encode()


@dataclass(slots=True)
class _Scanned:
    """Which blobs of a repository have a secret, by id: an id stands for its bytes."""

    file: Path | None
    known: dict[str, bool] = field(default_factory=dict)
    new: int = 0

    @classmethod
    def load(cls, folder: Path | None, repository: Repository) -> _Scanned:
        """What was found before; nothing if it cannot be read."""
        if folder is None:
            return cls(None)
        name = hashlib.sha256(os.fsencode(repository.common)).hexdigest()[:32]
        file = folder / f"blobs-{_RULES}-{name}.json"
        found = cls(file)
        with suppress(OSError, ValueError, TypeError, KeyError):
            value = json.loads(durable.read_regular(file, max_bytes=limits.AGENT_SCANNED_LIST_BYTES))
            found.known = {oid: bool(hit) for hit in (False, True) for oid in value[str(hit)]}
        return found

    def add(self, oid: str, data: bytes) -> None:
        """Note whether a blob has a secret that is certain."""
        self.known[oid] = has_certain_secret(text_of(data))
        self.new += 1

    def save(self) -> None:
        """Save what is new; if that fails, it only costs time."""
        if self.file is None or not self.new:
            return
        rows = {str(hit): [oid for oid, has in self.known.items() if has is hit] for hit in (False, True)}
        with suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            durable.overwrite(self.file, json.dumps(rows).encode())
