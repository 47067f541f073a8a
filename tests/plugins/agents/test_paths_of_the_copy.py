"""Where the copy is in the jail: at the project's real path and at the typed one; and what can be renamed in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.plugins.agents.people import Person
from threegate.core import limits
from threegate.plugins.agents.work_copy import typed_links

RENAME = "import os; os.rename('src/lib', 'src/core'); print('RENAMED')"


def test_a_path_over_links_exists_as_it_was_typed(user: Person) -> None:
    """Also over a link in the target of a link, and as seen from a shell that came over one."""
    (user.home / "disk" / "data").mkdir(parents=True)
    (user.home / "disk" / "more").symlink_to("data")
    (user.home / "link").symlink_to("disk")
    user.project.rename(user.home / "disk" / "data" / "app")
    user.own()
    typed = user.home / "link" / "more" / "app"
    script = f"cat {typed}/README; cd {typed} && pwd -P; readlink {user.home}/link"
    done = user.run("sh", "-c", script, options=["--project", str(typed), "--propose", "never"])
    real = user.home / "disk" / "data" / "app"
    assert done.stdout == f"read me\n{real}\n{user.home}/disk\n", done
    (user.root / "door").symlink_to("home")
    user.environment["PWD"] = f"{user.root}/door"
    done = user.run("cat", f"{user.root}/door/disk/data/app/README", options=["--project", "disk/data/app"])
    assert done.stdout == "read me\n", done


@pytest.mark.slow
def test_a_link_where_the_jail_has_something_is_not_made(user: Person) -> None:
    """In the project itself, and in a folder that is read."""
    (user.project / "again").symlink_to(".")
    (user.home / "tools").mkdir()
    (user.home / "tools" / "app").symlink_to(user.project)
    user.own()
    for typed in (user.project / "again", user.home / "tools" / "app"):
        options = ["--project", str(typed), "--read", str(user.home / "tools"), "--propose", "never"]
        assert user.run("cat", f"{typed}/README", options=options).stdout == "read me\n"


def test_links_are_followed_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`..` is the folder that a link leads to the parent of; a PWD that is not this folder does not count."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "c").symlink_to("a/b")
    (tmp_path / "a" / "d").symlink_to("b")
    link = (f"{tmp_path}/c", f"{tmp_path}/a/b")
    assert list(typed_links(tmp_path / "c" / ".." / "d")) == [link, (f"{tmp_path}/a/d", f"{tmp_path}/a/b")]
    monkeypatch.chdir(tmp_path / "c")
    monkeypatch.setenv("PWD", f"{tmp_path}/c")
    assert list(typed_links(Path())) == [link]
    monkeypatch.setenv("PWD", str(tmp_path))
    assert list(typed_links(Path("x"))) == []


def test_a_folder_can_be_renamed_and_the_change_is_proposed(user: Person) -> None:
    (user.project / "src" / "lib").mkdir(parents=True)
    (user.project / "src" / "lib" / "x.py").write_text("1\n")
    os.utime(user.project / "README", ns=(10**18, 10**18))
    user.own()
    script = f'python3 -c "{RENAME}" && ls src && stat -c %Y README'
    done = user.run("sh", "-c", script, options=["--propose", "always"])
    assert done.stdout == "RENAMED\ncore\n1000000000\n", done
    assert "EXDEV" not in done.stderr and "2 added, 2 deleted (src/core, src/core/x.py, src/lib" in done.stderr
    assert (user.project / "src" / "lib" / "x.py").is_file()


@pytest.mark.slow
def test_where_the_copy_is_an_overlay_the_launcher_says_what_cannot_be_renamed(user: Person) -> None:
    (user.project / "src" / "lib").mkdir(parents=True)
    (user.project / "many").mkdir()
    for number in range(limits.AGENT_SMALL_ENTRIES):
        (user.project / "many" / str(number)).touch()
    user.own()
    script = f'python3 -c "{RENAME}" 2>&1 | tail -1; mv src/lib src/core; ls src'
    done = user.run("sh", "-c", script, options=["--propose", "never"])
    assert done.stdout.endswith("Invalid cross-device link: 'src/lib' -> 'src/core'\ncore\n"), done
    assert "rename(2) of a folder of the project fails in it (EXDEV); mv, git mv and shutil.move" in done.stderr
