"""The service of an ordinary user with a live engine: ERA under a user's own systemd, killed in the middle of a run.

The user's manager has what a login gives it, and a mount namespace of its own in which systemd seems to have booted the
machine. Processes, files and the engine are the machine's, as they are for any user.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import WANTING
from tests.end_to_end.test_era_user import sleeps
from tests.engine_fixtures import ENGINE, IMAGE, docker
from tests.ordinary_user import UID, home
from tests.support import Done, era_draft, request_id, wait_until
from threegate.core.workspace import Workspace
from threegate.setup.settings_file import set_values

SYSTEMD = Path("/lib/systemd/systemd")
_MISSING = [name for name in ("systemctl", "unshare", "nsenter", "setpriv") if not shutil.which(name)]
pytestmark = [
    pytest.mark.engine,
    pytest.mark.root,
    pytest.mark.skipif(bool(_MISSING) or not SYSTEMD.exists(), reason=f"{WANTING}systemd (apt-get install systemd)"),
]

LOG_IN = """
home=$1 uid=$2 groups=$3 manager=$4 own=/run/systemd
shift 4
for group in $groups; do echo $$ >"$group"; done
mount -t tmpfs -o mode=755 tmpfs $own && mkdir $own/system
(cat /etc/passwd && echo "dora:x:$uid:$uid::$home:/bin/sh") >$own/passwd
mount --bind $own/passwd /etc/passwd
for folder; do  # where the way to this Python is closed to others
    number=$((${number:-0} + 1))
    mkdir $own/upper$number $own/work$number
    mount -t overlay overlay -o "lowerdir=$folder,upperdir=$own/upper$number,workdir=$own/work$number" "$folder"
    chmod a+x "$folder"
done
exec $manager
"""
"""Arguments: the user's home and uid, the lists of processes of cgroups, the words that start the manager, and the
folders that only root may pass.
"""


class Login:
    """A user who is logged in, with a service manager of their own, until `end`."""

    def __init__(self, folder: Path) -> None:
        self.home, self.workspace = folder, folder / "ws"
        (folder / "run").mkdir(mode=0o700)
        os.chown(folder / "run", UID, UID)
        group = os.stat(ENGINE.removeprefix("unix://")).st_gid
        self._account = [
            *("setpriv", f"--reuid={UID}", f"--regid={UID}", f"--groups={group}", "env", "-i"),
            *(f"HOME={folder}", f"XDG_RUNTIME_DIR={folder}/run", "PATH=/usr/bin:/bin", "LANG=C.UTF-8"),
        ]
        self._cgroups = _cgroups(folder.name)
        needed = Path(sys.executable).absolute(), Path(sys.executable).resolve()
        parents = {path for place in needed for path in place.parents}
        closed = [str(path) for path in sorted(parents) if not path.stat().st_mode & 0o001]
        manager = [*self._account, str(SYSTEMD), "--user", "--unit=basic.target"]
        groups = [str(place / "cgroup.procs") for place in self._cgroups]
        given = [str(folder), str(UID), " ".join(groups), " ".join(manager), *closed]
        with (folder / "log").open("wb") as log:
            words = ["unshare", "--mount", "sh", "-ec", LOG_IN, "sh", *given]
            self._manager = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")

    def run(self, *words: str, expect: int | None = 0) -> Done:
        """The user runs a command."""
        enter = ["nsenter", "-t", str(self._manager.pid), "--mount", *self._account, *words]
        done = subprocess.run(enter, capture_output=True, text=True, timeout=240, cwd="/", stdin=subprocess.DEVNULL)
        told = Done(done.returncode, done.stdout, done.stderr)
        assert expect is None or told.code == expect, f"{words}: {told}\n{self.log()}"
        return told

    def threegate(self, *words: str, expect: int | None = 0) -> Done:
        """The user runs one command of ours in the workspace."""
        place = [] if words[0] == "init" else ["--workspace", str(self.workspace)]
        return self.run(sys.executable, "-P", "-m", "threegate", *place, *words, expect=expect)

    def is_up(self) -> bool:
        """Whether the manager answers."""
        assert self._manager.poll() is None, self.log()
        return self.run("systemctl", "--user", "is-active", "basic.target", expect=None).code == 0

    def log(self) -> str:
        """What the manager printed."""
        return (self.home / "log").read_text(errors="replace")[-2000:]

    def processes(self) -> set[int]:
        """Everything that the manager started, and that still is."""
        found = set()
        for place in self._cgroups:
            for path in glob.glob(f"{place}/**/cgroup.procs", recursive=True):
                with suppress(OSError):
                    found |= {int(word) for word in Path(path).read_text().split()}
        return found

    def end(self) -> None:
        """Log out: nothing of the user's is left."""
        self._manager.kill()
        self._manager.wait()

        def gone() -> bool:
            for pid in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not self.processes()

        wait_until(gone, "the end of the user's processes")
        for place in self._cgroups:
            for path in sorted((place, *place.rglob("*/")), reverse=True):
                path.rmdir()


def _cgroups(name: str) -> list[Path]:
    """A cgroup of the user's in each hierarchy in which systemd keeps its services."""
    made = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, own = line.split(":", 2)
        if controllers not in ("", "name=systemd"):
            continue
        roots = {"": ("unified", ""), "name=systemd": ("systemd",)}[controllers]
        root = next(path for name in roots if (path := Path("/sys/fs/cgroup", name)).is_dir())
        place = root / own.lstrip("/") / name
        place.mkdir()
        for path in (place, place / "cgroup.procs"):
            os.chown(path, UID, UID)
        made.append(place)
    return made


@pytest.fixture
def login() -> Iterator[Login]:
    with home() as folder:
        made = Login(folder)
        try:
            wait_until(made.is_up, made.log, 60)
            yield made
        finally:
            made.end()


def ask(login: Login, command: str) -> str:
    """The id of a request that the user drops and approves."""
    name = request_id("service")
    draft = login.workspace / "inbox" / f"{name}.md"
    draft.write_text(era_draft(name, command, time_sec=120))
    os.chown(draft, UID, UID)
    login.threegate("approve", str(draft), "--as", "dora", "--key", f"{login.home}/key", "--yes")
    return name


def state(login: Login) -> dict[str, Any]:
    """What `settings service status` says."""
    value = login.threegate("settings", "service", "status", "--json", expect=None).json()
    assert isinstance(value, dict)
    return value


def kill_in_a_run(login: Login, began: dict[str, Any]) -> None:
    """SIGKILL of the daemon: the unit starts the next one (after its 30 s), and that reports what became of the run."""
    mark = str(100_000 + uuid.uuid4().int % 900_000)
    name = ask(login, f"/usr/bin/sleep {mark}")
    wait_until(lambda: sleeps(mark), "a run", 30)
    os.kill(int(began["MainPID"]), signal.SIGKILL)
    wait_until(lambda: (login.workspace / "tool-exec" / "refused" / f"{name}.md").exists(), login.log, 90)
    assert not sleeps(mark)
    (result,) = wait_until(lambda: list((login.workspace / "tool-exec" / "results").glob(f"TS-*-{name}.md")))
    assert "\nstatus: interrupted\n" in result.read_text()
    now = wait_until(lambda: (seen := state(login))["running"] and seen)
    assert now["NRestarts"] == "1" and now["MainPID"] != began["MainPID"]
    assert now["StatusText"] == "0 running, 0 waiting"
    trail = (login.workspace / "tool-exec" / "audit" / "trail.jsonl").read_text().splitlines()
    events = [event["type"] for event in map(json.loads, trail) if event["request_id"] == name]
    assert events.count("started") == 1, events
    login.threegate("audit", "verify")


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_era_under_a_users_own_systemd(login: Login, killed: bool) -> None:
    login.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{login.home}/key")
    login.threegate("init", str(login.workspace), "--key", f"{login.home}/key.pub", "--operator", "dora")
    settings = login.workspace / "threegate.toml"
    set_values(settings, {"runners.era.engine": ENGINE, "runners.era.image": IMAGE})
    os.chown(settings, UID, UID)
    manager = login.processes()
    told = login.threegate("settings", "service", "install", "--era", "--yes").out
    assert "stop" not in told and "systemctl --user enable threegate.service" in told
    began = state(login)
    assert (began["running"], began["UnitFileState"], began["NRestarts"]) == (True, "enabled", "0")
    status = Path(f"/proc/{began['MainPID']}/status").read_text()
    assert f"\nUid:\t{UID}\t{UID}\t" in status and "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status

    name = ask(login, "id -u")
    told = login.threegate("show", "--follow", name).out
    assert "finished" in told and "succeeded" in told

    if killed:
        kill_in_a_run(login, began)
    workspace = f"label=threegate.workspace={Workspace(login.workspace).load_settings().workspace.id}"
    left = docker("ps", "-aq", "--filter", workspace), docker("volume", "ls", "-q", "--filter", workspace)
    assert left == ("", "")
    login.threegate("settings", "service", "uninstall", "--yes")
    assert login.processes() == manager
    assert [path for path in (login.home / ".config").rglob("*") if not path.is_dir()] == []
    loaded = ["systemctl", "--user", "show", "-P", "LoadState", "threegate"]
    assert login.run(*loaded).out == "not-found\n"
    assert "daemon    not running" in login.threegate("status").out
