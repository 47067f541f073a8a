"""ERA runs in bubblewrap, by root and by an ordinary user: each status and limit, what is read back, what is left."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine_fixtures import clearance, control
from tests.ordinary_user import UID
from tests.runners.jailed import (
    HELD,
    SETTINGS,
    WHO,
    folder_of,
    jailed_job,
    jailed_python,
    run_all,
    run_as,
    run_one,
)
from tests.support import cgroups, processes, wait_until
from threegate.core import limits
from threegate.core.settings import EraSettings
from threegate.request.job import ERA_ENVIRONMENT, Job, JobInput
from threegate.runners.era import jailed_limits, jailed_run
from threegate.runners.era.jailed_cgroup import sweep
from threegate.runners.era.jailed_run import BubblewrapRunner, JailedRun
from threegate.runners.era.walls import mounts_of, process_status
from threegate.runners.interface import Outcome
from threegate.runners.jail.jail import JailProcess
from threegate.runners.probe import read_walls
from threegate.runners.seccomp import SECCOMP_SHA256

pytestmark = pytest.mark.jail
both = pytest.mark.parametrize("who", WHO)
watched = pytest.mark.skipif("user" in HELD, reason="this account has a cgroup, so none of its runs is watched")
OOM = "x = bytearray(b'x') * (300 << 20)"


def mine(mark: str) -> list[int]:
    """Processes that have this word on their command line."""
    return [pid for pid, line in processes() if mark.encode() in line.split(b"\0")]


def _with_inputs(job: Job, folder: Path) -> tuple[Job, Outcome, dict[str, bytes], list[str]]:
    steer = control(folder)
    data = b"in"
    digest = hashlib.sha256(data).hexdigest()
    (steer.inputs_folder / digest).write_bytes(data)
    job = replace(job, inputs=(JobInput("a", digest, len(data), False),))
    outcome = BubblewrapRunner(SETTINGS).run(clearance(job), job, steer)
    out = steer.run_folder / "out"
    return (
        job,
        outcome,
        {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()},
        sorted(os.listdir(steer.run_folder)),
    )


@both
def test_inputs_outputs_environment_and_what_is_read_back(who: str) -> None:
    code = """
import os, socket
print(sorted(os.environ), os.getcwd(), os.getuid(), os.getgid(), socket.gethostname(), os.listdir('/usr/local'))
os.mkdir('/out/b', 0); os.chmod('/out/b', 0o700)
open('/out/b/o', 'w').write(open('a').read()); os.chmod('/out/b/o', 0); os.chmod('/out/b', 0)
for at in ('/in/new', '/in/a', '/etc/new', '/new', '/usr/local/new', '/dev/new'):
    try: open(at, 'w'); print('written', at)
    except OSError: pass
try: open('/proc/sys/kernel/core_pattern', 'w'); print('kernel setting')
except OSError: pass
"""
    with folder_of(who) as folder:
        job, outcome, out, left = run_as(who, _with_inputs, jailed_python(code, memory_mb=96), folder)
    assert (outcome.status, outcome.exit_code, outcome.stderr.kept) == ("succeeded", 0, b""), outcome
    assert outcome.stdout.kept.decode() == f"{sorted(ERA_ENVIRONMENT)} /in 65534 65534 sandbox []\n"
    assert out == {"b/o": b"in"} and [item.path for item in outcome.artifacts] == ["b/o"]
    assert left == ["out"]
    assert outcome.image == job.image and outcome.runtime == "bubblewrap"
    facts = outcome.effective_limits
    by_cgroup = who in HELD
    expected = {
        "runtime": "bubblewrap",
        "image": job.image,
        "wall": "10 s (our watch)",
        "uid": "65534",
        "gid": "65534",
        "namespaces": "own: net pid ipc mnt uts user cgroup",
        "capabilities": "none",
        "no_new_privs": "1",
        "seccomp": "filter",
        "open_files": "256",
        "file_bytes": str(limits.OUT_FILE_BYTES),
        "core": "0",
        "out_bytes": str(limits.OUT_BYTES),
        "out_files": str(limits.OUT_FILES),
        "writable": "/dev/shm /out /proc /tmp",
        "root": "read-only",
        "network": "lo",
        "processes": "128",
    }
    assert expected.items() <= facts.items()
    more = {name: value for name, value in facts.items() if name not in expected}
    if by_cgroup:
        assert more == {"memory": f"{96 << 20} bytes", "swap": "none", "cpu": "1 cores"}
    else:
        assert more.pop("cores") in [str([core]) for core in os.sched_getaffinity(0)]
        assert more == {
            "memory": f"{96 << 20} bytes, watched, not enforced by the kernel",
            "swap": "not enforced",
            "cpu": "1 cores (affinity)",
            "data": f"{(192 << 20) + limits.JAILED_DATA_BYTES} bytes of each process",
            "oom_score_adj": "1000",
        }


ENDS = {
    "exit 0": ("pass", "succeeded", 0, {}),
    "exit 3": ("raise SystemExit(3)", "exited", 3, {}),
    "a signal": ("import os; os.kill(os.getpid(), 9)", "failed", 137, {}),
    "its group": ("import os; os.kill(0, 9)", "failed", 137, {}),
    "time": ("while True: pass", "timed_out", None, {"time_sec": 1}),
    "time with signals ignored": (
        "import signal, time\nfor s in range(1, 32):\n  try: signal.signal(s, signal.SIG_IGN)\n"
        "  except Exception: pass\ntime.sleep(100)",
        "timed_out",
        None,
        {"time_sec": 1},
    ),
    "stream": (
        "import sys\nwhile True: sys.stdout.write('a' * 65536)",
        "output_exceeded",
        None,
        {"stream_bytes": 4 << 20},
    ),
    "errors": (
        "import sys\nwhile True: sys.stderr.write('a' * 65536)",
        "output_exceeded",
        None,
        {"stream_bytes": 4 << 20},
    ),
    "out bytes": ("open('/out/x', 'wb').write(bytes(8 << 20))", "output_exceeded", 1, {"out_bytes": 4 << 20}),
    "out bytes, ignored": (
        "try: open('/out/x', 'wb').write(bytes(8 << 20))\nexcept OSError: pass",
        "output_exceeded",
        0,
        {"out_bytes": 4 << 20},
    ),
    "sparse": (
        "for i in range(6): open(f'/out/{i}', 'wb').truncate(1 << 20)",
        "output_exceeded",
        0,
        {"out_bytes": 4 << 20},
    ),
    "out names": ("for i in range(99): open(f'/out/{i}', 'w')", "output_exceeded", 1, {"out_files": 50}),
    "out folders": ("import os\nfor i in range(99): os.mkdir(f'/out/{i}')", "output_exceeded", 1, {"out_files": 50}),
    "file size": ("open('/out/x', 'wb').write(bytes(8 << 20))", "exited", 1, {"file_bytes": 1 << 20}),
    "open files": ("import os\nn = [os.open('/dev/null', 0) for _ in range(1000)]", "exited", 1, {}),
    "tmp bytes": ("open('/tmp/x', 'wb').write(bytes(300 << 20))", "exited", 1, {"memory_mb": 400}),
    "tmp names": ("for i in range(9999): open(f'/tmp/{i}', 'w').close()", "exited", 1, {"memory_mb": 400}),
    "shm bytes": ("open('/dev/shm/x', 'wb').write(bytes(20 << 20))", "exited", 1, {"memory_mb": 400}),
}


@both
def test_each_end_has_its_status_and_exit_code(who: str) -> None:
    found = run_all(who, [jailed_python(code, **{"memory_mb": 128, **more}) for code, _, _, more in ENDS.values()])
    for (name, (_, status, exit_code, more)), outcome in zip(ENDS.items(), found, strict=True):
        assert (outcome.status, outcome.exit_code) == (status, exit_code), (name, outcome)
        kept = sum(item.size for item in outcome.artifacts)
        assert kept <= more.get("out_bytes", limits.OUT_BYTES) and len(outcome.artifacts) <= more.get("out_files", 999)
        assert outcome.stdout.size <= more.get("stream_bytes", 0) + (1 << 18)
        if status not in ("succeeded", "exited", "failed"):
            assert outcome.detail.startswith(f"{status}: ")


@both
@pytest.mark.parametrize(
    "code",
    [
        OOM,
        f"import os\nif os.fork() == 0: {OOM}\nos.wait()",
        "import os\nfor _ in range(5):\n  if os.fork() == 0: x = bytearray(b'x') * (60 << 20); os.read(0, 1) or "
        "__import__('time').sleep(9)\nos.wait()",
        "import mmap\nx = mmap.mmap(-1, 300 << 20)\nwhile x.write(b'x' * 65536): pass",
        "import os, time\nwith open('/out/x', 'wb') as f: f.write(bytes(60 << 20))\n"
        "x = bytearray(b'x') * (100 << 20)\ntime.sleep(9)",
    ],
    ids=["one", "child", "many", "shared", "files"],
)
def test_memory_ends_a_run(code: str, who: str) -> None:
    outcome = run_one(who, jailed_python(code, memory_mb=128))
    assert outcome.status == "out_of_memory", outcome
    assert outcome.detail == "out_of_memory: the memory limit of 128 MiB was reached."
    assert (outcome.peak_memory_bytes or 0) <= (128 << 20 if who in HELD else 300 << 20)


@both
def test_memory_that_the_kernel_can_take_back_ends_none(who: str) -> None:
    """Pages of a large input, and those that a fork shares, are no use of memory."""
    code = """
import mmap, os, time
with open('/usr/bin/python3.11', 'rb') as file: pass
shared = bytearray(b'x') * (70 << 20)
children = [os.fork() for _ in range(1)]
if children[0] == 0:
    time.sleep(0.3); os._exit(0)
os.wait()
print('fine')
"""
    outcome = run_one(who, jailed_python(code, memory_mb=128))
    assert (outcome.status, outcome.stdout.kept) == ("succeeded", b"fine\n"), outcome


@both
def test_processes_are_exact(who: str) -> None:
    """Bubblewrap's first process and this one count: 126 more, beside 60 of the same account outside."""
    code = (
        "import os, signal\nn = 0\ntry:\n  while True:\n    if os.fork() == 0: signal.pause()\n    n += 1\n"
        "except OSError: print(n, flush=True)\nimport time; time.sleep(0.2)"
    )
    crowd = "import threading, sys\nfor _ in range(60): threading.Thread(target=sys.stdin.read, daemon=True).start()\n"
    account = {"user": UID, "group": UID, "extra_groups": []} if who == "user" and os.geteuid() == 0 else {}
    outside = subprocess.Popen(
        ["/usr/bin/python3", "-c", f"{crowd}print(1, flush=True)\nsys.stdin.read()"],
        stdin=-1,
        stdout=-1,
        cwd="/",
        **account,  # type: ignore[call-overload]
    )
    try:
        assert outside.stdout.readline()
        outcome = run_one(who, jailed_python(code))
    finally:
        outside.kill()
        outside.communicate()
    assert outcome.stdout.kept == b"126\n"
    assert outcome.status == ("process_limit" if who in HELD else "succeeded"), outcome


@both
def test_cores_are_what_was_asked_for(who: str) -> None:
    """Two spinning processes on one core use its time, and no more; without a cgroup they cannot take another one."""
    code = """
import os, time
try: os.sched_setaffinity(0, range(os.cpu_count())); print('taken')
except PermissionError: print('refused')
if os.fork() == 0:
    end = time.monotonic() + 1
    while time.monotonic() < end: pass
    os._exit(0)
end = time.monotonic() + 1
while time.monotonic() < end: pass
os.wait()
"""
    outcome = run_one(who, jailed_python(code))
    assert outcome.stdout.kept == b"refused\n" and outcome.cpu_ms is not None
    assert 100 < outcome.cpu_ms < 1.25 * outcome.wall_ms, outcome


@both
def test_bubblewraps_first_process_has_every_limit_too(who: str) -> None:
    """A run has its account, so it can change its memory: it must gain nothing by that."""
    code = """
for name in ('limits', 'cgroup', 'uid_map'):
    print(open(f'/proc/1/{name}').read() == open(f'/proc/self/{name}').read())
facts = [open(f'/proc/{pid}/status').read().splitlines() for pid in ('1', 'self')]
names = ('Cap', 'NoNewPrivs', 'Seccomp', 'Uid', 'Gid', 'Cpus_allowed')
print(*([line for line in one if line.startswith(names)] for one in facts), sep='\\n')
"""
    lines = run_one(who, jailed_python(code)).stdout.kept.decode().splitlines()
    assert lines[:3] == ["True"] * 3 and lines[3] == lines[4] and "Seccomp_filters" in lines[3]


@both
def test_what_hides_memory_or_takes_cores_is_refused(who: str) -> None:
    code = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for name, number in {'memfd_create': 319, 'shmget': 29, 'msgget': 68, 'semget': 64, 'sched_setaffinity': 203}.items():
    print(name, libc.syscall(number, 0, 0, 0), errno.errorcode[ctypes.get_errno()])
"""
    outcome = run_one(who, jailed_python(code))
    names = ("memfd_create", "shmget", "msgget", "semget", "sched_setaffinity")
    assert outcome.stdout.kept.decode().splitlines() == [f"{name} -1 EPERM" for name in names]


LEFT = """
import os, socket
os.symlink('/etc/passwd', '/out/link'); os.symlink('/usr', '/out/folder'); os.mkfifo('/out/fifo')
s = socket.socket(socket.AF_UNIX); s.bind('/out/socket')
open('/out/one', 'w').write('x'); os.link('/out/one', '/out/two')
open('/out/setid', 'w').write('x'); os.chmod('/out/setid', 0o4755)
open(b'/out/\\xff', 'w').write('x'); open('/out/new\\nline', 'w').write('x')
deep = '/out'
for n in range(40):
    deep += '/d'
    try: os.mkdir(deep)
    except OSError: break
open('/out/fine', 'w').write('fine')
"""


@both
def test_only_regular_files_are_collected(who: str) -> None:
    with folder_of(who) as folder:
        _, outcome, out, _ = run_as(who, _with_inputs, jailed_python(LEFT), folder)
    assert out == {"fine": b"fine"} and [item.path for item in outcome.artifacts] == ["fine"]
    reasons = dict(line.split(": ", 1) for line in outcome.dropped)
    assert reasons.pop("d/" * limits.OUT_DEPTH + "d") == f"a folder more than {limits.OUT_DEPTH} deep"
    assert reasons == {
        "link": "a symbolic link",
        "folder": "a symbolic link",
        "fifo": "a FIFO",
        "socket": "a socket",
        "one": "a file with several hard links",
        "two": "a file with several hard links",
        "setid": "a file with a set-user-id or set-group-id bit",
        "\\udcff": "its name is not UTF-8",
        "new\\nline": "its name has control or invisible characters",
    }


def test_of_two_mounts_at_a_place_the_one_that_can_be_opened_is_read_back() -> None:
    """As systemd has binfmt_misc on its automount point in /proc/sys, which stays writable below it."""
    mount = "/usr/bin/mount -t tmpfs -o"
    script = f"{mount} rw,mode=700 a /mnt && {mount} ro,nosuid b /mnt && {mount} rw c /tmp && echo && read -r line"
    words = ["/usr/bin/unshare", "--user", "--map-root-user", "--mount", "--", "/bin/sh", "-c", script]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"\n"
        found = list(mounts_of(process.pid))
        process.kill()
    assert [("ro" in options, "nosuid" in options) for place, options in found if place == "/mnt"] == [(True, True)]
    assert [("rw" in options) for place, options in found if place == "/tmp"][-1:] == [True]
    assert "/" in dict(found) and "/proc" in dict(found)


def _told(which: str, job: Job, folder: Path) -> tuple[Outcome, float, list[str]]:
    steer = control(folder)
    if which:
        threading.Timer(0.7, getattr(steer, which).set).start()
    begin = time.monotonic()
    outcome = BubblewrapRunner(SETTINGS).run(clearance(job), job, steer)
    return outcome, time.monotonic() - begin, cgroups(f"threegate-era-{os.getpid()}-*")


@both
@pytest.mark.parametrize("which", ["cancelled", "interrupted"])
def test_it_ends_when_told_and_nothing_is_left(which: str, who: str) -> None:
    mark = f"7{os.getpid()}.25"
    code = f"import subprocess\nfor _ in range(9): subprocess.Popen(['/usr/bin/sleep', '{mark}'])\nprint('x' * 9)\n" * 2
    job = jailed_python(f"{code}\nimport time; time.sleep(60)", time_sec=60)
    with folder_of(who) as folder:
        outcome, seconds, groups = run_as(who, _told, which, job, folder)
    assert outcome.status == which and outcome.exit_code is None and seconds < 10
    assert mine(mark) == [] and groups == []


@both
def test_what_a_command_leaves_running_ends_with_it(who: str) -> None:
    mark = f"8{os.getpid()}.25"
    code = f"import subprocess; subprocess.Popen(['/usr/bin/setsid', '/usr/bin/sleep', '{mark}']); print('done')"
    with folder_of(who) as folder:
        outcome, seconds, groups = run_as(who, _told, "", jailed_python(code), folder)
    assert (outcome.status, outcome.stdout.kept) == ("succeeded", b"done\n") and seconds < 9
    assert mine(mark) == [] and groups == []


def _ended_outside(steps: int, mark: str, folder: Path) -> Outcome:
    def kill() -> None:
        def found() -> list[int]:
            return [pid for pid in mine(mark) if "sleep" in _program(pid)]

        pid = wait_until(found, "the command")[0]
        for _ in range(steps):
            pid = int(process_status(pid)["PPid"])
        os.kill(pid, signal.SIGKILL)

    threading.Thread(target=kill).start()
    job = jailed_job("/usr/bin/sleep", mark, time_sec=60)
    return BubblewrapRunner(SETTINGS).run(clearance(job), job, control(folder))


@both
@pytest.mark.parametrize(
    ("steps", "status", "exit_code"), [(1, "failed", 137), (2, "interrupted", None)], ids=["first", "bubblewrap"]
)
def test_somebody_ends_it_from_outside(steps: int, status: str, exit_code: int | None, who: str) -> None:
    """The jail's first process, or the bubblewrap outside, whose end the kernel passes on."""
    mark = f"6{os.getpid()}.25"
    with folder_of(who) as folder:
        outcome = run_as(who, _ended_outside, steps, mark, folder)
    assert (outcome.status, outcome.exit_code) == (status, exit_code), outcome
    assert mine(mark) == []


def _program(pid: int) -> list[str]:
    with suppress(OSError):
        return [Path(f"/proc/{pid}/exe").readlink().name]
    return []


def _killed(mark: str, folder: str) -> None:
    job = jailed_job("/usr/bin/sleep", mark, time_sec=60)
    BubblewrapRunner(SETTINGS).run(clearance(job), job, control(Path(folder)))


@both
def test_it_dies_with_the_daemon(who: str) -> None:
    mark = f"9{os.getpid()}.25"
    text = (
        f"import sys\nsys.path[:0] = {[str(Path(__file__).parents[2])]!r}\n"
        "from tests.runners.jailed import become\nfrom tests.runners.test_jailed_run import _killed\n"
        f"become({who!r})\n_killed(*sys.argv[1:])"
    )
    with folder_of(who) as folder:
        daemon = subprocess.Popen([sys.executable, "-c", text, mark, str(folder)], cwd="/")
        try:
            wait_until(lambda: any(name == "sleep" for pid in mine(mark) for name in _program(pid)))
        finally:
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()
        wait_until(lambda: mine(mark) == [], "the end of the run", 10)
    sweep()
    assert cgroups(f"threegate-era-{daemon.pid}-*") == []


def _closed(job: Job, folder: Path) -> tuple[Outcome, list[str]]:
    """A run whose daemon closes its end of the gate once all is read back; and what is in /out when the gate ends."""
    left: list[str] = []
    read_back = JailedRun._read_back

    def closed(self: JailedRun, process: JailProcess) -> None:
        read_back(self, process)
        assert self._door is not None
        self._door.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: not _program(self._pid), "the end of the gate")
        left.extend(os.listdir(self._out))

    JailedRun._read_back = closed  # type: ignore[method-assign]
    return BubblewrapRunner(SETTINGS).run(clearance(job), job, control(folder)), left


@both
def test_without_the_word_nothing_of_the_command_runs(who: str) -> None:
    """The gate's end, as it sees that of the daemon: the shell ends, and the command never begins."""
    job = jailed_python("open('/out/ran', 'w')")
    with folder_of(who) as folder:
        outcome, left = run_as(who, _closed, job, folder)
    assert (outcome.status, outcome.exit_code, outcome.artifacts, left) == ("failed", None, (), [])
    assert outcome.wall_ms == 0
    assert outcome.detail == "The jail ended before its gate was opened, so the command did not begin."


def _differs(change: str, job: Job, folder: Path) -> Outcome:
    from threegate.runners.jail.jail import Jail, Scratch

    options, scratch = Jail._bubblewrap, Jail.writable.fget

    def bubblewrap(self: Jail, *given: object) -> list[str]:
        line = options(self, *given)  # type: ignore[arg-type]
        words = change.split()
        if change.startswith("--"):
            at = next(n for n in range(len(line)) if line[n : n + len(words)] == words)
            return line[:at] + line[at + len(words) :]
        return line

    def wider(self: Jail) -> tuple[Scratch, ...]:
        found = scratch(self)  # type: ignore[misc]
        if change == "out":
            return tuple(replace(one, size=one.size * 2) for one in found)
        if change == "exec":
            return tuple(replace(one, options="mode=1777,nosuid,nodev") for one in found)
        return found  # type: ignore[no-any-return]

    Jail._bubblewrap, Jail.writable = bubblewrap, property(wider)  # type: ignore[method-assign,assignment]
    if change == "rlimits":
        jailed_run.set_rlimits = lambda *given: None
        jailed_run.Jail = lambda *given, **more: Jail(*given, **{**more, "rlimits": {"core": 0}})  # type: ignore[assignment,misc]
    return BubblewrapRunner(SETTINGS).run(clearance(job), job, control(folder))


@both
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("--unshare-net", "the net namespace is the host's"),
        ("--unshare-ipc", "the ipc namespace is the host's"),
        ("--ro-bind /proc/sys /proc/sys", "not mounted: /proc/sys"),
        ("--remount-ro /dev", "/dev is mounted without ro"),
        ("--remount-ro /", "/ is mounted without ro"),
        ("out", "/out takes"),
        ("exec", "is mounted without noexec"),
        ("rlimits", "open_files is"),
    ],
)
def test_one_difference_and_no_byte_of_the_code_runs(change: str, said: str, who: str) -> None:
    with folder_of(who) as folder:
        outcome = run_as(who, _differs, change, jailed_python("open('/out/ran', 'w')"), folder)
    assert outcome.status == "failed" and outcome.detail.startswith("limits_not_enforced: "), outcome
    assert said in outcome.detail and outcome.artifacts == () and outcome.exit_code is None


def _unlimited(error: Exception, job: Job, folder: Path) -> tuple[Outcome, list[str]]:
    def fail(self: object, pid: int) -> None:
        raise error

    jailed_limits.CgroupLimits.enter = jailed_limits.WatchedLimits.enter = fail  # type: ignore[method-assign]
    outcome = BubblewrapRunner(SETTINGS).run(clearance(job), job, control(folder))
    return outcome, [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/threegate-era-{os.getpid()}-*")]


@both
@pytest.mark.parametrize("error", [PermissionError(1, "no"), ValueError("no"), subprocess.TimeoutExpired("prlimit", 1)])
def test_a_limit_that_cannot_be_set_and_no_byte_of_the_code_runs(error: Exception, who: str) -> None:
    with folder_of(who) as folder:
        outcome, left = run_as(who, _unlimited, error, jailed_python("open('/out/ran', 'w')"), folder)
    assert outcome.status == "unavailable" and outcome.artifacts == () and outcome.exit_code is None
    assert outcome.detail.startswith("the jail's first process cannot be limited (") and left == []


def _said(settings: EraSettings, job: Job | None) -> str | None:
    return BubblewrapRunner(settings).available(job)


def _ask(who: str, job: Job | None, **settings: object) -> str:
    return str(run_as(who, _said, EraSettings(runtime="bubblewrap", **settings), job))  # type: ignore[arg-type]


def test_what_is_missing_is_said_and_nothing_runs() -> None:
    fine = jailed_job("true")
    assert [_ask(who, fine) for who in WHO] == ["None"] * len(WHO)
    assert _ask("user", replace(fine, image="root:sha256:" + "0" * 64)).startswith("the approval names another root")
    assert _ask("user", replace(fine, seccomp_sha256=SECCOMP_SHA256)).startswith("the approval names another seccomp")
    assert run_one("user", jailed_job("A=b", "id")).status == "unavailable"


@watched
def test_what_needs_a_cgroup_is_refused_without_one() -> None:
    fine, half = jailed_job("true"), jailed_job("true", cpu="0.5")
    assert _ask("user", half).startswith("cpu_limit 0.5 is below one core, which needs a cgroup")
    assert run_one("user", half).status == "unavailable"
    said = _ask("user", fine, require_readback=True)
    assert said.startswith("runners.era.require_readback: without a cgroup memory is watched, not enforced")
    assert run_one("user", fine, EraSettings(runtime="bubblewrap", require_readback=True)).detail == said


@pytest.mark.parametrize("who", HELD)
def test_with_cgroups_half_a_core_is_half_a_core(who: str) -> None:
    code = "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass"
    outcome = run_one(who, jailed_python(code, cpu="0.5"), EraSettings(runtime="bubblewrap", require_readback=True))
    assert outcome.status == "succeeded" and outcome.effective_limits["cpu"] == "0.5 cores"
    assert 0 < (outcome.cpu_ms or 0) < 0.65 * outcome.wall_ms


def _little(job: Job, folder: Path) -> Outcome:
    meminfo = folder / "meminfo"
    meminfo.write_text("MemTotal: 8000000 kB\nMemFree: 1 kB\nMemAvailable: 100000 kB\n")
    jailed_limits.MEMINFO = meminfo
    return BubblewrapRunner(SETTINGS).run(clearance(job), job, control(folder))


@watched
def test_a_watched_run_ends_before_the_machine_is_full() -> None:
    with folder_of("user") as folder:
        outcome = run_as("user", _little, jailed_job("/usr/bin/sleep", "30"), folder)
    assert outcome.status == "interrupted"
    assert outcome.detail == "Interrupted because this machine had 97 MiB of memory free, less than its reserve of 256."


def _proved(folder: Path) -> Outcome:
    return BubblewrapRunner(SETTINGS).prove(control(folder))


@both
def test_the_probe_finds_every_wall(who: str) -> None:
    with folder_of(who) as folder:
        outcome = run_as(who, _proved, folder)
    walls = read_walls(outcome.stdout.kept, outcome)
    assert [wall for wall in walls if not wall.held] == []
    names = {wall.name for wall in walls}
    assert {"processes are limited", "/out is limited in bytes", "no ptrace", "only lo"} <= names
    assert ("memory is limited" in names) == (who in HELD)


@both
def test_words_reach_the_program_as_they_are(who: str) -> None:
    jobs: Sequence[Job] = [
        jailed_job("printf", "%s|", "a b", "$HOME", "`id`", "x\ny", ""),
        jailed_job("no-such-program"),
        replace(jailed_job("pwd"), workdir="/in/none"),
        jailed_job("/usr/bin/cat"),
    ]
    words, gone, nowhere, empty = run_all(who, jobs)
    assert words.stdout.kept == b"a b|$HOME|`id`|x\ny||"
    assert (gone.status, gone.exit_code) == ("failed", 127)
    assert (nowhere.status, nowhere.exit_code) == ("failed", 125)
    assert (empty.status, empty.stdout.size) == ("succeeded", 0)
