"""An agent takes away its own permissions, so that what it did cannot be read: only that entry is left out, by name."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.conftest import few, slow
from tests.plugins.agents.conftest import jail_programs
from tests.plugins.agents.people import Person, as_account, python

SCRIPTS = {
    "a file": ("echo x >closed; chmod 000 closed", "closed"),
    "a folder": ("mkdir closed; echo x >closed/in; chmod 000 closed", "closed"),
    "a folder that can be listed": ("mkdir closed; echo x >closed/in; chmod 444 closed", "closed"),
    "a folder of the project": ("chmod 000 sub", "sub"),
    "a folder in a new one": ("mkdir -p new/closed; echo 1 >new/open; chmod 000 new/closed", "new/closed"),
    "a file of the project": ("echo x >>sub/b.txt; chmod 000 sub/b.txt", "sub/b.txt"),
    "a file for a folder": ("rm -r sub; echo x >sub; chmod 000 sub", "sub"),
    "the top": ("chmod 000 .", None),
}


@pytest.mark.parametrize("kind", ["overlay", slow("plain")])
@pytest.mark.parametrize("name", few(SCRIPTS, 4))
def test_one_entry_without_permissions_does_not_hide_the_others(kind: str, name: str) -> None:
    script, left = SCRIPTS[name]
    found = as_an_account(kind, f"echo evil >>a.txt; {script}")
    assert "a.txt modify" in found, found
    assert not [line for line in found if line.endswith(" delete")], found
    assert [line for line in found if line.startswith("left ")] == ([f"left {left}"] if left else []), found


@pytest.mark.parametrize("kind", ["overlay", "plain"])
def test_a_project_with_unreadable_entries_is_compared(kind: str) -> None:
    """They are the owner's: not in the jail, and not in the way of what is."""
    found = as_an_account(
        kind, "ls; echo evil >>a.txt; echo x >sub/new", "chmod 000 sub/.gitignore sub/b.txt; chmod 444 listed"
    )
    assert "a.txt modify" in found and "sub/new add" in found and not [line for line in found if "left" in line], found


def test_a_run_of_an_agent_that_closed_an_entry_is_proposed(user: Person) -> None:
    done = user.run("sh", "-c", "echo evil >>app.py; mkdir x; chmod 000 x", options=["--propose", "always"])
    assert "app.py" in done.stderr and "x" in done.stderr
    [ended] = user.events("agent_ended")
    assert ended["changed"] == 1 and ended["changes_sha256"]


def test_a_name_that_is_not_utf_8_does_not_stop_the_draft(user: Person) -> None:
    """It is left out, and its bytes are escaped in the draft."""
    script = "echo evil >>app.py; echo x >\"$(printf 'bad\\377name')\""
    done = user.run("bash", "-c", script, options=["--propose", "always"])
    assert "drafted" in done.stderr, done
    [draft] = user.workspace.glob("tool-exec/agents/*/inbox/TR-*.md")
    assert r"bad\\xffname" in draft.read_text()


_PROGRAM = """
import os, subprocess, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.plugins.agents.test_work_copy import inside, working
from threegate.plugins.agents.work_changes import read_changes
kind, script, before = sys.argv[1:]
place = Path({place!r}) / "own"
project = place / "project"
for name in ("a.txt", "sub/b.txt", "sub/.gitignore", "listed/c"):
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text("one\\n")
subprocess.run(before, shell=True, cwd=project, check=True)
with working(place, kind) as copy:
    inside(copy, script)
    made = read_changes(copy)
for row in made.rows:
    print(row.path, row.change)
for item in made.left_out:
    assert "cannot be read" in item.reason, item
    print("left", item.path)
subprocess.run("chmod -R u+rwx .", shell=True, cwd=place)
"""


def as_an_account(kind: str, script: str, before: str = "true") -> list[str]:
    """Make a project, let a script work on a copy of it in the jail, and read the changes, all as an ordinary account:
    root may read everything. Returns a line for each row and each path that was left out.
    """
    jail_programs()
    account = "nobody" if os.geteuid() == 0 else ""
    place = tempfile.mkdtemp(prefix="threegate-closed-")  # another session of pytest closes pytest's own folder
    try:
        os.chmod(place, 0o777)  # noqa: S103
        program = _PROGRAM.format(root=str(Path(__file__).parents[5]), place=place)
        done = subprocess.run(
            [python()[0], "-c", program, kind, script, before],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": python()[1], "HOME": place, "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/", capture_output=True, text=True, timeout=60, **as_account(account),
        )  # fmt: skip
    finally:
        shutil.rmtree(place)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
