"""The agent's repository is read for the messages of its commits: it may contain anything, and nothing of it is run,
followed, or read without a bound.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugins.agents.agent_runs import make_run
from tests.plugins.agents.people import Person
from tests.plugins.agents.test_agent_commits import with_repository
from tests.support import make_place
from threegate.core import limits
from threegate.plugins.agents.agent_commits import AgentCommits, read_commits
from threegate.plugins.agents.project_survey import Survey
from threegate.plugins.agents.work_copy import WorkCopy
from threegate.runners.jail.jail import Account


@pytest.fixture
def copy(tmp_path: Path) -> WorkCopy:
    """A plain work copy with an empty repository."""
    run = make_run(make_place(tmp_path))
    made = WorkCopy(run, tmp_path, "plain", Account("", os.getuid(), os.getgid()), Survey())
    for folder in ("objects", "refs/heads"):
        (run.work / "tree" / ".git" / folder).mkdir(parents=True)
    (run.work / "tree" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return made


def repository(copy: WorkCopy) -> Path:
    return copy.run.work / "tree" / ".git"


def commit(copy: WorkCopy, message: str, *parents: str, oid: str = "") -> str:
    """A loose commit; under another id than its own if one is given."""
    body = "".join(["tree " + "0" * 40 + "\n", *(f"parent {parent}\n" for parent in parents)]) + f"\n{message}"
    data = b"commit %d\0" % len(body.encode()) + body.encode()
    oid = oid or hashlib.sha1(data, usedforsecurity=False).hexdigest()
    place = repository(copy) / "objects" / oid[:2] / oid[2:]
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(zlib.compress(data))
    return oid


def on_main(copy: WorkCopy, oid: str) -> None:
    (repository(copy) / "refs" / "heads" / "main").write_text(f"{oid}\n")


def a_link(copy: WorkCopy) -> None:
    (repository(copy) / "HEAD").unlink()
    (repository(copy) / "HEAD").symlink_to("/etc/passwd")


def a_fifo(copy: WorkCopy) -> None:
    os.mkfifo(repository(copy) / "refs" / "heads" / "main")
    os.mkfifo(repository(copy) / "packed-refs")


def a_device_of_folders(copy: WorkCopy) -> None:
    (repository(copy) / "refs" / "heads" / "loop").symlink_to(".")
    (repository(copy) / "refs" / "heads" / "out").symlink_to("/")


def a_bomb(copy: WorkCopy) -> None:
    oid = "a" * 40
    place = repository(copy) / "objects" / "aa"
    place.mkdir()
    (place / oid[2:]).write_bytes(zlib.compress(b"commit 1\0" + b"\0" * (64 << 20)))
    on_main(copy, oid)


def not_a_commit(copy: WorkCopy) -> None:
    oid = "a" * 40
    place = repository(copy) / "objects" / "aa"
    place.mkdir()
    (place / oid[2:]).write_bytes(b"no zlib")
    on_main(copy, oid)


def no_repository(copy: WorkCopy) -> None:
    (repository(copy) / "HEAD").unlink()
    os.rename(repository(copy), copy.run.work / "elsewhere")
    repository(copy).symlink_to(copy.run.work / "elsewhere")


@pytest.mark.parametrize("attack", [a_link, a_fifo, a_device_of_folders, a_bomb, not_a_commit, no_repository])
def test_nothing_is_followed_or_read_without_a_bound(copy: WorkCopy, attack: Callable[[WorkCopy], None]) -> None:
    """It ends at once, with no commit; one that is too large is counted."""
    attack(copy)
    found = read_commits(copy)
    assert not found.checked_out and not found.elsewhere and found.unread == (attack in (a_bomb, not_a_commit))


def test_a_commit_under_another_id_is_none(copy: WorkCopy) -> None:
    """So there is no circle of parents either."""
    one, two = "a" * 40, "b" * 40
    commit(copy, "one", two, oid=one)
    commit(copy, "two", one, oid=two)
    on_main(copy, one)
    found = read_commits(copy)
    assert not found.checked_out and found.unread == 1


def test_more_commits_and_branches_than_are_read(copy: WorkCopy) -> None:
    oid = ""
    for number in range(limits.COMMITS_READ + 10):
        oid = commit(copy, f"{number}", *([oid] if oid else ()))
    on_main(copy, oid)
    for number in range(limits.COMMITS_READ + 10):
        (repository(copy) / "refs" / "heads" / f"b{number}").write_text(f"{oid}\n")
    found = read_commits(copy)
    assert len(found.checked_out) == limits.COMMITS_READ


def test_names_and_messages_are_escaped(copy: WorkCopy) -> None:
    """Nothing of a branch's name reaches a terminal as it is."""
    oid = commit(copy, "x")
    (repository(copy) / "refs" / "heads" / "\x1b[2J\u202e").write_text(oid)
    lines = list(read_commits(copy).lines())
    assert lines and all(line.isascii() and line.isprintable() for line in lines)


def test_without_a_repository_there_are_none(copy: WorkCopy) -> None:
    assert read_commits(copy) == AgentCommits()


FORGED = """
import os, subprocess, zlib

def git(*words, given=None):
    named = ("-c", "user.name=x", "-c", "user.email=x@y")
    return subprocess.run(["git", *named, *words], input=given, capture_output=True, check=True).stdout.decode().strip()

def branch(name, tree):
    git("update-ref", "refs/heads/" + name, git("commit-tree", tree, "-p", "HEAD", "-m", name))

blob = bytes.fromhex(git("hash-object", "-w", "--stdin", given=b"evil"))
for name, entry in (("up", b".."), ("deep", b"../../x"), ("own", b".git"), ("odd", b"a/b")):
    data = b"100644 " + entry + b"\\0" + blob
    branch(name, git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", given=data))
branch("cut", git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", given=b"100644 a\\0short"))
git("read-tree", "HEAD")
lie = git("hash-object", "-w", "--stdin", given=b"honest")
git("update-index", "--add", "--cacheinfo", "100644," + lie + ",lie")
branch("lie", git("write-tree"))
place = ".git/objects/" + lie[:2] + "/" + lie[2:]
os.chmod(place, 0o600)
open(place, "wb").write(zlib.compress(b"blob 4\\0evil"))
git("read-tree", "HEAD")
"""


def test_forged_trees_and_blobs_are_not_proposed(user: Person) -> None:
    """A name that leads out, a repository's own folder, a tree that is none, and bytes that are not those of the id."""
    with_repository(user)
    before = user.outside()
    done = user.run("/usr/bin/python3", "-c", FORGED, options=["--propose", "always"])
    for name in ("up", "deep", "odd"):
        said = f"what it committed on {name} could not be proposed: the agent's branch: a tree has an invalid name"
        assert said in done.stderr
    assert "what it committed on cut could not be proposed" in done.stderr, done
    assert "what it committed on lie could not be proposed" in done.stderr and "do not have this id" in done.stderr
    drafts = [path.read_text() for path in user.workspace.glob("tool-exec/agents/*/inbox/TR-*.md")]
    assert len(drafts) == 1 and ".git" not in drafts[0].partition("## Changes")[2]
    assert user.outside() == before
