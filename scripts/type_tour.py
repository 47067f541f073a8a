"""Types the commands of docs/first-request.md exactly as the page shows them, into a shell at a terminal, and answers
`init`, `approve` and `undo`. The program is left out without bubblewrap, and the change as root, which changes no
project.

Standard library only: a newcomer's machine has nothing else. Usage: python3 scripts/type_tour.py, after `make demo`.
"""

from __future__ import annotations

import os
import pty
import pwd
import re
import select
import shutil
import sys
import tempfile
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def blocks(text: str) -> list[str]:
    """The fenced blocks of a Markdown text."""
    return re.findall(r"^```[a-z]*\n(.*?)^```", text, re.M | re.S)


def tours() -> tuple[str, str, str]:
    """The commands of docs/first-request.md: the first request, which makes the workspace, then a program, and a change
    with its undo.
    """
    first, program, change = blocks((ROOT / "docs" / "first-request.md").read_text("utf-8"))
    return first, program, change


def tour() -> str:
    """Those of the first request."""
    return tours()[0]


ANSWERS = ("no\nyes\n", "yes\n", "yes\nyes\n")
"""What is typed to the questions of each of them; the first, of `init`, is about a passphrase."""
SHOWN = (r"trail verifies", r"the median is 3\s", r"(?s)Call Alice and Bob\.\s.*undone.*\sCall Alice\.\s*$")
"""What each of them shows at its end."""


def type_in_terminal(
    script: str, home: Path, answers: str, seconds: float = 120, commands: Path | None = None, account: str = ""
) -> tuple[int, str]:
    """Run a script with bash under a pseudo-terminal below `home`; each line of `answers` is typed to a question, and
    space where a screen is shown page by page.

    `commands` is the folder that has the command `threegate`; `account` is who types, for root. Returns the exit code
    and what the terminal showed.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        if account:
            found = pwd.getpwnam(account)
            os.setgroups([])
            os.setgid(found.pw_gid)
            os.setuid(found.pw_uid)
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
    termios.tcsetwinsize(terminal, (24, 80))
    left = answers.splitlines(keepends=True)
    shown, answered = b"", 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ready, _, _ = select.select([terminal], [], [], 0.3)
        row = re.split(rb"[\r\n]", shown)[-1]
        if not ready and len(shown) > answered:
            if row.endswith((b"] ", b"? ", b": ")) and left:
                os.write(terminal, left.pop(0).encode())
            elif b": space " in row:
                os.write(terminal, b" ")
            answered = len(shown)
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
    """Type the tours in a folder of their own; 0 when each shows what the page says."""
    left_out = {1: "bubblewrap is not installed"} if shutil.which("bwrap") is None else {}
    if os.geteuid() == 0:
        left_out[2] = "projects are not changed as root"
    typed = [number for number in range(len(SHOWN)) if number not in left_out]
    home = Path(tempfile.mkdtemp(prefix="threegate-tour-"))
    try:
        script, answers = "".join(tours()[number] for number in typed), "".join(ANSWERS[number] for number in typed)
        code, shown = type_in_terminal(script, home, answers, 300, ROOT / ".venv" / "bin")
        print(shown)
        results = [path.read_text("utf-8") for path in (home / "ws" / "tool-exec" / "results").glob("TS-*.md")]
    finally:
        shutil.rmtree(home, ignore_errors=True)
    for number, why in left_out.items():
        print(f"left out: part {number + 1} of the page: {why}")
    good = code == 0 and all(re.search(SHOWN[number], shown) for number in typed)
    good = good and [text.count("status: succeeded") for text in results] == [1] * len(typed)
    print("the tour works as written" if good else f"the tour failed (exit code {code})")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
