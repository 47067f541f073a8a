"""A workspace with real servers of tools behind its gate: a daemon, the door of a run, and an operator who signs every
draft.

Servers come from npm (`tests/plugins/agents/npm_agents.py`). Each is added as docs/tools.md says, and runs in its jail.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import missing
from tests.door_client import daemon, parameters
from tests.line_client import LineClient
from tests.plugins.agents.agent_runs import make_run
from tests.plugins.agents.conftest import jail_programs
from tests.plugins.agents.npm_agents import Unavailable, install
from tests.support import Place, make_place
from threegate.core.workspace import AgentRun
from threegate.plugins.tools.program_tree import SYSTEM_PATH

NODE = "/usr/bin/node"


def installed(name: str) -> Path:
    """`node_modules` of a lock file."""
    jail_programs()
    if not Path(NODE).exists():
        missing(f"{NODE} (apt-get install nodejs)")
    try:
        return install(name) / "node_modules"
    except Unavailable as error:
        missing(str(error))
        raise


@dataclass(frozen=True)
class RealServer:
    """A server as an operator starts it. `folder` is the one that it may write."""

    name: str
    argv: tuple[str, ...]
    folder: Path
    env: Mapping[str, str]

    def direct(self) -> LineClient:
        """The same process without ThreeGate: no jail, and the variables that it has in one."""
        environment = {
            "PATH": ":".join(SYSTEM_PATH),
            "HOME": "/tmp",
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PWD": "/",
            **self.env,
        }
        return LineClient(self.argv, environment)


@dataclass
class Gate:
    """The workspace, and the run whose door is asked."""

    place: Place
    run: AgentRun

    def add(self, server: RealServer, *more: str) -> None:
        """`threegate tools add`, signed."""
        variables = [word for key, value in server.env.items() for word in ("--env", f"{key}={value}")]
        variables += [word for value in server.env.values() for word in ("--data", value)]
        self.place.run(
            "tools", "add", server.name, "--bind", f"{server.folder}:rw", *variables, *more,
            "--as", "operator", "--key", str(self.place.key), "--yes", "--", *server.argv, expect=0,
        )  # fmt: skip

    @property
    def door_argv(self) -> list[str]:
        how = parameters(self.place, self.run)
        return [how.command, *how.args]

    @contextmanager
    def working(self) -> Iterator[None]:
        """A daemon, and an operator who signs what has a verdict."""
        over = threading.Event()
        signed: set[str] = set()

        def sign() -> None:
            while not over.wait(0.05):
                for draft in sorted(self.run.inbox.glob("TR-*.md")):
                    if draft.name not in signed and (self.run.verdicts / f"{draft.name}.json").exists():
                        signed.add(draft.name)
                        self.place.approve(draft)

        operator = threading.Thread(target=sign)
        with daemon(self.place):
            operator.start()
            try:
                yield
            finally:
                over.set()
                operator.join()

    def door(self) -> LineClient:
        return LineClient(self.door_argv, dict(os.environ), self.place.root.parent)


@contextmanager
def gate(root: Path, servers: Sequence[RealServer], *more: str) -> Iterator[Gate]:
    """The servers added, and everything at work."""
    place = make_place(root)
    made = Gate(place, make_run(place))
    for server in servers:
        made.add(server, *more)
    with made.working():
        yield made


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder where a server's account may write."""
    folder = Path(tempfile.mkdtemp(prefix="threegate-real-"))
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
