"""An operator at work beside an agent: a daemon of their own, and a signature or a no for each draft that it makes.

Daemon, `ssh-keygen` and commands are the real ones, run by the person's account. Drafts are decided in their order,
each when the daemon has a verdict of it.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.plugins.agents.people import Person, as_account
from tests.support import wait_until
from threegate.core.workspace import Workspace

Decision = Callable[["SigningDesk", Path], None]
"""What the operator does with a draft."""


class SigningDesk:
    """The operator. `decided` are the names of drafts, `faults` what a test must see empty."""

    def __init__(self, who: Person, decisions: Sequence[Decision]) -> None:
        self._who = who
        self._decisions = list(decisions)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.decided: list[str] = []
        self.faults: list[str] = []
        Workspace(who.workspace).launchers_file.mkdir()  # the commands then start no daemon of their own
        self.daemon = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        daemon = subprocess.Popen(
            self._who.command("run"), env=self._who.environ(), cwd=self._who.home, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **as_account(self._who.account),
        )  # fmt: skip
        # Else the agent's first request may start one that is quicker, or one when this one is killed on the way.
        wait_until(Workspace(self._who.workspace).daemon_lock_held, "the operator's daemon")
        return daemon

    @contextmanager
    def open(self) -> Iterator[SigningDesk]:
        """Decide until the block ends; the daemon ends with it, and every decision must have been asked for."""
        self._thread.start()
        try:
            yield self
        finally:
            self._over.set()
            self._thread.join()
            self.daemon.terminate()
            code = self.daemon.wait(60)
        assert (code, self.faults, len(self._decisions)) == (0, [], 0), (code, self.faults, self.decided)

    def kill_daemon(self) -> None:
        """`kill -9`, and the service manager starts it again."""
        self.daemon.kill()
        self.daemon.wait()
        self.daemon = self._started()

    def command(self, *words: str) -> None:
        """A signed command of the operator."""
        done = self._who.threegate(*words, "--as", "operator", "--key", str(self._who.key))
        assert done.returncode == 0, done

    def _work(self) -> None:
        while not self._over.wait(0.05):
            for verdict in sorted(
                self._who.workspace.glob("tool-exec/agents/*/verdicts/*.json"),
                key=lambda path: path.stat().st_mtime_ns,
            ):
                draft = verdict.parents[1] / "inbox" / verdict.stem
                if draft.name not in self.decided and draft.exists() and '"draft"' in verdict.read_text():
                    self._decide(draft)

    def _decide(self, draft: Path) -> None:
        self.decided.append(draft.name)
        try:
            self._decisions.pop(0)(self, draft)
        except (AssertionError, IndexError) as error:
            self.faults.append(f"{draft.name}: {error!r}")


def sign(desk: SigningDesk, draft: Path) -> None:
    """Approve a draft."""
    desk.command("approve", str(draft), "--yes")


def sign_after_a_kill(desk: SigningDesk, draft: Path) -> None:
    """The same, after the daemon was killed and came back."""
    desk.kill_daemon()
    sign(desk, draft)


def refuse(reason: str) -> Decision:
    """Say no, with a reason that the agent gets."""
    return lambda desk, draft: desk.command("reject", str(draft), "--reason", reason)
