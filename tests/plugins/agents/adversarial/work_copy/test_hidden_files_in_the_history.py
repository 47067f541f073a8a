"""A file is hidden from the agent, and its bytes are in the repository's history, packs, stashes and alternates."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import few
from tests.plugins.agents.people import Person
from tests.plugins.agents.test_work_copy import KINDS, changed, inside
from tests.plugins.agents.test_work_copy import working as in_copy
from threegate.core import limits
from threegate.core.secretscan.certain import find_certain
from threegate.core.secretscan.scan import Found
from threegate.plugins.agents import git_history
from threegate.plugins.agents.git_repository import NoHistory, Repository
from threegate.plugins.agents.work_changes import read_changes
from threegate.plugins.agents.work_copy import CopyKind, WorkCopy

TOKEN = "ghp_" + "n4Kd9Zq2Lw8Xr5Tb7Vm3Yc6Hj1Gf0SpQaRuE"
GIT = "git -c user.name=a -c user.email=a@b.c"
DUMP = (
    "( git cat-file --batch-all-objects --batch --buffer; git log --all -p; git stash list -p; git reflog -p; "
    "git fsck --lost-found; git show HEAD~1:.env; git show :.env; git checkout -- .; cat .env; "
    "git checkout HEAD~1 -- .env; for id in $(cat ids); do git cat-file -p $id; done; "
    "cat $(find . /run/git-objects -type f) ) 2>&1 | tr -cd '\\12\\40-\\176'"
)
"""What an attacker tries, with the ids of the hidden blobs at hand."""


def history(project: Path, script: str) -> None:
    environment = {**os.environ, "HOME": str(project.parent), "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(
        ["bash", "-ec", f"git init -q -b main . 2>/dev/null; {script}"], cwd=project, env=environment, check=True
    )


def ids(project: Path) -> list[str]:
    done = subprocess.run(["git", "rev-list", "--all"], cwd=project, capture_output=True, text=True, check=True)
    return done.stdout.split()


ONE = f"git add -f .; {GIT} commit -qm a"
TWO = f"git add -f .; {GIT} commit -qm b"
ENV = "echo CANARY >.env"
HISTORIES = {
    "an old commit": f"{ENV}; {ONE}; git rm -q --cached .env; {GIT} commit -qm b",
    "a tracked file": f"{ENV}; {ONE}; echo x >a.txt; {TWO}",
    "packed": f"{ENV}; {ONE}; git rm -q .env; {TWO}; git gc -q --prune=now",
    "another name": f"echo CANARY >notes; {ONE}; git mv notes .env; {TWO}",
    "a token that is gone": f"echo 'CANARY {TOKEN}' >a.txt; {ONE}; echo ok >a.txt; {TWO}",
    "a token in the index": f"echo 1 >a.txt; {ONE}; echo 'CANARY {TOKEN}' >a.txt; git add a.txt; echo ok >a.txt",
    "a branch": f"{ONE}; git switch -qc other; {ENV}; {TWO}; git switch -q main",
    "a tag": f"{ONE}; git switch -q --detach; {ENV}; {TWO}; {GIT} tag -a v1 -m v1; "
    "git tag file $(git rev-parse :.env); git tag tree HEAD^{tree}; git switch -q main",
    "a stash": f"{ONE}; {ENV}; git add -f .env; {GIT} stash -q",
    "staged": f"{ONE}; {ENV}; git add -f .env",
    "staged and taken back": f"{ONE}; {ENV}; git add -f .env; git reset -q",
    "a commit that was amended": f"{ENV}; {ONE}; git rm -q --cached .env; {GIT} commit -q --amend --allow-empty -m b",
    "a merge": f"{ONE}; git switch -qc side; {ENV}; git add -f .; {GIT} commit -qm s; git switch -q main; echo 2 >b; "
    f"{TWO}; {GIT} merge -q side -m merge",
    "a folder": f"mkdir .password-store; echo CANARY >.password-store/key.gpg; {ONE}; "
    f"git rm -qr --cached .password-store; {GIT} commit -qm b",
    "a detached head": f"{ENV}; {ONE}; git rm -q .env; {TWO}; git checkout -q --detach",
    "a note": f"{ONE}; {GIT} notes add -m 'CANARY {TOKEN}'",
    "alone": f"{ENV}; git add -f .env; {GIT} commit -qm a; git rm -q --cached .env; {TWO}",
}


@pytest.mark.parametrize("name", few(HISTORIES, 8))
def test_no_object_of_the_agents_repository_has_a_hidden_file(tmp_path: Path, project: Path, name: str) -> None:
    (project / "a.txt").write_text("one\n")
    history(project, HISTORIES[name])
    everything = subprocess.run(
        "git cat-file --batch-all-objects --batch-check='%(objectname)'", shell=True, cwd=project, capture_output=True,
    ).stdout  # fmt: skip
    before = files(project)
    with in_copy(tmp_path, "overlay") as copy:
        clean = inside(copy, "git fsck --strict --no-dangling; git status --short")
        assert clean == (" M a.txt\n" if name == "a token in the index" else "")
        said = inside(copy, f"echo '{everything.decode()}' >ids; {DUMP}")
        assert "CANARY" not in said and TOKEN not in said
        assert inside(copy, "rm -f ids .env; git reset -q --hard; git status --short") == ""
        inside(
            copy, f"echo more >>a.txt; git add -A; {GIT} commit -qm c && {GIT} switch -qc new && git gc -q && git log"
        )
        assert changed(read_changes(copy)) == {"a.txt": "modify"}
    assert files(project) == before


SIZES = {"whole": 10_000, "only its beginning is scanned": limits.AGENT_SCANNED_BYTES + 10_000}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("script", "scanned"),
    [
        ("true", 0),
        (f"cp a.txt kept; sed -i '1s/^/CANARY {TOKEN} /' a.txt; git add a.txt; cp kept a.txt; rm kept", 1),
        (f"cp a.txt kept; sed -i '1s/^/CANARY {TOKEN} /' a.txt; {TWO}; cp kept a.txt; rm kept", 1),
    ],
)
def test_a_clean_file_speaks_only_for_its_own_bytes(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch, script: str, scanned: int, size: str
) -> None:
    """Bytes that were scanned in the project are not scanned again as a blob. Other bytes of the same path are."""
    (project / "a.txt").write_text("value = 1\n" * (SIZES[size] // 10))
    history(project, f"git add a.txt; {GIT} commit -qm a; {script}")
    texts = []

    def counted(text: str) -> list[Found]:
        texts.append(text)
        return find_certain(text)

    monkeypatch.setattr(git_history, "find_certain", counted)
    with in_copy(tmp_path, "overlay") as copy:
        assert len([text for text in texts if "value = 1" in text]) == scanned
        assert "CANARY" not in inside(copy, f"{DUMP}")


def test_odd_objects_keep_their_bytes(tmp_path: Path, project: Path) -> None:
    """A time zone that git itself no longer writes is in old repositories; an index may be in two files."""
    odd = "git cat-file commit HEAD | sed 's/ [+]0000$/ +051800/' | git hash-object -t commit -w --stdin --literally"
    history(
        project,
        f"export TZ=UTC; {ENV}; echo 1 >a; {ONE}; git update-ref HEAD $({odd}); "
        f"git rm -q --cached .env; {GIT} commit -qm b; git config core.splitIndex true; git update-index --split-index",
    )
    with in_copy(tmp_path, "overlay") as copy:
        assert "+051800" in inside(copy, "git cat-file commit HEAD~1")
        assert inside(copy, "git status --short; git ls-files") == "a\n"
        assert "CANARY" not in inside(copy, DUMP)


@pytest.mark.parametrize("mode", ["040000", "40755", "0040000"])
def test_a_folder_whose_mode_is_odd_is_one(tmp_path: Path, project: Path, mode: str) -> None:
    """Old repositories have folders in forms that git no longer writes, and reads."""
    tree = (
        f"(printf '{mode} lib\\0'; git rev-parse HEAD:lib | sed 's/../\\\\x&/g' | xargs -0 printf '%b' | head -c 20) | "
    )
    tree += "git hash-object -t tree -w --stdin --literally"
    history(
        project,
        f"mkdir lib; echo CANARY >lib/.env; echo 1 >lib/a; {ONE}; "
        f"git update-ref HEAD $({GIT} commit-tree -m odd $({tree})); git rm -q --cached lib/.env; {GIT} commit -qm b",
    )
    with in_copy(tmp_path, "overlay") as copy:
        assert inside(copy, "git log --format=%s; git show HEAD~1:lib/.env") == (
            "b\nodd\nThreeGate hides this file from the agent.\n"
        )
        assert inside(copy, "git cat-file tree HEAD~1 | head -c 6").strip() == mode[:6]
        assert "CANARY" not in inside(copy, DUMP)


def test_a_repository_that_is_broken_gives_none(tmp_path: Path, project: Path) -> None:
    """The agent works without one, and the launcher says so."""
    (project / "a").write_text("1\n")
    history(project, f"{ONE}; rm -rf .git/objects/[0-9a-f][0-9a-f]")
    said: list[str] = []
    assert inside(in_copy_with(tmp_path, said), "ls -A") == "a\n"
    assert said == ["git: the agent has no repository: git cannot read its objects; try: git fsck"]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("kind", KINDS)
def test_without_hidden_files_it_is_the_exact_history(tmp_path: Path, project: Path, kind: CopyKind) -> None:
    """Ids, signatures, odd time zones and messages are those of the project; a clean tree is clean."""
    history(
        project,
        "echo 1 >a; : >empty; ln -s a link; git add .; "
        f"GIT_AUTHOR_DATE='1000000000 +0518' {GIT} commit -qm $'one\\n\\nmore'; "
        f"git switch -qc side; echo 2 >b; git add .; {GIT} commit -qm two; git switch -q main; echo 3 >c; git add .; "
        f"{GIT} commit -qm three; {GIT} merge -q side -m merge; {GIT} tag -a v1 -m v1; git tag light",
    )
    wanted = subprocess.run("git show-ref; git rev-parse HEAD", shell=True, cwd=project, capture_output=True).stdout
    with in_copy(tmp_path, kind) as copy:
        assert inside(copy, "git show-ref; git rev-parse HEAD").encode() == wanted
        assert inside(copy, "git status --short; git fsck; git diff") == ""


def test_a_visible_file_keeps_the_blob_that_it_shares_with_a_hidden_one(tmp_path: Path, project: Path) -> None:
    """An empty file is hidden somewhere in most projects."""
    history(
        project, f": >.env; : >__init__.py; echo 1 >a; git add -f .; {GIT} commit -qm a; echo 2 >a; {GIT} commit -qam b"
    )
    with in_copy(tmp_path, "overlay") as copy:
        assert inside(copy, "git status --short; git ls-files -v") == "S .env\nH __init__.py\nH a\n"


def test_what_stays_keeps_its_id(tmp_path: Path, project: Path) -> None:
    """Only commits from the first hidden file on are written anew."""
    history(
        project,
        f"echo 1 >a; git add .; {GIT} commit -qm one; {ENV}; git add -f .; {GIT} commit -qm two; "
        f"echo 2 >b; git add .; {GIT} commit -qm three",
    )
    three, two, one = ids(project)
    with in_copy(tmp_path, "overlay") as copy:
        new = inside(copy, "git log --format=%H").split()
        assert new[2] == one and new[0] != three and new[1] != two
        assert inside(copy, "git log --format=%s; git log -1 --format='%an %ae %ad' --date=raw").startswith(
            "three\ntwo\none\na a@b.c "
        )


@pytest.mark.parametrize("where", ["shared", "worktree", "submodule", "sha256"])
def test_every_form_of_checkout(tmp_path: Path, project: Path, where: str) -> None:
    (tmp_path / "hub").mkdir()
    hub = tmp_path / "hub"
    form = "--object-format=sha256" if where == "sha256" else ""
    history(hub, f"rm -rf .git; git init -q {form} -b main .; {ENV}; echo one >a.txt; {ONE}; git rm -q .env; {TWO}")
    project.rmdir()
    command = {
        "shared": "git clone -q --shared hub project",
        "worktree": "git -C hub worktree add -q ../project -b feat",
        "submodule": "git init -q outer && "
        f"git -C outer -c protocol.file.allow=always submodule --quiet add {hub} sub && "
        "mv outer/sub project && sed -i 's,^gitdir: ,gitdir: ../outer/sub/,' project/.git && "
        "git config -f outer/.git/modules/sub/config core.worktree ../../../../project",
        "sha256": "git clone -q hub project",
    }[where]
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, capture_output=True)
    with in_copy(tmp_path, "overlay") as copy:
        assert inside(copy, "git log --format=%s; git status --short") == "b\na\n"
        assert "CANARY" not in inside(copy, f"{DUMP}")
        inside(copy, f"echo two >>a.txt; {GIT} commit -qam two")
        assert changed(read_changes(copy)) == {"a.txt": "modify"}


FAKES = {
    "a file": "echo gitdir: $P/.git >.git",
    "a relative file": "echo gitdir: ../private/.git >.git",
    "a link": "ln -s $P/.git .git",
    "a link to a link": "ln -s $P/.git x; ln -s x .git",
    "a worktree of its own": "mkdir x; echo gitdir: x >.git; echo $PWD/.git >x/gitdir; echo $P/.git >x/commondir; "
    "cp $P/.git/HEAD x",
    "a worktree by relative names": "mkdir x; echo gitdir: x >.git; echo ../.git >x/gitdir; "
    "echo ../../private/.git >x/commondir; cp $P/.git/HEAD x",
    "a worktree in a folder of that name": "mkdir -p x/worktrees/y; echo gitdir: x/worktrees/y >.git; cp $P/.git/HEAD "
    "x/worktrees/y; echo ../../../.git >x/worktrees/y/gitdir; echo $P/.git >x/worktrees/y/commondir",
    "a worktree of another folder": "git -C $P worktree add -q ../feat; cp ../feat/.git .",
    "a copy of its index": "mkdir x; cp -r $P/.git/HEAD $P/.git/index x; echo gitdir: x >.git; "
    "echo $P/.git >x/commondir",
    "a file that is in both, and git was used here": "echo gitdir: $P/.git >.git; echo 1 >a; git status",
    "all of its public files, and git was used here": "echo gitdir: $P/.git >.git; cp $P/? .; git status",
    "a worktree of another folder with these files": "git -C $P worktree add -q ../feat; cp ../feat/.git $P/? .; "
    "git status",
    "a store of another folder": "mv $P/.git ../store; echo gitdir: $P/../store >$P/.git; cp $P/.git $P/a $P/b .; "
    "git status",
    "copies of half of its files": "echo gitdir: $P/.git >.git; cp $P/a $P/b .; git status",
}
"""Folders that came from elsewhere, with a `.git` that names a private repository of the person."""


@pytest.mark.parametrize("name", few(FAKES, 9))
def test_a_project_that_names_another_repository_gets_nothing_of_it(tmp_path: Path, project: Path, name: str) -> None:
    private = tmp_path / "private"
    private.mkdir()
    history(private, f"echo CANARY >diary; echo 1 >a; echo 2 >b; echo 3 >c; git add .; {GIT} commit -qm a; git gc -q")
    (project / "a").write_text("1\n")
    subprocess.run(["bash", "-ec", f"P={private}; {FAKES[name]}"], cwd=project, check=True, capture_output=True)
    with pytest.raises(NoHistory, match="does not name this folder"):
        Repository.of(project)
    with in_copy(tmp_path, "overlay") as copy:
        assert "CANARY" not in inside(copy, f"{DUMP}; git log -p 2>&1 || true")


def test_the_project_names_no_file_that_the_agent_reads(tmp_path: Path, project: Path) -> None:
    """Neither as the file with what is ignored, nor by links in its repository."""
    (tmp_path / "private").write_text("CANARY\n")
    history(
        project,
        f"echo 1 >a; {ONE}; git config core.excludesFile ../private; git config core.attributesFile ../private; "
        "for name in exclude attributes sparse-checkout; do ln -sf ../../../private .git/info/$name; done; "
        "ln -s ../../private .git/config.worktree; ln -s ../../private .git/sharedindex.$(printf %040d 1)",
    )
    with in_copy(tmp_path, "overlay") as copy:
        assert inside(copy, "git log --format=%s; cat .git/info/*").startswith("a\n")
        assert "CANARY" not in inside(copy, f"{DUMP}; cat .git/info/* .git/config")


def test_objects_that_come_later_are_not_in_the_jail(tmp_path: Path, project: Path) -> None:
    history(project, f"echo 1 >a; git add .; {GIT} commit -qm a")
    with in_copy(tmp_path, "overlay") as copy:
        history(project, f"echo CANARY >.env; git add -f .; {GIT} commit -qm b")
        oid = ids(project)[0]
        assert "CANARY" not in inside(copy, f"(git show {oid}:.env; {DUMP}) 2>&1 || true")


def test_a_history_that_takes_too_long_is_one_commit(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history(project, HISTORIES["a tracked file"])
    making = git_history._Making.whole

    def slow(self: git_history._Making) -> git_history.History:
        self._until = 0
        return making(self)

    monkeypatch.setattr(git_history._Making, "whole", slow)
    said: list[str] = []
    run = in_copy_with(tmp_path, said)
    assert (
        inside(run, "git log --format=%s; git status --short; git branch")
        == "The project without its history\n* main\n"
    )
    assert "CANARY" not in inside(run, f"{DUMP}")
    assert said == [git_history._TOO_LONG] and str(limits.AGENT_HISTORY_SECONDS) in said[0]


def in_copy_with(tmp_path: Path, said: list[str]) -> WorkCopy:
    from threegate.core.workspace import Workspace
    from threegate.runners.jail.jail import Account

    run = Workspace(tmp_path).agent_run("ar-20261126-102139z-00112233")
    (tmp_path / "tool-exec").mkdir()
    run.make()
    return WorkCopy.make(run, tmp_path / "project", account=Account.own(), kind="overlay", say=said.append)


def test_an_agent_in_a_project_with_a_secret_in_its_history(somebody: Person) -> None:
    """With the program itself, as an ordinary account and as root with `--as`."""
    subprocess.run(["chown", "-R", "0:0", somebody.project], check=False)
    history(somebody.project, f"{ONE}; git rm -q --cached .env; {GIT} commit -qm b")
    somebody.own()
    done = somebody.run("bash", "-c", f"git log --format=%s; ({DUMP}) 2>&1", options=["--propose", "never"])
    assert done.stdout.startswith("b\na\n") and "CANARY" not in done.stdout, done
    assert "git: 1 versions of hidden files are placeholders in the history, so 2 commits have" in done.stderr


def test_the_person_commits_and_nothing_else_of_the_configuration_comes_along(somebody: Person) -> None:
    """Name and address are values: neither an include nor a line break in them adds a line."""
    subprocess.run(["chown", "-R", "0:0", somebody.project], check=False)
    history(somebody.project, f"{ONE}; git config user.name $'A \"quoted\" \\\\ name'; git config alias.x '!CANARY'")
    (somebody.home / "other").write_text("[core]\n\tsshCommand = CANARY\n")
    email = "a@b.c\\n[alias]\\nx = CANARY"
    (somebody.home / ".gitconfig").write_text(f'[include]\n\tpath = ~/other\n[user]\n\temail = "{email}"\n')
    somebody.own()
    script = "cat .git/config; echo x >>app.py; git commit -qam c; git log -1 --format='%an <%ae>'"
    done = somebody.run("bash", "-c", script, options=["--with", ".env", "--propose", "never"])
    assert done.stdout.endswith('\nA "quoted" \\ name <agent@localhost>\n') and "CANARY" not in done.stdout, done
