"""Types the commands of docs/first-request.md exactly as the page shows them, into a shell at a terminal, and answers
`init` and `approve`.

Standard library only: a newcomer's machine has nothing else. Usage: python3 scripts/type_tour.py, after `make demo`.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ANSWERS = "no\nyes\n"
"""`init`: a key without a passphrase; `approve`: yes."""


def blocks(text: str) -> list[str]:
    """The fenced blocks of a Markdown text."""
    return re.findall(r"^```[a-z]*\n(.*?)^```", text, re.M | re.S)


def tour() -> str:
    """The commands of docs/first-request.md, from `threegate init` on."""
    page = ROOT / "docs" / "first-request.md"
    return next(block for block in blocks(page.read_text("utf-8")) if "threegate init ws" in block)


def type_in_terminal(
    script: str, home: Path, answers: str, seconds: float = 120, commands: Path | None = None
) -> tuple[int, str]:
    """Run a script with bash under a pseudo-terminal below `home`; `answers` are typed ahead.

    `commands` is the folder that has the command `threegate`. Returns the exit code and what the terminal showed.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(home)
        os.environ.pop("SSH_AUTH_SOCK", None)  # a newcomer without a key
        os.environ.update(
            HOME=str(home),
            PATH=f"{commands or Path(sys.executable).parent}:{os.environ['PATH']}",
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


def main() -> int:
    """Type the tour in a folder of its own; 0 when the request succeeded and the trail verifies."""
    home = Path(tempfile.mkdtemp(prefix="threegate-tour-"))
    try:
        code, shown = type_in_terminal(tour(), home, ANSWERS, 300, ROOT / ".venv" / "bin")
        print(shown)
        results = [path.read_text("utf-8") for path in (home / "ws" / "tool-exec" / "results").glob("TS-*.md")]
    finally:
        shutil.rmtree(home, ignore_errors=True)
    good = code == 0 and "trail verifies" in shown and [text.count("status: succeeded") for text in results] == [1]
    print("the tour works as written" if good else f"the tour failed (exit code {code})")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
