"""Two ways to run an agent: as an ordinary account, and as root with `--as`. Each with a workspace, a home and a
project.

The ordinary account is `nobody`, made from root; without root the tests run as who they are and the second way is left
out.
"""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.ordinary_user import ACCOUNT, as_account, python
from tests.plugins.agents.command_server import command
from tests.support import wait_until

REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass
class Person:
    """Somebody who runs agents. `account` is theirs, empty for our own; `agent` is what `--as` names, empty for
    none.
    """

    root: Path
    account: str = ""
    agent: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def key(self) -> Path:
        return self.home / ".config" / "threegate" / "operator_ed25519"

    def environ(self) -> dict[str, str]:
        """What their commands get, and nothing of ours."""
        return {
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.root / "state"),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": python()[1],
            "NO_COLOR": "1",
            "COLUMNS": "120",
            "TERM": "xterm-256color",
            **self.environment,
        }

    def command(self, *words: str) -> list[str]:
        return [python()[0], "-m", "threegate", "--workspace", str(self.workspace), *words]

    def threegate(
        self, *words: str, stdin: bytes = b"", timeout: float = 120, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end. No traceback, ever. With `more` of subprocess.run it is a cold start."""
        account = as_account(self.account)
        if more:
            done = subprocess.run(
                self.command(*words), env=self.environ(), cwd=self.home, input=stdin, capture_output=True,
                timeout=timeout, check=False, **account, **more,
            )  # fmt: skip
        else:
            words = ("--workspace", str(self.workspace), *words)
            done = command(
                python(),
                words,
                env=self.environ(),
                cwd=self.home,
                account=account,
                stdin=stdin,
                timeout=timeout,
            )
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        assert "Traceback (most recent call last)" not in err, err
        return subprocess.CompletedProcess(words, done.returncode, out, err)

    def words(self, *program: str, profile: str = "generic", options: Sequence[str] = ()) -> list[str]:
        """`agent run` with the options that this person needs."""
        as_ = ["--as", self.agent] if self.agent else []
        return ["agent", "run", profile, "--project", str(self.project), *as_, *options, "--", *program]

    def run(
        self, *program: str, profile: str = "generic", options: Sequence[str] = (), **more: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run an agent in its jail to its end."""
        return self.threegate(*self.words(*program, profile=profile, options=options), **more)

    def start(self, *program: str, **more: Any) -> subprocess.Popen[bytes]:
        """The same, and it goes on; the caller ends it."""
        options = more.pop("options", ())
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return subprocess.Popen(
            self.command(*self.words(*program, options=options)), env=self.environ(), cwd=self.home,
            **as_account(self.account), **streams,
        )  # fmt: skip

    def events(self, kind: str) -> list[dict[str, Any]]:
        """`data` of the trail's events of a kind."""
        lines = (self.workspace / "tool-exec" / "audit" / "trail.jsonl").read_text().splitlines()
        return [event["data"] for event in map(json.loads, lines) if event["type"] == kind]

    def facts(self) -> dict[str, Any]:
        """What the launcher keeps of the newest run, once it knows which process its jail is."""
        runs = (self.workspace / "tool-exec" / "agents").iterdir()
        newest = max(runs, key=lambda run: (run / "inbox").lstat().st_ctime_ns)  # names say the second only

        def known() -> dict[str, Any]:
            value = json.loads((newest / "run.json").read_text())
            assert isinstance(value, dict)
            return {"run": newest.name, **value} if value["jail"] or value["ended"] else {}

        return wait_until(known, "the jail of a run", 20)

    def wait_for_file(self, name: str, seconds: float = 30) -> Path:
        """Wait until the work copy of the newest run has a file; the file."""
        agents = self.workspace / "tool-exec" / "agents"
        return wait_until(lambda: list(agents.glob(f"*/work/*/{name}")), f"{name} in a work copy", seconds)[-1]

    def settings(self, text: str) -> None:
        """Add to the settings file."""
        path = self.workspace / "threegate.toml"
        path.write_text(path.read_text() + text)

    def own(self) -> None:
        """Give everything below their folder to them."""
        if self.account:
            found = pwd.getpwnam(self.account)
            for place, folders, files in os.walk(self.root):
                for name in (*folders, *files):
                    os.chown(os.path.join(place, name), found.pw_uid, found.pw_gid, follow_symlinks=False)
            os.chown(self.root, found.pw_uid, found.pw_gid)

    def outside(self) -> dict[str, tuple[Any, ...]]:
        """Everything in their home, byte for byte, with modes and times: what no agent may change."""
        found: dict[str, tuple[Any, ...]] = {}
        for path in sorted(self.home.rglob("*")):
            facts = path.lstat()
            data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[str(path.relative_to(self.home))] = (
                facts.st_mode,
                facts.st_uid,
                facts.st_mtime_ns,
                facts.st_ino,
                data,
            )
        return found


def ordinary_account() -> str:
    """The account of somebody who is not root; empty if that is our own."""
    return ACCOUNT if os.geteuid() == 0 else ""


@contextmanager
def person(ways: str, below: Path | None = None) -> Iterator[Person]:
    """`user` is an ordinary account, `root` is root with an account for the agent. `below`: where their folder is."""
    folder = Path(tempfile.mkdtemp(prefix="threegate-agents-", dir=below))
    who = Person(folder, ordinary_account() if ways == "user" else "", ACCOUNT if ways == "root" else "")
    try:
        who.project.mkdir(parents=True)
        (who.home / ".ssh").mkdir(mode=0o700)
        (who.home / ".ssh" / "id_ed25519").write_text("CANARY-KEY\n")
        (who.home / "diary.txt").write_text("CANARY-DIARY\n")
        # Their interpreter is not that of our environment, which has Monty's program.
        (who.home / ".local" / "bin").mkdir(parents=True)
        (who.home / ".local" / "bin" / "monty").symlink_to(Path(sysconfig.get_path("scripts"), "monty"))
        (who.project / "app.py").write_text("print('hello')\n")
        (who.project / "README").write_text("read me\n")
        (who.project / ".env").write_text("TOKEN=CANARY-ENV\n")
        who.own()
        done = who.threegate("init", str(who.workspace))
        assert done.returncode == 0, done.stderr
        yield who
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", str(folder)], check=False, capture_output=True)
        subprocess.run(["rm", "-rf", str(folder)], check=True)  # at any depth
