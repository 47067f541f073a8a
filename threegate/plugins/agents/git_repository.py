"""Where a project's repository is, and what of its references and settings an agent's repository gets.

Invariant: a repository outside of the project counts only if it knows the project: it names this folder as its work
tree, or its index has files of this folder as they are. Otherwise a `.git` that came with the project could name any
repository of this account. Of configurations only listed keys count; their values are checked and written again.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from threegate.core import limits
from threegate.core.held_folder import hold_path
from threegate.core.user_state import config_home
from threegate.plugins.agents.git_index import read_index
from threegate.plugins.agents.held_paths import read_inside
from threegate.plugins.changes.git_objects import is_id
from threegate.plugins.changes.machine_programs import PROGRAMS, find_program
from threegate.plugins.changes.project import Project
from threegate.plugins.changes.snapshot import git_config

_KEPT: Final = ("refs/heads/", "refs/tags/", "refs/remotes/", "refs/notes/")
"""References that the agent gets: no stash, and nothing of a bisection or a replacement."""
_FOREIGN: Final = (
    "its .git names a repository elsewhere, which does not name this folder; if it is yours: "
    "git config core.worktree FOLDER"
)
_SWITCH: Final = re.compile(r"(?i)true|yes|on|1|false|no|off|0|")
_SETTINGS: Final = {
    "user.name": re.compile(r".+"),
    "user.email": re.compile(r".+"),
    "core.autocrlf": re.compile(rf"(?i)input|{_SWITCH.pattern[4:]}"),
    "core.eol": re.compile(r"lf|crlf|native"),
    "core.filemode": _SWITCH,
    "core.ignorecase": _SWITCH,
    "core.symlinks": _SWITCH,
    "core.sparsecheckout": _SWITCH,
    "core.sparsecheckoutcone": _SWITCH,
    "filter.lfs.clean": re.compile(r"git[- ]lfs clean (-- )?%f"),
    "filter.lfs.smudge": re.compile(r"git[- ]lfs smudge (--skip )?(-- )?%f"),
    "filter.lfs.process": re.compile(r"git[- ]lfs filter-process( --skip)?"),
    "filter.lfs.required": _SWITCH,
}
"""The keys that come along, and the forms that their values have. Only Git LFS starts a program."""
_OWN: Final = """\
[core]
	trustctime = false
	checkStat = minimal
[lfs]
	skipdownloaderrors = true
"""
"""The copy's files have the sizes and times of the project's, and their own inodes. The jail has no server of LFS: a
file that is checked out keeps its pointer.
"""
_UNREACHABLE: Final = """\
[core]
	repositoryformatversion = 1
[extensions]
	partialClone = origin
[remote "origin"]
	url = /not-in-the-jail
	promisor = true
"""
"""For a partial clone: git works without the objects that nobody needs, and fails to fetch the others."""
_GLOB: Final = re.compile(rb"[\\*?\[\] ]")


class NoHistory(Exception):
    """There is no repository that can be given to the agent; the text is one line with the reason."""


@dataclass(frozen=True)
class Repository:
    """Where a project's repository is: the folder of this checkout, and the one with objects and references."""

    own: Path
    common: Path

    @classmethod
    def of(cls, root: Path) -> Repository:
        """The repository of a checkout: a `.git` folder, or one elsewhere that a file or link names (a linked worktree,
        a submodule, `--separate-git-dir`). Raises NoHistory.
        """
        place = root / ".git"
        if place.is_dir() and not place.is_symlink():
            found = cls(place, place)
            found._refuse_links()
            return found
        own = place
        if not place.is_dir():
            line = _first_line(Path(os.path.realpath(place)))
            if not line.startswith("gitdir: ") or "\0" in line:
                raise NoHistory(f"{place} does not name a repository; see: git status")
            own = root / line.removeprefix("gitdir: ")
        own = Path(os.path.realpath(own))
        common = own
        if (own / "commondir").exists():
            common = Path(os.path.realpath(own / _first_line(own / "commondir")))
            if own.parent != common / "worktrees":
                raise NoHistory(_FOREIGN)
        found = cls(own, common)
        found._refuse_links()
        has_something = (own / "index").exists() or bool(found.references())
        if has_something and not found._names(root) and not found._knows(root):
            raise NoHistory(_FOREIGN)
        return found

    def _refuse_links(self) -> None:
        """Raises NoHistory where git would follow a link in the repository, or finds no HEAD."""
        # A link may lead to any file of this account, and what is behind one that is not followed would be missing
        # without a word.
        for folder, names in (
            (self.own, ("HEAD", "index")),
            (self.common, ("config", "refs", "packed-refs", "shallow")),
        ):
            for name in names:
                if (folder / name).is_symlink():
                    raise NoHistory(
                        f"{folder / name} is a link, and links in a repository are not followed; put there what it "
                        "leads to, or use git worktree add"
                    )
        _first_line(self.own / "HEAD")

    def _names(self, root: Path) -> bool:
        """Whether it names this folder as its work tree."""
        with suppress(NoHistory):
            if Path(os.path.realpath(self.own / _first_line(self.own / "gitdir"))) == root / ".git":
                return self.own != self.common
        if self.own != self.common:
            return False
        trees = [source["core.worktree"] for source in self._here if "core.worktree" in source]
        return bool(trees) and Path(os.path.realpath(self.own / trees[-1])) == root

    def _knows(self, root: Path) -> bool:
        """Whether most entries of its index are files of this folder, with their inode, size and time."""
        # Nobody can give these to files that come from elsewhere, but git gives them to files with the same bytes. So
        # it is not enough for the repository of another folder, which may have mostly public files and is still there.
        with suppress(NoHistory):
            if os.path.lexists(self.own / _first_line(self.own / "gitdir")):
                return False
        other = self.own.parent if self.own.name == ".git" else None
        known = total = 0
        with suppress(OSError, ValueError, IndexError):
            for entry in read_index(_read(self.own, "index")):
                if not entry.is_here:
                    continue
                if other is not None and os.path.lexists(os.path.join(os.fsencode(other), entry.path)):
                    return False
                total += 1
                with suppress(OSError):
                    now = os.lstat(os.path.join(os.fsencode(root), entry.path))
                    known += entry.is_of(int(now.st_mtime), now.st_ino, now.st_size)
            return known * 2 > total
        return False

    def references(self) -> dict[str, str]:
        """The references by name, with the id that each has, also one that stands for another."""
        found: dict[str, str] = {}
        with suppress(OSError):
            for line in os.fsdecode(_read(self.common, "packed-refs")).split("\n"):
                oid, _, name = line.partition(" ")
                if is_id(oid) and name.startswith(_KEPT):
                    found[name] = oid
        for place, _, names in os.walk(self.common / "refs"):
            for name in names:
                path = os.path.relpath(os.path.join(place, name), self.common)
                with suppress(OSError):
                    value = os.fsdecode(_read(self.common, path)).strip()
                    if path.startswith(_KEPT) and (is_id(value) or value.startswith("ref: ")):
                        found[path] = value
        named = {name: found.get(value.removeprefix("ref: "), value) for name, value in found.items()}
        return {name: oid for name, oid in sorted(named.items()) if is_id(oid)}

    def shallow(self) -> bytes:
        """The list of commits whose parents are missing in a shallow clone; empty otherwise."""
        with suppress(FileNotFoundError):
            return _read(self.common, "shallow")
        return b""

    def read_own(self, path: str) -> bytes:
        """The bytes of a file of this checkout, through no link. Raises OSError."""
        return _read(self.own, path)

    def copy_index(self, folder: Path) -> None:
        """Copy the index, and the files that an index in two files refers to. Raises OSError."""
        for name in ("index", *(name for name in os.listdir(self.own) if name.startswith("sharedindex."))):
            (folder / name).write_bytes(self.read_own(name))

    @property
    def is_partial(self) -> bool:
        """Whether objects may be missing, because a server has them."""
        return any(
            key == "extensions.partialclone" or (key.startswith("remote.") and key.endswith(".promisor"))
            for source in self._here
            for key in source
        )

    def format(self) -> bytes:
        """A configuration with nothing but the format. Raises ProjectError."""
        return git_config(Project(self.common), ())

    @property
    def algorithm(self) -> str:
        """What its objects are named with: sha1 or sha256. Raises ProjectError."""
        return "sha256" if b"sha256" in self.format() else "sha1"

    def config(self, *, without_cone: bool = False) -> bytes:
        """The configuration of an agent's repository; `without_cone` if the patterns of a sparse checkout are not only
        folders. Raises ProjectError.
        """
        lines = [
            self.format().decode().replace("\tfilemode = false\n", ""),
            _OWN,
            _UNREACHABLE if self.is_partial else "",
        ]
        for key, value in {"user.name": "agent", "user.email": "agent@localhost", **self._settings}.items():
            if key.startswith("filter.lfs.") and self.lacks_lfs:
                continue
            section, _, name = key.rpartition(".")
            section, _, below = section.partition(".")
            title = f'{section} "{below}"' if below else section
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'[{title}]\n\t{name} = "{escaped}"\n')
        if without_cone and "core.sparsecheckout" in self._settings:
            lines.append("[core]\n\tsparsecheckoutcone = false\n")
        return "".join(lines).encode()

    @property
    def lacks_lfs(self) -> bool:
        """Whether files of Git LFS are filtered here, and the jail has no program for it."""
        # git would end every command that looks into such a file, also with `required` set to false.
        return any(key.startswith("filter.lfs.") for key in self._settings) and find_program("git-lfs") is None

    def patterns(self, skipped: tuple[bytes, ...]) -> dict[str, bytes]:
        """The files below `info` with patterns of paths: attributes, what the person ignores besides the project's
        `.gitignore`, and what a sparse checkout has, in which `skipped` are paths that are left out too.
        """
        found = {"exclude": _of_the_person(excludes_file()) + b"\n"}
        for folder, name in ((self.common, "exclude"), (self.common, "attributes"), (self.own, "sparse-checkout")):
            with suppress(OSError):
                found[name] = found.get(name, b"") + _read(folder, f"info/{name}")
        if "sparse-checkout" in found:
            lines = [b"!/" + _GLOB.sub(rb"\\\g<0>", path).replace(b"\n", b"?") for path in skipped]
            found["sparse-checkout"] += b"".join(b"\n" + line for line in lines) + b"\n"
        return found

    @cached_property
    def _settings(self) -> dict[str, str]:
        """The listed keys with the last value that has the form of the key."""
        return {
            key: value
            for source in (*self._person, *self._here)
            for key, value in source.items()
            if key in _SETTINGS and _SETTINGS[key].fullmatch(value)
            if value.isprintable() and len(value) <= limits.NAME_CHARS
        }

    @cached_property
    def _person(self) -> list[dict[str, str]]:
        """The configurations of the machine and the person, without what they include."""
        return [_parsed(_of_the_person(path)) for path in reversed(_configurations())]

    @cached_property
    def _here(self) -> list[dict[str, str]]:
        """The configurations of the repository and of this checkout, without what they include."""
        found = []
        for folder, name in ((self.common, "config"), (self.own, "config.worktree")):
            with suppress(OSError):
                found.append(_parsed(_read(folder, name)))
        return found


def find_git() -> str:
    """The path of git, here and in the jail, which has the same `/usr`. Raises NoHistory."""
    program = find_program("git")
    if program is None:
        raise NoHistory("git is not installed in /usr; apt-get install git")
    return program


def git_environment(**more: str) -> dict[str, str]:
    """An environment in which git reads no configuration but that of its repository, and starts nothing."""
    return {
        "PATH": PROGRAMS,
        "LC_ALL": "C",
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        **more,
    }


def run_git(
    words: list[str],
    environment: Mapping[str, str],
    *,
    given: bytes = b"",
    cwd: str | Path = "/",
    seconds: float = limits.AGENT_HISTORY_SECONDS,
) -> bytes:
    """What git prints. Raises NoHistory without git, SubprocessError."""
    return subprocess.run(
        [find_git(), *words], env=environment, cwd=cwd, input=given, capture_output=True, check=True, timeout=seconds
    ).stdout


def _configurations() -> tuple[Path, ...]:
    """Git's configurations of the person and the machine; the first one wins."""
    return Path.home() / ".gitconfig", config_home() / "git/config", Path("/etc/gitconfig")


def excludes_file() -> Path:
    """The `core.excludesFile` of the person's own configuration, else the usual place."""
    # That of the project does not count: it could name any file.
    for file in filter(Path.is_file, _configurations()):
        words = ["config", "--file", str(file), "--includes", "--type=path", "--get", "core.excludesFile"]
        with suppress(NoHistory, subprocess.SubprocessError):
            if value := run_git(words, git_environment(HOME=str(Path.home()))).removesuffix(b"\n"):
                return Path(os.fsdecode(value))
    return config_home() / "git/ignore"


def _parsed(text: bytes) -> dict[str, str]:
    """Keys and values of a configuration; without a value it is `true`. Empty for one that git cannot read."""
    if not text:
        return {}
    try:
        listed = run_git(["config", "--no-includes", "--file", "-", "--null", "--list"], git_environment(), given=text)
    except subprocess.CalledProcessError:
        return {}
    rows = [row.partition("\n") for row in listed.decode("utf-8", "replace").split("\0") if row]
    return {key: value if equals else "true" for key, equals, value in rows}


def _of_the_person(path: Path) -> bytes:
    """The bytes of a file in the person's home, which may be a link there; empty if it cannot be read."""
    with suppress(OSError), open(path, "rb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file.read(limits.MIB)
    return b""


def _first_line(path: Path) -> str:
    try:
        return _read(path.parent, path.name).decode("utf-8", "surrogateescape").split("\n", 1)[0]
    except OSError:
        raise NoHistory(f"{path} cannot be read; see: git status") from None


def _read(folder: Path, path: str) -> bytes:
    """The bytes of a file below a folder of a repository, through no link. Raises OSError."""
    with hold_path(folder) as held:
        return read_inside(held, path, max_bytes=limits.SNAPSHOT_BYTES)


def tracked_paths(root: Path) -> frozenset[str]:
    """The paths in the index of a checkout; empty without an index that can be read."""
    try:
        return frozenset(os.fsdecode(entry.path) for entry in read_index(Repository.of(root).read_own("index")))
    except (NoHistory, OSError, ValueError, IndexError):
        return frozenset()  # what counts only in tracked files then counts in none
