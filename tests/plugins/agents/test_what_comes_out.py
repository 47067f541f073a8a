"""What an agent changed comes out: proposed, or named with its reason, or counted by its kind. With real git, the real
jail and the real command; the situations are from reports of people who run agents in sandboxes.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from tests.plugins.agents.people import Person, as_account
from threegate.setup.settings_file import set_values

IDENTITY = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def shell(who: Person, script: str, cwd: Path | None = None) -> None:
    """A script of the person, in their project."""
    subprocess.run(
        ["sh", "-ec", script], cwd=cwd or who.project, env={**who.environ(), **IDENTITY}, check=True,
        capture_output=True, **as_account(who.account),
    )  # fmt: skip


def own_project(who: Person) -> None:
    """Give what a test wrote into the project to the person; the copies of runs are left alone."""
    if who.account:
        found = pwd.getpwnam(who.account)
        for path in (who.project, *who.project.rglob("*")):
            os.chown(path, found.pw_uid, found.pw_gid, follow_symlinks=False)


def ran(who: Person, script: str, *options: str) -> str:
    """What the launcher says of an agent that runs a script; its changes are drafted."""
    done = who.run("sh", "-c", script, options=["--propose", "always", *options])
    assert done.returncode == 0 and "internal error" not in done.stderr, done
    return done.stderr


def sign(who: Person) -> None:
    """Sign the newest draft, and let the daemon make one pass: the change is applied."""
    drafts = who.workspace.glob("tool-exec/agents/*/inbox/TR-*.md")
    draft = max(drafts, key=lambda path: path.stat().st_mtime_ns)
    signed = who.threegate("approve", str(draft), "--as", "operator", "--key", str(who.key), "--yes")
    assert signed.returncode == 0, signed
    assert who.threegate("run", "--once").returncode == 0
    assert who.events("finished")[-1]["status"] == "succeeded"


@pytest.mark.slow
def test_git_decides_what_is_ignored(user: Person) -> None:
    """Tracked files in ignored folders are the project's; what the owner's own rules ignore is not."""
    (user.home / ".config" / "git").mkdir(parents=True, exist_ok=True)
    (user.home / ".config" / "git" / "ignore").write_text(".DS_Store\n*.local\n.idea/\n")
    user.own()
    shell(
        user,
        "mkdir dist; echo 1 >dist/app.js; git init -q .; git add app.py dist; git commit -qm a; "
        "echo dist/ >.gitignore; echo scratch/ >>.git/info/exclude; git add .gitignore; git commit -qm b",
    )
    said = ran(
        user,
        "echo 2 >>dist/app.js; echo 2 >dist/other.js; mkdir scratch .idea; echo n >scratch/n; echo i >.idea/i; "
        "echo l >x.local; echo d >.DS_Store; git init -q sub",
    )
    assert "in its copy: 1 changed (dist/app.js)" in said and "left out: 5 paths that git ignores" in said
    assert "left out: 1 paths of a version control system" in said
    sign(user)
    assert (user.project / "dist" / "app.js").read_text() == "1\n2\n"
    assert {"dist/other.js", "scratch", "x.local", ".DS_Store", ".idea"}.isdisjoint(
        str(path.relative_to(user.project)) for path in user.project.rglob("*")
    )


@pytest.mark.parametrize("tracked", [True, False])
@pytest.mark.slow
def test_a_project_in_a_larger_repository_follows_its_rules(user: Person, tracked: bool) -> None:
    """One that tracks nothing of the project, such as that of a home folder with `*`, has no say."""
    rules = (
        "echo node_modules/ >.gitignore; echo /project/out >.git/info/exclude; "
        if tracked
        else "echo '*' >.gitignore; "
    )
    adding = "git add -f project/app.py" if tracked else "git add -f .gitignore"
    shell(user, f"git init -q .; {rules}{adding}; git commit -qm a", user.home)
    said = ran(user, "echo 2 >>app.py; mkdir node_modules; echo x >node_modules/x; echo y >out")
    if tracked:
        assert "in its copy: 1 changed (app.py)" in said and "left out: 2 paths that git ignores" in said
    else:
        assert "1 added, 1 changed (app.py, out)" in said and "left out: 1 outputs of builds: node_modules" in said


def test_without_git_the_outputs_of_builds_are_counted(user: Person) -> None:
    said = ran(
        user,
        "mkdir -p node_modules/p __pycache__ .venv/lib sub/__pycache__; echo x >node_modules/p/x; "
        "echo x >__pycache__/x.pyc; echo y >.venv/lib/a.py; echo z >sub/__pycache__/z.pyc; echo 2 >>app.py",
    )
    assert "in its copy: 1 changed (app.py)" in said  # and no empty folder for the fourth of them
    assert "left out: 4 outputs of builds: __pycache__ (2)" in said and "node_modules" in said


def test_odd_names_are_ordinary_or_left_out_when_it_is_drafted(user: Person) -> None:
    """A draft that is made can be approved."""
    os.close(os.open(os.fsencode(user.project) + b"/caf\xe9.txt", os.O_CREAT | os.O_WRONLY, 0o644))
    (user.project / "aux.c").write_text("int a;\n")
    user.own()
    names = ["con.rs", "nul.txt", "a: b", "~~~", " begins", "می\u200cخواهم.md", "👩\u200d🚀.txt", "-rf", "```"]
    made = "; ".join(f"echo x >'./{name}'" for name in [*names, "ends ", "pass\u200cword"])
    said = ran(user, f"for f in caf*; do echo y >>\"$f\"; done; echo 'int c;' >>aux.c; {made}")
    assert "left out: caf\\xe9.txt: has a name that is not UTF-8" in said
    assert "ends : has a name that ends with a blank" in said and "pass<U+200C>word" in said
    sign(user)
    assert (user.project / "aux.c").read_text() == "int a;\nint c;\n"
    for name in names:
        assert (user.project / name).read_text() == "x\n"


@pytest.mark.slow
def test_edits_where_nothing_may_be_changed_are_named(user: Person) -> None:
    """Also when nothing else was changed."""
    set_values(user.workspace / "threegate.toml", {"agents.protected": ["locked"]})
    (user.project / "locked" / "in").mkdir(parents=True)
    for name in ("one", "two", "same"):
        (user.project / "locked" / "in" / name).write_text("1\n")
    user.own()
    said = ran(user, "mkdir -p locked/new; echo x >locked/new/a; mkdir .env.d; echo x >.env.d/b")
    assert "left out: locked/new/a: was hidden from the agent" in said and "left out: .env.d: is protected" in said
    assert "nothing in its copy is left to propose" in said
    said = ran(
        user, "echo x >>locked/in/one; rm locked/in/two; echo x >locked/three; echo x >>app.py", "--with", "locked"
    )
    for name in ("in/one", "in/two", "three"):
        assert f"left out: locked/{name}: is protected (agents.protected)" in said
    assert "same" not in said and "in its copy: 1 changed (app.py)" in said
    sign(user)


@pytest.mark.slow
def test_names_are_bytes_in_every_locale(user: Person) -> None:
    (user.project / "été.txt").write_text("a\n")
    user.own()
    user.environment.update(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    process = user.start("sh", "-c", 'echo "grüße 日本" >>"été.txt"', options=["--propose", "always"])
    said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 0 and "drafted TR-" in said, said
    user.environment.clear()
    sign(user)
    assert (user.project / "été.txt").read_text() == "a\ngrüße 日本\n"
