"""The git repository of a project: where it is, and how git is run for it.

Invariant: git starts no program here. Hooks, monitors, pagers and transports are off, and objects are read and written
in a scratch repository with our own configuration, whose object store is the project's. The person's own settings
are only read, as values. No work tree and no index of the project is read or written. Source: docs/spec/8-agents.md,
"A branch".
"""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.core import durable, limits
from threegate.core.held_folder import hold_path, open_inside

HEADS: Final = "refs/heads/"
_SETTINGS: Final = r"^(core\.(autocrlf|attributesfile|ignorecase|sharedrepository)|lfs\.storage)$"
_SHARED: Final = "core.sharedrepository"
_ROOT: Final = Path("/")
_OFF: Final = (
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("core.fsync", "all"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)
"""Settings that win over those of every file: no program is started, and what is written is on disk."""


class BranchRefused(Exception):
    """A change cannot be delivered as a branch; one line that names what, why and what to do. `moved` says that it
    could have been before the project changed.
    """

    def __init__(self, message: str, *, moved: bool = False) -> None:
        super().__init__(message)
        self.moved = moved


@dataclass(frozen=True, slots=True)
class ProjectRepository:
    """The repository of a checkout: its own folder, and the one with objects and references (the same, except in a
    linked worktree).
    """

    own: Path
    common: Path
    program: str
    home: str
    """Home folder of the project's owner, whose settings count."""

    @classmethod
    def of(cls, root: Path, uid: int) -> ProjectRepository:
        """The repository of a checkout that belongs to `uid`. A `.git` that is a file counts if the repository that it
        names also names this folder. Raises BranchRefused.
        """
        program = _program()
        try:
            home = pwd.getpwuid(uid).pw_dir
        except KeyError:
            home = "/nonexistent"
        place = root / ".git"
        if place.is_dir() and not place.is_symlink():
            return cls(place, place, program, home)
        named = _first_line(place).removeprefix("gitdir: ")
        own = Path(os.path.realpath(root / named)) if named else place
        if Path(os.path.realpath(_first_line(own / "gitdir"))) == place:
            return cls(own, Path(os.path.realpath(own / _first_line(own / "commondir"))), program, home)
        found = cls(own, own, program, home)
        with suppress(BranchRefused):
            tree = found.run("config", "--file", str(own / "config"), "--get", "core.worktree").decode().strip()
            if tree and os.path.realpath(own / tree) == str(root):
                return found
        if not named:
            raise BranchRefused(f"{root}: has no git repository of its own, so its changes cannot be a branch")
        raise BranchRefused(
            f"{root}: its .git names the repository {own}, which does not name this folder; allow it with: "
            f"git -C {root} config core.worktree {root}"
        )

    @classmethod
    def at(cls, folder: Path) -> ProjectRepository:
        """A repository of our own, in a folder with `objects`. Raises BranchRefused without git."""
        return cls(folder, folder, _program(), "/nonexistent")

    def run(self, *words: str) -> bytes:
        """What git prints for the project's repository, with the settings of `_closed`. Raises BranchRefused."""
        return _run(self.program, words, self._environment())

    @contextmanager
    def open(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """git with pipes to its stdin and from its stdout; it has ended at the end. Raises OSError."""
        with subprocess.Popen(
            [self.program, *words], env=self._environment(), cwd=_ROOT, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0, umask=0o022,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()

    def _environment(self) -> dict[str, str]:
        return {**_closed(), "GIT_DIR": str(self.own)}

    def head(self) -> str:
        """The commit of HEAD. Raises BranchRefused."""
        try:
            return self.run("rev-parse", "--verify", "-q", "HEAD^{commit}").decode().strip()
        except BranchRefused:
            raise BranchRefused(
                "the project's repository has no commit to build on; make one with: git commit"
            ) from None

    def settings(self) -> dict[str, str]:
        """The person's settings that decide how a file is stored, by name in lower case. Raises BranchRefused."""
        own = {"HOME": self.home, "GIT_CONFIG_NOSYSTEM": "0"}
        environment = {**_closed(), **own, "GIT_DIR": str(self.own)}
        del environment["GIT_CONFIG_GLOBAL"]
        listed = _run(self.program, ("config", "-z", "--get-regexp", _SETTINGS), environment, fine=(0, 1))
        found = {}
        for row in listed.decode("utf-8", "surrogateescape").split("\0"):
            name, _, value = row.partition("\n")
            if name:
                found[name] = value
        return found

    def branches(self, below: str) -> set[str]:
        """Names of the branches that are `below`, or begin with it and a slash. Raises BranchRefused."""
        listed = self.run("for-each-ref", "--format=%(refname)", HEADS + below)
        return {line.removeprefix(HEADS) for line in listed.decode("utf-8", "surrogateescape").splitlines()}

    def commit_of(self, ref: str) -> str | None:
        """Where a reference is; None if there is none. Raises BranchRefused."""
        listed = self.run("for-each-ref", "--format=%(refname) %(objectname)", ref).decode("utf-8", "surrogateescape")
        rows = (line.rpartition(" ") for line in listed.splitlines())
        return next((oid for name, _, oid in rows if name == ref), None)

    def checked_out_in(self, ref: str) -> str:
        """The work tree that has a branch checked out; empty if none has. Raises BranchRefused."""
        listed = self.run("for-each-ref", "--format=%(worktreepath)", ref)
        return listed.decode("utf-8", "replace").strip()


def _program() -> str:
    for folder in os.defpath.split(os.pathsep):
        if folder and os.access(path := os.path.join(folder, "git"), os.X_OK):
            return path
    raise BranchRefused("git is not installed here, and a branch needs it; apt-get install git")


def _first_line(path: Path) -> str:
    try:
        with hold_path(path.parent) as held:
            descriptor = open_inside(held.fileno(), path.name)
        try:
            data = durable.read_regular_fd(descriptor, path, max_bytes=limits.MIB)
        finally:
            os.close(descriptor)
    except OSError:
        return ""
    return data.decode("utf-8", "surrogateescape").split("\n", 1)[0]


def _closed() -> dict[str, str]:
    """An environment in which git reads no settings but those of the repository, and starts nothing."""
    values = {
        "PATH": os.defpath,
        "LC_ALL": "C",
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        # Else a replacement in the repository could give an id that was signed other bytes.
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TRACE2": "0",
        "GIT_TRACE2_EVENT": "0",
        "GIT_TRACE2_PERF": "0",
        "GIT_COMMITTER_NAME": "ThreeGate",  # of the reflog's line
        "GIT_COMMITTER_EMAIL": "threegate@threegate.invalid",
        "GIT_CONFIG_COUNT": str(len(_OFF)),
    }
    for number, (name, value) in enumerate(_OFF):
        values |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return values


def _run(
    program: str,
    words: Sequence[str],
    environment: Mapping[str, str],
    *,
    given: bytes = b"",
    cwd: Path = _ROOT,
    fine: tuple[int, ...] = (0,),
) -> bytes:
    try:
        done = subprocess.run(
            [program, *words], env=environment, cwd=cwd, input=given, capture_output=True, check=False,
            timeout=limits.BRANCH_GIT_SECONDS, umask=0o022,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise BranchRefused(f"git {words[0]} could not be run ({type(error).__name__})") from None
    if done.returncode not in fine:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise BranchRefused(f"git {words[0]} failed: {said[0][: limits.BRANCH_GIT_SAID_CHARS]}")
    return done.stdout


class ObjectStore:
    """The objects of a project's repository, through a scratch repository in our own folder."""

    def __init__(self, repository: ProjectRepository, oid: str, settings: Mapping[str, str]) -> None:
        """`oid` is any id of the repository: its length tells the algorithm. Changes nothing until it is entered."""
        self._repository, self._settings = repository, settings
        self.algorithm = "sha1" if len(oid) == 40 else "sha256"
        self._held = ExitStack()

    def __enter__(self) -> ObjectStore:
        try:
            self.folder = Path(self._held.enter_context(tempfile.TemporaryDirectory(prefix="threegate-branch-")))
            for name in ("refs", "objects", "info", "tree"):
                (self.folder / name).mkdir()
            (self.folder / "HEAD").write_bytes(b"ref: refs/heads/none\n")
            (self.folder / "config").write_text(self._config())
            self._asked = self._held.enter_context(
                subprocess.Popen(
                    [self._repository.program, "cat-file", "--batch"], env=self._environment(), cwd="/",
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                )
            )  # fmt: skip
        except OSError as error:
            self._held.close()
            raise BranchRefused(f"git cannot be started ({error.strerror or error})") from None
        return self

    def __exit__(self, *error: object) -> None:
        self._asked.kill()
        self._held.close()

    def _config(self) -> str:
        lines = ["[core]", "\tbare = false"]
        sha256 = self.algorithm == "sha256"
        lines.append(f"\trepositoryformatversion = {int(sha256)}")
        shared = self._settings.get(_SHARED, "")
        if shared.isalnum():
            lines.append(f"\tsharedRepository = {shared}")
        if self._settings.get("core.ignorecase", "").lower() in ("true", "yes", "on", "1"):
            lines.append("\tignorecase = true")
        return "\n".join([*lines, *(["[extensions]", "\tobjectformat = sha256"] if sha256 else ()), ""])

    def _environment(self) -> dict[str, str]:
        return {
            **_closed(),
            "GIT_DIR": str(self.folder),
            "GIT_OBJECT_DIRECTORY": str(self._repository.common / "objects"),
        }

    def read(self, oid: str, most: int) -> tuple[str, bytes]:
        """Kind and bytes of an object. Raises BranchRefused: it is missing, or larger than `most`."""
        assert self._asked.stdin is not None and self._asked.stdout is not None
        try:
            self._asked.stdin.write(f"{oid}\n".encode())
            self._asked.stdin.flush()
            words = self._asked.stdout.readline().split()
            if len(words) != 3 or int(words[2]) > most:
                raise BranchRefused(f"the project's repository has no object {oid}, or a very large one; try: git fsck")
            data = self._asked.stdout.read(int(words[2]))
            self._asked.stdout.read(1)
        except (OSError, ValueError) as error:
            raise BranchRefused(f"git cannot read the project's objects ({error}); try: git fsck") from None
        return words[1].decode(), data

    def run(self, *words: str) -> bytes:
        """What git prints in the scratch repository. Raises BranchRefused."""
        return _run(self._repository.program, words, self._environment())

    def attributes(self, paths: Iterable[str], file: str) -> dict[str, dict[str, str]]:
        """The attributes of each path that has any, with the `.gitattributes` files in `tree` of the scratch folder,
        `info/attributes`, and a `file` of the person. Raises BranchRefused.
        """
        tree = self.folder / "tree"
        listed = _run(
            self._repository.program,
            ("-c", f"core.attributesFile={file}", "check-attr", "-z", "-a", "--stdin"),
            {**self._environment(), "GIT_WORK_TREE": str(tree)},
            given=b"".join(os.fsencode(path) + b"\0" for path in paths),
            cwd=tree,
        )
        found: dict[str, dict[str, str]] = {}
        words = [os.fsdecode(word) for word in listed.split(b"\0")[:-1]]
        for path, name, value in zip(words[::3], words[1::3], words[2::3], strict=True):
            found.setdefault(path, {})[name] = value
        return found

    def take_pack(self, pieces: Iterator[bytes]) -> None:
        """Put a pack into the project's object store, synced. If this process ends before the last piece, git finds the
        pack incomplete, and nothing of it stays. Raises BranchRefused, and what `pieces` raises.
        """
        taking = subprocess.Popen(
            [self._repository.program, "index-pack", "--stdin"], env=self._environment(), cwd="/",
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, umask=0o022,
        )  # fmt: skip
        assert taking.stdin is not None
        try:
            for piece in pieces:
                taking.stdin.write(piece)
            taking.stdin.close()
            code = taking.wait(limits.BRANCH_GIT_SECONDS)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            code = -1
        finally:
            taking.kill()
            with suppress(OSError):
                taking.stdin.close()
            taking.wait()
        if code != 0:
            raise BranchRefused("git index-pack could not write the objects; is there space on the project's disk?")
