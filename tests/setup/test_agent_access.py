"""`init --agent USER`: that account writes drafts and inputs, and can neither move the folders nor go elsewhere."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import few
from tests.support import Place, monty_draft, request_id, threegate

pytestmark = pytest.mark.root
AGENT = "daemon"
"""An account of every Debian machine that is nobody's."""


@pytest.fixture
def place() -> Iterator[Place]:
    """A workspace that the agent's account can get to, unlike pytest's own folders."""
    with tempfile.TemporaryDirectory(prefix="threegate-agent-") as name:
        os.chmod(name, 0o755)
        base = Path(name)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(base / "key")], check=True)
        done = threegate("init", "ws", "--key", str(base / "key.pub"), "--agent", AGENT, cwd=base)
        assert done.code == 0, done.err
        yield Place(base / "ws", base / "key")


def as_agent(place: Place, script: str) -> int:
    """Run a shell script as the agent, in the inbox; its exit code."""
    words = ["setpriv", f"--reuid={AGENT}", "--regid=daemon", "--clear-groups", "sh", "-euc", script]
    return subprocess.run(words, cwd=place.root / "inbox", capture_output=True, check=False).returncode


def test_the_agent_drops_a_draft_with_an_input_and_it_runs(place: Place) -> None:
    assert as_agent(place, "printf 1,2 > files/data.csv") == 0
    digest = subprocess.run(
        ["sha256sum", place.root / "inbox" / "files" / "data.csv"], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    rid = request_id("agents")
    text = monty_draft(rid, "1 + 1", inputs={"data.csv": digest})
    assert as_agent(place, f"cat > .part <<'END'\n{text}\nEND\nmv .part {rid}.md") == 0
    place.once()
    assert place.verdict(f"{rid}.md")["valid"]
    place.approve(place.root / "inbox" / f"{rid}.md")
    place.once()
    assert "status: succeeded" in place.result(rid)


@pytest.mark.parametrize(
    "script",
    few(
        [
            "mv files away",
            "rmdir files",
            "mv ../inbox ../away",
            "touch ../x",
            "touch ../tool-exec/approved/x",
            "ls ../tool-exec/inputs",
            "chmod 777 files",
            "cat ../tool-exec/audit/trail.jsonl",
        ],
        4,
    ),
)
def test_the_agent_moves_nothing_that_is_not_its_own(place: Place, script: str) -> None:
    assert as_agent(place, script) != 0
    place.run("doctor")
    assert (place.root / "inbox" / "files").is_dir() and not (place.root / "inbox" / "files").is_symlink()


def test_an_account_that_is_not_there_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    done = threegate("init", "ws", "--agent", "nobody-of-that-name", cwd=tmp_path)
    assert done.code == 2 and "no such account" in done.err and not (tmp_path / "ws").exists()
