"""What keeps a change from being applied is said before anyone works on it, and a linked path is the agent's too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import few
from tests.plugins.agents.people import Person
from tests.plugins.agents.test_what_comes_out import ran, sign


def test_a_project_that_cannot_be_written_is_named_first(user: Person) -> None:
    user.project.chmod(0o555)
    added = user.threegate("project", "add", "web", str(user.project))
    assert added.returncode == 0 and "its owner may not write to" in added.stderr and "chmod u+rwx" in added.stderr
    said = ran(user, "echo x >>app.py")
    assert said.index("signed changes cannot be applied now: the project web") < said.index("starts in a jail")
    user.project.chmod(0o755)
    assert "cannot be applied" not in ran(user, "true")


def test_a_project_whose_path_is_not_utf_8_is_refused_in_one_line(user: Person) -> None:
    place = user.home / os.fsdecode(b"caf\xe9")
    place.mkdir()
    user.own()
    line = f"threegate: {user.home}/caf\\xe9: its path is not UTF-8; rename it, or name a folder elsewhere\n"
    for words in (["add", "web"], ["survey"]):
        done = user.threegate("project", *words, str(place))
        assert (done.returncode, done.stderr) == (2, line)


@pytest.mark.parametrize("name", few([".threegate", "tools/ws"], 1))
@pytest.mark.slow
def test_a_workspace_in_the_project_is_hidden_and_no_change_touches_it(user: Person, name: str) -> None:
    """The first thing that people type: threegate init .threegate, then agent run, in the project."""
    inside = user.project / name
    inside.parent.mkdir(exist_ok=True)
    user.own()
    user.environment["PWD"] = str(user.project)
    assert user.threegate("init", str(inside)).returncode == 0
    place = Inside(user, inside)
    said = ran(
        place,
        f"echo x >>app.py; mkdir -p {name}/inbox; echo evil >{name}/inbox/x; ln -s {name}/inbox l",
    )
    assert f"the workspace {name}/ is in the project: agents do not see it" in said
    assert f"left out: {name}/inbox/x: was hidden from the agent" in said and "in its copy: 1 changed (app.py)" in said
    assert "left out: l: is a link into a workspace" in said
    sign(place)
    assert (user.project / "app.py").read_text() == "print('hello')\nx\n" and not (inside / "inbox" / "x").exists()


class Inside(Person):
    """A person whose workspace is in their project."""

    def __init__(self, who: Person, workspace: Path) -> None:
        super().__init__(who.root, who.account, who.agent, who.environment)
        self._workspace = workspace

    @property
    def workspace(self) -> Path:
        return self._workspace


def test_a_project_that_is_a_workspace_names_the_way_out(user: Person) -> None:
    done = user.threegate("agent", "run", "generic", "--project", str(user.workspace), "--", "true")
    assert (
        done.returncode == 2 and "is the workspace itself" in done.stderr and "threegate init .threegate" in done.stderr
    )
    added = user.threegate("project", "add", "ws", str(user.workspace))
    assert added.returncode == 2 and "threegate init .threegate" in added.stderr


def test_a_linked_path_is_in_the_jail_as_it_was_typed(user: Person) -> None:
    (user.root / "real").mkdir()
    (user.home / "project").rename(user.root / "real" / "project")
    (user.root / "link").symlink_to("real")
    (user.root / "tools").mkdir()
    (user.root / "tools" / "t").write_text("a tool\n")
    (user.root / "kit").symlink_to("tools")
    user.own()
    typed = user.root / "link" / "project"
    script = f"cat {typed}/README {user.root}/kit/t; echo x >>{typed}/app.py; pwd"
    words = [
        "agent",
        "run",
        "generic",
        "--project",
        str(typed),
        "--read",
        str(user.root / "kit"),
        "--propose",
        "always",
    ]
    done = user.threegate(*words, "--", "sh", "-c", script)
    assert done.returncode == 0 and done.stdout == f"read me\na tool\n{user.root}/real/project\n", done
    assert "in its copy: 1 changed (app.py)" in done.stderr
    (user.home / "sub").mkdir()
    (user.home / "sub" / "odd").symlink_to(user.root / "real" / "project" / "sub")
    (user.root / "real" / "project" / "sub").mkdir()
    user.own()
    added = user.threegate("project", "add", "odd", str(user.home / "sub" / "odd"))
    assert added.returncode == 0 and f"{user.home}/sub/odd leads there through a link" in added.stderr
