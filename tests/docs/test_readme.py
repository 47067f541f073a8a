"""The README's commands do what it says, typed as they stand, under a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def blocks(text: str) -> list[str]:
    """The fenced blocks of a Markdown text."""
    return re.findall(r"^```[a-z]*\n(.*?)^```", text, re.M | re.S)


def type_in_terminal(script: str, home: Path, answers: str, seconds: float = 120) -> tuple[int, str]:
    """Run a script with bash under a pseudo-terminal; `answers` are typed ahead."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(home)
        os.environ.update(
            HOME=str(home),
            PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            XDG_STATE_HOME=str(home / "state"),
            XDG_CONFIG_HOME=str(home / "config"),
            TMPDIR=str(home),
        )
        os.execvp("bash", ["bash", "-e", "-c", script])
    os.write(terminal, answers.encode())
    shown = b""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ready, _, _ = select.select([terminal], [], [], 0.5)
        if ready:
            try:
                piece = os.read(terminal, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.decode(errors="replace")


def test_a_first_request_by_hand(tmp_path: Path) -> None:
    tour = next(block for block in blocks((ROOT / "README.md").read_text()) if "threegate init ws" in block)
    code, shown = type_in_terminal(tour.replace("/tmp/", f"{tmp_path}/"), tmp_path, "yes\n")
    assert code == 0, shown
    assert "trail verifies" in shown
    results = list((tmp_path / "ws" / "tool-exec" / "results").glob("TS-*.md"))
    assert len(results) == 1
    assert "status: succeeded" in results[0].read_text()


def test_the_commands_that_the_readme_names_exist() -> None:
    from threegate.cli import COMMANDS

    named = set(re.findall(r"`threegate ([a-z]+)", (ROOT / "README.md").read_text()))
    assert named
    assert named <= COMMANDS.keys()


def test_the_links_of_the_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "inbox").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


def test_the_makefile_has_the_two_commands() -> None:
    text = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo:", text, re.M)
    assert re.search(r"^test:", text, re.M)
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
