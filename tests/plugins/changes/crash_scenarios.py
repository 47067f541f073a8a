"""What the crash harness stops: a change of a project and its undo, as files and as a branch."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import IO

from tests.crash.place import Place, announced, forked, last_words
from tests.crash.scenarios import Scenario, recovered
from tests.plugins.changes.applying import own
from tests.plugins.changes.branches import git
from tests.plugins.changes.trees_on_disk import build, made
from tests.support import request_id
from threegate.audit.audit_verify import verify_workspace
from threegate.core.settings import RequestSettings
from threegate.plugins.changes.apply import as_owner
from threegate.plugins.changes.change_draft import draft_change_set
from threegate.plugins.changes.change_tar import change_tar, read_change_set
from threegate.plugins.changes.commit_chain import commits_tar
from threegate.plugins.changes.make import MadeChangeSet
from threegate.setup.settings_file import set_values

OLD_TREE = {"a": "old", "b": "old", "d/c": "old", "gone": "old"}
NEW_TREE = {"a": "new", "b": ("x", "old"), "d/c": "new", "d/n": "new", "fresh/x": "new"}


class ForkedApplier:
    """Stands where `subprocess.Popen` stands: the child that becomes the project's owner, as a fork of this process.

    It does what the real one does, with its own descriptors only. But for the start of an interpreter, which is no
    operation of the disk and was four fifths of the time; tests/plugins/changes/end_to_end starts real ones.
    """

    def __init__(
        self, command: Sequence[str], stdin: IO[bytes], stdout: IO[bytes], pass_fds: Sequence[int], **_: object
    ):
        assert command[-1] == as_owner.__name__
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            code = 70
            try:
                os.dup2(stdin.fileno(), 0)
                os.dup2(stdout.fileno(), 1)
                # Above all the daemon's lock: the process that holds it may be killed before this one.
                for number in {int(name) for name in os.listdir("/proc/self/fd")} - {0, 1, 2, *pass_fds}:
                    try:
                        os.close(number)
                    except OSError:  # the listing's own
                        continue
                sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
                os.umask(0o077)
                code = as_owner.main()
                sys.stdout.flush()
            finally:
                os._exit(code)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def fork_appliers() -> None:
    """From now on in this process, which is the harness's own for one scenario."""
    as_owner.subprocess = SimpleNamespace(Popen=ForkedApplier, DEVNULL=subprocess.DEVNULL)


def changed_project(place: Place) -> Path:
    """Beside what is put back, since it is bound by its inode: `work` puts it back itself."""
    return place.base / "changed-project"


def put_back(project: Path, spec: dict[str, object]) -> None:
    project.mkdir(exist_ok=True)
    for path in project.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    own(build(project, spec))


def prepare_change(place: Place) -> None:
    """A change set is approved."""
    fork_appliers()
    project = changed_project(place)
    put_back(project, OLD_TREE)
    found = made(project, build(place.base / "changed-work", NEW_TREE))
    set_values(place.workspace.settings_file, {"project.root": str(project)})
    place.ids["change"] = rid = request_id("change")
    now = datetime.now(UTC).replace(microsecond=0)
    draft = draft_change_set(
        found, project="default", request_id=rid, requested_by="core", purpose="A change.", justification="A test.",
        now=now, settings=RequestSettings(),
    )  # fmt: skip
    (place.workspace.files / "changes.tar").write_bytes(found.data)
    (place.workspace.inbox / f"{rid}.md").write_bytes(draft.data)
    assert place.approve("change") == 0
    place.save()


def change_project(place: Place) -> int:
    put_back(changed_project(place), OLD_TREE)
    return place.daemon()


def branched_project(place: Place) -> Path:
    return place.base / "branched-project"


def git_of(place: Place, *words: str) -> str:
    """What git prints in the project, as its owner."""
    return git(branched_project(place), *words, home=place.base)


def put_back_branches(place: Place) -> None:
    """The project without the branch: the objects may stay."""
    for name in git_of(place, "for-each-ref", "--format=%(refname)", "refs/heads/threegate").split():
        git_of(place, "update-ref", "-d", name)


def two_commits(found: MadeChangeSet) -> bytes:
    """A change set as two commits of the agent's, of the files that are changed and of those that come and go."""
    change, archive = read_change_set(found.data), io.BytesIO(found.data)
    leaves = [row for row in found.rows if row.after is None or row.after.file]
    halves = (
        [row for row in leaves if row.before and row.after],
        [row for row in leaves if not (row.before and row.after)],
    )
    tars = [change_tar(rows, lambda row: change.read(archive, row.path)) for rows in halves]
    return commits_tar([("What is there", tars[0]), ("What comes and goes", tars[1])])


def prepare_commits(place: Place) -> None:
    """The same, with two commits that are delivered one by one."""
    prepare_branch(place, one_by_one=True)


def after_commits(place: Place) -> list[str]:
    """Both commits are on the branch, or there is no branch."""
    wrong = after_branch(place)
    names, _ = whole_branch(place)
    for name in names:
        subjects = git_of(place, "log", "--format=%s", "--reverse", f"main..{name}").splitlines()
        if subjects != ["What is there", "What comes and goes"]:
            wrong.append(f"the branch has the commits {subjects}")
    return wrong


def prepare_branch(place: Place, *, one_by_one: bool = False) -> None:
    """A change set is approved that is delivered as a branch."""
    fork_appliers()
    for path in (place.base, place.base.parent):  # git goes there by its path, as the project's owner
        path.chmod(path.stat().st_mode | 0o011)
    project = branched_project(place)
    shutil.rmtree(project, ignore_errors=True)
    put_back(project, OLD_TREE)
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "first")):
        git_of(place, *words)
    assert place.command("project", "add", "app", str(project), "--deliver", "branch") == 0
    found = made(project, build(place.base / "branched-work", NEW_TREE))
    commits = two_commits(found) if one_by_one else b""
    place.ids["change"] = rid = request_id("change")
    draft = draft_change_set(
        found, project="app", request_id=rid, requested_by="core", purpose="A change.", justification="A test.",
        now=datetime.now(UTC).replace(microsecond=0), settings=RequestSettings(), commits=commits,
    )  # fmt: skip
    (place.workspace.files / "changes.tar").write_bytes(found.data)
    (place.workspace.files / "commits.tar").write_bytes(commits)
    (place.workspace.inbox / f"{rid}.md").write_bytes(draft.data)
    assert place.approve("change", *(["--deliver", "commits"] if one_by_one else ())) == 0
    place.save()


def deliver_branch(place: Place) -> int:
    put_back_branches(place)
    return place.daemon()


def whole_branch(place: Place) -> tuple[list[str], list[str]]:
    """The branches that are there, and what is wrong with the repository."""
    wrong = [] if tree_of(branched_project(place), ".git") == trees(place)[0] else ["the project's files changed"]
    git_of(place, "fsck", "--strict")
    names = git_of(place, "for-each-ref", "--format=%(refname:short)", "refs/heads/threegate").split()
    for name in names:
        listed = git_of(place, "ls-tree", "-r", "--name-only", name).split()
        if listed != ["a", "b", "d/c", "d/n", "fresh/x"]:
            wrong.append(f"the branch has {listed}")
    return names, wrong


def after_branch(place: Place) -> list[str]:
    """The branch or no branch, and the trail says which."""
    wrong = recovered(place)
    said = [json.loads(line) for line in place.workspace.trail_file.read_bytes().splitlines()]
    finished = any(item["type"] == "finished" and item["data"]["status"] == "succeeded" for item in said)
    names, more = whole_branch(place)
    if names != [f"threegate/{place.ids['change']}"] * finished:
        wrong.append(f"the trail says made: {finished}, and the branches are {names}")
    if not any(announced(place, end, "change") for end in ("finished", "interrupted")):
        wrong.append("nothing says how it ended")
    return wrong + more + [f"verify: {item}" for item in verify_workspace(place.workspace).problems]


def prepare_branch_undo(place: Place) -> None:
    """A branch was made."""
    prepare_branch(place)
    assert forked(place.daemon) == 0
    commit = git_of(place, "rev-parse", f"threegate/{place.ids['change']}").strip()
    (place.base / "commit").write_text(commit)
    place.save()


def undo_branch(place: Place) -> int:
    put_back_branches(place)
    git_of(place, "update-ref", f"refs/heads/threegate/{place.ids['change']}", (place.base / "commit").read_text())
    return place.signed("project", "undo", place.ids["change"])


def after_branch_undo(place: Place) -> list[str]:
    """The branch is gone and the trail says so, or neither; then the next undo removes it."""
    wrong = recovered(place)
    said = [json.loads(line) for line in place.workspace.trail_file.read_bytes().splitlines()]
    undone = any(item["type"] == "undone" and item["data"]["status"] == "succeeded" for item in said)
    names, more = whole_branch(place)
    if bool(names) == undone:
        wrong.append(f"the trail says undone: {undone}, and the branches are {names}")
    if not undone and (code := forked(lambda: place.signed("project", "undo", place.ids["change"]))) != 0:
        wrong.append(f"it cannot be undone again ({code}): {last_words()}")
    if whole_branch(place)[0]:
        wrong.append("the next undo did not undo it")
    return wrong + more + [f"verify: {item}" for item in verify_workspace(place.workspace).problems]


def tree_of(project: Path, without: str = "") -> dict[str, object]:
    return {
        str(path.relative_to(project)): (path.stat().st_mode, path.read_bytes() if path.is_file() else None)
        for path in sorted(project.rglob("*"))
        if not without or without not in path.relative_to(project).parts
    }


def trees(place: Place) -> tuple[dict[str, object], dict[str, object]]:
    """The project before and after the change, whole."""
    found = []
    for name, spec in (("old", OLD_TREE), ("new", NEW_TREE)):
        folder = place.base / f"tree-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        found.append(tree_of(build(folder, spec)))
    return found[0], found[1]


def after_unset(place: Place) -> list[str]:
    """The same where the next start finds no setting of this plugin: what never began is refused."""
    set_values(place.workspace.settings_file, {"project.root": ""})
    return after_change(place, "refused")


def after_change(place: Place, never_began: str = "finished") -> list[str]:
    """All of the change or nothing of it, and the trail says which; what never began is made by the next start."""
    wrong = recovered(place)
    old, new = trees(place)
    now = tree_of(changed_project(place))
    said = [json.loads(line) for line in place.workspace.trail_file.read_bytes().splitlines()]
    made = any(item["type"] == "finished" and item["data"]["status"] == "succeeded" for item in said)
    if now != (new if made else old):
        wrong.append(f"the trail says made: {made}, and the project is neither as it says: {sorted(now)}")
    if not any(announced(place, end, "change") for end in ("finished", "interrupted", never_began)):
        wrong.append("nothing says how it ended")
    wrong += [f"verify: {item}" for item in verify_workspace(place.workspace).problems]
    return wrong


def prepare_undo(place: Place) -> None:
    """A change was made."""
    prepare_change(place)
    assert forked(place.daemon) == 0
    place.save()


def undo(place: Place) -> int:
    put_back(changed_project(place), NEW_TREE)
    return place.signed("project", "undo", place.ids["change"])


def after_undo(place: Place) -> list[str]:
    """All of the undo or nothing of it, and the trail says which; then the next undo does it."""
    wrong = recovered(place)
    old, new = trees(place)
    said = [json.loads(line) for line in place.workspace.trail_file.read_bytes().splitlines()]
    undone = any(item["type"] == "undone" and item["data"]["status"] == "succeeded" for item in said)
    now = tree_of(changed_project(place))
    if now != (old if undone else new):
        wrong.append(f"the trail says undone: {undone}, and the project is neither as it says: {sorted(now)}")
    if not undone and (code := forked(lambda: place.signed("project", "undo", place.ids["change"]))) != 0:
        wrong.append(f"it cannot be undone again ({code}): {last_words()}")
    if tree_of(changed_project(place)) != old:
        wrong.append("the next undo did not undo it")
    wrong += [f"verify: {item}" for item in verify_workspace(place.workspace).problems]
    return wrong


def prepare_part(place: Place) -> None:
    """A change set of several paths waits."""
    fork_appliers()
    project = changed_project(place)
    put_back(project, OLD_TREE)
    found = made(project, build(place.base / "part-work", NEW_TREE))
    set_values(place.workspace.settings_file, {"project.root": str(project)})
    place.ids["change"] = rid = request_id("change")
    draft = draft_change_set(
        found, project="default", request_id=rid, requested_by="core", purpose="A change.", justification="A test.",
        now=datetime.now(UTC).replace(microsecond=0), settings=RequestSettings(),
    )  # fmt: skip
    (place.workspace.files / hashlib.sha256(found.data).hexdigest()).write_bytes(found.data)
    (place.workspace.inbox / f"{rid}.md").write_bytes(draft.data)
    place.save()


def take_part(place: Place) -> int:
    put_back(changed_project(place), OLD_TREE)
    draft = place.workspace.inbox / f"{place.ids['change']}.md"
    return place.command("project", "take", str(draft), "a", "--as", "operator", "--key", str(place.key))


def after_part(place: Place) -> list[str]:
    """The whole waits, or a part of it does: never both, never neither; what a crash left over is never approved."""
    wrong = recovered(place)
    said = announced(place, "rejected", "change")
    inbox = place.workspace.inbox
    parts = sorted(inbox.glob("TR-*-part*.md"))
    whole = inbox / f"{place.ids['change']}.md"

    def approved(path: Path) -> bool:
        return forked(lambda: place.signed("approve", str(path))) == 0

    if not whole.exists() and not said:
        wrong.append("the whole is gone, and nothing says so")
    if said and len(parts) != 1:
        wrong.append(f"the trail says that a part was taken, and there are {len(parts)}")
    if not said and any(map(approved, parts)):
        wrong.append("a part was approved while the whole was waiting")
    if not said and forked(lambda: take_part(place)) != 0:
        wrong.append(f"the part cannot be taken again: {last_words()}")
    if whole.exists() and approved(whole):
        wrong.append("the whole was approved after a part of it was taken")
    if [approved(path) for path in sorted(inbox.glob("TR-*-part*.md"))].count(True) != 1:
        wrong.append("not exactly one part was approved")
    wrong += recovered(place)
    expected = tree_of(build(place.base / "tree-part", {**OLD_TREE, "a": "new"}))
    shutil.rmtree(place.base / "tree-part")
    if tree_of(changed_project(place)) != expected:
        wrong.append("the project has something else than the part")
    return wrong + [f"verify: {item}" for item in verify_workspace(place.workspace).problems]


SCENARIOS = {
    "change": Scenario(prepare_change, change_project, after_change, floor=(132, 300), faults=10, by_inode=True),
    "change_unset": Scenario(prepare_change, change_project, after_unset, floor=(132, 300), by_inode=True),
    "undo": Scenario(prepare_undo, undo, after_undo, floor=(20, 30), by_inode=True),
    "branch": Scenario(prepare_branch, deliver_branch, after_branch, floor=(125, 300), by_inode=True),
    "branch_undo": Scenario(prepare_branch_undo, undo_branch, after_branch_undo, floor=(20, 34), by_inode=True),
    "part": Scenario(prepare_part, take_part, after_part, floor=(45, 90), faults=5, by_inode=True),
    "commits": Scenario(prepare_commits, deliver_branch, after_commits, floor=(125, 300), by_inode=True),
}
