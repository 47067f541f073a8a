"""The agent's repository is that of the project: in every form of checkout, with the settings that files depend on, and
clean where the project is clean.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import few
from tests.plugins.agents.test_work_copy import KINDS, changed, inside, working
from threegate.core.workspace import Workspace
from threegate.plugins.agents import git_repository
from threegate.plugins.agents.work_changes import read_changes
from threegate.plugins.agents.work_copy import CopyKind, WorkCopy
from threegate.plugins.changes import machine_programs
from threegate.runners.jail.jail import Account

FORMS = {
    "plain": "git clone -q hub project",
    "shared": "git clone -q --shared hub project",
    "reference": "git clone -q --reference hub hub project",
    "linked worktree": "git -C hub worktree add -q ../project -b feat",
    "linked worktree with relative paths": "git -C hub worktree add -q ../project -b feat; "
    "echo ../../../../project/.git >hub/.git/worktrees/project/gitdir; "
    "echo gitdir: ../hub/.git/worktrees/project >project/.git",
    "moved worktree": "git -C hub worktree add -q ../elsewhere -b feat; mv elsewhere project",
    "separate": "git clone -q --separate-git-dir=store hub project",
    "separate, made here": "git init -q --separate-git-dir=store project; cd project; git pull -q ../hub main",
    "a link": "git clone -q hub project; mv project/.git store; ln -s ../store project/.git",
    "a link to a folder of that name": "git clone -q hub project; mkdir store; mv project/.git store; "
    "ln -s ../store/.git project/.git",
    "a link to a file": "git clone -q --separate-git-dir=store hub project; mv project/.git pointer; "
    "ln -s ../pointer project/.git",
    "submodule": "git init -q outer; git -C outer -c protocol.file.allow=always submodule --quiet add $PWD/hub sub; "
    "mv outer/sub project; echo gitdir: ../outer/.git/modules/sub >project/.git; "
    "git config -f outer/.git/modules/sub/config core.worktree ../../../../project",
    "with a submodule": "git clone -q hub project; cd project; "
    "git -c protocol.file.allow=always submodule --quiet add ../hub sub; git commit -qm sub",
    "sparse": "git clone -q hub project; cd project; git sparse-checkout set --no-cone '/*' '!/lib'",
    "sparse cone": "git clone -q hub project; cd project; git sparse-checkout set src",
    "sparse index": "git clone -q hub project; cd project; git sparse-checkout set --sparse-index src",
    "partial": "git clone -q --filter=blob:none --no-local file://$PWD/hub project",
    "treeless": "git clone -q --filter=tree:0 --no-local file://$PWD/hub project",
    "sparse and partial": "git clone -q --sparse --filter=blob:none --no-local file://$PWD/hub project",
    "shallow": "git clone -q --depth 1 --no-local file://$PWD/hub project",
    "sha256": "git clone -q hub256 project",
    "two indexes": "git clone -q hub project; cd project; git update-index --split-index; echo 3 >new; git add new; "
    "git commit -qm new",
    "caches": "git clone -q hub project; cd project; git config core.untrackedCache true; git update-index "
    "--untracked-cache --index-version 4; git status >/dev/null",
    "detached": "git clone -q hub project; git -C project switch -q --detach HEAD~1",
    "another name for the branch": "git clone -q hub project; cd project; git branch -q -m trunk; "
    "git symbolic-ref refs/heads/main refs/heads/trunk; git symbolic-ref HEAD refs/heads/main",
    "merging": "git clone -q hub project; cd project; git switch -qc side HEAD~1; echo c >>a.txt; git commit -qam c; "
    "git merge -q main || git checkout -q --ours a.txt",
    "intending": "git clone -q hub project; cd project; echo x >new; git add -N new; git rm -q --cached src/one.py",
    "empty": "git init -q project",
    "empty, elsewhere": "git init -q --separate-git-dir=store project",
}
HIDDEN = "echo CANARY >.env; echo CANARY >lib/key.p12; git add -f .; git commit -qm hide"


def make(folder: Path, form: str, more: str = ":") -> str:
    """A project next to a repository with two commits; what `git status` and `git log` print in it."""
    make_hub = (
        "git init -q $0 -b main $1; cd $1; git config uploadpack.allowFilter true; mkdir src lib; echo a >a.txt; "
        f"echo 1 >src/one.py; echo 2 >lib/two.py; git add .; git commit -qm one; {more}; echo b >>a.txt; "
        "git commit -qam two"
    )
    for words in (["", "hub"], ["--object-format=sha256", "hub256"]):
        git(folder, make_hub.replace("$0", words[0]).replace("$1", words[1]))
    git(folder, FORMS[form])
    return git(folder, "cd project; git status --porcelain; git log --format='%H %s' --all || true")


def git(folder: Path, script: str) -> str:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    names = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["bash", "-ec", script], cwd=folder, capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", **names},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A home of our own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return


STATE = "git status --porcelain; git log --format='%H %s' --all || true"


USUAL = ("plain", "shared", "linked worktree", "separate", "a link", "submodule", "sparse index", "partial", "sha256")
ORDERED = [*USUAL, *(form for form in FORMS if form not in USUAL)]


@pytest.mark.parametrize("form", few(ORDERED, 5))
def test_in_every_form_of_checkout_it_is_the_same_repository(tmp_path: Path, form: str) -> None:
    outside = make(tmp_path, form)
    with working(tmp_path, "overlay") as copy:
        assert inside(copy, STATE) == outside
        assert "error" not in inside(copy, "git fsck --no-dangling 2>&1")
        inside(
            copy, "echo two >>a.txt; git add a.txt; git commit -qm mine; git switch -qc new; git stash list; git gc -q"
        )
        assert changed(read_changes(copy)) == {"a.txt": "add" if "empty" in form else "modify"}


CANARY = (
    "( git log --all -p; cat $(find /run/git-objects .git -type f); git cat-file --batch-all-objects --batch; "
    "ls -R .git ) 2>&1 | tr -cd '\\12\\40-\\176'"
)


@pytest.mark.parametrize("form", few((form for form in ORDERED if "empty" not in form and form != "intending"), 3))
def test_hidden_files_are_tracked_and_clean_in_every_form(tmp_path: Path, form: str) -> None:
    """They are placeholders in the history and skipped by the index: nothing is deleted, and nothing is read."""
    make(tmp_path, form, HIDDEN)
    outside = git(tmp_path, "cd project; git status --porcelain; git log --format=%s --all; git ls-files -s | cut -f2")
    with working(tmp_path, "overlay") as copy:
        assert inside(copy, "git status --porcelain; git log --format=%s --all; git ls-files -s | cut -f2") == outside
        assert "CANARY" not in inside(copy, CANARY)
        if "shallow" not in form and "detached" not in form:
            tracked = git(tmp_path, "cd project; git ls-files .env")
            assert inside(copy, "git ls-files -v .env") == (f"S {tracked}" if tracked else "")
        inside(copy, "echo two >>a.txt; git commit -qam mine; git gc -q; git fsck --no-dangling")
        assert inside(copy, "git show --format= --name-only") == "a.txt\n"
        moved = inside(
            copy, "git stash; git checkout -qb new HEAD~1; git checkout -q -; git reset -q --hard; git status -s"
        )
        assert moved == "No local changes to save\n" and ".env" not in inside(copy, "ls -A")
        assert changed(read_changes(copy)) == {"a.txt": "modify"}


def test_a_hidden_file_whose_bytes_the_agent_sees_elsewhere_changes_no_id(tmp_path: Path) -> None:
    outside = make(
        tmp_path, "plain", ": >.env; : >lib/__init__.py; cp lib/two.py lib/.env; git add -f .; git commit -qm same"
    )
    with working(tmp_path, "overlay") as copy:
        assert inside(copy, STATE) == outside
        assert inside(copy, "git ls-files -v | grep ^S; ls -A lib") == "S .env\nS lib/.env\n__init__.py\ntwo.py\n"


@pytest.mark.parametrize("where", ["tests/certs", "src"])
def test_earlier_keys_of_tests_stay_in_the_history_and_others_do_not(tmp_path: Path, where: str) -> None:
    """As in the copy: a key that is tracked among tests is there for everybody to see."""
    key = f"mkdir -p {where}; rm -f {where}/*; ssh-keygen -q -t ed25519 -N '' -C CANARY -f {where}/server; "
    outside = make(
        tmp_path, "plain", f"{key} git add -A; git commit -qm first; {key} git add -A; git commit -qm second; "
        f"git rm -qr {where}; git commit -qm gone",
    )  # fmt: skip
    with working(tmp_path, "plain") as copy:
        assert (inside(copy, STATE) == outside) is (where == "tests/certs")
        shown = inside(copy, f"git show HEAD~2:{where}/server HEAD~3:{where}/server")
        assert shown.count("PRIVATE KEY") == (4 if where == "tests/certs" else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_settings_that_files_depend_on_come_along(tmp_path: Path, kind: CopyKind) -> None:
    """Modes, line ends, links that are files, and what the person ignores: the tree is as clean as outside."""
    make(tmp_path, "plain")
    git(
        tmp_path,
        r"""cd project; git config core.autocrlf true; git config core.fileMode No; git config core.ignoreCase on
        printf 'a\r\nb\r\n' >crlf; git add .; git commit -qm crlf; chmod +x a.txt
        printf 'x\r\ny\r\n' >unix; git add unix
        git config core.symlinks false; printf one >link; git add link
        git update-index --cacheinfo 120000,$(git rev-parse :link),link; git commit -qm link
        echo notes >.git/info/exclude; echo mine >notes; mkdir -p ~/.config/git; echo scratch >~/.config/git/ignore
        echo 1 >scratch; echo '*.ps1 eol=crlf' >.git/info/attributes; printf '1\r\n' >x.ps1; git add .
        git commit -qm ps
        touch a.txt unix link crlf x.ps1""",
    )
    assert git(tmp_path, "cd project; git status --porcelain") == ""
    with working(tmp_path, kind) as copy:
        assert inside(copy, "git status --porcelain; git stash list") == ""
        settings = inside(
            copy, "touch *; git status -s; git config --get-regexp '^core.(auto|file|ignore|symlinks)' | sort"
        )
        assert settings == "core.autocrlf true\ncore.filemode No\ncore.ignorecase on\ncore.symlinks false\n"


def test_nothing_else_of_a_configuration_comes_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What starts a program, leads elsewhere, or has another form than its key."""
    monkeypatch.setattr(git_repository.Repository, "lacks_lfs", False)
    make(tmp_path, "plain")
    git(
        tmp_path,
        """cd project; git config core.eol 'CANARY'; git config core.autocrlf 'input; CANARY'
        git config alias.x '!CANARY'
        git config filter.lfs.clean 'CANARY %f'; git config filter.lfs.smudge 'git-lfs smudge -- %f; CANARY'
        git config filter.lfs.process 'git-lfs filter-process'; git config filter.lfs.required true
        git config filter.other.clean CANARY; git config core.hooksPath CANARY; git config core.fsmonitor CANARY
        git config core.sshCommand CANARY; git config credential.helper CANARY; git config diff.external CANARY
        git config remote.origin.url https://CANARY@example.com; git config include.path ../../canary
        git config core.excludesFile $PWD/../canary; git config user.name 'Me CANARY\033[0m'
        git config core.pager CANARY
        printf '[user]\n\temail = CANARY@a.b\nCANARY\n' >../canary; git config --global user.email 'me@b.c'
        printf '#!/bin/sh\necho CANARY' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit""".replace(
            "\\033", "$'\\033'"
        ),
    )
    with working(tmp_path, "overlay") as copy:
        assert "CANARY" not in inside(copy, f"{CANARY}; git log -1; git status")
        assert inside(copy, "git config --get-regexp '^(user|filter.*(clean|smudge|process))'") == (
            "user.name agent\nuser.email me@b.c\nfilter.lfs.process git-lfs filter-process\n"
        )


def lines(copy_of: Path, **more: Any) -> list[str]:
    """What the launcher says about the repository of a copy."""
    said: list[str] = []
    run = Workspace(copy_of).agent_run("ar-20261123-102139z-0011223a")
    (copy_of / "tool-exec").mkdir(exist_ok=True)
    run.make()
    WorkCopy.make(
        run, more.pop("root", copy_of / "project"), account=Account.own(), kind="plain", say=said.append, **more
    )
    return said


def test_without_a_usable_git_the_person_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jail has the machine's `/usr`; a link out of it leads nowhere there."""
    make(tmp_path, "plain")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("#!/bin/sh\n")
    (tmp_path / "elsewhere").chmod(0o755)
    monkeypatch.setattr(machine_programs, "PROGRAMS", f"{tmp_path}/bin:{tmp_path}")
    assert lines(tmp_path) == ["git: the agent has no repository: git is not installed in /usr; apt-get install git"]


def test_a_folder_of_a_repository_has_none_and_the_person_is_told(tmp_path: Path) -> None:
    make(tmp_path, "plain")
    root = tmp_path / "project"
    assert lines(tmp_path, root=root / "src") == [
        f"git: the agent has no repository: the project is a folder of the one in {root}; with --project {root} it "
        "has one"
    ]


def test_without_git_lfs_the_person_is_told(tmp_path: Path) -> None:
    """git ends with an error where a program that filters is missing, so the jail has none of these settings."""
    make(tmp_path, "plain")
    git(
        tmp_path,
        """cd project; echo '*.bin filter=lfs' >.gitattributes; echo pointer >a.bin; git add .; git commit -qm lfs
        git config filter.lfs.clean 'git-lfs clean -- %f'; git config filter.lfs.process 'git-lfs filter-process'
        git config filter.lfs.required true""",
    )
    lacking = machine_programs.find_program("git-lfs") is None
    wanted = ["git: git-lfs is not installed in /usr, so files of Git LFS are staged whole; apt-get install git-lfs"]
    assert lines(tmp_path) == (wanted if lacking else [])
    with working(tmp_path, "plain") as copy:
        script = "touch a.bin; git status --short; echo n >n.bin; git add n.bin; git commit -qm n; git status --short"
        assert inside(copy, script) == ""
        assert inside(copy, "git config filter.lfs.clean || true") == ("" if lacking else "git-lfs clean -- %f\n")


def test_what_was_written_anew_is_kept_for_the_next_run(tmp_path: Path) -> None:
    """With the same result, also if the kept files are damaged; a commit that is gone is not in the next run's pack."""
    make(tmp_path, "plain", HIDDEN)

    def history(number: int) -> tuple[bytes, set[str]]:
        run = Workspace(tmp_path).agent_run(f"ar-20261123-102139z-0011223{number}")
        run.make()
        copy = WorkCopy.make(
            run, tmp_path / "project", account=Account.own(), kind="plain", cache=tmp_path / "kept"
        )  # fmt: skip
        return (run.work / "tree/.git/packed-refs").read_bytes(), set(
            inside(copy, "git cat-file --batch-all-objects --batch-check='%(objectname)'").split()
        )

    (tmp_path / "tool-exec").mkdir()
    first = history(1)
    kept = sorted((tmp_path / "kept").glob("objects-*/*"))
    assert [path.suffix for path in kept] == [".idx", ".pack"]
    assert history(2) == first and sorted((tmp_path / "kept").glob("objects-*/*")) == kept
    git(tmp_path, "cd project; echo c >>a.txt; git commit -qam gone")
    third = history(3)
    assert third[1] > first[1]
    git(tmp_path, "cd project; git reset -q --hard HEAD~1")
    assert history(4) == first
    for path in (tmp_path / "kept").glob("objects-*/*.idx"):
        path.chmod(0o600)
        path.write_bytes(b"damaged")
    assert history(5) == first


UNREADABLE = "git: one commit of what is visible, because git cannot read all objects of the history; try: git fsck"
BROKEN = {
    "config": "mv .git/config ../c; ln -s ../../c .git/config",
    "refs": "mv .git/refs ../r; ln -s ../../r .git/refs",
    "packed-refs": "git pack-refs --all; mv .git/packed-refs ../r; ln -s ../../r .git/packed-refs",
    "index": "mv .git/index ../i; ln -s ../../i .git/index",
    "HEAD": "rm .git/HEAD; ln -s refs/heads/main .git/HEAD",
}


@pytest.mark.parametrize("name", few(BROKEN, 2))
def test_a_link_in_a_repository_is_named_and_not_followed(tmp_path: Path, name: str) -> None:
    make(tmp_path, "plain")
    git(tmp_path, f"cd project; {BROKEN[name]}")
    [line] = lines(tmp_path)
    assert line.startswith(f"git: the agent has no repository: {tmp_path}/project/.git/{name} is a link, and")


def test_a_folder_of_that_name_that_is_no_repository_is_named(tmp_path: Path) -> None:
    """A run on it is possible; it once ended with advice about the disk."""
    make(tmp_path, "plain")
    git(tmp_path, "cd project; rm -r .git/HEAD")
    [line] = lines(tmp_path)
    assert line == f"git: the agent has no repository: {tmp_path}/project/.git/HEAD cannot be read; see: git status"


def test_a_reference_to_an_object_that_is_gone_is_left_out_by_name(tmp_path: Path) -> None:
    """git itself only warns about it, and all else is there."""
    outside = make(tmp_path, "plain")
    git(tmp_path, f"cd project; echo {'12' * 20} >.git/refs/heads/gone; echo text >.git/refs/heads/text")
    assert lines(tmp_path) == [
        "git: the agent does not have refs/heads/gone, because the object is missing; try: git fsck"
    ]
    with working(tmp_path, "plain") as copy:
        assert inside(copy, STATE) == outside


def test_where_an_old_object_is_gone_there_is_one_commit(tmp_path: Path) -> None:
    make(tmp_path, "plain")
    git(tmp_path, "cd project; rm .git/objects/$(git rev-parse HEAD~1^{tree} | sed 's|..|&/|')")
    assert lines(tmp_path) == [UNREADABLE]
    with working(tmp_path, "plain") as copy:
        assert inside(copy, "git status --porcelain; git log --format=%s; git commit -qm x --allow-empty") == (
            "The project without its history\n"
        )


def test_a_branch_whose_name_is_not_utf_8_keeps_it(tmp_path: Path) -> None:
    make(tmp_path, "plain")
    git(tmp_path, r"cd project; git switch -qc $(printf 'caf\351'); git branch $(printf '\350'); git pack-refs --all")
    git(tmp_path, r"cd project; echo x >>a.txt; git commit -qam three; git status --porcelain; git log --format='%H'")
    state = "git status --porcelain; git for-each-ref --format='%(refname) %(objectname)' | LC_ALL=C cat -v"
    with working(tmp_path, "plain") as copy:
        assert inside(copy, state) == git(tmp_path, f"cd project; {state}")


def test_a_damaged_pack_ends_and_is_named(tmp_path: Path) -> None:
    """git prints the size of such an object and then dies; what it never wrote was once waited for."""
    make(tmp_path, "plain")
    git(
        tmp_path,
        """cd project; seq 200 >old; git add old; git commit -qm old; git rm -q old; git commit -qm gone
        git repack -qad
        chmod u+w .git/objects/pack/*.pack; id=$(git rev-parse HEAD~1:old)
        at=$(git verify-pack -v .git/objects/pack/*.idx | sed -n "s/^$id .* //p")
        printf XXXXXXXX | dd of=$(echo .git/objects/pack/*.pack) bs=1 seek=$((at + 8)) conv=notrunc status=none""",
    )
    assert lines(tmp_path) == [UNREADABLE]


def test_a_file_of_that_name_that_names_no_repository_is_named(tmp_path: Path) -> None:
    make(tmp_path, "plain")
    git(tmp_path, r"cd project; rm -rf .git; printf 'H\335\0\1garbage' >.git")
    assert lines(tmp_path) == [
        f"git: the agent has no repository: {tmp_path}/project/.git does not name a repository; see: git status"
    ]
