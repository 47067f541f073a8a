"""What may be read is decided when a run starts; the project, the folders beside it and the agent's home go on."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.plugins.agents.conftest import jail_programs
from tests.plugins.agents.people import Person
from tests.plugins.agents.test_work_copy import KINDS, changed, inside, working
from threegate.core.workspace import Workspace
from threegate.plugins.agents import read_folders
from threegate.plugins.agents.work_changes import read_changes, remember_proposed
from threegate.plugins.agents.work_copy import CopyKind
from threegate.runners.jail.jail import Account, Jail

KEY = "ghp_" + "n4Kd9Zq2Lw8Xr5Tb7Vm3Yc6Hj1Gf0SpQaRuE"


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_the_project_gets_during_a_run_is_not_in_the_jail(
    tmp_path: Path, project: Path, kind: CopyKind
) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "a.txt").write_text("one\n")
    (project / ".env").write_text("TOKEN=1\n")
    with working(tmp_path, kind) as copy:
        for path in (".env.local", "sub/.env", "sub/later.txt", "fresh/key"):
            (project / path).parent.mkdir(exist_ok=True)
            (project / path).write_text("CANARY\n")
        (project / "sub" / "moved").write_text("CANARY\n")
        os.rename(project / "sub" / "moved", project / "sub" / "a.new")
        script = (
            "find . | sort; cat .env .env.local sub/.env sub/later.txt sub/a.new fresh/key ../project/.env.local; "
            "ls fresh; cd sub && cat ./later.txt; echo end"
        )
        said = inside(copy, f"({script}) 2>/dev/null")
        assert said == ".\n./sub\n./sub/a.txt\nend\n"


def test_an_edit_in_place_of_a_visible_file_is_there(tmp_path: Path, project: Path) -> None:
    """What the documentation says of an overlay: its names are fixed, the bytes of a name are the project's."""
    (project / "a.txt").write_text("one\n")
    with working(tmp_path, "overlay") as copy:
        (project / "a.txt").write_text("two\n")
        assert inside(copy, "cat a.txt") == "two\n"


@pytest.mark.parametrize("kind", KINDS)
def test_what_others_added_is_neither_deleted_nor_replaced_by_the_agent(
    tmp_path: Path, project: Path, kind: CopyKind
) -> None:
    """It was never shown to the agent, so the agent cannot have removed it; and its folder stays with it."""
    (project / "gone").mkdir()
    (project / "gone" / "x").write_text("x\n")
    with working(tmp_path, kind) as copy:
        inside(copy, "rm -r gone; mkdir gone; echo mine >gone/theirs; rm -r gone; echo a >a")
        (project / "gone" / "theirs").write_text("theirs\n")
        made = read_changes(copy)
    assert changed(made) == {"gone/x": "delete", "a": "add"}


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_may_take_back_what_was_applied_of_its_own(tmp_path: Path, project: Path, kind: CopyKind) -> None:
    """What it proposed is in the project now, and was not at the start; it is the agent's all the same."""
    with working(tmp_path, kind) as copy:
        inside(copy, "echo 1 >mine; echo 2 >kept")
        remember_proposed(copy.run, read_changes(copy))
        (project / "mine").write_text("1\n")
        (project / "kept").write_text("2\n")
        inside(copy, "rm mine")
        assert changed(read_changes(copy)) == {"mine": "delete"}


def test_a_folder_to_read_shows_no_secret_and_no_later_name(somebody: Person) -> None:
    """Its secrets by name and by content are hidden and named; what merely looks like one is there."""
    folder = somebody.root / "tools"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "list").write_text("data\n")
    (folder / ".env").write_text("TOKEN=CANARY\n")
    (folder / "notes").write_text(f"token {KEY}\n")
    (folder / "example.py").write_text('password = "hunter2"\n')
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("CANARY\n")
    (folder / "deep").mkdir()
    (folder / "deep" / "id_rsa").write_text("CANARY\n")
    os.symlink("data/list", folder / "link")
    shutil.copy("/bin/true", folder / "run")
    for path in folder.rglob("*"):
        os.chmod(path, 0o755, follow_symlinks=False) if not path.is_symlink() else None
    os.chmod(folder, 0o755)
    somebody.own()
    script = f"cd {folder}; find . | sort; cat data/list link; ./run && echo ran; echo x >y || echo no"
    done = somebody.run("sh", "-c", f"({script}) 2>/dev/null", options=["--read", str(folder), "--propose", "never"])
    assert done.stdout == ".\n./data\n./data/list\n./deep\n./example.py\n./link\n./run\ndata\ndata\nran\nno\n", done
    named = done.stderr.partition("hidden from the agent: ")[2].partition(";")[0].split(", ")
    assert named == [".env", *(str(folder / path) for path in (".env", "deep/id_rsa", "notes"))]
    asked = ["--read", str(folder), "--with", str(folder / ".env"), "--propose", "never"]
    assert somebody.run("cat", str(folder / ".env"), options=asked).stdout == "TOKEN=CANARY\n"
    refused = somebody.run("true", options=["--with", str(folder / ".env")])
    assert refused.returncode == 2 and "--read" in refused.stderr


def test_what_one_run_might_read_is_not_in_the_home_of_another(user: Person) -> None:
    """The agent keeps a copy in its home of what `--with` and `--read` showed."""
    folder = user.root / "extra"
    folder.mkdir()
    (folder / "text").write_text("CANARY-READ\n")
    user.own()
    keep = "cat .env " + str(folder / "text") + " >>~/kept 2>/dev/null; cat ~/kept"
    never = ["--propose", "never"]
    assert "CANARY" not in user.run("sh", "-c", keep, options=never).stdout
    shown = user.run("sh", "-c", keep, options=["--with", ".env", *never])
    assert shown.stdout == "TOKEN=CANARY-ENV\n"
    read = user.run("sh", "-c", keep, options=["--read", str(folder), *never])
    assert read.stdout == "CANARY-READ\n"
    assert user.run("cat", "/home/agent/kept", options=never).stdout == ""
    again = user.run("cat", "/home/agent/kept", options=["--read", str(folder), *never])
    assert again.stdout == "CANARY-READ\n" and "continues with the home" in again.stderr


def test_without_such_overlays_a_folder_to_read_is_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a kernel before 6.16: the same names, and none that comes later."""
    jail_programs()
    monkeypatch.setattr(read_folders, "names_work", lambda *_: False)
    folder = tmp_path / "tools"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a").write_text("a\n")
    (folder / ".netrc").write_text("CANARY\n")
    os.symlink("sub/a", folder / "link")
    (tmp_path / "tool-exec").mkdir()
    run = Workspace(tmp_path).agent_run("ar-20261126-102139z-00112233").make()
    read = read_folders.ReadFolder.make(run, 0, folder, account=Account.own())
    assert not read.layered and read.hidden == {str(folder / ".netrc"): "secret"}
    (folder / "later").write_text("CANARY\n")
    jail = Jail(Account.own(), read.bound, read.layered, cwd=str(folder))
    process = jail.start(
        ["/bin/sh", "-c", "find . | sort; cat link .netrc later; echo x >y"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, begin=False,
    )  # fmt: skip
    assert process.communicate(timeout=30)[0] == b".\n./link\n./sub\n./sub/a\na\n"
    assert process.returncode != 0 and (folder / "later").exists() and not (folder / "y").exists()
