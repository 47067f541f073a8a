"""Each commit of the agent as one of its own: what is signed is every byte that arrives, those between included."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.conftest import few
from tests.plugins.agents.people import Person
from tests.plugins.agents.test_agent_commits import GIT, draft_of, git, with_repository

TWO = (
    f"echo 2 >>README; {GIT} commit -qam 'Read me twice'; printf 'print(7)\\n' >app.py; mkdir -p a/b; echo new >a/b/c; "
    f"git add .; {GIT} commit -qm 'A new file' -m 'It was missing.'"
)


def propose(who: Person, script: str) -> Path:
    """The draft of what a script commits and leaves in the copy."""
    done = who.run("/bin/sh", "-ec", script, options=["--propose", "always"])
    assert "drafted TR-" in done.stderr, done
    return Path(draft_of(who))


def approve(who: Person, draft: Path, way: str, expect: int = 0) -> str:
    """What `approve` prints."""
    done = who.threegate(
        "approve", str(draft), "--as", "operator", "--key", str(who.key), "--yes", "--deliver", way, "--full"
    )
    assert done.returncode == expect, done
    return " ".join((done.stdout + done.stderr).split())


def delivered(who: Person) -> str:
    """The branch that is made."""
    assert who.threegate("run", "--once").returncode == 0
    assert [event["status"] for event in who.events("finished")] == ["succeeded"], who.events("finished")
    return git(who, "for-each-ref", "--format=%(refname:short)", "refs/heads/threegate").strip()


def test_each_commit_arrives_with_its_message_and_its_diff(user: Person) -> None:
    """The whole way, in a project whose setting is `tree`: the card, the branch, its log, and the undo."""
    with_repository(user)
    before = user.outside()
    draft = propose(user, f"{TWO}; git gc -q; echo left >>README; rm app.py")
    request_id = draft.read_text().partition("\nrequest_id: ")[2].split("\n")[0]
    shown = approve(user, draft, "commits")
    for text in (
        "3 commits on the new branch threegate/",
        "the message of commit 1: | Read me twice",
        "the message of commit 2: | A new file | | It was missing.",
        "What the agent changed and did not commit",
        "commit 1 | Read me twice",
        "+ | print(7)",
        "DELETED | app.py",
    ):
        assert text in shown, (text, shown)
    branch = delivered(user)
    assert git(user, "log", "--format=%s", f"HEAD..{branch}").splitlines() == [
        "What the agent changed and did not commit",
        "A new file",
        "Read me twice",
    ]
    assert git(user, "show", f"{branch}~1:app.py") == "print(7)\n", "it is there between, and gone at the end"
    changed = git(user, "log", "--name-status", "--format=%s", "--reverse", f"HEAD..{branch}").split()
    assert " ".join(changed) == (
        "Read me twice M README A new file A a/b/c M app.py What the agent changed and did not commit M README D app.py"
    )
    names = git(user, "log", "--format=%an|%cn|%(trailers:key=ThreeGate-Run,valueonly,separator=)", f"HEAD..{branch}")
    run = user.events("agent_started")[0]["run"]
    assert set(names.splitlines()) == {f"ThreeGate run {run}|operator|{run}"}
    git(user, "fsck", "--strict")
    assert git(user, "status", "--porcelain", "--untracked-files=no") == ""
    undone = user.threegate("project", "undo", request_id, "--as", "operator", "--key", str(user.key), "--yes")
    assert undone.returncode == 0, undone
    assert git(user, "for-each-ref", "refs/heads/threegate") == ""
    assert {path for path in user.outside() if ".git" not in path} == {path for path in before if ".git" not in path}
    assert user.threegate("audit", "verify").returncode == 0


def test_the_same_draft_as_one_commit(user: Person) -> None:
    with_repository(user)
    shown = approve(user, propose(user, TWO), "branch")
    assert "one commit on the new branch" in shown and "which are not what is delivered" in shown
    branch = delivered(user)
    assert git(user, "rev-list", "--count", f"HEAD..{branch}").strip() == "1"


@pytest.mark.parametrize(
    ("script", "why"),
    few(
        [
            (f"git checkout -qb side; echo 1 >>README; {GIT} commit -qam one; git checkout -q main; echo 2 >>app.py; "
             f"{GIT} commit -qam two; {GIT} merge -q side -m both", "is a merge"),
            (f"echo KEY=1 >.env.local; echo 2 >>README; git add -f .; {GIT} commit -qm env; git rm -q --cached "
             f".env.local; {GIT} commit -qm gone", ".env.local"),
            (f"mkdir sub; git -C sub init -q; {GIT} -C sub commit -q --allow-empty -m x; git add sub 2>/dev/null; "
             f"echo 2 >>README; {GIT} commit -qam sub", "something else than a file or a link"),
            (f"for i in $(seq 30); do echo $i >>README; {GIT} commit -qam $i; done", "they are more than 24"),
            (f"echo build >.git/info/exclude; echo 1 >build; git add -f build; echo 2 >>README; {GIT} commit -qam x; "
             f"rm build", "build: is committed, and not in what is proposed"),
        ],
        1,
    ),
    ids=["merge", "environment", "submodule", "many", "not-proposed"],
)  # fmt: skip
def test_what_cannot_be_carried_is_named_and_one_commit_is_offered(user: Person, script: str, why: str) -> None:
    with_repository(user)
    draft = propose(user, script)
    text = draft.read_text()
    assert "only as one commit" in text and why in text and "commits.tar" not in text, (shlex.quote(script), text)
    assert "has no commits that could be delivered one by one" in approve(user, draft, "commits", expect=2)
    approve(user, draft, "branch")
    assert git(user, "rev-list", "--count", f"HEAD..{delivered(user)}").strip() == "1"
