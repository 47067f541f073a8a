"""A project with a repository, whose changes are delivered as a branch: the real commands, and git as its owner."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.plugins.agents.agent_runs import drop, make_run
from tests.plugins.changes.applying import OWNER, own
from tests.plugins.changes.trees_on_disk import Spec, build, made
from tests.support import Done, Place, make_place, request_id
from threegate.core.canonical import sha256_hex
from threegate.core.settings import RequestSettings
from threegate.core.workspace import AgentRun
from threegate.plugins.changes.change_draft import draft_change_set
from threegate.plugins.changes.change_tar import change_tar
from threegate.plugins.changes.commit_chain import commits_tar
from threegate.plugins.changes.table import FILE, Mode, Row, TableNode

AUTHOR = {
    f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "a"), ("EMAIL", "a@b"))
}


Files = Mapping[str, "tuple[bytes | None, bytes | None]"]
"""path → the bytes before and after; None for no file."""


def step(files: Files, mode: Mode = FILE) -> bytes:
    """The change set of one commit."""

    def node(data: bytes | None) -> TableNode | None:
        return None if data is None else TableNode(mode, sha256_hex(data))

    rows = [Row(path, node(before), node(after)) for path, (before, after) in files.items()]
    return change_tar(rows, lambda row: files[row.path][1] or b"")


def archive(*steps: Files, message: str = "Do it") -> bytes:
    return commits_tar([(message, step(files)) for files in steps])


def edit(work: Path) -> None:
    """A change of one file."""
    (work / "app.py").write_text("print(2)\n")


@dataclass
class Branching:
    """A workspace, and a registered project with one commit."""

    folder: Path
    place: Place
    project: Path
    run: AgentRun

    def git(self, *words: str, ok: bool = True, given: bytes = b"") -> str:
        """What git prints in the project, as its owner with a home of their own."""
        return git(self.project, *words, ok=ok, given=given, home=self.folder / "home")

    def propose(
        self,
        edit: Callable[[Path], object],
        *,
        purpose: str = "Change it.",
        messages: Sequence[str] = (),
        run: AgentRun | None = None,
        commits: bytes = b"",
    ) -> Path:
        """The draft of a change set in the inbox of a run: of a copy of the project that `edit` changed."""
        from threegate.plugins.changes.commit_message import commit_lines

        work = Path(tempfile.mkdtemp(dir=self.folder)) / "work"
        shutil.copytree(self.project, work, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        edit(work)
        found = made(self.project, work)
        run = run or self.run
        draft = draft_change_set(
            found, project="app", request_id=request_id(f"branch-{secrets.token_hex(3)}"), requested_by="codex",
            purpose=purpose, justification="It was wrong.", now=datetime.now(UTC).replace(microsecond=0),
            settings=RequestSettings(), constraints=tuple(commit_lines(messages)), commits=commits,
        )  # fmt: skip
        for data in (found.data, *([commits] if commits else ())):
            files = run.files / hashlib.sha256(data).hexdigest()
            if not files.exists():
                files.write_bytes(data)
        return drop(run.inbox, draft.data.decode(), draft.name)

    def approve(self, draft: Path, *more: str, expect: int = 0) -> Done:
        return self.place.approve(draft, *more, expect=expect)

    def deliver(self, edit: Callable[[Path], object], **more: object) -> str:
        """Propose, sign, and run the daemon once; the request's id."""
        draft = self.propose(edit, **more)  # type: ignore[arg-type]
        self.approve(draft)
        self.place.once()
        return self.place.events("finished")[-1]["request_id"]

    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads/threegate").split()

    def outside(self) -> dict[str, object]:
        """Everything of the project but its objects, references and their logs: what a delivery never touches."""
        found: dict[str, object] = {}
        for path in sorted(self.project.rglob("*")):
            name = str(path.relative_to(self.project))
            if (
                not name.startswith((".git/objects", ".git/refs", ".git/logs", ".git/lfs"))
                and path.name != "index.lock"
            ):
                facts = path.lstat()
                content = (facts.st_mtime_ns, path.read_bytes()) if path.is_file() else None
                found[name] = facts.st_mode, facts.st_ino, content
        return found


def git(folder: Path, *words: str, ok: bool = True, given: bytes = b"", home: Path) -> str:
    account = {"user": OWNER, "group": OWNER, "extra_groups": []} if os.geteuid() == 0 else {}
    done = subprocess.run(
        ["git", *words], cwd=folder, input=given, capture_output=True, check=False,
        env={"PATH": os.defpath, "HOME": str(home), "LC_ALL": "C", **AUTHOR}, **account,  # type: ignore[arg-type]
    )  # fmt: skip
    assert not ok or done.returncode == 0, (words, done.stderr.decode())
    return done.stdout.decode("utf-8", "replace")


@contextmanager
def branching(
    spec: Spec,
    *,
    init: Sequence[str] = (),
    before: Callable[[Branching], object] | None = None,
    deliver: str = "branch",
) -> Iterator[Branching]:
    """A project with these files in its first commit. It is below /tmp, where its owner can reach it."""
    folder = Path(tempfile.mkdtemp(prefix="threegate-branching-", dir="/tmp"))
    try:
        folder.chmod(0o755)
        (folder / "home").mkdir()
        own(folder / "home")
        project = own(build(folder / "app", spec))
        here = Branching(folder, make_place(folder), project, None)  # type: ignore[arg-type]
        here.git("init", "-q", "-b", "main", *init)
        if before is not None:
            before(here)
        here.git("add", "-A")
        here.git("commit", "-qm", "first")
        added = here.place.run("project", "add", "app", str(project), "--deliver", deliver)
        assert added.code == 0, added.err
        here.run = make_run(here.place, project="app")
        yield here
    finally:
        shutil.rmtree(folder, ignore_errors=True)
