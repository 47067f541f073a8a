"""What a jail is made of itself: its memory file systems, devices, kernel settings and first process.

Nothing of it gives an agent room without a bound, a setting of a namespace, a key of the account or a path of this
machine.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.agents.conftest import jail_programs, somebody  # noqa: F401 a fixture
from tests.plugins.agents.people import ACCOUNT, Person, as_account, python
from threegate.core import limits
from threegate.core.errors import InvalidInput
from threegate.core.workspace import Workspace
from threegate.plugins.agents.work_copy import refuse_project
from threegate.runners.jail.jail import Account, Bound, Jail
from threegate.runners.jail.jail_trial import WALLS, measure_walls

_ADD_KEY, _USER_KEYRING = 248, -4
_BOUNDS = re.compile(r"size=\d+,nr_inodes=\d+,")

_LOOK = """
import json, os
found = {"writable": [], "tmpfs": {}, "keys": open("/proc/keys").read() + open("/proc/key-users").read()}
mine = [line.split() for line in open("/proc/self/mountinfo")]
found["mounts"] = [fields[4] for fields in mine if "rw" in fields[5].split(",")]
for fields in mine:
    if fields[fields.index("-") + 1] == "tmpfs" and "rw" in fields[5].split(","):
        facts = os.statvfs(fields[4])
        found["tmpfs"][fields[4]] = [facts.f_blocks * facts.f_frsize, facts.f_files]
mounted = {fields[4] for fields in mine}
for base, folders, files in os.walk("/"):
    if base == "/":
        folders[:] = [name for name in folders if name not in ("usr", "home", "tmp")]
    folders[:] = [name for name in folders if os.path.join(base, name) not in found["mounts"] or name == "proc"]
    if base == "/proc":
        folders[:] = [name for name in folders if not name.isdigit()]
    places = [base, *(os.path.join(base, name) for name in files)]
    found["writable"] += [at for at in places if not os.path.islink(at) and os.access(at, os.W_OK)]
print(json.dumps(found))
"""
"""Everything outside of the bound folders and /usr that the agent could write."""

_DEVICES = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "pts")}


def _account() -> Account:
    return Account(ACCOUNT, 65534, 65534) if os.geteuid() == 0 else Account.own()


def _in_jail(jail: Jail, code: str) -> str:
    jail_programs()
    process = jail.start(
        ["/usr/bin/python3", "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        begin=False,
    )
    out, err = process.communicate(timeout=60)
    process.wait_empty()
    assert process.returncode == 0, err.decode()
    return out.decode()


def test_nothing_without_a_bound_can_be_written(somebody: Person) -> None:  # noqa: F811
    done = somebody.run("/usr/bin/python3", "-c", _LOOK)
    found = json.loads(done.stdout)
    folders = {"/home/agent", "/run/inbox", str(somebody.project)}
    assert set(found["mounts"]) == {"/proc", "/tmp", "/dev/shm", *folders} | _DEVICES
    names = limits.AGENT_TMP_BYTES // limits.TMP_BYTES_PER_NAME
    assert found["tmpfs"] == {place: [limits.AGENT_TMP_BYTES, names] for place in ("/tmp", "/dev/shm")}
    sockets = {"/run/door.sock", "/run/hosts.sock"}
    assert set(found["writable"]) - _DEVICES - sockets == set()


def test_no_path_of_this_machine_is_on_the_first_process(tmp_path: Path) -> None:
    """Its command line is the program's words; bubblewrap's options are not on it."""
    jail = Jail(_account(), (Bound(tmp_path, "/run/inbox", writable=True),))
    first = _in_jail(jail, "print(open('/proc/1/cmdline').read())")
    assert first.startswith("/usr/bin/bwrap\0--args\0") and "/usr/bin/python3\0-c\0" in first
    assert not [place for place in ("/dev/shm", str(tmp_path), "/etc", "/run") if place in first]


def test_no_key_of_the_account_is_listed() -> None:
    """A key that a process of the account keeps, which /proc/keys would list in every namespace with this account."""
    held = """
import ctypes, sys
print(ctypes.CDLL(None).syscall(248, b"user", b"threegate-canary", b"x", 1, -4), flush=True)
sys.stdin.read()
"""
    account = as_account(ACCOUNT if os.geteuid() == 0 else "")
    keeper = subprocess.Popen([python()[0], "-c", held], stdin=-1, stdout=-1, cwd="/", **account)
    try:
        assert keeper.stdout is not None
        if int(keeper.stdout.readline()) < 0:
            pytest.skip("this kernel has no keyrings, or refuses them here")
        bare = subprocess.run(["/bin/cat", "/proc/keys"], capture_output=True, text=True, cwd="/", **account).stdout
        assert "threegate-canary" in bare
        assert (
            _in_jail(Jail(_account()), "print(open('/proc/keys').read(), open('/proc/key-users').read())").split() == []
        )
    finally:
        keeper.communicate(timeout=20)


@pytest.mark.parametrize("place", ["/tmp/p", "/var/tmp/p", "/dev/shm/p", "/run/p", "/home/agent/p"])
def test_a_folder_is_where_it_is_outside(place: str, tmp_path: Path) -> None:
    """Below whatever the jail has itself, and also if what is around it is named after it."""
    tmp_path.chmod(0o755)
    home, project = tmp_path / "home", tmp_path / "project"
    for folder in (home, project):
        folder.mkdir()
        os.chown(folder, _account().uid, _account().gid)
    (project / "own.txt").write_text("project\n")
    jail = Jail(_account(), (Bound(project, place, writable=True), Bound(home, "/home/agent", writable=True)))
    code = f"print(open('{place}/own.txt').read()); open('{place}/new.txt', 'w'); open('/var/tmp/x', 'w')"
    code += "; import os; print(os.path.exists('/tmp/x'))"
    assert _in_jail(jail, code).split() == ["project", "True"]
    assert (project / "new.txt").exists()


@pytest.mark.parametrize(
    "place", ["/home/agent", "/run/inbox/p", "/run/results", "/run/git-objects", "/dev/p", "/proc/1/task"]
)
def test_no_project_takes_the_place_of_what_is_the_jails(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its requests would be written into the project, or its jail could not be made."""
    monkeypatch.setattr(Path, "resolve", lambda self, strict=False: self)
    monkeypatch.setattr(Path, "is_dir", lambda self: True)
    with pytest.raises(InvalidInput, match="has something of its own here"):
        refuse_project(Path(place), Workspace(Path("/srv/ws")), "ws-" + "1" * 32)


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
def test_names_and_bytes_have_a_bound(place: str) -> None:
    """Files, folders, links and hard links are names; each kind ends at the bound, and so do bytes."""
    code = f"""
import errno, os
made = 0
kinds = [lambda at: os.close(os.open(at, os.O_CREAT, 0o600)), os.mkdir, lambda at: os.symlink('x', at),
         lambda at: os.link('{place}/0', at), os.mkfifo]
while True:
    try: kinds[made % len(kinds)]('{place}/' + str(made))
    except OSError as error:
        print(made, errno.errorcode[error.errno])
        break
    made += 1
os.unlink('{place}/1') if made < 2 else os.rmdir('{place}/1')
written = 0
with open('{place}/big', 'wb', buffering=0) as file:
    while True:
        try: written += file.write(bytes(4096))
        except OSError as error:
            print(written, errno.errorcode[error.errno])
            break
"""
    names, words, written, why = _in_jail(Jail(_account(), tmp_bytes=1 << 20), code).split()
    assert (words, why) == ("ENOSPC", "ENOSPC")
    assert 200 <= int(names) <= 256 and 900_000 <= int(written) <= 1 << 20


def test_devices_cannot_be_replaced_and_nothing_can_be_put_beside_them() -> None:
    code = """
import errno, os
tries = [lambda: open('/dev/program', 'w'), lambda: os.unlink('/dev/null'), lambda: os.mkdir('/dev/d'),
         lambda: os.rename('/dev/stdin', '/dev/x'), lambda: os.chmod('/dev', 0o777)]
for one in tries:
    try: one(); print('done')
    except OSError as error: print(errno.errorcode[error.errno])
print(len(os.urandom(1)), open('/dev/null', 'w').write('x'), os.ttyname(os.openpty()[1])[:9])
"""
    assert _in_jail(Jail(_account()), code).split() == ["EROFS"] * 5 + ["1", "1", "/dev/pts/"]


def test_processes_are_counted_in_the_jail_alone() -> None:
    """Beside 500 tasks of the same account outside, and beside another jail that is full: each jail has the same
    room, and an end.
    """
    crowd = "import threading, sys\nwait = threading.Event()\n" + (
        "for _ in range(499): threading.Thread(target=wait.wait, daemon=True).start()\n"
        "print(1, flush=True)\nsys.stdin.read()"
    )
    bomb = """
import os, sys, time
made = 0
try:
    while made < 200:
        if os.fork() == 0: time.sleep(60); os._exit(0)
        made += 1
except OSError as error: pass
print(made, flush=True)
"""
    account = as_account(ACCOUNT if os.geteuid() == 0 else "")
    jail = Jail(_account(), processes=40)
    outside = subprocess.Popen([python()[0], "-c", crowd], stdin=-1, stdout=-1, cwd="/", **account)
    first = None
    try:
        assert outside.stdout is not None and outside.stdout.readline()
        jail_programs()
        first = jail.start(
            ["/usr/bin/python3", "-c", bomb + "time.sleep(60)"],
            stdin=subprocess.DEVNULL,
            stdout=-1,
            stderr=-1,
            begin=False,
        )
        assert first.stdout is not None
        made = int(first.stdout.readline())
        assert 30 <= made < 40
        assert int(_in_jail(jail, bomb)) == made
    finally:
        outside.communicate(timeout=20)
        if first is not None:
            first.wait_empty()
            first.communicate(timeout=20)


def test_bubblewraps_first_process_has_the_limit_too() -> None:
    """The program has its account, so it can change its memory: it must gain nothing by that, however early."""
    jail_programs()
    process = Jail(_account(), processes=40).start(
        ["/bin/cat", "/proc/1/limits", "/proc/self/limits"],
        stdin=subprocess.DEVNULL,
        stdout=-1,
        stderr=subprocess.DEVNULL,
        begin=False,
    )
    out, _ = process.communicate(timeout=60)
    process.wait_empty()
    lines = [line.split() for line in out.decode().splitlines() if line.startswith("Max processes")]
    assert lines == [["Max", "processes", "40", "40", "processes"]] * 2


def test_the_edges_are_walls_that_are_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A jail without one of them is not taken for a complete one."""
    edges = ("read-only system", "memory files limit", "processes limit")
    assert set(edges) < set(WALLS)
    jail_programs()

    def missing() -> list[str]:
        return [name for name, holds in measure_walls(_account()).items() if not holds]

    assert missing() == []
    complete = Jail._bubblewrap

    def without(words: list[str]) -> Any:
        def options(self: Jail, *given: Any) -> list[str]:
            line = complete(self, *given)
            at = next(n for n in range(len(line)) if line[n : n + len(words)] == words)
            return line[:at] + line[at + len(words) :]

        return options

    for words, names in (
        (["--remount-ro", "/dev"], ["read-only system", "memory files limit"]),
        (["--ro-bind", "/proc/sys", "/proc/sys"], ["read-only system"]),
    ):
        monkeypatch.setattr(Jail, "_bubblewrap", without(words))
        assert missing() == names
    monkeypatch.setattr(Jail, "_bubblewrap", complete)
    tables = Jail._tables
    monkeypatch.setattr(Jail, "_tables", lambda self: tuple(_BOUNDS.sub("", table) for table in tables(self)))
    assert missing() == ["memory files limit"]
