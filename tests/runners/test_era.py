"""ERA runs in real containers: every status, every limit, cancelling, what is left behind."""

from __future__ import annotations

import socket
import threading
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import few, slow
from tests.engine_fixtures import (
    ENGINE,
    clearance,
    control,
    docker,
    era_job,
    era_runner,
    era_settings,
    monty_job,
    run_job,
    with_inputs,
)
from threegate.core.settings import EraSettings
from threegate.request.job import ERA_ENVIRONMENT
from threegate.runners.era import container_run, spec
from threegate.runners.era.backend import remove_orphans
from threegate.runners.era.runner import EraRunner
from threegate.runners.interface import Outcome

__all__ = ["era_runner"]
pytestmark = [pytest.mark.engine, pytest.mark.root]


def python(code: str, **bounds: object):
    return era_job("/usr/bin/python3", "-I", "-c", code, **bounds)  # type: ignore[arg-type]


def nothing_left(folder: Path, workspace: str = "") -> None:
    """No container and no volume of this workspace, and no work folder below this run."""
    if workspace:
        mark = f"label=threegate.workspace={workspace}"
        assert docker("ps", "-aq", "--filter", mark) == docker("volume", "ls", "-q", "--filter", mark) == ""
    assert not (folder / "run" / "work").exists()


def test_inputs_outputs_environment_and_what_is_read_back(era_runner, tmp_path: Path) -> None:
    code = "import os; print(sorted(os.environ)); print(os.getcwd()); open('/out/o', 'w').write(open('a').read())"
    job = with_inputs(python(code, cpu="0.5", memory_mb=96), tmp_path, {"a": b"in"})
    workspace = f"ws-{uuid.uuid4().hex}"
    outcome = run_job(era_runner, job, tmp_path, steer=control(tmp_path, workspace_id=workspace))
    assert (outcome.status, outcome.exit_code) == ("succeeded", 0), outcome
    assert outcome.stdout.kept.decode().splitlines() == [str(sorted(ERA_ENVIRONMENT)), "/in"]
    assert (tmp_path / "run" / "out" / "o").read_bytes() == b"in"
    facts = outcome.effective_limits
    assert facts["memory"] == f"{96 << 20} bytes" and facts["cpu"] == "0.5 cores" and facts["processes"] == "128"
    assert facts["capabilities"] == "none" and facts["seccomp"] == "filter" and facts["network"] == "lo"
    nothing_left(tmp_path, workspace)


@pytest.mark.parametrize(
    ("code", "status", "bounds"),
    few(
        [
            ("raise SystemExit(3)", "exited", {}),
            ("raise SystemExit(200)", "failed", {}),
            ("while True: pass", "timed_out", {"time_sec": 1}),
            ("import time; time.sleep(100)", "timed_out", {"time_sec": 1}),
            (
                "import signal, time\nfor s in range(1, 32):\n  try: signal.signal(s, signal.SIG_IGN)\n"
                "  except Exception: pass\n"
                "time.sleep(100)",
                "timed_out",
                {"time_sec": 1},
            ),
            ("x = bytearray(b'x') * (300 << 20)", "out_of_memory", {}),
            ("import os\nif os.fork() == 0: x = bytearray(b'x') * (300 << 20)\nos.wait()", "out_of_memory", {}),
            ("open('/tmp/x', 'wb').write(bytes(300 << 20))", "exited", {"memory_mb": 400}),
            (
                "import os, time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(5)",
                "process_limit",
                {"time_sec": 2},
            ),
            (
                "import os, signal, time\nn = 0\ntry:\n  while True:\n    if os.fork() == 0: signal.pause()\n"
                "    n += 1\nexcept OSError: print(n)\ntime.sleep(0.3)\nos.kill(-1, 9)",
                "process_limit",
                {},
            ),
            (
                "import sys\nwhile True: sys.stdout.write('a' * 65536)",
                "output_exceeded",
                {"stream_bytes": 4 << 20},
            ),
            (
                "import sys\nwhile True: sys.stderr.write('a' * 65536)",
                "output_exceeded",
                {"stream_bytes": 4 << 20},
            ),
            ("open('/out/x', 'wb').write(bytes(8 << 20))", "output_exceeded", {"out_bytes": 4 << 20}),
            ("open('/out/x', 'wb').write(bytes(8 << 20))", "exited", {"file_bytes": 1 << 20}),
            ("for i in range(99): open(f'/out/{i}', 'w')", "output_exceeded", {"out_files": 50}),
            ("import os\nfor i in range(99): os.mkdir(f'/out/{i}')", "output_exceeded", {"out_files": 50}),
            (
                "for i in range(6): open(f'/out/{i}', 'wb').truncate(1 << 20)",
                "output_exceeded",
                {"out_bytes": 4 << 20},
            ),
            (
                "try: open('/out/x', 'wb').write(bytes(8 << 20))\nexcept OSError: pass",
                "output_exceeded",
                {"out_bytes": 4 << 20},
            ),
            ("import os\nn = [os.open('/dev/null', 0) for _ in range(1000)]", "exited", {}),
        ],
        10,
    ),
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_each_limit_has_its_status(code: str, status: str, bounds: dict[str, int], era_runner, tmp_path: Path) -> None:
    job = python(code, **{"memory_mb": 128, "time_sec": 20, **bounds})
    outcome = run_job(era_runner, job, tmp_path)
    assert outcome.status == status, outcome
    if status not in ("succeeded", "exited", "failed"):
        assert outcome.detail.startswith(f"{status}: ")
    out = tmp_path / "run" / "out"
    assert sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) <= job.limits.out_bytes
    assert sum(1 for _ in out.rglob("*")) <= job.limits.out_files
    assert outcome.stdout.size <= job.limits.stream_bytes + (1 << 18)
    nothing_left(tmp_path)


def test_processes_are_exact(era_runner, tmp_path: Path) -> None:
    """The keeper and this process count: 126 more, and not one beyond."""
    code = (
        "import os, signal\nn = 0\ntry:\n  while True:\n    if os.fork() == 0: signal.pause()\n    n += 1\n"
        "except OSError: print(n, flush=True)\nimport time; time.sleep(0.2)"
    )
    outcome = run_job(era_runner, python(code), tmp_path)
    assert outcome.stdout.kept == b"126\n" and outcome.status == "process_limit"


@pytest.mark.parametrize("which", ["cancelled", "interrupted"])
def test_it_ends_when_told(which: str, era_runner, tmp_path: Path) -> None:
    steer = control(tmp_path)
    timer = threading.Timer(1.0, getattr(steer, which).set)
    timer.start()
    job = python("import time; time.sleep(60)", time_sec=60)
    begin = time.monotonic()
    outcome = era_runner.run(clearance(job), job, steer)
    assert outcome.status == which and time.monotonic() - begin < 30
    nothing_left(tmp_path)


@pytest.mark.slow
def test_programs_that_are_not_there_or_argv_that_is_no_program(era_runner, tmp_path: Path) -> None:
    gone = run_job(era_runner, era_job("no-such-program"), tmp_path / "a")
    assert (gone.status, gone.exit_code) == ("failed", 127)
    assignment = run_job(era_runner, era_job("A=b", "id"), tmp_path / "b")
    assert assignment.status == "unavailable"
    none = run_job(era_runner, monty_job("1"), tmp_path / "c")
    assert none.status == "unavailable"
    words = run_job(era_runner, era_job("printf", "%s|", "a b", "$HOME", "`id`", "x\ny", ""), tmp_path / "d")
    assert words.stdout.kept == b"a b|$HOME|`id`|x\ny||"


def test_a_workdir_that_is_not_there(era_runner, tmp_path: Path) -> None:
    outcome = run_job(era_runner, replace(era_job("pwd"), workdir="/in/none"), tmp_path)
    assert outcome.status == "failed" and outcome.exit_code == 125


def test_what_is_missing_is_said_and_nothing_runs(tmp_path: Path) -> None:
    absent = EraRunner(EraSettings(engine=f"unix://{tmp_path}/none.sock", image=era_settings().image, runtime="engine"))
    assert "no container engine" in str(absent.available())
    assert run_job(absent, era_job("id"), tmp_path / "a").status == "unavailable"
    remote = EraRunner(EraSettings(engine="tcp://192.0.2.1:2375", image=era_settings().image, runtime="engine"))
    assert "only an engine on this machine" in str(remote.available())
    imageless = EraRunner(EraSettings(engine=ENGINE, image="sha256:" + "0" * 64, runtime="engine"))
    assert "no image" in str(imageless.available())
    assert "threegate settings images" in str(EraRunner(EraSettings(engine=ENGINE, runtime="engine")).available())
    job = replace(era_job("id"), image="sha256:" + "0" * 64)
    assert run_job(imageless, job, tmp_path / "b").status == "unavailable"
    kata = EraRunner(era_settings(runtime="kata"))
    assert "no runtime 'kata'" in str(kata.available())
    assert "no runtime 'krun'" in run_job(kata, era_job("id", runtime="krun"), tmp_path / "c").detail
    assert EraRunner(era_settings()).available() is None


@pytest.mark.slow
def test_an_image_with_a_volume_or_a_health_check_is_refused(tmp_path: Path) -> None:
    for number, change in enumerate(("VOLUME /data", 'HEALTHCHECK CMD ["true"]', "ONBUILD USER 0")):
        made = docker("create", era_settings().image, "true").strip()
        tag = f"threegate-test-{uuid.uuid4().hex[:12]}"
        image = docker("commit", "--change", change, made, tag).strip()
        docker("rm", made)
        try:
            job = replace(era_job("id"), image=image)
            outcome = run_job(EraRunner(era_settings()), job, tmp_path / str(number))
            assert outcome.status == "unavailable" and "no sandbox image may have" in outcome.detail
        finally:
            docker("rmi", tag)


def test_one_difference_and_no_byte_of_the_code_runs(
    era_runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container that got more than was asked for is stopped before the go byte."""
    job = python("open('/out/ran', 'w')")
    real = spec.host_config

    def generous(*args: object, **words: object) -> dict[str, object]:
        return {**real(*args, **words), "Memory": 512 << 20, "MemorySwap": 512 << 20, "PidsLimit": 500}  # type: ignore[arg-type]

    monkeypatch.setattr(spec, "host_config", generous)
    outcome = run_job(era_runner, job, tmp_path)
    assert outcome.status == "failed" and outcome.detail.startswith("limits_not_enforced: memory is ")
    assert "processes is 500, not 128" in outcome.detail
    assert outcome.artifacts == () and outcome.exit_code is None
    nothing_left(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
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
        {"Ulimits": []},
        {"Privileged": True},
        {"LogConfig": {"Type": "json-file", "Config": {}}},
        {"Binds": ["/etc:/host:ro"]},
    ],
    ids=lambda words: "-".join(words) + str(list(words.values())[0])[:12],
)
def test_each_wall_that_is_not_there_is_seen(
    words: dict[str, object], era_runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = spec.host_config
    monkeypatch.setattr(spec, "host_config", lambda *a, **w: {**real(*a, **w), **words})
    outcome = run_job(era_runner, python("open('/out/ran', 'w')"), tmp_path)
    assert outcome.status == "failed" and outcome.detail.startswith("limits_not_enforced: "), outcome.detail
    assert outcome.artifacts == ()


def test_another_first_process_is_seen_before_the_go(
    era_runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec, "KEEPER_WORDS", (*spec.KEEPER_WORDS[:-1], spec.KEEPER_WORDS[-1] + "#"))
    outcome = run_job(era_runner, python("open('/out/ran', 'w')"), tmp_path)
    assert "the engine is running a PID 1 that is not ours; PID 1 is not the keeper" in outcome.detail
    assert outcome.status == "failed" and outcome.artifacts == ()


def test_the_folder_of_another_run_is_seen_before_the_go(
    era_runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = container_run.greeting

    def exchanged(connection: socket.socket) -> object:
        (folder,) = tmp_path.rglob("work/in")
        folder.rename(folder.with_name("other"))
        folder.mkdir()
        return real(connection)

    monkeypatch.setattr(container_run, "greeting", exchanged)
    outcome = run_job(era_runner, python("open('/out/ran', 'w')"), tmp_path)
    assert outcome.status == "failed" and outcome.artifacts == ()
    assert outcome.detail == "limits_not_enforced: /in is not this run's folder."


@pytest.mark.slow
def test_orphans_of_older_boots_go_and_no_others(tmp_path: Path) -> None:
    mine, other = (f"ws-{uuid.uuid4().hex}" for _ in range(2))

    def start(workspace: str, boot: str) -> str:
        return docker(
            "run",
            "-d",
            "--network",
            "none",
            "--label",
            f"threegate.workspace={workspace}",
            "--label",
            f"threegate.boot={boot}",
            era_settings().image,
            "sleep",
            "300",
        ).strip()

    old, new, foreign = start(mine, "old"), start(mine, "new"), start(other, "old")
    run = tmp_path / "runs" / "TR-x" / "work"
    run.mkdir(parents=True)
    labels = ("--label", f"threegate.workspace={mine}", "--label")
    volume = docker("volume", "create", *labels, "threegate.boot=old").strip()
    kept = docker("volume", "create", *labels, "threegate.boot=new").strip()
    try:
        removed = remove_orphans(mine, "new", url=ENGINE, runs_folder=tmp_path / "runs")
        left = docker("ps", "-aq", "--no-trunc").split()
        assert old not in left and new in left and foreign in left
        assert len(removed) == 3
        volumes = docker("volume", "ls", "-q").split()
        assert volume not in volumes and kept in volumes and not run.exists()
        assert remove_orphans(mine, "new", url=ENGINE, runs_folder=tmp_path / "runs") == []
    finally:
        docker("rm", "-f", new, foreign)
        docker("volume", "rm", kept)


def test_orphans_without_an_engine_are_no_error(tmp_path: Path) -> None:
    assert remove_orphans("ws-x", "boot", url=f"unix://{tmp_path}/none", runs_folder=tmp_path) == []


def test_a_volume_that_cannot_be_made_ends_the_request(era_runner, tmp_path: Path) -> None:
    outcome = run_job(era_runner, era_job("id", out_bytes=-1), tmp_path)
    assert outcome.status == "failed" and "could not be started" in outcome.detail
    nothing_left(tmp_path)


@pytest.mark.slow
def test_runs_at_the_same_time_do_not_meet(tmp_path: Path) -> None:
    """Four at once, each with its own input and output."""
    outcomes: dict[int, Outcome] = {}

    def one(number: int) -> None:
        job = with_inputs(
            python("import os; print(os.listdir('/in'), open('/in/a').read())"),
            tmp_path / str(number),
            {"a": str(number).encode()},
        )
        outcomes[number] = run_job(EraRunner(era_settings()), job, tmp_path / str(number))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcomes[n].stdout.kept for n in range(4)] == [f"['a'] {n}\n".encode() for n in range(4)]


@pytest.mark.parametrize("code", [slow("x = bytearray(b'x') * (300 << 20)"), slow("while True: pass"), "print('fine')"])
@pytest.mark.slow
def test_gvisor_holds_the_same_limits(code: str, tmp_path: Path) -> None:
    # Now and then the kernel kills a helper of gVisor and not the program, which then stands still until its time is
    # up.
    job = python(code, memory_mb=128, time_sec={"w": 6, "x": 12, "p": 30}[code[0]], runtime="runsc")
    outcome = run_job(EraRunner(era_settings(runtime="runsc")), job, tmp_path)
    expected = {"x": ("out_of_memory", "failed", "timed_out"), "w": ("timed_out",), "p": ("succeeded",)}[code[0]]
    assert outcome.status in expected, outcome.detail
    assert outcome.effective_limits["memory"] == f"{128 << 20} bytes"
    assert outcome.effective_limits["runtime"] == "runsc"
    nothing_left(tmp_path)


def test_gvisor_has_no_way_out_and_says_so(tmp_path: Path) -> None:
    job = era_job("id", runtime="runsc", network=("a.example:443",))
    outcome = run_job(EraRunner(era_settings(runtime="runsc")), job, tmp_path)
    assert outcome.status == "unavailable" and "allowlist" in outcome.detail


def test_a_clearance_runs_the_job_it_was_made_for_and_no_other(era_runner, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="another job"):
        era_runner.run(clearance(era_job("true")), era_job("id"), control(tmp_path))
    nothing_left(tmp_path)
