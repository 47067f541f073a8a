"""A change set delivered as a branch: one commit whose difference is the card's, and nothing else is touched."""

from __future__ import annotations

import hashlib
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import few, slow
from tests.plugins.agents.agent_runs import make_run
from tests.plugins.changes.applying import own
from tests.plugins.changes.branches import Branching, branching
from tests.support import wait_until

FILES = {
    "app.py": "print(1)\n",
    "texts/a.md": "a\n",
    "texts/old.md": "old\n",
    "run.sh": ("x", "#!/bin/sh\n"),
    "link": ("link", "app.py"),
    ".env": "KEY=1\n",
}


def edit(work: Path) -> None:
    (work / "app.py").write_text("print(2)\n")
    (work / "texts" / "old.md").unlink()
    (work / "texts" / "new").mkdir()
    (work / "texts" / "new" / "b.md").write_text("b\n")
    (work / "run.sh").chmod(0o644)
    (work / "link").unlink()
    (work / "link").symlink_to("run.sh")


@pytest.fixture
def here() -> Iterator[Branching]:
    with branching(FILES) as made:
        yield made


def test_one_commit_on_a_new_branch_and_undone(here: Branching) -> None:
    """It has exactly the change; the project's files, index and HEAD are untouched; the undo removes it."""
    outside = here.outside()
    request_id = here.deliver(edit, messages=["Use two\n\nBecause one is old.", "Docs"])
    assert here.place.events("finished")[-1]["data"]["status"] == "succeeded"
    assert here.outside() == outside
    [branch] = here.branches()
    assert branch == f"threegate/{here.run.run_id}"
    changed = here.git("diff-tree", "-r", "--no-renames", "--format=", "--name-status", branch)
    assert sorted(changed.split("\n")[:-1]) == [
        "A\ttexts/new/b.md",
        "D\ttexts/old.md",
        "M\tapp.py",
        "M\tlink",
        "M\trun.sh",
    ]
    assert here.git("show", f"{branch}:app.py") == "print(2)\n"
    assert here.git("show", f"{branch}:link") == "run.sh"
    assert here.git("show", f"{branch}:.env") == "KEY=1\n", "what is hidden is HEAD's"
    assert here.git("ls-tree", branch, "run.sh").startswith("100644 ")
    author, committer, parents, body = here.git("log", "-1", "--format=%an%x00%cn%x00%P%x00%B", branch).split("\0")
    assert (author, committer) == (f"ThreeGate run {here.run.run_id}", "operator")
    assert parents == here.git("rev-parse", "HEAD").strip()
    assert "* Use two\n\n  Because one is old." in body and "* Docs" in body
    assert body.strip().endswith(f"ThreeGate-Run: {here.run.run_id}\nThreeGate-Request: {request_id}")
    here.git("fsck", "--strict")
    undone = here.place.run(
        "project", "undo", request_id, "--as", "operator", "--key", str(here.place.key), "--yes", expect=0
    )
    assert f"removed the branch {branch}" in undone.out
    assert here.branches() == [] and here.outside() == outside
    here.place.run("audit", "verify", expect=0)
    again = here.place.run(
        "project", "undo", request_id, "--as", "operator", "--key", str(here.place.key), "--yes", expect=2
    )
    assert "is not there any more" in again.err


@pytest.mark.slow
def test_what_an_undo_needs_is_kept(here: Branching) -> None:
    """A prune of old runs leaves the journal, as long as `apply.keep` says."""
    request_id = here.deliver(edit)
    ended = time.time()
    wait_until(lambda: time.time() > ended + 1, "a run that is older than a second")
    here.place.run("audit", "prune", "--older-than", "1s", expect=0)
    here.place.run("project", "undo", request_id, "--as", "operator", "--key", str(here.place.key), "--yes", expect=0)
    assert here.branches() == []


def test_the_card_shows_the_commit(here: Branching) -> None:
    messages = ["Fix it [skip ci]\n\nSigned-off-by: Somebody <s@example.org>\n\x1b[2J\nfixes #12"]
    draft = here.propose(edit, messages=messages)
    done = here.approve(draft)
    shown = " ".join(done.out.split())
    assert f"one commit on the new branch threegate/{here.run.run_id}" in shown
    assert "the message makes CI skip the commit: [skip ci]" in shown
    assert "lines that look like trailers: Signed-off-by" in shown
    assert "closes an issue on a forge: fixes #12" in shown
    assert "\x1b[2J" not in done.out and "\\x1b[2J" in done.out


@pytest.mark.slow
def test_a_second_change_of_a_run_has_a_branch_of_its_own(here: Branching) -> None:
    here.deliver(edit)
    here.deliver(lambda work: (work / "other").write_text("2\n"))
    assert here.branches() == [f"threegate/{here.run.run_id}", f"threegate/{here.run.run_id}-2"]
    here.deliver(edit, run=make_run(here.place, project="app"))
    assert len(here.branches()) == 3


def test_a_moved_head_is_not_built_on(here: Branching) -> None:
    """What was signed names the commit that it builds on."""
    draft = here.propose(edit)
    here.approve(draft)
    (here.project / "mine").write_text("1\n")
    here.git("add", "mine")
    here.git("commit", "-qm", "mine")
    ran = here.place.once()
    assert "project_changed" in ran.out + ran.err
    assert here.branches() == []


@pytest.mark.slow
def test_an_undo_leaves_a_branch_that_is_somewhere_else_or_in_use(here: Branching) -> None:
    request_id = here.deliver(edit)
    [branch] = here.branches()
    undo = ("project", "undo", request_id, "--as", "operator", "--key", str(here.place.key), "--yes")
    here.git("worktree", "add", "-q", str(here.project / ".git" / "other"), branch)
    assert "is checked out in" in here.place.run(*undo, expect=2).err
    here.git("worktree", "remove", "--force", str(here.project / ".git" / "other"))
    commit = here.git("rev-parse", branch).strip()
    here.git("branch", "-f", branch, "main")
    assert "is not where it was put" in here.place.run(*undo, expect=2).err
    here.git("branch", "-f", branch, commit)
    here.place.run(*undo, expect=0)
    assert here.branches() == []


def test_no_program_of_the_repository_or_the_person_runs() -> None:
    """Hooks, filters, monitors, signers: each would leave a file."""
    with branching({"a.txt": "1\n", "b.txt": "1\n"}) as here:
        ran = here.folder / "home" / "ran"
        script = here.folder / "program"
        script.write_text(f"#!/bin/sh\necho $0 >>{ran}\ncat\n")
        script.chmod(0o755)
        hooks = here.project / ".git" / "hooks"
        for name in ("reference-transaction", "post-commit", "pre-commit", "post-update", "update", "post-checkout"):
            (hooks / name).write_bytes(script.read_bytes())
            (hooks / name).chmod(0o755)
        for name in (
            "core.fsmonitor", "core.pager", "core.editor", "gpg.program", "core.sshCommand", "filter.x.clean",
            "filter.x.smudge", "diff.external", "core.alternateRefsCommand", "credential.helper", "core.askPass",
        ):  # fmt: skip
            here.git("config", name, str(script))
        here.git("config", "commit.gpgSign", "true")
        here.git("config", "--global", "core.fsmonitor", str(script))
        ran.unlink(missing_ok=True)
        here.deliver(lambda work: (work / "a.txt").write_text("2\n"))
        assert here.git("for-each-ref", "refs/heads/threegate") != "" and not ran.exists()


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ("*.txt filter=x", "a.txt: has the filter 'x'"),
        slow("*.txt ident", "a.txt: has the attribute ident"),
        slow("*.txt working-tree-encoding=UTF-16", "a.txt: has the attribute working-tree-encoding"),
    ],
)
def test_what_a_program_would_convert_is_refused_by_name(attributes: str, why: str) -> None:
    """Whether the attributes are the project's, its own file's, or come with the change."""
    with branching({"a.txt": "1\n", "b": "1\n"}) as here:

        def with_attributes(work: Path) -> None:
            (work / "a.txt").write_text("2\n")
            (work / ".gitattributes").write_text(f"{attributes}\n")

        refused = here.approve(here.propose(with_attributes), expect=2)
        assert why in " ".join(refused.err.split())
        (here.project / ".git" / "info" / "attributes").write_text(f"{attributes}\n")
        refused = here.approve(here.propose(lambda work: (work / "a.txt").write_text("2\n")), expect=2)
        assert why in " ".join(refused.err.split())
        here.deliver(lambda work: (work / "b").write_text("2\n"))
        assert len(here.branches()) == 1, "another path is not concerned"


def test_what_head_does_not_have_is_refused_by_name(here: Branching) -> None:
    """Else the commit would have more than the card shows."""
    (here.project / "app.py").write_text("print(1)\n# mine\n")
    refused = here.approve(here.propose(lambda work: (work / "app.py").write_text("print(2)\n# mine\n")), expect=2)
    assert "app.py: differs from HEAD" in " ".join(refused.err.split())
    (here.project / "app.py").write_text("print(1)\n")
    (here.project / "untracked").write_text("1\n")
    own(here.project)
    refused = here.approve(here.propose(lambda work: (work / "untracked").write_text("2\n")), expect=2)
    assert "untracked: is not in HEAD" in " ".join(refused.err.split())
    here.git("branch", "threegate")
    refused = here.approve(here.propose(edit), expect=2)
    assert "the branch threegate is in the way" in " ".join(refused.err.split())


def test_registering_needs_a_repository_with_a_commit(here: Branching) -> None:
    bare = here.folder / "plain"
    bare.mkdir()
    own(bare)
    done = here.place.run("project", "add", "plain", str(bare), "--deliver", "branch", expect=2)
    assert "has no git repository" in done.err
    here.git("init", "-q", str(bare))
    done = here.place.run("project", "add", "plain", str(bare), "--deliver", "branch", expect=2)
    assert "has no commit to build on" in done.err
    assert here.place.run("project", "add", "x", str(bare), "--deliver", "mail").code == 2
    [added] = here.place.events("project_added")
    assert added["data"]["deliver"] == "branch"
    assert "(changes become branches)" in here.place.run("project", "list").out


def test_a_repository_elsewhere_must_name_the_project(here: Branching) -> None:
    """A `.git` that is a file may have come with the project, and name any repository of its owner."""
    there = here.folder / "home" / "other"
    there.mkdir()
    own(there)
    (there / ".git").write_text(f"gitdir: {here.project}/.git\n")
    done = here.place.run("project", "add", "other", str(there), "--deliver", "branch", expect=2)
    assert "which does not name this folder" in done.err and "config core.worktree" in done.err


@pytest.mark.parametrize("how", few(["worktree", "sha256", "partial", "separate"], 1))
def test_other_forms_of_repositories(how: str) -> None:
    with branching(FILES, init=["--object-format=sha256"] if how == "sha256" else []) as here:
        if how == "worktree":
            other = here.folder / "home" / "other"
            here.git("worktree", "add", "-q", "-b", "side", str(other))
        elif how == "partial":
            other = here.folder / "home" / "partial"
            here.git("config", "uploadpack.allowFilter", "true")
            here.git("clone", "-q", "--no-local", "--filter=blob:none", f"file://{here.project}", str(other))
        elif how == "separate":
            other = here.folder / "home" / "separate"
            here.git(
                "clone", "-q", "--separate-git-dir", str(here.folder / "home" / "kept"), str(here.project), str(other)
            )
            here.git("-C", str(other), "config", "core.worktree", str(other))
        else:
            other = here.project
        here.place.run("project", "remove", "app", expect=0)
        here.place.run("project", "add", "app", str(other), "--deliver", "branch", expect=0)
        here.project = other
        here.deliver(edit)
        [branch] = here.branches()
        assert here.git("show", f"{branch}:app.py") == "print(2)\n"
        assert here.git("status", "--porcelain") == ""


def test_objects_and_the_branch_are_readable_for_others(here: Branching) -> None:
    """A daemon has a closed umask; a repository that several people read must not get closed files."""
    here.deliver(edit)
    packs = list((here.project / ".git" / "objects" / "pack").glob("pack-*"))
    assert packs and all(stat.S_IMODE(path.stat().st_mode) & 0o044 == 0o044 for path in packs)


def test_line_ends_and_large_files_arrive_as_git_stores_them() -> None:
    """CRLF goes in as LF where git does that; git-lfs gets a pointer, and the content where it looks for it."""
    large = b"\0" * 5000

    def attributes(here: Branching) -> None:
        pointed = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1\n"
        here.git("config", "core.autocrlf", "true")
        here.git("config", "filter.lfs.clean", "cat")
        (here.project / "old.bin").write_bytes(pointed)
        own(here.project)

    spec = {".gitattributes": "*.bin filter=lfs -text\n", "win.txt": "a\r\nb\r\n", "mixed.txt": "a\r\nb\n"}
    with branching(spec, before=attributes) as here:

        def change(work: Path) -> None:
            (work / "win.txt").write_bytes(b"a\r\nc\r\n")
            (work / "new.txt").write_bytes(b"new\r\n")
            (work / "new.bin").write_bytes(large)
            (work / "old.bin").write_bytes(large + b"1")

        here.deliver(change)
        [branch] = here.branches()
        assert here.git("show", f"{branch}:win.txt") == "a\nc\n" and here.git("show", f"{branch}:new.txt") == "new\n"
        for name, content in (("new.bin", large), ("old.bin", large + b"1")):
            digest = hashlib.sha256(content).hexdigest()
            said = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n"
            assert here.git("show", f"{branch}:{name}") == said
            kept = here.project / ".git" / "lfs" / "objects" / digest[:2] / digest[2:4] / digest
            assert kept.read_bytes() == content


def test_only_what_git_stores_differently_is_in_the_commit(here: Branching) -> None:
    """An empty folder is named; a change of line ends alone, which git does not store, makes no commit."""
    here.git("config", "core.autocrlf", "input")
    refused = here.approve(here.propose(lambda work: (work / "app.py").write_bytes(b"print(1)\r\n")), expect=2)
    assert "a commit would be empty" in " ".join(refused.err.split())

    def both(work: Path) -> None:
        edit(work)
        (work / "empty").mkdir()

    shown = " ".join(here.approve(here.propose(both)).out.split())
    assert "1 empty folders are not in the commit" in shown
