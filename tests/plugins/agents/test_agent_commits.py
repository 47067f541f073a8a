"""An agent that commits, on whatever branch, has not lost its work: what it says of it is in the draft."""

from __future__ import annotations

import subprocess
import textwrap

import pytest

from tests.plugins.agents.people import Person, as_account
from tests.plugins.agents.test_frozen_jail import CLIENT

GIT = "git -c user.name=x -c user.email=x@y"


def with_repository(who: Person) -> None:
    git(who, "init", "-q", "-b", "main")
    git(who, "add", "README", "app.py")
    git(who, "-c", "user.name=p", "-c", "user.email=p@q", "commit", "-qm", "first")


def git(who: Person, *words: str) -> str:
    """What git prints in the project, run by the person."""
    done = subprocess.run(
        ["git", *words], cwd=who.project, env=who.environ(), capture_output=True, check=True, **as_account(who.account)
    )
    return done.stdout.decode()


def draft_of(who: Person) -> str:
    [draft] = list((who.workspace / "tool-exec" / "agents").glob("*/inbox/TR-*.md"))
    return str(draft)


def test_commits_become_a_branch_of_the_project(user: Person) -> None:
    """From the agent's commits to one commit of the person's: the message is what the agent wrote, the files are what
    it left, and the project's own files stay.
    """
    with_repository(user)
    added = user.threegate("project", "add", "app", str(user.project), "--deliver", "branch")
    assert added.returncode == 0, added
    before = {path: facts for path, facts in user.outside().items() if not path.startswith("project/.git")}
    script = (
        f"echo 2 >>README; {GIT} commit -qam 'Read me twice'; echo new >new.txt; git add new.txt; "
        f"{GIT} commit -qm 'A new file' -m 'It was missing.'; rm app.py"
    )
    done = user.run("/bin/sh", "-c", script, options=["--propose", "always"])
    assert "2 commits of the agent: the messages are in the draft" in done.stderr, done
    signed = user.threegate("approve", draft_of(user), "--as", "operator", "--key", str(user.key), "--yes")
    assert signed.returncode == 0, signed
    assert user.threegate("run", "--once").returncode == 0
    assert [event["status"] for event in user.events("finished")] == ["succeeded"]
    branch = git(user, "for-each-ref", "--format=%(refname:short)", "refs/heads/threegate").strip()
    assert branch == f"threegate/{user.events('agent_started')[0]['run']}"
    message = git(user, "log", "-1", "--format=%B", branch)
    assert message.index("* A new file\n\n  It was missing.") < message.index("* Read me twice")
    assert git(user, "ls-tree", "--name-only", branch).split() == ["README", "new.txt"]
    assert git(user, "show", f"{branch}:README") == "read me\n2\n"
    assert {path: facts for path, facts in user.outside().items() if not path.startswith("project/.git")} == before
    assert user.threegate("audit", "verify").returncode == 0


@pytest.mark.slow
def test_commits_that_are_not_checked_out_are_named(user: Person) -> None:
    """The field's case: a branch of its own, and back on the first one."""
    with_repository(user)
    script = f"git checkout -qb feat; echo b >>README; {GIT} commit -qam feat; git checkout -q main"
    done = user.run("/bin/sh", "-c", script, options=["--propose", "always"])
    assert "1 commit of the agent on feat, which is not checked out" in done.stderr, done
    assert "nothing in its copy is left to propose" in done.stderr
    assert "on feat: 1 changed (README)" in done.stderr and "drafted TR-" in done.stderr
    signed = user.threegate("approve", draft_of(user), "--as", "operator", "--key", str(user.key), "--yes")
    assert signed.returncode == 0 and "commit: feat" in signed.stdout, signed
    assert user.threegate("run", "--once").returncode == 0
    assert (user.project / "README").read_text() == "read me\nb\n"


def test_each_branch_that_is_not_checked_out_is_proposed(user: Person) -> None:
    """Files and links added and removed on a branch whose commits build on each other; a stash; and the files of the
    copy beside them.
    """
    with_repository(user)
    script = (
        f"git checkout -qb one; mkdir -p a/b; echo 1 >a/b/c; ln -s app.py link; git add .; {GIT} commit -qm 'one a'; "
        f"git rm -q app.py; echo 2 >>README; {GIT} commit -qam 'one b'; git checkout -q main; "
        f"echo stashed >>app.py; {GIT} stash -q; echo mine >mine"
    )
    done = user.run("/bin/sh", "-c", script, options=["--propose", "always"])
    assert done.stderr.count("drafted TR-") == 3, done
    found = {}
    for draft in user.workspace.glob("tool-exec/agents/*/inbox/TR-*.md"):
        text = draft.read_text()
        name = next((name for name in ("on one in", "on stash in") if name in text), "files")
        rows = text.partition("## Changes")[2].partition("```\n")[2].partition("```")[0].splitlines()
        found[name] = sorted(" ".join(row.split()) for row in rows)
    assert found == {
        "files": ["add mine"],
        "on stash in": ["modify app.py"],
        "on one in": ["add a", "add a/b", "add a/b/c", "add link", "delete app.py", "modify README"],
    }


@pytest.mark.slow
def test_a_branch_that_is_checked_out_is_proposed_as_it_is(user: Person) -> None:
    with_repository(user)
    script = f"git checkout -qb feat; echo b >>README; {GIT} commit -qam 'on feat'; git stash list; {GIT} gc -q"
    done = user.run("/bin/sh", "-c", script, options=["--propose", "always"])
    assert "1 changed (README)" in done.stderr, done
    assert "1 commit of the agent: the messages are in the draft" in done.stderr, "packed commits are read too"
    script = f"git checkout -qb feat; echo c >>app.py; {GIT} commit -qam 'password=\"hunter2hunter2-Zq8\" \u202e'"
    done = user.run("/bin/sh", "-c", script, options=["--propose", "always"])
    assert "drafted TR-" in done.stderr, "a message never keeps the change from being drafted"


def test_what_the_agent_proposes_itself_has_its_commits(user: Person) -> None:
    """At the door: the messages are in the draft, and commits elsewhere are named, also where nothing else is left."""
    with_repository(user)
    program = CLIENT + textwrap.dedent(f"""
        def sh(script):
            subprocess.run(["/bin/sh", "-ec", script], check=True, stdout=subprocess.DEVNULL)

        sh("git checkout -qb feat; echo b >>README; {GIT} commit -qam elsewhere; git checkout -q main")
        print(call("propose_changes", purpose="Look at it.", wait_sec=0))
        sh("echo c >>app.py; {GIT} commit -qam 'A print more'")
        print(call("propose_changes", purpose="Look at it.", wait_sec=0))
        """)
    done = user.run("/usr/bin/python3", "-c", program, options=["--propose", "never"])
    first, second = done.stdout.splitlines()
    assert "no changes that could be proposed: left out: 1 commit on feat" in first and '"pending"' in second, done
    [draft] = user.workspace.glob("tool-exec/agents/*/inbox/TR-*.md")
    text = draft.read_text()
    assert "commit: A print more" in text and "1 commit on feat, which is not checked out" in text
