"""Somebody with an ordinary account, an empty home and a project, and nothing of ThreeGate but the package."""

from __future__ import annotations

import re
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.ordinary_user import as_account, python
from tests.plugins.agents.command_server import command
from tests.plugins.agents.people import Person, ordinary_account
from tests.plugins.agents.terminal import Terminal

Answers = Sequence[tuple[str, str]]
"""What is waited for on the screen, and what is typed then, where \\1 is what its group found."""


@dataclass
class Session:
    """One command at a terminal that ended."""

    code: int
    text: str
    """Everything that was printed."""
    seconds: float
    questions: int
    """How many answers it got."""

    def reported(self) -> str:
        """For the output of the tests."""
        return f"{self.questions} questions, {self.seconds:.1f} s"


@dataclass
class Newcomer(Person):
    """Their commands name no workspace, and run in the project."""

    program: list[str] = field(default_factory=lambda: [python()[0], "-m", "threegate"])
    around: list[str] = field(default_factory=list)
    """What the commands at a terminal are started by; it runs as we do."""

    @property
    def workspace(self) -> Path:
        return self.home / ".local/share/threegate/workspace"

    def environ(self) -> dict[str, str]:
        found = super().environ()
        del found["XDG_STATE_HOME"]
        return found | self.environment

    def command(self, *words: str) -> list[str]:
        return [*self.around, *self.program, *words]

    def threegate(
        self, *words: str, stdin: bytes = b"", timeout: float = 120, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        """Without a terminal."""
        done = command(
            python(), words, env=self.environ(), cwd=self.project, account=as_account(self.account), stdin=stdin,
            timeout=timeout,
        )  # fmt: skip
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        assert "Traceback (most recent call last)" not in err, err
        return subprocess.CompletedProcess(words, done.returncode, out, err)

    def at_terminal(self, *words: str, answers: Answers = (), columns: int = 110) -> Session:
        """A command at a terminal of theirs, to its end."""
        account = {} if self.around else as_account(self.account)
        began = time.monotonic()
        with Terminal(
            self.command(*words), cwd=self.project, environment=self.environ(), columns=columns, **account
        ) as terminal:
            for pattern, text in answers:
                terminal.wait_for(pattern)
                found = re.search(pattern, terminal.shown())
                assert found is not None
                terminal.type(found.expand(text))
            code = terminal.wait_end(120)
        text = terminal.sent.decode(errors="replace").replace("\r", "")
        assert "Traceback (most recent call last)" not in text, text
        return Session(code, text, time.monotonic() - began, len(answers))

    def files(self) -> list[str]:
        """The files and links in their home."""
        return sorted(str(path.relative_to(self.home)) for path in self.home.rglob("*") if not path.is_dir())


@contextmanager
def newcomer() -> Iterator[Newcomer]:
    """Somebody who has only just installed it."""
    folder = Path(tempfile.mkdtemp(prefix="threegate-newcomer-"))
    who = Newcomer(folder, ordinary_account())
    try:
        who.project.mkdir(parents=True)
        (who.project / "app.py").write_text("print('hello')\n")
        # Their interpreter is not that of our environment, which has Monty's program.
        (who.home / ".local" / "bin").mkdir(parents=True)
        (who.home / ".local" / "bin" / "monty").symlink_to(Path(sysconfig.get_path("scripts"), "monty"))
        who.own()
        yield who
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", str(folder)], check=False, capture_output=True)
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def without(*programs: str) -> list[str]:
    """What runs a command as the ordinary account on a machine whose /usr/bin lacks these programs; for root."""
    hide = "".join(f'mknod "$top/{name}" c 0 0 && ' for name in programs)
    script = (
        f"top=$(mktemp -d /var/tmp/threegate-hidden-XXXXXX) && chmod 755 $top && mount -t tmpfs tmpfs $top && {hide}"
        'chmod 755 "$top" && mount -t overlay overlay -o "lowerdir=$top:/usr/bin" /usr/bin && '
        'exec setpriv --reuid "$0" --clear-groups --regid nogroup -- "$@"'
    )
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, ordinary_account()]
