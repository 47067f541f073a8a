"""An agent fills the disk of its workspace, an ordinary account's, with bytes or with names: it is ended, others go on.

The file system has 64 MiB and 4,000 names. Its bounds by the settings are those of the second half.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import few, slow
from tests.contracts.material import folder
from tests.plugins.agents.people import Person, as_account, person
from tests.small_disk import FILL, small_disk
from tests.support import monty_draft, request_id, wait_until
from threegate.setup.settings_file import set_values

pytestmark = pytest.mark.root

FILLERS = {
    "bytes": "dd if=/dev/zero of=$HOME/filler bs=1M 2>/dev/null; while :; do true >>$HOME/more; done",
    "names": "mkdir $HOME/many; n=0; while :; do true >$HOME/many/$n; n=$((n+1)); done 2>/dev/null",
}
"""Each goes on for as long as it lives."""


@pytest.fixture(params=["tmpfs", pytest.param("ext4", marks=pytest.mark.slow)])
def disk(request: pytest.FixtureRequest) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="threegate-full-"))
    place.chmod(0o755)
    try:
        with small_disk(place / "disk", request.param) as made:
            yield made
    finally:
        shutil.rmtree(place)


@pytest.fixture
def who(disk: Path) -> Iterator[Person]:
    with person("user", disk) as made:
        yield made


def good(who: Person, *words: str) -> str:
    done = who.threegate(*words)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def drop(who: Person, text: str) -> Path:
    """A draft of another requester, by rename."""
    name = next(line.split(": ", 1)[1] for line in text.splitlines() if line.startswith("request_id"))
    temporary = who.root / ".part"
    temporary.write_text(text)
    shutil.chown(temporary, who.account)
    return temporary.rename(who.workspace / "inbox" / f"{name}.md")


def approve(who: Person, rid: str, code: str, **more: Any) -> None:
    good(who, "approve", str(drop(who, monty_draft(rid, code, **more))), "--key", str(who.key), "--yes")


def events_of(who: Person, kind: str, rid: str) -> list[dict[str, Any]]:
    lines = (who.workspace / "tool-exec/audit/trail.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if (event["type"], event["request_id"]) == (kind, rid)]


@contextmanager
def daemon(who: Person) -> Iterator[None]:
    """Their daemon, which may not end before the block does; its log is not on the full disk."""
    log = who.root.parent.parent / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            who.command("run"), env=who.environ(), cwd=who.home, stdout=stream, stderr=stream,
            **as_account(who.account),
        )  # fmt: skip
        try:
            wait_until(lambda: "ready " in log.read_text(), log.read_text)
            yield
            assert process.poll() is None, "the daemon ended"
        finally:
            process.terminate()
            process.wait(60)
            print(log.read_text())  # shown where a test fails


@pytest.mark.parametrize("what", few(FILLERS, 1))
def test_it_is_ended_and_everything_else_works(who: Person, what: str) -> None:
    for name, data in folder({"threegate.monty": {"timeouts": {"total_ms": 120_000}}}).items():
        (who.workspace / "tool-exec/contracts" / name).write_bytes(data)
    set_values(who.workspace / "threegate.toml", {"runners.monty.workers": 1})
    who.own()
    good(who, "contracts", "open", "mine")
    running, waiting, late = (request_id(name) for name in ("running", "waiting", "late"))
    approve(who, running, "while True:\n    pass", time_sec=100, extra="session_id: mine\n")
    with daemon(who):
        wait_until(lambda: events_of(who, "started", running), "the first request")
        approve(who, waiting, "1 + 1")
        draft = drop(who, monty_draft(request_id("draft"), "1"))
        done = who.run("/bin/sh", "-c", f"{FILLERS[what]} & : >/run/inbox/TR-empty.md; wait", timeout=60)
        assert done.returncode == 137 and "it was ended: too little space is left on this disk" in done.stderr, done
        [ended] = who.events("agent_ended")
        assert (ended["reason"], ended["exit"]) == ("disk_reserve", 137)
        FILL[what](who.root.parent)  # and now the worst: somebody else takes what it gave back
        good(who, "cancel", waiting)
        good(who, "reject", str(draft), "--reason", "no")
        good(who, "contracts", "kill", "session", "mine")
        wait_until(lambda: events_of(who, "cancelled", running), "the end of the killed session's request")
        good(who, "audit", "verify")
        (who.root.parent / {"bytes": "filler", "names": "fillers"}[what]).rename(who.root / "gone")
        subprocess.run(["rm", "-rf", str(who.root / "gone")], check=True)
        approve(who, late, "1 + 1")
        results = who.workspace / "tool-exec/results"
        wait_until(lambda: list(results.glob(f"TS-*-{late}.md")), "the other requester's result")
    good(who, "audit", "verify")


@pytest.mark.parametrize(
    ("setting", "script", "reason"),
    [
        slow("disk_mb = 16", "dd if=/dev/zero of=big bs=1M count=20 2>/dev/null; sleep 60", "disk_bytes"),
        ("disk_mb = 16", "mkdir x; dd if=/dev/zero of=x/big bs=1M count=20; chmod 0 x; sleep 60", "disk_bytes"),
        slow("disk_mb = 16", "dd if=/dev/zero of=/run/inbox/big bs=1M count=20; sleep 60", "disk_bytes"),
        ("disk_files = 100", "mkdir $HOME/x; touch $(seq -f $HOME/x/%g 200); sleep 60", "disk_names"),
    ],
    ids=["copy", "a folder that nobody may list", "inbox", "names in the home"],
)
def test_a_run_is_ended_at_its_bound(who: Person, setting: str, script: str, reason: str) -> None:
    who.settings(f"[agents.generic]\n{setting}\n")
    done = who.run("/bin/sh", "-c", script, timeout=50)
    assert done.returncode == 137 and setting.split()[0] in done.stderr, done
    [ended] = who.events("agent_ended")
    assert ended["reason"] == reason
    assert not list(who.workspace.glob("tool-exec/agents/*/headroom"))


def test_a_folder_that_is_locked_and_small_is_no_reason(who: Person) -> None:
    done = who.run("/bin/sh", "-c", "mkdir x; echo 1 >x/y; chmod 0 x; sleep 3; exit 5", timeout=50)
    assert done.returncode == 5, done
    [locked] = who.workspace.glob("tool-exec/agents/*/work/*/x")
    assert locked.stat().st_mode & 0o777 == 0


def test_folders_nested_too_deep_to_be_measured_end_it(who: Person) -> None:
    script = "import os, time\nfor n in range(3000):\n    os.mkdir('d' * 9)\n    os.chdir('d' * 9)\ntime.sleep(60)"
    done = who.run("/usr/bin/python3", "-c", script, timeout=50)
    assert done.returncode == 137 and "cannot be measured" in done.stderr, done


def test_no_agent_starts_where_it_could_not_leave_space(who: Person) -> None:
    FILL["bytes"](who.root.parent)
    done = who.run("/bin/true")
    assert done.returncode == 3, done
    [line] = done.stderr.splitlines()
    assert "make room" in line
    assert not list(who.workspace.glob("tool-exec/agents/*")) and who.events("agent_started") == []
