"""Monty runs: statuses, limits and their overshoot, inputs, values, cancelling."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests.engine_fixtures import clearance, control, monty_job, monty_runner, run_job, with_inputs
from tests.support import cgroups, children, wait_until
from threegate.core import limits
from threegate.runners.monty.runner import MontyRunner
from threegate.runners.monty.value import ValueTooLarge, render_value

__all__ = ["monty_runner"]


def test_code_reads_inputs_and_variables_and_gives_a_value(monty_runner, tmp_path: Path) -> None:
    code = (
        "rows = open('/in/a.csv').read().split()\nprint(len(rows))\nopen('/out/n', 'w').write(str(n))\n{'rows': rows}"
    )
    job = with_inputs(monty_job(code, variables={"n": 7}), tmp_path, {"a.csv": b"1,2\n3,4\n"})
    outcome = run_job(monty_runner, job, tmp_path)
    assert (outcome.status, outcome.exit_code) == ("succeeded", 0)
    assert outcome.stdout.kept == b"2\n"
    assert [item.path for item in outcome.artifacts] == ["n", "result.json"]
    assert json.loads((tmp_path / "run" / "out" / "result.json").read_text()) == {"rows": ["1,2", "3,4"]}
    assert outcome.effective_limits["no_new_privs"] == "yes"
    assert outcome.cpu_ms is not None and outcome.peak_memory_bytes


def test_an_error_is_told_on_stderr(monty_runner, tmp_path: Path) -> None:
    outcome = run_job(monty_runner, monty_job("x = {}\nx['gone']"), tmp_path)
    assert (outcome.status, outcome.exit_code, outcome.detail) == (
        "failed",
        1,
        "The code raised KeyError.",
    )
    assert b"line 2" in outcome.stderr.kept


def test_a_folder_that_cannot_be_made_leaves_no_worker(monty_runner, tmp_path: Path) -> None:
    job, steer = monty_job("1"), control(tmp_path)
    assert monty_runner.available() is None
    wait_until(lambda: len(children(os.getpid(), "monty")) == 1, "the worker that is kept ready", 20)
    (steer.run_folder / "out").touch()
    with pytest.raises(FileExistsError):
        monty_runner.run(clearance(job), job, steer)
    wait_until(lambda: len(children(os.getpid(), "monty")) == 1, "the next one, and not the one before", 20)


@pytest.mark.parametrize(
    "code",
    ["while True: pass", "import time\nwhile True: time.sleep(5)", "import asyncio\nawait asyncio.sleep(60)"],
)
def test_the_wall_clock_ends_loops_and_sleeps(code: str, monty_runner, tmp_path: Path) -> None:
    outcome = run_job(monty_runner, monty_job(code, time_sec=1), tmp_path)
    assert outcome.status == "timed_out" and outcome.exit_code is None
    print(f"overshoot {outcome.wall_ms - 1000} ms")
    # bench/runners.py measures the overshoot on a quiet machine; here only that there is an end.
    assert 1000 <= outcome.wall_ms <= 6000


def test_memory_limit_overshoots_by_less_than_five_percent(monty_runner, tmp_path: Path) -> None:
    code = "kept = []\nwhile True:\n    kept.append('a' * 100000)\n    print(len(kept))"
    outcome = run_job(monty_runner, monty_job(code, memory_mb=64), tmp_path)
    assert outcome.status == "out_of_memory"
    held = int(outcome.stdout.kept.split()[-1]) * 100_000
    print(f"held {held / (64 << 20):.3f} of the limit")
    assert 0.95 * (64 << 20) <= held <= 1.05 * (64 << 20)


def test_a_raised_memory_error_is_not_the_limit(monty_runner, tmp_path: Path) -> None:
    code = "raise MemoryError('memory limit exceeded: 1 bytes > 2 bytes')"
    assert run_job(monty_runner, monty_job(code), tmp_path).status == "failed"


def test_streams_are_kept_counted_and_hashed_up_to_the_cap(monty_runner, tmp_path: Path) -> None:
    outcome = run_job(monty_runner, monty_job("for i in range(30): print('a' * 99999)"), tmp_path / "a")
    assert outcome.status == "succeeded"
    assert (outcome.stdout.size, len(outcome.stdout.kept)) == (3_000_000, limits.STREAM_KEPT_BYTES)
    over = run_job(monty_runner, monty_job("while True: print('a' * 99999)", stream_bytes=5 << 20), tmp_path / "b")
    assert over.status == "output_exceeded" and "stdout" in over.detail
    assert over.stdout.size == 5 << 20


def test_files_are_exact_and_bytes_within_the_cap(monty_runner, tmp_path: Path) -> None:
    code = "for i in range(100): open(f'/out/{i}', 'w').write('x')"
    exact = run_job(monty_runner, monty_job(code, out_files=100), tmp_path / "a")
    assert exact.status == "succeeded" and len(exact.artifacts) == 100
    over = run_job(monty_runner, monty_job(code, out_files=99), tmp_path / "b")
    assert over.status == "output_exceeded" and len(over.artifacts) == 99
    reuse = (
        "from pathlib import Path\nfor i in range(500):\n    p = Path(f'/out/{i}')\n    p.write_text('x')\n    "
        "p.unlink()"
    )
    assert run_job(monty_runner, monty_job(reuse, out_files=50), tmp_path / "c").status == "succeeded"


@pytest.mark.parametrize("which", ["cancelled", "interrupted"])
def test_it_ends_when_told(which: str, monty_runner, tmp_path: Path) -> None:
    steer = control(tmp_path)
    told = []

    def tell() -> None:
        told.append(time.monotonic())
        getattr(steer, which).set()

    timer = threading.Timer(0.3, tell)
    timer.start()
    job = monty_job("while True: pass", time_sec=30)
    outcome = monty_runner.run(clearance(job), job, steer)
    assert outcome.status == which
    assert time.monotonic() - told[0] < 10


def test_async_sleeps_overlap_and_count_as_time(monty_runner, tmp_path: Path) -> None:
    code = (
        "import asyncio\nasync def f(n):\n    await asyncio.sleep(n)\n    return n\n"
        "await asyncio.gather(*[f(0.5) for _ in range(20)])"
    )
    outcome = run_job(monty_runner, monty_job(code, time_sec=9), tmp_path)
    assert (tmp_path / "run" / "out" / "result.json").read_text() == str([0.5] * 20) + "\n"
    assert 500 <= outcome.wall_ms < 10_000


def test_a_worker_that_is_killed_is_a_failed_outcome(tmp_path: Path) -> None:
    runner = MontyRunner(1)
    job = monty_job("while True: pass", time_sec=20)
    steer = control(tmp_path)
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(runner.run(clearance(job), job, steer)))
    thread.start()
    try:

        def busy() -> list[int]:
            """Workers that used a quarter of a second: more than their own start costs."""
            spent = {}
            for pid in children(os.getpid(), "monty"):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended just now
                    spent[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[11])
            return [pid for pid, ticks in spent.items() if ticks >= os.sysconf("SC_CLK_TCK") / 4]

        os.kill(wait_until(busy, "a worker at work", 10)[0], signal.SIGKILL)
        thread.join(10)
        assert outcomes[0].status == "failed"
        assert run_job(runner, monty_job("1"), tmp_path / "next").status == "succeeded"
    finally:
        runner.close()


def test_close_ends_every_worker() -> None:
    others = children(os.getpid(), "monty")
    runner = MontyRunner(3)
    assert runner.available() is None
    workers = wait_until(
        lambda: len(found := children(os.getpid(), "monty") - others) == 3 and found, "three workers", 10
    )
    runner.close()
    assert not workers & children(os.getpid(), "monty")


@pytest.mark.parametrize(
    ("value", "name", "data"),
    [
        ({"a": [1, 2.5, None, True]}, "result.json", b'{"a": [1, 2.5, null, true]}\n'),
        ("text", "result.json", b'"text"\n'),
        ((1, 2), "result.json", b"[1, 2]\n"),
        ({1, 2}, "result.txt", b"{1, 2}\n"),
        ({1: 2}, "result.txt", b"{1: 2}\n"),
        (float("nan"), "result.txt", b"nan\n"),
        (b"x", "result.txt", b"b'x'\n"),
        ("\ud800", "result.txt", b"\\ud800\n"),
        (2**70, "result.json", b"1180591620717411303424\n"),
    ],
)
def test_a_value_is_json_or_text(value: object, name: str, data: bytes) -> None:
    assert render_value(value) == (name, data)


def test_values_that_would_be_too_large_are_never_rendered() -> None:
    assert render_value(None) is None
    shared: object = [1] * 100
    for _ in range(20):
        shared = [shared] * 100
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    begin = time.process_time()
    for value in (
        shared,
        deep,
        {"a": shared},
        {frozenset({1}): shared},
        "a" * (17 << 20),
        [b"x" * (17 << 20)],
    ):
        with pytest.raises(ValueTooLarge):
            render_value(value)
    assert time.process_time() - begin < 20


@pytest.mark.root
def test_less_than_a_core_is_held_by_a_cgroup(monty_runner, tmp_path: Path) -> None:
    from dataclasses import replace

    job = monty_job("n = 0\nwhile True: n += 1", time_sec=2)
    slow = replace(job, limits=replace(job.limits, cpu="0.2"))
    outcome = run_job(monty_runner, slow, tmp_path)
    assert outcome.effective_limits["cpu"] == "0.2 cores (cgroup)"
    assert outcome.cpu_ms is not None and outcome.cpu_ms < 0.4 * outcome.wall_ms
    assert not cgroups(f"threegate-{os.getpid()}-*")


def test_a_clearance_runs_the_job_it_was_made_for_and_no_other(monty_runner, tmp_path: Path) -> None:
    mine, other = monty_job("1"), monty_job("2")
    with pytest.raises(TypeError, match="another job"):
        monty_runner.run(clearance(mine), other, control(tmp_path))
    assert not list(tmp_path.glob("*/out"))


CROWDED = """
import subprocess, sys, threading
from pathlib import Path
from tests.engine_fixtures import monty_job, run_job
from threegate.runners.monty.runner import MontyRunner
from threegate.runners.monty import worker
which = worker.shutil.which
worker.shutil.which = lambda name, path: None if name == "unshare" else which(name, path=path)  # as in a chroot
others = [subprocess.Popen(["sleep", "60"]) for _ in range(48)]
runner = MontyRunner(1)
try:
    outcome = run_job(runner, monty_job("print(6 * 7)"), Path(sys.argv[1]))
    print(outcome.status, outcome.stdout.kept, outcome.detail)
finally:
    runner.close()
    for other in others:
        other.kill()
"""


@pytest.mark.root
def test_an_ordinary_user_with_many_processes_can_run() -> None:
    """A limit of processes counts all that its user has: a worker without a user of its own cannot have one."""
    with tempfile.TemporaryDirectory(prefix="threegate-crowded-") as name:
        os.chmod(name, 0o777)
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", CROWDED, f"{name}/run"],  # noqa: E501
            capture_output=True,
            text=True,
            timeout=120,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "HOME": name, "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        assert done.stdout == "succeeded b'42\\n' The code ran to completion.\n", done.stdout + done.stderr
