"""ERA of an ordinary user who may speak to the engine: limits, ends, faults, and what a run can do to PID 1."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import WANTING, few
from tests.engine_fixtures import (
    EGRESS_IMAGE,
    ENGINE,
    IMAGE,
    clearance,
    control,
    docker,
    era_job,
    era_settings,
    run_job,
)
from tests.ordinary_user import UID, _server, as_user, become_user, command, home
from tests.support import era_draft, request_id, wait_until
from threegate.core import limits
from threegate.core.settings import EraSettings
from threegate.runners.era import spec
from threegate.runners.era.backend import remove_orphans
from threegate.runners.era.era_doctor import prove_era
from threegate.runners.era.runner import EraRunner
from threegate.runners.era.walls import NOT_READ
from threegate.runners.interface import Outcome
from threegate.setup.settings_file import set_values

pytestmark = [pytest.mark.engine, pytest.mark.root]


@pytest.fixture
def folder():
    with home() as made:
        yield made


def run_python(folder: Path, code: str, bounds: dict[str, Any], workspace: str = "ws-user") -> Outcome:
    """Run Python code in a container."""
    job = era_job("/usr/bin/python3", "-I", "-c", code, **{"memory_mb": 128, "time_sec": 20, **bounds})
    return run_job(EraRunner(era_settings()), job, folder, steer=control(folder, workspace_id=workspace))


FORKS = "import os, time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(5)"


@pytest.mark.parametrize(
    ("code", "status", "bounds"),
    few(
        [
            ("import time; time.sleep(100)", "timed_out", {"time_sec": 1}),
            ("import os\nif os.fork() == 0: x = bytearray(b'x') * (300 << 20)\nos.wait()", "out_of_memory", {}),
            (FORKS, "process_limit", {"time_sec": 2}),
            (
                "import sys\nwhile True: sys.stdout.write('a' * 65536)",
                "output_exceeded",
                {"stream_bytes": 4 << 20},
            ),
            ("open('/out/x', 'wb').write(bytes(8 << 20))", "output_exceeded", {"out_bytes": 4 << 20}),
            ("for i in range(99): open(f'/out/{i}', 'w')", "output_exceeded", {"out_files": 50}),
            (
                "for i in range(6): open(f'/out/{i}', 'wb').truncate(1 << 20)",
                "output_exceeded",
                {"out_bytes": 4 << 20},
            ),
        ],
        3,
    ),
    ids=["time", "memory", "processes", "stdout", "bytes", "names", "holes"],
)
def test_each_limit_has_its_status(code: str, status: str, bounds: dict[str, int], folder: Path) -> None:
    workspace = f"ws-{uuid.uuid4().hex}"
    outcome = as_user(run_python, folder, code, bounds, workspace)
    assert outcome.status == status and outcome.detail.startswith(f"{status}: "), outcome
    out = folder / "run" / "out"
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    assert size <= bounds.get("out_bytes", limits.OUT_BYTES)
    if "out_files" in bounds:
        assert len(outcome.artifacts) == 50
    assert outcome.wall_ms < 1000 * (bounds.get("time_sec", 20) + 4)
    mark = f"label=threegate.workspace={workspace}"
    assert docker("ps", "-aq", "--filter", mark) == docker("volume", "ls", "-q", "--filter", mark) == ""
    assert not (folder / "run" / "work").exists()


SURVIVOR = """
import os, signal, time
for number in range(3):
    if os.fork() == 0:
        os.setsid()
        for s in range(1, 32):
            try: signal.signal(s, signal.SIG_IGN)
            except (OSError, ValueError): pass
        while True:
            try:
                with open('/out/result', 'r+b') as file: file.write(b'forged')
                time.sleep(0.01)
                if os.fork(): os._exit(0)
            except OSError: pass
with open('/out/result', 'wb') as file: file.write(b'honest')
while open('/out/result', 'rb').read() != b'forged': time.sleep(0.01)
"""


def test_nothing_of_a_run_lives_when_its_outputs_are_collected(folder: Path) -> None:
    """Processes that ignore signals and fork away from every kill hold up nothing, and the record is of what was
    collected.
    """
    outcome = as_user(run_python, folder, SURVIVOR, {"time_sec": 10})
    assert outcome.status == "succeeded", outcome
    (artifact,) = outcome.artifacts
    assert (artifact.path, artifact.sha256) == ("result", hashlib.sha256(b"forged").hexdigest())
    assert (folder / "run" / "out" / "result").read_bytes() == b"forged"


ON_PID_1 = {
    "no open files": "import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))",
    "no file size": "import resource; resource.prlimit(1, resource.RLIMIT_FSIZE, (0, 0))",
    "idle": "import os; os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))",
    "last in line": "import os; os.setpriority(os.PRIO_PROCESS, 1, 19)",
    "signals": "import os\nfor s in range(1, 65):\n  for _ in range(50): os.kill(1, s)",
    "a closing line": "import os\nfor d in (1, 2): os.write(d, b'0' * 32 + b'   0            0            1\\n')",
}


@pytest.mark.parametrize("name", few(ON_PID_1, 2))
@pytest.mark.slow
def test_what_a_run_does_to_pid_1_does_not_change_the_end(name: str, folder: Path) -> None:
    code = f"{ON_PID_1[name]}\nopen('/out/x', 'w').write('kept')\nraise SystemExit(7)"
    outcome = as_user(run_python, folder, code, {})
    assert (outcome.status, outcome.exit_code) == ("exited", 7), outcome
    assert (folder / "run" / "out" / "x").read_bytes() == b"kept"
    if name == "a closing line":
        assert outcome.stdout.size == outcome.stderr.size == 63


def test_a_run_that_takes_pid_1s_processor_time_away_loses_its_own_outputs(folder: Path) -> None:
    code = (
        "import resource; resource.prlimit(1, resource.RLIMIT_CPU, (0, 0))\nopen('/out/x', 'w').write('x')\n"
        "import os\nwhile True:\n  os.kill(1, 17)"
    )
    outcome = as_user(run_python, folder, code, {"time_sec": 5})
    assert outcome.status == "failed" and outcome.detail.startswith("outputs_not_collected: "), outcome
    assert outcome.artifacts == ()


WALLS: list[dict[str, Any]] = [
    {"ReadonlyRootfs": False},
    {"CapDrop": []},
    {"SecurityOpt": ["no-new-privileges:true", "seccomp=unconfined"]},
    {"SecurityOpt": ["seccomp=unconfined"]},
    {"Tmpfs": {"/tmp": "rw,exec"}},
    {"NetworkMode": "bridge"},
    {"NetworkMode": "host"},
    {"IpcMode": "host"},
    {"PidMode": "host"},
    {"NanoCpus": 0},
    {"Memory": 512 << 20, "MemorySwap": 512 << 20},
    {"PidsLimit": 500},
    {"Ulimits": []},
    {"Privileged": True},
    {"LogConfig": {"Type": "json-file", "Config": {}}},
    {"Binds": ["/etc:/host:ro"]},
    {"Mounts": "out"},
]


def each_wall_away(folder: Path) -> list[tuple[str, str, int]]:
    """One run for each wall, without it."""
    real, found = spec.host_config, []
    for number, words in enumerate(WALLS):

        def without(*given: Any, words: dict[str, Any] = words, **named: Any) -> dict[str, Any]:
            made = real(*given, **named)
            if "Mounts" in words:  # a volume without limits
                del made["Mounts"][1]["VolumeOptions"]["DriverConfig"]
                return made
            return {**made, **words}

        spec.host_config = without
        outcome = run_python(folder / str(number), "open('/out/ran', 'w')", {})
        found.append((outcome.status, outcome.detail, len(outcome.artifacts)))
    return found


@pytest.mark.slow
def test_each_wall_that_is_not_there_is_seen(folder: Path) -> None:
    for words, found in zip(WALLS, as_user(each_wall_away, folder), strict=True):
        assert (found[0], found[2]) == ("failed", 0), (words, found)
        assert found[1].startswith("limits_not_enforced: "), (words, found)


def behind_hidepid(folder: Path, require: bool) -> Outcome:
    """Run where the kernel shows nobody else's processes."""
    settings = EraSettings(engine=ENGINE, image=IMAGE, require_readback=require)
    return run_job(EraRunner(settings), era_job("true"), folder)


@pytest.mark.parametrize("require", [False, True])
def test_what_cannot_be_read_back_is_named_and_refused_where_that_is_asked_for(require: bool, folder: Path) -> None:
    outcome = in_own_mounts(folder, require)
    unread = [name for name, value in outcome.effective_limits.items() if value == NOT_READ]
    assert {"memory", "seccomp", "keeper", "network", "mount options"} <= set(unread)
    assert outcome.effective_limits["namespaces"].startswith("own: ")
    assert outcome.effective_limits["out_bytes"] == str(limits.OUT_BYTES)
    if require:
        assert outcome.status == "failed"
        assert re.fullmatch(
            r"limits_not_enforced: not read back: .*memory.* \(runners.era.require_readback\)\.",
            outcome.detail,
        )
    else:
        assert outcome.status == "succeeded", outcome


def in_own_mounts(folder: Path, require: bool) -> Outcome:
    """`behind_hidepid` as the user, in a mount namespace whose /proc hides the processes of others."""
    import multiprocessing

    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = _server().Process(target=_hidden, args=(theirs, folder, require))
    process.start()
    theirs.close()
    try:
        assert ours.poll(60)
        outcome = ours.recv()
    finally:
        process.kill()
        process.join()
    assert isinstance(outcome, Outcome), outcome
    return outcome


def _hidden(theirs: Any, folder: Path, require: bool) -> None:
    libc = readback_libc()
    assert libc.unshare(0x00020000) == 0  # CLONE_NEWNS
    assert libc.mount(b"none", b"/", None, 0x44000, None) == 0  # MS_REC | MS_PRIVATE
    assert libc.mount(b"proc", b"/proc", b"proc", 0, b"hidepid=2") == 0
    become_user()
    try:
        theirs.send(behind_hidepid(folder, require))
    except BaseException as error:
        theirs.send(error)


def readback_libc() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def sleep_for(folder: Path, mark: str, workspace: str) -> Outcome:
    """A long sleep that can be found by its mark."""
    steer = control(folder, workspace_id=workspace, boot_nonce="dead-boot")
    job = era_job("/usr/bin/sleep", mark, time_sec=60)
    return EraRunner(era_settings()).run(clearance(job), job, steer)


def _killed(folder: Path, mark: str, workspace: str) -> None:
    become_user()
    sleep_for(folder, mark, workspace)


def sleeps(mark: str) -> bool:
    """Whether the run itself is there, past the go."""
    found = subprocess.run(["pgrep", "-fx", f"/usr/bin/sleep {mark}"], capture_output=True)
    return found.returncode == 0


def test_a_killed_daemon_ends_its_run_at_once_and_the_next_start_takes_the_rest_away(folder: Path) -> None:
    mark, workspace = str(100_000 + uuid.uuid4().int % 900_000), f"ws-{uuid.uuid4().hex}"
    process = _server().Process(target=_killed, args=(folder, mark, workspace))
    process.start()
    wait_until(lambda: sleeps(mark) or not process.is_alive(), "a run", 30)
    assert process.is_alive()
    process.kill()
    process.join()
    # Long before the time limit: PID 1 sees the end of its input.
    wait_until(lambda: not sleeps(mark), "the end of a run whose daemon is gone", 5)
    removed = as_user(sweep, workspace, folder)
    assert [line.split(" ")[1] for line in removed if not line.startswith("removed /")] == ["container"]
    label = f"label=threegate.workspace={workspace}"
    assert docker("ps", "-aq", "--filter", label) == docker("volume", "ls", "-q", "--filter", label) == ""
    assert as_user(sweep, workspace, folder) == []


def sweep(workspace: str, folder: Path) -> list[str]:
    """What the next start of the daemon does."""
    return remove_orphans(workspace, "next-boot", url=ENGINE, runs_folder=folder)


def run_with_allowlist(folder: Path) -> Outcome:
    """A run that asks its proxy for what it may not have."""
    code = (
        "import urllib.request, urllib.error\ntry: urllib.request.urlopen('http://other.invalid/', timeout=10)\n"
        "except urllib.error.HTTPError as error: print(error.code)"
    )
    job = era_job("/usr/bin/python3", "-I", "-c", code, network=("allowed.invalid:80",), time_sec=20)
    return run_job(EraRunner(era_settings()), job, folder)


@pytest.mark.skipif(not EGRESS_IMAGE, reason=WANTING + "the egress image (scripts/engine up)")
@pytest.mark.slow
def test_the_way_out_of_a_users_run(folder: Path) -> None:
    outcome = as_user(run_with_allowlist, folder)
    assert outcome.stdout.kept == b"403\n", outcome
    assert [(item.host, item.allowed) for item in outcome.destinations] == [("other.invalid", False)]
    # Whose network it is, only root may compare: the engine's word stands for it.
    assert outcome.effective_limits["relay"] == NOT_READ


def probe() -> list[tuple[str, bool]]:
    """The probe of `doctor` and `doctor --sandbox`."""
    outcome, walls = prove_era(era_settings(), network=False)
    assert outcome.effective_limits
    return [(wall.name, wall.held) for wall in walls]


def test_every_wall_is_tried_from_inside() -> None:
    walls = as_user(probe)
    assert len(walls) > 20 and [name for name, held in walls if not held] == []


@pytest.fixture
def account() -> Iterator[None]:
    """ssh-keygen wants a user whom the machine knows."""
    known = subprocess.run(["getent", "passwd", str(UID)], capture_output=True).returncode == 0
    words = ["useradd", "--no-create-home", "--shell", "/usr/sbin/nologin", "--uid", str(UID), "tg-test-user"]
    if not known:
        subprocess.run(words, check=True, capture_output=True)
    yield
    if not known:
        subprocess.run(["userdel", "--force", "tg-test-user"], capture_output=True)


@pytest.mark.slow
def test_the_whole_way_of_a_user(folder: Path, account: None) -> None:
    """init, approve, run --once and doctor, as nobody but that user."""
    key = folder / "key"
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(words, check=True, user=UID, group=UID, extra_groups=[])
    place = folder / "ws"
    assert command(folder, "init", str(place), "--operator", "operator", "--key", f"{key}.pub").code == 0
    settings = place / "threegate.toml"
    set_values(settings, {"runners.era.engine": ENGINE, "runners.era.image": IMAGE})
    os.chown(settings, UID, UID)
    name = request_id("user")
    draft = place / "inbox" / f"{name}.md"
    draft.write_text(era_draft(name, "id -u", outputs=()))
    os.chown(draft, UID, UID)
    done = command(place, "approve", str(draft), "--as", "operator", "--key", str(key), "--yes")
    assert done.code == 0, done.err
    done = command(place, "run", "--once")
    assert done.code == 0, done.err
    (result,) = (place / "tool-exec" / "results").glob("TS-*")
    assert "succeeded" in result.read_text()
    doctor = command(place, "doctor").out.splitlines()
    assert doctor[-1].startswith("ok       works for you now: "), doctor
    assert "ERA" in doctor[-1] and "monty" in doctor[-1]
    assert any("is equivalent to root" in line for line in doctor)
