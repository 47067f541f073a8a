"""From an agent's change to the project's: drafted at the end, signed by a person, applied once."""

from __future__ import annotations

import subprocess

import pytest

from tests.plugins.agents.people import Person


def test_what_an_agent_changed_is_applied_when_a_person_signs(user: Person) -> None:
    """Nothing before the signature; everything after it."""
    before = user.outside()
    script = "echo new >new.txt; echo more >>README; rm app.py; mkdir -p pkg; echo 1 >pkg/a.py"
    done = user.run("/bin/sh", "-c", script, options=["--propose", "always"])
    assert done.returncode == 0 and "drafted TR-" in done.stderr, done
    [ended] = user.events("agent_ended")
    assert len(ended["changes_sha256"]) == 64 and user.outside() == before
    assert [event["project"] for event in user.events("project_added")] == ["project"]
    assert user.threegate("run", "--once").returncode == 0
    assert user.outside() == before, "a daemon applies nothing that nobody signed"
    [draft] = list((user.workspace / "tool-exec" / "agents").glob("*/inbox/TR-*.md"))
    signed = user.threegate("approve", str(draft), "--as", "operator", "--key", str(user.key), "--yes")
    assert signed.returncode == 0, signed
    ran = user.threegate("run", "--once")
    assert ran.returncode == 0, ran
    assert [event["status"] for event in user.events("finished")] == ["succeeded"]
    assert (user.project / "new.txt").read_text() == "new\n" and (
        user.project / "README"
    ).read_text() == "read me\nmore\n"
    assert not (user.project / "app.py").exists() and (user.project / "pkg" / "a.py").read_text() == "1\n"
    assert (user.project / ".env").read_text() == "TOKEN=CANARY-ENV\n"
    assert user.threegate("audit", "verify").returncode == 0


def test_never_drafts_nothing(user: Person) -> None:
    done = user.run("/bin/sh", "-c", "echo x >x", options=["--propose", "never"])
    assert "drafted" not in done.stderr and "in its copy: 1 added (x)" in done.stderr
    assert list((user.workspace / "tool-exec" / "agents").glob("*/inbox/TR-*.md")) == []


def test_a_project_that_may_not_be_changed_can_still_be_looked_at(somebody: Person) -> None:
    """What belongs to root is applied by nobody: that is said before the agent lives."""
    done = somebody.run("/bin/sh", "-c", "echo x >x")
    said = "can be viewed but not applied" in done.stderr
    assert done.returncode == 0 and said == bool(somebody.agent)
    assert isinstance(done, subprocess.CompletedProcess)


@pytest.mark.slow
def test_a_project_has_one_name_however_often_it_is_used(user: Person) -> None:
    for _ in range(2):
        assert user.run("/bin/true").returncode == 0
    assert len(user.events("project_added")) == 1
    other = user.home / "other" / "project"
    other.mkdir(parents=True)
    user.own()
    user.threegate("agent", "run", "generic", "--project", str(other), "--", "/bin/true")
    assert [event["project"] for event in user.events("project_added")] == ["project", "project-2"]
