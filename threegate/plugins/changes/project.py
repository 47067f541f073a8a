"""The project on disk that proposals refer to, read without ever following a link.

Invariant: every name is opened relative to an open descriptor (`dir_fd`, O_NOFOLLOW), bytes are read from the
descriptor that was checked, links and files with several names are skipped and reported, and nothing outside
the root is opened. `resolve` only computes where a path would lead; opening checks it again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from threegate.core import durable, limits
from threegate.core.held_folder import hold_path
from threegate.plugins.changes.project_paths import PathBlocked, ProjectPath, is_own, is_protected, read_path
from threegate.request.characters import has_hidden

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

Kind = Literal["file", "folder", "link", "other", "linked file"]
"""`linked file` is a regular file with more than one name."""


class ProjectError(Exception):
    """The project lacks something that a draft needs. One line that says what to do; exit 3 in the CLI."""


@dataclass(frozen=True, slots=True)
class ProjectEntry:
    """One name of the project. `size` is 0 for everything but files."""

    parts: tuple[str, ...]
    kind: Kind
    size: int
    protected: bool

    @property
    def path(self) -> str:
        """The path with slashes."""
        return "/".join(self.parts)


@dataclass(frozen=True, slots=True)
class Project:
    """A project by its root folder, already free of links."""

    root: Path

    @classmethod
    def open(cls, root: str) -> Project:
        """The project in the setting `project.root`. Raises ProjectError."""
        if not root:
            raise ProjectError("no project is set; put its absolute path into project.root of threegate.toml")
        path = Path(root)
        with suppress(OSError):  # a folder above may be closed
            if path.is_absolute() and path.is_dir():
                return cls(path.resolve())
        raise ProjectError("project.root of threegate.toml is not the absolute path of a folder; fix it")

    def resolve(self, path: ProjectPath, *, writing: bool = False) -> ProjectPath:
        """Follow every link of a path. Raises PathBlocked if it leaves the project or reaches a path that is
        never touched.

        A path that does not exist is used unchanged.
        """
        pending = list(reversed(path.parts))
        done: list[str] = []
        followed = 0
        while pending:
            part = pending.pop()
            if part == "..":
                if not done:
                    raise PathBlocked("path_outside", "a link in the path leaves the project")
                done.pop()
                continue
            place = self.root.joinpath(*done, part)
            try:
                target = str(place.readlink()) if place.is_symlink() else None
            except OSError:
                target = None
            if target is None:
                done.append(part)
                continue
            followed += 1
            if followed > limits.PROJECT_LINKS:
                raise PathBlocked("path_outside", "too many links in the path")
            pending.extend(reversed(self._inside(target, done)))
        if followed == 0:
            return path
        reached = read_path("/".join(done) or ".", writing=writing)
        return ProjectPath(reached.parts, reached.protected or path.protected)

    def _inside(self, target: str, done: list[str]) -> list[str]:
        """The parts that a link's target adds. An absolute target starts at the root again, or leaves the project."""
        if target.startswith("/"):
            inside = Path(os.path.normpath(target))
            if inside != self.root and self.root not in inside.parents:
                raise PathBlocked("path_outside", "a link in the path leaves the project")
            done.clear()
            target = str(inside.relative_to(self.root))
        return [part for part in target.split("/") if part not in ("", ".")]

    @contextmanager
    def folder(self, parts: tuple[str, ...]) -> Iterator[int]:
        """A descriptor of a folder, opened part by part without following links. Raises ProjectError."""
        try:
            held = hold_path(self.root)
            for part in parts:
                with held:
                    held = held.folder(part)
        except OSError as error:
            raise ProjectError(f"the folder cannot be opened ({error.strerror})") from None
        with held:
            yield held.fileno()

    def read(self, path: ProjectPath, *, max_bytes: int) -> bytes | None:
        """The bytes of a file with one name, None if it does not exist. Raises ProjectError."""
        if not path.parts:
            raise ProjectError("the path is a folder; name a file")
        try:
            with self.folder(path.parts[:-1]) as parent:
                return read_at(parent, path.parts[-1], max_bytes=max_bytes)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ProjectError(f"the file cannot be read ({error.strerror or error})") from None

    def walk(
        self, start: tuple[str, ...] = (), *, depth: int | None = None, into_protected: bool = False
    ) -> Iterator[tuple[ProjectEntry, int]]:
        """Every name below `start` in sorted order, with the descriptor of its folder (valid until the next step).

        Protected folders are named and not entered unless requested; ThreeGate's own are left out. Raises ProjectError.
        """
        with self.folder(start) as descriptor:
            try:
                yield from self._walk(descriptor, start, depth, into_protected)
            except OSError as error:
                raise ProjectError(f"a folder changed while it was read, or is closed ({error.strerror})") from None

    def _walk(
        self, descriptor: int, start: tuple[str, ...], depth: int | None, into_protected: bool
    ) -> Iterator[tuple[ProjectEntry, int]]:
        for name in sorted(os.listdir(descriptor)):
            parts = (*start, name)
            if is_own(parts):
                continue
            try:
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue
            kind = _kind(status)
            if not _plain(name):
                kind = "other"
            entry = ProjectEntry(parts, kind, status.st_size if kind == "file" else 0, is_protected(parts))
            yield entry, descriptor
            enter = kind == "folder" and (into_protected or not entry.protected)
            if enter and (depth is None or depth > 0):
                below = os.open(name, _FOLDER_FLAGS, dir_fd=descriptor)
                try:
                    yield from self._walk(below, parts, None if depth is None else depth - 1, into_protected)
                finally:
                    os.close(below)


def read_at(parent: int, name: str, *, max_bytes: int) -> bytes:
    """The bytes of a regular file with one name in an open folder. Raises OSError."""
    descriptor = os.open(name, _FILE_FLAGS, dir_fd=parent)
    try:
        return durable.read_regular_fd(descriptor, Path("file"), max_bytes=max_bytes)
    finally:
        os.close(descriptor)


def _kind(status: os.stat_result) -> Kind:
    if stat.S_ISREG(status.st_mode):
        return "file" if status.st_nlink == 1 else "linked file"
    if stat.S_ISDIR(status.st_mode):
        return "folder"
    return "link" if stat.S_ISLNK(status.st_mode) else "other"


def _plain(name: str) -> bool:
    """Whether a name can be stored in a tar and shown on a screen: UTF-8, nothing hidden, no backslash."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return not has_hidden(name) and not {"\n", "\t", "\\"} & set(name)
