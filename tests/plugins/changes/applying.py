"""Changing a project of a test as its owner: an account that is not root, even where the tests are."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.plugins.changes.trees_on_disk import Spec, build, made
from threegate.core.held_folder import HeldFolder
from threegate.plugins.changes.action import ProjectPlace
from threegate.plugins.changes.apply.apply_engine import Done, Work, carry_out, forget, take_back
from threegate.plugins.changes.apply.apply_journal import Journal, first_line, read_journal
from threegate.plugins.changes.apply.as_owner import preload
from threegate.plugins.changes.change_tar import read_change_set
from threegate.plugins.changes.projects import hold_project

OWNER = 65534 if os.geteuid() == 0 else os.geteuid()
TOKEN = "t" * 16


@contextmanager
def as_owner() -> Iterator[None]:
    """Act as the project's owner."""
    if os.geteuid() != 0:
        yield
        return
    preload()
    os.setegid(OWNER)
    os.seteuid(OWNER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@contextmanager
def as_root() -> Iterator[None]:
    """Act as the tests do, in the middle of acting as the owner: to reach a project by its path."""
    uid = os.geteuid()
    if os.getuid() == 0:
        os.seteuid(0)
    try:
        yield
    finally:
        os.seteuid(uid)


def own(root: Path) -> Path:
    """Give a tree to the owner."""
    if os.geteuid() == 0:
        for path in (root, *root.rglob("*")):
            os.chown(path, OWNER, OWNER, follow_symlinks=False)
    return root


def picture(root: Path) -> dict[str, Any]:
    """Every path below a folder with kind, mode, owner, and bytes or target."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        facts = path.lstat()
        what: Any = None
        if path.is_symlink():
            found[str(path.relative_to(root))] = ("link", os.readlink(path), facts.st_uid)
            continue
        if path.is_file():
            what = path.read_bytes()
        found[str(path.relative_to(root))] = (facts.st_mode, facts.st_uid, facts.st_gid, what)
    return found


def place_of(root: Path) -> ProjectPlace:
    facts = root.stat()
    return ProjectPlace("default", str(root), facts.st_dev, facts.st_ino, facts.st_uid)


@dataclass
class Change:
    """One change of a project on disk, and its undo."""

    project: Path
    data: bytes
    folder: Path

    @classmethod
    def of(cls, tmp_path: Path, before: Spec, after: Spec) -> Change:
        """The change from one tree to another, in a project that belongs to the owner."""
        project = own(build(tmp_path / "project", before))
        found = made(project, build(tmp_path / "work", after))
        assert not found.left_out, found.left_out
        return cls(project, found.data, tmp_path)

    def apply(self, **more: Any) -> Done:
        """Make the change."""
        return self._carry(self.data, "apply", True, {}, **more)

    def undo(self, **more: Any) -> Done:
        """Take it back, from what was kept."""
        plan = self.journal("apply").plan
        assert plan is not None
        return self._carry((self.folder / "apply.tar").read_bytes(), "undo", False, plan.kept, **more)

    def journal(self, name: str = "apply") -> Journal:
        return read_journal((self.folder / f"{name}.json").read_bytes())

    def held(self) -> HeldFolder:
        return hold_project(place_of(self.project))

    def forget(self) -> None:
        with self.held() as project, as_owner():
            forget(project, TOKEN)

    def take_back(self, name: str = "apply") -> tuple[str, ...]:
        plan = self.journal(name).plan
        with self.held() as project, as_owner():
            if plan is None:
                forget(project, TOKEN)
                return ()
            return take_back(project, plan, TOKEN)

    def _carry(self, data: bytes, name: str, keep: bool, exact: Mapping[str, tuple[int, int]], **more: Any) -> Done:
        place = place_of(self.project)
        change = read_change_set(data)
        with (
            open(self.folder / f"{name}.json", "wb+") as journal,
            open(self.folder / f"{name}.tar", "wb+") as originals,
            self.held() as project,
        ):
            journal.write(first_line(place, TOKEN))
            journal.flush()
            work = Work(change, io.BytesIO(data), journal.fileno(), TOKEN, originals if keep else None, exact, **more)
            with as_owner():
                return carry_out(project, place, work)
