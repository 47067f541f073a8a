"""Containers prepared ahead: like one that was made for the run in everything that it can see, used once, gone
after.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine_fixtures import (
    ENGINE,
    IMAGE,
    clearance,
    control,
    docker,
    era_job,
    era_settings,
    run_job,
    with_inputs,
)
from tests.support import era_draft, make_place, wait_until
from threegate.core.settings import EraSettings, RunnersSettings
from threegate.runners.budget import Budget
from threegate.runners.era import prepared_containers, spec
from threegate.runners.era.era_probe import era_probe_job
from threegate.runners.era.orphans import remove_orphans
from threegate.runners.era.runner import EraRunner
from threegate.runners.interface import Outcome
from threegate.runners.probe import read_walls

FROM = "prepared ahead, used once"
root = pytest.mark.root
engine = pytest.mark.engine


def python(code: str, **bounds: object):
    return era_job("/usr/bin/python3", "-I", "-c", code, **bounds)  # type: ignore[arg-type]


class Warm:
    """A runner with one container ahead, and a workspace id of its own to count by."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ahead = folder / "ahead"
        self.ahead.mkdir()
        self.workspace = f"ws-{uuid.uuid4().hex}"
        self.runner = EraRunner(EraSettings(engine=ENGINE, image=IMAGE, warm=1), prepared_in=self.ahead)
        self.number = 0

    def run(self, job) -> Outcome:
        self.number += 1
        folder = self.folder / str(self.number)
        if (self.folder / "inputs").exists():
            folder.mkdir()
            (folder / "inputs").symlink_to(self.folder / "inputs")
        steer = control(folder, workspace_id=self.workspace)
        return run_job(self.runner, job, folder, steer=steer)

    def learn(self, job) -> None:
        """Have a container ready for such jobs, as a first run of one would."""
        pool = self.runner.prepared
        assert pool is not None
        kind = prepared_containers.Kind.of(job, "runc")
        assert kind is not None
        steer = control(self.folder / f"learn-{uuid.uuid4().hex}", workspace_id=self.workspace)
        pool.learn(kind, steer)
        self.wait(job)

    def wait(self, job) -> None:
        pool = self.runner.prepared
        assert pool is not None
        wait_until(lambda: pool.has(job), "a prepared container", 30)

    def containers(self) -> list[str]:
        return docker("ps", "-aq", "--no-trunc", "--filter", f"label=threegate.workspace={self.workspace}").split()

    def close(self) -> None:
        self.runner.close()
        assert self.containers() == []
        assert list(self.ahead.iterdir()) == []


@pytest.fixture
def warm(tmp_path: Path):
    made = Warm(tmp_path)
    yield made
    made.close()


def test_words_go_in_whole_or_not_at_all() -> None:
    job = replace(era_job("a", "", "b\nc", "é", time_sec=3), environment={"X": "1"})
    words = b"m\x004\0/usr/bin/env\0-i\0--chdir=/in\0X=1\0a\0\0b\nc\0\xc3\xa9"
    assert spec.told("m", job) == b"%08d" % len(words) + words
    with pytest.raises(ValueError, match="NUL"):
        spec.told("m", era_job("a\0b"))


def test_what_waits_has_its_part_of_the_budget() -> None:
    plain = RunnersSettings(memory_budget_mb=1000)
    ahead = RunnersSettings(memory_budget_mb=1000, era=EraSettings(warm=4))
    assert Budget.of(plain).memory_mb - Budget.of(ahead).memory_mb == 4 * 32


def test_only_jobs_that_need_nothing_of_their_own_have_a_kind() -> None:
    assert prepared_containers.Kind.of(era_job("id", network=("a.example:443",)), "runc") is None
    assert prepared_containers.Kind.of(era_job("id"), "runsc") is None
    kind = prepared_containers.Kind.of(era_job("id", time_sec=9), "runc")
    assert kind is not None and kind.serves(era_job("other", time_sec=3))
    for change in ({"memory_mb": 65}, {"cpu": "2"}, {"out_bytes": 1}, {"open_files": 7}, {"runtime": "kata"}):
        assert not kind.serves(era_job("id", **change)), change
    assert not kind.serves(replace(era_job("id"), image="sha256:" + "0" * 64))


LOOK = r"""
import ctypes, json, os, resource, signal, socket
def text(path):
    return open(path).read()
status = dict(line.split(":", 1) for line in text("/proc/self/status").splitlines())
keep = ("Umask Uid Gid FDSize Groups NoNewPrivs Seccomp Seccomp_filters CapInh CapPrm CapEff CapBnd CapAmb SigBlk SigIgn "
        "SigCgt SigQ Threads").split()
mounts = [line.split(" - ") for line in text("/proc/self/mountinfo").splitlines()]
print(json.dumps({
    # Of SigQ ("0/96365") the limit: the count before it is of all processes of the account.
    "status": {name: status[name].strip().rpartition("/")[2] for name in keep if name in status},
    "environment": dict(os.environ),
    "files": sorted((number, os.readlink(f"/proc/self/fd/{number}").split(":")[0]) for number in os.listdir("/proc/self/fd")[:3]),
    "cwd": os.getcwd(), "session": os.getsid(0), "group": os.getpgid(0),
    "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
    "keeper": text("/proc/1/cmdline"),
    "limits": text("/proc/self/limits"),
    "oom": text("/proc/self/oom_score_adj"),
    "mounts": sorted((left.split(" ")[4], left.split(" ")[5], right.split(" ")[0]) for left, right in mounts),
    "interfaces": [name for _, name in socket.if_nameindex()],
    "personality": ctypes.CDLL(None).personality(0xFFFFFFFF),
    "priority": os.getpriority(0, 0),
    "hostname": socket.gethostname(),
    "in": sorted(os.listdir("/in")), "out": os.listdir("/out"), "tmp": os.listdir("/tmp"), "shm": os.listdir("/dev/shm"),
    "modes": [(name, oct(os.stat(name).st_mode), os.stat(name).st_uid) for name in ("/in", "/out", "/tmp")],
    "root": sorted(os.listdir("/")), "size": [os.statvfs("/out").f_blocks, os.statvfs("/out").f_files],
}))
"""  # noqa: E501


@engine
@root
@pytest.mark.slow
def test_inside_nothing_tells_it_from_one_that_was_made_for_the_run(warm: Warm) -> None:
    words = ("a b", "$HOME", "`id`", "x\ny", "", "é“", "--", "-c")
    job = with_inputs(era_job("/usr/bin/python3", "-I", "-c", LOOK, *words), warm.folder, {"a": b"in"})
    cold = warm.run(job)
    warm.wait(job)
    ahead = warm.run(job)
    assert "container" not in cold.effective_limits and ahead.effective_limits.pop("container") == FROM
    assert cold.status == ahead.status == "succeeded", (cold, ahead)
    assert json.loads(ahead.stdout.kept) == json.loads(cold.stdout.kept)
    assert ahead.effective_limits == cold.effective_limits


@engine
@root
def test_nothing_of_one_run_is_in_the_next(warm: Warm) -> None:
    leave = (
        "import os\nfor p in ('/tmp/x', '/out/x', '/dev/shm/x'): open(p, 'w').write('secret')\n"
        "if os.fork() == 0:\n  os.setsid(); import time; time.sleep(60)"
    )
    look = "import os; print(os.listdir('/tmp'), os.listdir('/out'), os.listdir('/dev/shm'), os.listdir('/in'))"
    warm.learn(python(leave))
    (first,) = warm.containers()
    done = warm.run(with_inputs(python(leave), warm.folder, {"a": b"of the first"}))
    assert done.effective_limits["container"] == FROM
    assert [item.path for item in done.artifacts] == ["x"]
    warm.wait(python(look))
    (second,) = warm.containers()
    assert second != first
    outcome = warm.run(python(look))
    assert outcome.effective_limits["container"] == FROM
    assert outcome.stdout.kept == b"[] [] [] []\n"


@engine
@root
def test_every_wall_is_tried_from_inside(warm: Warm) -> None:
    job = era_probe_job(era_settings(), network=False)
    warm.learn(job)
    outcome = warm.run(job)
    assert outcome.effective_limits["container"] == FROM
    walls = read_walls(outcome.stdout.kept, outcome)
    assert len(walls) > 20 and [wall for wall in walls if not wall.held] == []
    assert outcome.status == "out_of_memory"


@engine
@root
@pytest.mark.parametrize(
    ("code", "status"),
    [("while True: pass", "timed_out"), ("import os; os.kill(1, 9); os.kill(1, 19); print(1)", "succeeded")],
)
@pytest.mark.slow
def test_the_keeper_is_the_runs_own(code: str, status: str, warm: Warm) -> None:
    job = python(code, time_sec=1)
    warm.learn(job)
    begun = time.monotonic()
    wait_until(lambda: time.monotonic() > begun + 1, "a wait that is longer than the whole time of the run")
    outcome = warm.run(job)
    assert outcome.status == status and outcome.effective_limits["container"] == FROM
    assert outcome.effective_limits["keeper"] == "2 s"


@engine
@root
@pytest.mark.parametrize(
    "words",
    [
        {"ReadonlyRootfs": False},
        {"SecurityOpt": ["no-new-privileges:true", "seccomp=unconfined"]},
        {"NetworkMode": "bridge"},
        {"Tmpfs": {"/tmp": "rw,exec"}},
    ],
    ids=lambda words: next(iter(words)),
)
@pytest.mark.slow
def test_each_wall_that_is_not_there_is_seen(
    words: dict[str, object], warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = spec.host_config
    monkeypatch.setattr(spec, "host_config", lambda *a, **w: {**real(*a, **w), **words})
    job = python("open('/out/ran', 'w')")
    warm.learn(job)
    outcome = warm.run(job)
    assert outcome.status == "failed" and outcome.detail.startswith("limits_not_enforced: "), outcome.detail
    assert outcome.artifacts == ()


@engine
@root
def test_one_that_becomes_something_else_is_seen_before_the_go(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another PID 1 than ours, or a container with another run's folder: refused."""
    job = python("open('/out/ran', 'w')")
    other = (*spec.KEEPER_WORDS[:-1], spec.KEEPER_WORDS[-1] + "#")
    monkeypatch.setattr(spec, "KEEPER_WORDS", other)
    warm.learn(job)
    outcome = warm.run(job)
    assert "the engine is running a PID 1 that is not ours; PID 1 is not the keeper" in outcome.detail
    assert outcome.status == "failed" and outcome.artifacts == ()
    monkeypatch.undo()
    pool = warm.runner.prepared
    assert pool is not None
    pool._recent.clear()
    pool._ready.pop().discard() if pool._ready else None
    warm.learn(job)
    waiting = pool._ready[0]
    (waiting.folder / "in").rename(waiting.folder / "other")
    (waiting.folder / "in").mkdir()
    outcome = warm.run(job)
    assert outcome.detail == "limits_not_enforced: /in is not this run's folder."


@engine
@root
@pytest.mark.slow
def test_what_is_dead_or_other_is_not_used(warm: Warm) -> None:
    job = python("print('ran')")
    warm.learn(job)
    other = warm.run(python("print('ran')", memory_mb=96))
    assert "container" not in other.effective_limits and other.stdout.kept == b"ran\n"
    warm.wait(python("", memory_mb=96))
    # The last run speaks for what waits: the one of the first kind has gone.
    (container,) = warm.containers()
    docker("rm", "-f", container)
    outcome = warm.run(python("print('ran')", memory_mb=96))
    assert "container" not in outcome.effective_limits and outcome.stdout.kept == b"ran\n"


@engine
@root
def test_inputs_that_changed_end_it_and_the_container_goes(warm: Warm) -> None:
    job = with_inputs(python("print(1)"), warm.folder, {"a": b"data"})
    warm.learn(job)
    (container,) = warm.containers()
    for path in (warm.folder / "inputs").iterdir():
        path.write_bytes(b"evil")
    outcome = warm.run(job)
    assert outcome.status == "unavailable" and "changed since the approval" in outcome.detail
    assert container not in warm.containers()


@engine
@root
@pytest.mark.slow
def test_one_that_waits_ends_with_the_daemon_and_is_swept(tmp_path: Path) -> None:
    """kill -9 of the daemon: what waits reads the end of its input and ends; the next boot takes the rest away."""
    workspace = f"ws-{uuid.uuid4().hex}"
    script = f"""
import time
from pathlib import Path
from tests.engine_fixtures import control, era_job
from threegate.runners.era.prepared_containers import Kind, PreparedContainers
pool = PreparedContainers("{ENGINE}", 2, Path("{tmp_path}"))
steer = control(Path("{tmp_path}/x"), workspace_id="{workspace}", boot_nonce="dead-boot")
for _ in range(2):
    pool.learn(Kind.of(era_job("id"), "runc"), steer)
while len(pool._ready) < 2:
    time.sleep(0.05)
print("ready", flush=True)
time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parents[2], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    mark = f"label=threegate.workspace={workspace}"
    assert len(docker("ps", "-q", "--filter", mark).split()) == 2
    process.kill()
    process.communicate()
    wait_until(lambda: not docker("ps", "-q", "--filter", mark), "the end of what waits for a dead daemon", 20)
    removed = remove_orphans(workspace, "next-boot", url=ENGINE, runs_folder=tmp_path)
    assert sum(line.startswith("removed container") for line in removed) == 2
    assert docker("ps", "-aq", "--filter", mark) == "" and list(tmp_path.glob(".prepared-*")) == []


@engine
@root
def test_it_ends_when_told(warm: Warm) -> None:
    job = era_job("sleep", "60", time_sec=60)
    warm.learn(job)
    steer = control(warm.folder / "told", workspace_id=warm.workspace)
    steer.cancelled.set()
    outcome = warm.runner.run(clearance(job), job, steer)
    assert outcome.status == "cancelled" and outcome.effective_limits["container"] == FROM


@engine
@root
@pytest.mark.slow
def test_the_daemon_keeps_one_ready_and_leaves_nothing(tmp_path: Path) -> None:
    """Through the whole way: the first run teaches, the second has one ready, and the end takes away what waits."""
    place = make_place(
        tmp_path,
        settings={"runners.era.engine": ENGINE, "runners.era.image": IMAGE, "runners.era.warm": 1},
    )
    workspace = place.events("workspace_created")[0]["prev"]
    daemon = place.daemon()
    try:
        for name in ("TR-first", "TR-second"):
            place.approve(place.drop(era_draft(name, "echo hello")))
            place.wait_for(f"results/TS-*-{name}.md")
            place.wait_for("runs/.prepared-*/in")
            wait_until(lambda: docker("ps", "-q", "--filter", f"label=threegate.workspace={workspace}"))
    finally:
        daemon.terminate()
        daemon.communicate()
    assert FROM not in place.result("TR-first") and FROM in place.result("TR-second")
    assert docker("ps", "-aq", "--filter", f"label=threegate.workspace={workspace}") == ""
    assert list((place.root / "tool-exec" / "runs").glob(".prepared-*")) == []
