"""The workspace that the crash harness breaks: how it is made, put back and used, and what must hold in it afterwards.

Only the runner is a stand-in: it counts its runs in a file outside of the workspace, and hands what it made to the real
collection.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import threegate.runners.era.runner
import threegate.runners.monty.runner
from tests.support import monty_draft, request_id
from threegate import cli
from threegate.acts.operator import add_operator
from threegate.acts.reject import reject_draft
from threegate.acts.request_changes import Remark, change_words, request_changes
from threegate.acts.signed_acts import OperatorDecision
from threegate.audit.audit_verify import verify_workspace
from threegate.core.user_state import UserState
from threegate.core.workspace import STATES, Workspace
from threegate.daemon.log import Log
from threegate.daemon.loop import Daemon
from threegate.launch.context import open_context
from threegate.launch.results.validate import validate_result
from threegate.runners.interface import Outcome, Stream
from threegate.runners.staging import collect
from threegate.setup.settings_file import render_settings
from threegate.trail.trail import Trail

KILLED = 137
CHILD_SECONDS = 120


class CountingRunner:
    """Stands where Monty stands: its side effect is a line in a file outside of the workspace."""

    starts_late = False

    counter = Path()

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def available(self, job: object = None) -> None:
        return None

    def run(self, clearance, job, control) -> Outcome:
        descriptor = os.open(self.counter, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, clearance.request_id.encode() + b"\n")
        os.close(descriptor)
        made = control.run_folder / "out"
        (made / "more").mkdir(parents=True)
        (made / "result.txt").write_bytes(b"counted\n")
        (made / "more" / "inner.txt").write_bytes(b"inner\n")
        for item in job.inputs:
            shutil.copyfile(control.inputs_folder / item.sha256, made / item.name)
            if item.name == "args.json":  # a memory.propose: it hands back the note that it was given
                given = json.loads((made / item.name).read_bytes())["given"]
                (made / "note.json").write_text(json.dumps(given["note"]))
        collected = collect(made, job.limits)
        empty = Stream(b"", 0, hashlib.sha256(b"").hexdigest())
        said = Stream(b"done\n", 5, hashlib.sha256(b"done\n").hexdigest())
        artifacts = tuple(collected.artifacts)
        return Outcome("succeeded", "It was counted.", said, empty, exit_code=0, wall_ms=1, artifacts=artifacts)

    def close(self) -> None:
        pass


def stand_in() -> None:
    """From now on every run of this process is one of the stand-in. For the harness only, a process of its own."""
    threegate.runners.monty.runner.MontyRunner = CountingRunner
    threegate.runners.era.runner.EraRunner = CountingRunner


@dataclass
class Place:
    """The workspace under test, always at the same path, and the template that it is made of again."""

    base: Path
    ids: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.live, self.template = self.base / "live", self.base / "template"
        self.key = self.base / "operator_key"
        self.kept = self.base / "kept"
        self.journal = self.base / "journal"
        CountingRunner.counter = self.live / "counter"
        os.environ["XDG_STATE_HOME"] = str(self.live / "state")
        os.environ["XDG_RUNTIME_DIR"] = str(self.base)

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.live / "ws")

    def build(self) -> None:
        """A workspace with an operator and three requests: one to run, one to be refused, one to be looked at."""
        shutil.rmtree(self.live, ignore_errors=True)
        self.live.mkdir(parents=True)
        public = self.make_key(self.key)
        workspace = self.workspace
        workspace.root.mkdir()
        workspace.make_folders()
        workspace_id = "ws-" + hashlib.sha256(str(self.base).encode()).hexdigest()[:32]
        Trail.create(workspace, workspace_id=workspace_id, actor="account:test")
        add_operator(workspace, "operator", public.read_text().strip(), actor="account:test")
        workspace.settings_file.write_text(render_settings({"workspace.id": workspace_id}))
        (workspace.files / "data.json").write_bytes(b"[1]")
        for name in ("runs", "changed", "looked"):
            self.draft(name)
        self.save()

    def save(self) -> None:
        shutil.rmtree(self.template, ignore_errors=True)
        shutil.copytree(self.live, self.template, symlinks=True)

    def restore(self) -> None:
        shutil.rmtree(self.live, ignore_errors=True)
        shutil.copytree(self.template, self.live, symlinks=True)
        shutil.rmtree(self.journal, ignore_errors=True)
        self.journal.mkdir()

    def keep(self) -> None:
        """Remember how a stopped process left everything, for `take_up`."""
        shutil.rmtree(self.kept, ignore_errors=True)
        for folder in (self.live, self.journal):
            shutil.copytree(folder, self.kept / folder.name, symlinks=True)

    def take_up(self) -> None:
        """Everything as it was kept, its inodes excepted."""
        for folder in (self.live, self.journal):
            shutil.rmtree(folder)
            shutil.copytree(self.kept / folder.name, folder, symlinks=True)

    def command(self, *arguments: str) -> int:
        """One command of the operator's, in this process; its exit code."""
        return cli.execute(["-w", str(self.workspace.root), *arguments])

    def signed(self, *arguments: str, name: str = "operator", key: Path | None = None) -> int:
        """One command that an operator signs."""
        return self.command(*arguments, "--as", name, "--key", str(key or self.key), "--yes")

    def make_key(self, path: Path) -> Path:
        """A key pair; returns the public half's path."""
        path.unlink(missing_ok=True)
        path.with_suffix(".pub").unlink(missing_ok=True)
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "op", "-f", str(path)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        return path.with_suffix(".pub")

    def draft(self, name: str) -> Path:
        """A draft of one request, with the input that all of them have."""
        self.ids[name] = rid = request_id(name)
        path = self.workspace.inbox / f"{rid}.md"
        digest = hashlib.sha256(b"[1]").hexdigest()
        path.write_text(monty_draft(rid, "1 + 1", inputs={"data.json": digest}))
        return path

    def approve(self, name: str, *more: str) -> int:
        return self.signed("approve", str(self.workspace.inbox / f"{self.ids[name]}.md"), *more)

    def reject(self, name: str) -> int:
        draft = self.workspace.inbox / f"{self.ids[name]}.md"
        reject_draft(open_context(self.workspace), draft, reason="no", by=OperatorDecision("account:test"))
        return 0

    def request_changes(self, name: str) -> int:
        draft = self.workspace.inbox / f"{self.ids[name]}.md"
        words = change_words([Remark("Say it again.")], "account:test")
        request_changes(open_context(self.workspace), draft, words=words, by=OperatorDecision("account:test"))
        return 0

    def daemon(self) -> int:
        return Daemon(self.workspace, Log(), once=True).run()

    def runs_of(self, name: str) -> int:
        try:
            lines = CountingRunner.counter.read_text().split()
        except FileNotFoundError:
            return 0
        return lines.count(self.ids[name])


_said = os.memfd_create("said")


def last_words() -> str:
    """What the last child said on stderr, for a failure's line."""
    words = os.pread(_said, 65536, 0).decode("utf-8", "replace").split("\n")
    return " | ".join(words[-5:])[-600:]


def forked(work: Callable[[], int], *, quiet: bool = True) -> int:
    """Do `work` in a child; returns its exit code, or minus the signal that ended it."""
    os.ftruncate(_said, 0)
    child = os.fork()
    if child == 0:
        code = 70
        try:
            signal.alarm(CHILD_SECONDS)
            if quiet:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(os.open(f"/proc/self/fd/{_said}", os.O_WRONLY | os.O_APPEND), 2)
            code = work()
        except BaseException as error:  # the parent judges by what lies on the disk
            code = 3 if isinstance(error, OSError) else getattr(error, "exit_code", 70)
            traceback.print_exc(limit=-3)
        finally:
            os._exit(code if isinstance(code, int) else 70)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def problems_after(place: Place, expected: dict[str, set[str]]) -> list[str]:
    """Everything that is wrong after recovery. `expected` maps a request to the ends it may have."""
    workspace = place.workspace
    wrong = []
    result = verify_workspace(workspace)
    wrong += [f"verify: {item}" for item in result.problems]
    for folder in (
        *(workspace.state_folder(state) for state in STATES),
        workspace.results,
        workspace.verdicts,
        workspace.inputs,
        UserState.of(workspace.load_settings().workspace.id).folder,
    ):
        left = [*folder.glob(".tmp-*"), *folder.glob(".reserved-*")]
        wrong += [f"half-written file {path.name} in {folder.name}" for path in left]
    if any(workspace.running.iterdir()):
        wrong.append("something is left in running/")
    for name, ends in expected.items():
        rid = place.ids[name]
        runs = place.runs_of(name)
        found = [state for state in STATES if (workspace.state_folder(state) / f"{rid}.md").exists()]
        if (workspace.inbox / f"{rid}.md").exists() and not found:
            found = ["inbox"]
        if len(found) != 1 or found[0] not in ends:
            wrong.append(f"{name} is in {found}, not in one of {sorted(ends)}")
        if runs > 1:
            wrong.append(f"{name} ran {runs} times")
        if found == ["finished"] and runs != 1:
            wrong.append(f"{name} is finished and ran {runs} times")
        results = list(workspace.results.glob(f"TS-*-{rid}*.md"))
        if found and found[0] in ("finished", "refused") and len(results) != 1:
            wrong.append(f"{name} has {len(results)} results")
        for path in results:
            wrong += [f"{path.name}: {item.message}" for item in validate_result(path.read_bytes())]
    return wrong


def announced(place: Place, kind: str, name: str | None = None) -> bool:
    """Whether the trail names an event of this type, of one request or of any (read without verifying)."""
    marks = [f'"type":"{kind}"'.encode()]
    if name is not None:
        marks.append(f'"request_id":"{place.ids[name]}"'.encode())
    lines = place.workspace.trail_file.read_bytes().splitlines()
    return any(all(mark in line for mark in marks) for line in lines)
