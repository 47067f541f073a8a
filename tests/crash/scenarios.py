"""What the harness stops: each way through the code that changes a state, and what must have become of it after
recovery.
"""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.crash.place import KILLED, CountingRunner, Place, announced, forked, last_words, problems_after
from tests.plugins.changes.applying import own
from tests.plugins.changes.branches import git
from tests.plugins.changes.trees_on_disk import build, made
from tests.support import request_id, wait_until
from threegate.acts.operator import add_operator
from threegate.acts.signing_key import Acting
from threegate.audit.audit_verify import verify_workspace
from threegate.audit.prune import prune
from threegate.core.canonical import sha256_hex
from threegate.core.settings import RequestSettings
from threegate.core.user_state import UserState
from threegate.core.workspace import STATES
from threegate.launch.context import Context, open_context
from threegate.plugins.changes.change_draft import draft_change_set
from threegate.plugins.changes.change_tar import change_tar, read_change_set
from threegate.plugins.changes.commit_chain import commits_tar
from threegate.plugins.changes.make import MadeChangeSet
from threegate.plugins.grants.giving import new_grant
from threegate.plugins.grants.standing_grants import list_grants
from threegate.plugins.tools.manifest import Manifest, PinnedTool, announced_manifests
from threegate.plugins.tools.tool_servers import LookedAt, add_server, remove_server, take_up
from threegate.setup.settings_file import set_values
from threegate.trail.trail import Trail


@dataclass
class Scenario:
    """`prepare` makes the template, `work` is what is stopped, `after` recovers and says what is wrong."""

    prepare: Callable[[Place], None]
    work: Callable[[Place], int]
    after: Callable[[Place], list[str]]
    by_inode: bool = False
    """What is recovered knows files by their inodes, so a copy of how it was left is not the same."""


def recovered(place: Place) -> list[str]:
    code = forked(place.daemon)
    return [] if code == 0 else [f"the daemon after the stop ended with {code}: {last_words()}"]


def prepare_pass(place: Place) -> None:
    assert place.approve("runs") == 0
    assert place.approve("changed") == 0
    path = place.workspace.approved / f"{place.ids['changed']}.md"
    path.write_bytes(path.read_bytes() + b"\n")
    place.save()


def after_pass(place: Place) -> list[str]:
    was_claimed = announced(place, "claimed", "runs")
    ran_before = place.runs_of("runs")
    wrong = recovered(place)
    ends = {"finished", "refused"} if was_claimed or ran_before else {"finished"}
    wrong += problems_after(place, {"runs": ends, "changed": {"refused"}, "looked": {"inbox"}})
    if place.runs_of("changed") or place.runs_of("looked"):
        wrong.append("something ran that must not")
    return wrong


def prepare_recovery(place: Place) -> None:
    """A daemon that was killed while the request ran."""
    prepare_pass(place)

    def stop(self: object, clearance: object, job: object, control: object) -> None:
        """Killed in the run, and always at the same place: the other request has come to its end before."""
        changed = place.ids["changed"]
        refused = place.workspace.refused / f"{changed}.md"
        wait_until(refused.exists, "the end of the other request", 20)
        wait_until(lambda: list(place.workspace.results.glob(f"TS-*-{changed}.md")), "its result", 20)
        os._exit(KILLED)

    def stopped_in_the_run() -> int:
        CountingRunner.run = stop
        return place.daemon()

    place.restore()
    assert forked(stopped_in_the_run) == KILLED
    place.save()


def after_recovery(place: Place) -> list[str]:
    wrong = recovered(place)
    wrong += problems_after(place, {"runs": {"refused"}, "changed": {"refused"}, "looked": {"inbox"}})
    if place.runs_of("runs"):
        wrong.append("an interrupted request ran again")
    return wrong


def after_approve(place: Place) -> list[str]:
    """Whatever became of the approval: it took, or the draft can be approved again; then it runs once."""
    wrong = recovered(place)
    workspace, rid = place.workspace, place.ids["runs"]
    took = any((workspace.state_folder(state) / f"{rid}.md").exists() for state in STATES)
    if not took and (code := forked(lambda: place.approve("runs"))) != 0:
        wrong.append(f"the draft cannot be approved again ({code})")
    wrong += recovered(place)
    return wrong + problems_after(place, {"runs": {"finished"}, "looked": {"inbox"}})


def after_reject(place: Place) -> list[str]:
    wrong = recovered(place)
    workspace, rid = place.workspace, place.ids["runs"]
    if not (workspace.refused / f"{rid}.md").exists() and forked(lambda: place.reject("runs")) != 0:
        wrong.append("the draft cannot be rejected again")
    wrong += recovered(place)
    return wrong + problems_after(place, {"runs": {"refused"}, "looked": {"inbox"}})


# ---- cancel, and what else the operator does


def prepare_one(place: Place) -> None:
    """One request waits in approved/."""
    assert place.approve("runs") == 0
    place.save()


def prepare_done(place: Place) -> None:
    """One request has run."""
    assert place.approve("runs") == 0
    assert forked(place.daemon) == 0
    place.save()


def after_cancel(place: Place) -> list[str]:
    """What was said to be cancelled never runs; what was not, runs once."""
    said = announced(place, "cancelled", "runs")
    wrong = recovered(place)
    if said and place.runs_of("runs"):
        wrong.append("a cancelled request ran")
    return wrong + problems_after(place, {"runs": {"refused" if said else "finished"}, "looked": {"inbox"}})


def prune_everything(place: Place) -> int:
    prune(place.workspace, before=datetime.now(UTC) + timedelta(hours=1), actor="account:test")
    return 0


def after_prune(place: Place) -> list[str]:
    """Whatever was left of it, the next one takes; the request and its result stay."""
    wrong = recovered(place)
    wrong += problems_after(place, {"runs": {"finished"}, "looked": {"inbox"}})
    if forked(lambda: prune_everything(place)) != 0:
        wrong.append("it cannot be pruned again")
    wrong += [f"left: {path}" for folder in (place.workspace.runs, place.workspace.inputs) for path in folder.iterdir()]
    return wrong + problems_after(place, {"runs": {"finished"}, "looked": {"inbox"}})


def sign_and_rotate(place: Place) -> int:
    return place.command("audit", "checkpoint") or place.command("audit", "rotate")


def after_rotate(place: Place) -> list[str]:
    wrong = recovered(place)
    wrong += [f"{command} is not possible any more" for command in ("checkpoint", "rotate")
              if forked(lambda command=command: place.command("audit", command)) != 0]  # fmt: skip
    if not announced(place, "finished", "runs") and forked(lambda: place.approve("runs")) != 0:
        wrong.append("nothing can be approved any more")
    wrong += recovered(place)
    return wrong + problems_after(place, {"runs": {"finished"}, "looked": {"inbox"}})


def prepare_adopt(place: Place) -> None:
    """The workspace lay elsewhere when its head was kept outside."""
    with Trail(place.workspace).locked() as held:
        outside = UserState.of(held.index.workspace_id)
    head = outside.read_head()
    outside.head_file.write_text(json.dumps({**(head or {}), "path": "/elsewhere"}))
    place.save()


def after_adopt(place: Place) -> list[str]:
    """Adopted, or to be adopted again; nothing is launched in between, and afterwards all goes on."""
    wrong = []
    code = forked(place.daemon)
    if code == 3 and forked(lambda: place.signed("workspace", "adopt")) != 0:
        wrong.append("it cannot be adopted again")
    elif code not in (0, 3):
        wrong.append(f"the daemon after the stop ended with {code}")
    if forked(lambda: place.approve("runs")) != 0:
        wrong.append("nothing can be approved in the new epoch")
    wrong += recovered(place)
    return wrong + problems_after(place, {"runs": {"finished"}, "looked": {"inbox"}})


def second_key(place: Place) -> Path:
    return place.base / "second_key"


def prepare_countersign(place: Place) -> None:
    """Two operators must sign; one has."""
    public = place.make_key(second_key(place))
    add_operator(place.workspace, "second", public.read_text().strip(), actor="account:test")
    set_values(place.workspace.settings_file, {"approval.quorum.low": 2})
    assert place.approve("runs") == 0
    place.save()


def countersign(place: Place) -> int:
    path = place.workspace.approved / f"{place.ids['runs']}.md"
    return place.signed("countersign", str(path), name="second", key=second_key(place))


def after_countersign(place: Place) -> list[str]:
    """With both signatures it ran; else it waits, and can be countersigned again."""
    wrong = recovered(place)
    if (place.workspace.approved / f"{place.ids['runs']}.md").exists():
        if place.runs_of("runs"):
            wrong.append("it ran with one signature")
        if forked(lambda: countersign(place)) != 0:
            wrong.append("it cannot be countersigned again")
    wrong += recovered(place)
    return wrong + problems_after(place, {"runs": {"finished"}, "looked": {"inbox"}})


def prepare_grant(place: Place) -> None:
    """A grant of one use, and a draft that it covers."""
    for name in ("changed", "looked"):
        (place.workspace.inbox / f"{place.ids.pop(name)}.md").unlink()
    set_values(place.workspace.settings_file, {"grants.allow": True})
    assert place.approve("runs") == 0
    assert forked(place.daemon) == 0
    new_grant(open_context(place.workspace), place.ids["runs"], widened=[], max_uses=1, seconds=3600,
              name="operator", key=place.key)  # fmt: skip
    place.draft("again")
    place.save()


def after_grant(place: Place) -> list[str]:
    was_claimed = announced(place, "claimed", "again")
    wrong = recovered(place)
    ends = {"finished", "refused"} if was_claimed else {"finished"}
    wrong += problems_after(place, {"runs": {"finished"}, "again": ends})
    uses = [standing.uses for standing in list_grants(place.workspace, Trail(place.workspace))]
    return wrong if uses == [1] else [*wrong, f"the grant counts {uses} uses"]


def prepare_note(place: Place) -> None:
    """A proposed note has run: it can be stored."""
    proposal = {"tool": "memory.propose", "args": {"content": "Be short.", "type": "PREFERENCE"}}
    (place.workspace.inbox / "AP-note.json").write_text(json.dumps(proposal))
    assert forked(place.daemon) == 0
    (draft,) = place.workspace.drafts.glob("*.md")
    said = [json.loads(line) for line in place.workspace.trail_file.read_bytes().splitlines()]
    place.ids["note"] = next(item["request_id"] for item in said if item["type"] == "proposed")
    assert place.signed("approve", str(draft)) == 0
    assert forked(place.daemon) == 0
    place.save()


def store_note(place: Place) -> int:
    return place.signed("memory", "approve", place.ids["note"])


def stored_notes(place: Place) -> int:
    path = place.workspace.memory / "notes.jsonl"
    return len(path.read_bytes().splitlines()) if path.exists() else 0


def after_note(place: Place) -> list[str]:
    """It is stored and the trail says so, or neither; then it can be stored."""
    wrong = recovered(place)
    if stored_notes(place) != announced(place, "applied", "note"):
        wrong.append(f"{stored_notes(place)} notes are stored, and the trail says something else")
    if stored_notes(place) == 0 and (code := forked(lambda: store_note(place))) != 0:
        wrong.append(f"it cannot be stored again ({code}): {last_words()}")
    if stored_notes(place) != 1:
        wrong.append("it is not stored")
    wrong += [f"left: {path.name}" for path in place.workspace.memory.iterdir() if path.name != "notes.jsonl"]
    return wrong + [f"verify: {item}" for item in verify_workspace(place.workspace).problems]


def prepare_note_removed(place: Place) -> None:
    prepare_note(place)
    assert store_note(place) == 0
    place.save()


def remove_note(place: Place) -> int:
    return place.command("memory", "remove", place.ids["note"], "--yes")


def after_note_removed(place: Place) -> list[str]:
    """It is gone and the trail says so, or neither; then it can be removed."""
    wrong = recovered(place)
    if stored_notes(place) == announced(place, "pruned"):
        wrong.append(f"{stored_notes(place)} notes are stored, and the trail says something else")
    if stored_notes(place) == 1 and (code := forked(lambda: remove_note(place))) != 0:
        wrong.append(f"it cannot be removed again ({code}): {last_words()}")
    if stored_notes(place) != 0:
        wrong.append("it is still stored")
    wrong += [f"left: {path.name}" for path in place.workspace.memory.iterdir() if path.name != "notes.jsonl"]
    return wrong + [f"verify: {item}" for item in verify_workspace(place.workspace).problems]


def context_to_sign(place: Place) -> tuple[Context, Acting]:
    return open_context(place.workspace), Acting("operator", place.key)


def servers_there(place: Place) -> tuple[dict[str, str], dict[str, str]]:
    """The manifests by their digest: those that the trail announced, and those that are there."""
    trail = Trail(place.workspace)
    with trail.locked() as held:
        announced = announced_manifests(held.index)
    trail.close()
    return announced, {path.stem: sha256_hex(path.read_bytes()) for path in place.workspace.tools.glob("*.json")}


def server_of(*tools: str) -> Manifest:
    said = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}, "instructions": None}
    pinned = tuple(PinnedTool(name, None, None, {"type": "object"}, None, None) for name in tools)
    return Manifest("notes", ("/usr/bin/true",), "jail", "", (), (), {}, (), said, pinned, {})


def add_notes(place: Place) -> int:
    add_server(*context_to_sign(place), LookedAt(server_of("one")))
    return 0


def change_notes(place: Place) -> int:
    """It is refreshed and then removed, each as far as it is not yet."""
    announced, _ = servers_there(place)
    one, two = server_of("one"), server_of("one", "two")
    if announced.get("notes") == one.digest:
        take_up(*context_to_sign(place), LookedAt(two, one))
    if announced:
        remove_server(open_context(place.workspace), "notes", actor="account:test")
    return 0


def prepare_notes(place: Place) -> None:
    add_notes(place)
    place.save()


def after_servers(again: Callable[[Place], int], left: int) -> Callable[[Place], list[str]]:
    """The manifest is there as the trail says, or neither; then the rest of it can be done."""

    def after(place: Place) -> list[str]:
        wrong = recovered(place)
        for turn in ("", " again"):
            announced, files = servers_there(place)
            if announced != files or (turn and len(files) != left):
                wrong.append(f"after the stop{turn}: {files} are there, and the trail says {announced}")
            wrong += [f"verify: {item}" for item in verify_workspace(place.workspace).problems]
            more = [path.name for path in place.workspace.tools.glob("*") if path.suffix != ".json"]
            wrong += [f"left: {name}" for name in more]
            if not turn and len(files) != left and forked(lambda: again(place)) != 0:
                wrong.append(f"it cannot be done again: {last_words()}")
        return wrong

    return after


def changed_project(place: Place) -> Path:
    """Beside what is put back, since it is bound by its inode: `work` puts it back itself."""
    return place.base / "changed-project"


OLD_TREE = {"a": "old", "b": "old", "d/c": "old", "gone": "old"}
NEW_TREE = {"a": "new", "b": ("x", "old"), "d/c": "new", "d/n": "new", "fresh/x": "new"}


def put_back(project: Path, spec: dict[str, object]) -> None:
    project.mkdir(exist_ok=True)
    for path in project.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    own(build(project, spec))


def prepare_change(place: Place) -> None:
    """A change set is approved."""
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
    return place.signed("undo", place.ids["change"])


def after_branch_undo(place: Place) -> list[str]:
    """The branch is gone and the trail says so, or neither; then the next undo removes it."""
    wrong = recovered(place)
    said = [json.loads(line) for line in place.workspace.trail_file.read_bytes().splitlines()]
    undone = any(item["type"] == "undone" and item["data"]["status"] == "succeeded" for item in said)
    names, more = whole_branch(place)
    if bool(names) == undone:
        wrong.append(f"the trail says undone: {undone}, and the branches are {names}")
    if not undone and (code := forked(lambda: place.signed("undo", place.ids["change"]))) != 0:
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


def after_change(place: Place) -> list[str]:
    """All of the change or nothing of it, and the trail says which; what never began is made by the next start."""
    wrong = recovered(place)
    old, new = trees(place)
    now = tree_of(changed_project(place))
    said = [json.loads(line) for line in place.workspace.trail_file.read_bytes().splitlines()]
    made = any(item["type"] == "finished" and item["data"]["status"] == "succeeded" for item in said)
    if now != (new if made else old):
        wrong.append(f"the trail says made: {made}, and the project is neither as it says: {sorted(now)}")
    if not any(announced(place, end, "change") for end in ("finished", "interrupted")):
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
    return place.signed("undo", place.ids["change"])


def after_undo(place: Place) -> list[str]:
    """All of the undo or nothing of it, and the trail says which; then the next undo does it."""
    wrong = recovered(place)
    old, new = trees(place)
    said = [json.loads(line) for line in place.workspace.trail_file.read_bytes().splitlines()]
    undone = any(item["type"] == "undone" and item["data"]["status"] == "succeeded" for item in said)
    now = tree_of(changed_project(place))
    if now != (old if undone else new):
        wrong.append(f"the trail says undone: {undone}, and the project is neither as it says: {sorted(now)}")
    if not undone and (code := forked(lambda: place.signed("undo", place.ids["change"]))) != 0:
        wrong.append(f"it cannot be undone again ({code}): {last_words()}")
    if tree_of(changed_project(place)) != old:
        wrong.append("the next undo did not undo it")
    wrong += [f"verify: {item}" for item in verify_workspace(place.workspace).problems]
    return wrong


SCENARIOS = {
    "change": Scenario(prepare_change, change_project, after_change, by_inode=True),
    "undo": Scenario(prepare_undo, undo, after_undo, by_inode=True),
    "branch": Scenario(prepare_branch, deliver_branch, after_branch, by_inode=True),
    "commits": Scenario(prepare_commits, deliver_branch, after_commits, by_inode=True),
    "branch_undo": Scenario(prepare_branch_undo, undo_branch, after_branch_undo, by_inode=True),
    "pass": Scenario(prepare_pass, Place.daemon, after_pass),
    "recovery": Scenario(prepare_recovery, Place.daemon, after_recovery),
    "approve": Scenario(lambda place: None, lambda place: place.approve("runs"), after_approve),
    "reject": Scenario(lambda place: None, lambda place: place.reject("runs"), after_reject),
    "cancel": Scenario(
        prepare_one, lambda place: place.command("cancel", place.ids["runs"], "--wait", "0"), after_cancel
    ),
    "countersign": Scenario(prepare_countersign, countersign, after_countersign),
    "grant": Scenario(prepare_grant, Place.daemon, after_grant),
    "note": Scenario(prepare_note, store_note, after_note),
    "note_removed": Scenario(prepare_note_removed, remove_note, after_note_removed),
    "server": Scenario(lambda place: None, add_notes, after_servers(add_notes, 1)),
    "server_changed": Scenario(prepare_notes, change_notes, after_servers(change_notes, 0)),
    "prune": Scenario(prepare_done, prune_everything, after_prune),
    "rotate": Scenario(lambda place: None, sign_and_rotate, after_rotate),
    "adopt": Scenario(prepare_adopt, lambda place: place.signed("workspace", "adopt"), after_adopt),
}
