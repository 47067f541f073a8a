"""A stateful server in a real process, a workspace that has it pinned, and calls as the runner makes them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.plugins.tools.little_servers import PYTHON, nowhere, open_folder, pinned_server, text_of, write_server
from tests.support import processes
from threegate.core.canonical import canonical_bytes
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.tools.action import ServerState, ToolCall
from threegate.plugins.tools.kept_servers import Kept, KeptServers, WantedCall
from threegate.plugins.tools.manifest import Manifest, Place
from threegate.plugins.tools.process_states import read_state
from threegate.trail.payloads.payload import Owner

COUNTS = """
import time
SEEN = []
def call(id, name, arguments):
    SEEN.append(arguments)
    time.sleep(arguments.get("sleep", 0))
    say({"id": id, "result": text(json.dumps(SEEN))})
"""
"""It answers with the arguments of all calls that its process had."""


@dataclass
class Bench:
    """One server."""

    folder: Path
    manifest: Manifest
    workspace: Workspace
    servers: KeptServers = field(default_factory=lambda: KeptServers(Settings()))

    def call(
        self,
        arguments: dict[str, Any] | None = None,
        *,
        owner: Owner = "AG-1",
        signed: ServerState | None = None,
        stopped: Callable[[], bool] = lambda: False,
        run_ended: Callable[[], bool] = lambda: False,
        seconds: float = 20,
    ) -> Kept:
        """Under a grant, or with the state that was signed."""
        call = ToolCall("little", "echo", self.manifest.digest, canonical_bytes(arguments or {}).decode())
        wanted = WantedCall(
            f"TR-{len(call.arguments_json)}", call, owner, seconds, signed, lambda said: None, stopped, run_ended
        )  # fmt: skip
        return self.servers.call(self.workspace, self.manifest, wanted)

    def seen(self, arguments: dict[str, Any] | None = None, **how: Any) -> Any:
        """What the process says that it was called with."""
        return text_of(self.call(arguments, **how).answer.content)

    def state(self, owner: Owner = "AG-1") -> ServerState:
        """As a reviewer is shown it."""
        return read_state(self.workspace, owner, self.manifest.digest)

    def pin(self, **changes: Any) -> None:
        """Sign it again."""
        self.manifest = replace(self.manifest, **changes)
        part = self.workspace.tools / "part"
        part.write_bytes(self.manifest.to_bytes())
        part.rename(self.workspace.tools / "little.json")

    @property
    def processes(self) -> int:
        """How many processes of the server there are, seen from outside."""
        return server_processes(self.folder)


def server_processes(folder: Path) -> int:
    """Processes of the `server.py` of a folder, in a jail or without one."""
    mark = str(folder / "program" / "server.py").encode()
    lines = [line.split(b"\0") for _, line in processes()]
    return sum(words[0] == PYTHON.encode() and mark in words for words in lines)


@contextmanager
def stateful_bench(source: str = COUNTS, *, place: Place = "host", **fields: Any) -> Iterator[Bench]:
    """The daemon is this process."""
    with open_folder() as folder:
        path = write_server(folder, source)
        manifest = pinned_server(path, place=place, stateful=True, **fields)
        bench = Bench(folder, manifest, nowhere(path))
        for made in (bench.workspace.tools, bench.workspace.control):
            made.mkdir()
        bench.pin()
        with bench.workspace.daemon_lock():
            try:
                yield bench
            finally:
                bench.servers.close()


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Start it; what it gave or raised comes into the list."""
    given: list[Any] = []

    def go() -> None:
        try:
            given.append(work())
        except BaseException as error:
            given.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    return thread, given
