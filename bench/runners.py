"""What the runners cost, beside the bare parts, in turn; and how far each limit is overshot.

    .venv/bin/python bench/runners.py [--rounds N] [--write]     (after: eval "$(scripts/engine up)")

Prints ours, a named reference, and the ratio. `--write` puts the table of overshoots into docs/limits.md.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pydantic_monty

from tests.engine_fixtures import ENGINE, era_job, era_settings, monty_job, run_job
from tests.runners.jailed import jailed_job
from threegate.core.settings import EraSettings
from threegate.request.job import BUBBLEWRAP, Job
from threegate.runners.era.jailed_run import BubblewrapRunner
from threegate.runners.era.runner import EraRunner
from threegate.runners.interface import Runner
from threegate.runners.monty.program import worker_binary
from threegate.runners.monty.runner import MontyRunner
from threegate.runners.monty.worker import Worker, find_isolation
from threegate.runners.seccomp import SECCOMP_JSON

CODE = "sum(i * i for i in range(1000))"
_MARK_BEGIN, _MARK_END = "<!-- bench/runners.py writes this -->", "<!-- until here -->"


def in_turn(rounds: int, *acts: Callable[[], object]) -> list[list[float]]:
    """Milliseconds of each act, taken in turn so that the machine's mood meets all alike."""
    times: list[list[float]] = [[] for _ in acts]
    for number in range(rounds + 2):
        for act, kept in zip(acts, times, strict=True):
            begin = time.perf_counter()
            act()
            if number >= 2:
                kept.append((time.perf_counter() - begin) * 1000)
    return times


def line(name: str, ours: list[float], reference: str, theirs: list[float]) -> None:
    """One line: p50 and p95 of both, and the ratio of the medians."""

    def percentiles(values: list[float]) -> tuple[float, float]:
        return statistics.median(values), sorted(values)[int(len(values) * 0.95) - 1]

    a, b = percentiles(ours), percentiles(theirs)
    print(
        f"{name:<34} p50 {a[0]:7.1f} ms  p95 {a[1]:7.1f} ms   {reference:<40} p50 {b[0]:7.1f} ms  p95 {b[1]:7.1f} ms"
        f"   ratio {a[0] / b[0]:.2f}"
    )


def era(rounds: int) -> None:
    """An ERA run beside `docker run` with the same walls."""
    runner = EraRunner(era_settings())
    job = era_job("cat", "/etc/debian_version")
    with tempfile.TemporaryDirectory() as name:
        profile = Path(name) / "seccomp.json"
        profile.write_text(SECCOMP_JSON)
        (Path(name) / "in").mkdir()
        bare = [
            *("docker", "-H", ENGINE, "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL"),
            *(
                "--security-opt",
                "no-new-privileges",
                "--security-opt",
                f"seccomp={profile}",
                "--memory",
                "64m",
            ),
            *(
                "--memory-swap",
                "64m",
                "--cpus",
                "1",
                "--pids-limit",
                "128",
                "--user",
                "65534:65534",
                "--tmpfs",
            ),
            *("/tmp:rw,noexec,nosuid,nodev,size=32m", "--tmpfs", "/out:size=268435456", "--ipc", "private"),
            *(
                "--ulimit",
                "nofile=256",
                "--log-driver",
                "none",
                "--entrypoint",
                "",
                "-v",
                f"{name}/in:/in:ro",
            ),
            *(era_settings().image, "cat", "/etc/debian_version"),
        ]
        number = iter(range(100_000))

        ours, theirs = in_turn(
            rounds,
            lambda: run_job(runner, job, Path(name) / str(next(number))),
            lambda: subprocess.run(bare, check=True, capture_output=True),
        )
    line("ERA run, whole", ours, "docker run, same flags", theirs)


def bubblewrap(rounds: int) -> None:
    """An ERA run by bubblewrap beside bubblewrap alone with the same program, and beside the engine if there is one."""
    runner = BubblewrapRunner(EraSettings(runtime=BUBBLEWRAP))
    if (problem := runner.available()) is not None:
        print(f"ERA by bubblewrap: {problem}")
        return
    words = ("/usr/bin/python3", "-I", "-c", "pass")
    job = jailed_job(*words)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        (Path(name) / "in").mkdir()
        bare = ["/usr/bin/bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--clearenv"]
        bare += ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/out", "--tmpfs", "/tmp"]
        bare += ["--ro-bind", f"{name}/in", "/in"]
        for folder in ("bin", "lib", "lib64", "sbin"):
            bare += ["--symlink", f"usr/{folder}", f"/{folder}"]
        number = iter(range(100_000))
        acts: list[Callable[[], object]] = [
            lambda: run_job(runner, job, Path(name) / str(next(number))),
            lambda: subprocess.run([*bare, "--", *words], check=True, capture_output=True),
        ]
        if ENGINE:
            engine = EraRunner(era_settings())
            acts.append(lambda: run_job(engine, era_job(*words), Path(name) / str(next(number))))
        ours, theirs, *by_engine = in_turn(rounds, *acts)
    how = "cgroups" if runner.by_cgroup else "watched"
    line(f"ERA run by bubblewrap ({how})", ours, "bubblewrap alone, same program", theirs)
    for times in by_engine:
        line(f"ERA run by bubblewrap ({how})", ours, "ERA run by the engine", times)


def monty(rounds: int) -> None:
    """A Monty run beside a bare pool that starts a fresh worker through the same wrapper."""
    runner = MontyRunner(2)
    runner.available()
    binary = worker_binary()
    isolation = find_isolation(binary)

    def bare() -> object:
        worker = Worker(isolation, binary)
        try:
            with worker.pool.checkout() as session:
                return session.feed_run(CODE)
        finally:
            worker.close()

    def bare_warm() -> object:
        with pool.checkout() as session:
            return session.feed_run(CODE)

    with tempfile.TemporaryDirectory() as name, pydantic_monty.Monty(binary_path=binary) as pool:
        number = iter(range(100_000))
        ours, fresh, warm = in_turn(
            rounds, lambda: run_job(runner, monty_job(CODE), Path(name) / str(next(number))), bare, bare_warm
        )
        line("Monty run, whole", ours, "fresh worker, same wrapper", fresh)
        line("Monty run, whole", ours, "bare warm pool (shares workers)", warm)
        throughput(runner, bare, Path(name))
    runner.close()


def throughput(runner: MontyRunner, bare: Callable[[], object], folder: Path) -> None:
    """500 runs by two threads, files collected and synced, beside a bare loop that also verifies one ssh signature
    each.
    """
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (folder / "signers").write_text(f"me {key.with_suffix('.pub').read_text()}")
    (folder / "data").write_text("data")
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "t", folder / "data"],
        check=True,
        capture_output=True,
    )
    verify = [
        "ssh-keygen",
        "-q",
        "-Y",
        "verify",
        "-f",
        folder / "signers",
        "-I",
        "me",
        "-n",
        "t",
        "-s",
        folder / "data.sig",
    ]

    def reference() -> None:
        subprocess.run(verify, input=b"data", check=True, capture_output=True)
        bare()

    def pair(act: Callable[[], object], count: int) -> float:
        left = iter(range(count))
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    if next(left, None) is None:
                        return
                act()

        threads = [threading.Thread(target=work) for _ in range(2)]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return count / (time.perf_counter() - begin)

    number = iter(range(1_000_000))
    ours = pair(lambda: run_job(runner, monty_job(CODE), folder / f"t{next(number)}"), 500)
    theirs = pair(reference, 500)
    print(
        f"{'Monty throughput, 2 workers':<34} {ours:7.1f} a second               "
        f"{'fresh worker and one ssh-keygen verify':<40} "
        f"{theirs:7.1f} a second               ratio {ours / theirs:.2f}"
    )


def overshoot() -> list[tuple[str, str, str, str, str]]:
    """Each limit exceeded once: backend, limit, asked, found, status."""
    rows: list[tuple[str, str, str, str, str]] = []
    monty_runner = MontyRunner(1)
    jailed = BubblewrapRunner(EraSettings(runtime=BUBBLEWRAP))
    sandboxes: list[tuple[str, Runner, Callable[..., Job]]] = [("ERA in bubblewrap", jailed, jailed_job)]
    if ENGINE:
        sandboxes.insert(0, ("ERA", EraRunner(era_settings()), era_job))
    python = ("/usr/bin/python3", "-I", "-c")
    fork = (
        "import os, signal\nn = 2\ntry:\n  while True:\n    if os.fork() == 0: signal.pause()\n    n += 1\n"
        "except OSError: print(n, flush=True)\nimport time; time.sleep(0.3)"
    )
    with tempfile.TemporaryDirectory() as name:

        def tried(row: str, runner: object, job: object, found: Callable[[object, Path], str], asked: str) -> None:
            folder = Path(name) / str(len(rows))
            outcome = run_job(runner, job, folder)  # type: ignore[arg-type]
            rows.append(
                (
                    row.split("|")[0],
                    row.split("|")[1],
                    asked,
                    found(outcome, folder / "run" / "out"),
                    outcome.status,
                )
            )

        def size(folder: Path) -> str:
            return f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file())} bytes"

        def wall(outcome, _):
            return f"{outcome.wall_ms} ms"

        def peak(outcome, _):
            return f"{outcome.peak_memory_bytes / (1 << 20):.1f} MiB"

        for sandbox, runner, job in sandboxes:
            tried(
                f"{sandbox}|wall clock, busy",
                runner,
                job(*python, "while True: pass", time_sec=2),
                wall,
                "2000 ms",
            )
            tried(f"{sandbox}|wall clock, asleep", runner, job("sleep", "60", time_sec=2), wall, "2000 ms")
            tried(
                f"{sandbox}|memory",
                runner,
                job(*python, "x = bytearray(b'x') * (1 << 30)", memory_mb=128),
                peak,
                "128.0 MiB",
            )
            tried(
                f"{sandbox}|processes",
                runner,
                job(*python, fork),
                lambda o, _: o.stdout.kept.decode().strip(),
                "128",
            )
            tried(
                f"{sandbox}|bytes of /out",
                runner,
                job("dd", "if=/dev/zero", "of=/out/x", "bs=65536", memory_mb=512, file_bytes=1 << 30),
                lambda _, f: size(f),
                "268435456 bytes",
            )
            tried(
                f"{sandbox}|files of /out",
                runner,
                job(*python, "for i in range(5000): open(f'/out/{i}', 'w')"),
                lambda _, f: str(sum(1 for _ in f.rglob("*"))),
                "1024",
            )
            tried(
                f"{sandbox}|stdout",
                runner,
                job("yes"),
                lambda o, _: f"{o.stdout.size} bytes",
                f"{64 << 20} bytes",
            )
            tried(
                f"{sandbox}|cpu 0.5",
                runner,
                job(*python, "while True: pass", time_sec=3, cpu="0.5"),
                lambda o, _: f"{o.cpu_ms / o.wall_ms:.2f} cores",
                "0.50 cores",
            )
        tried("Monty|wall clock, busy", monty_runner, monty_job("while True: pass", time_sec=2), wall, "2000 ms")
        tried(
            "Monty|wall clock, asleep",
            monty_runner,
            monty_job("import time\nwhile True: time.sleep(9)", time_sec=2),
            wall,
            "2000 ms",
        )
        tried(
            "Monty|memory",
            monty_runner,
            monty_job("k = []\nwhile True: k.append('a' * 100000)", memory_mb=128, time_sec=60),
            peak,
            "128.0 MiB",
        )
        tried(
            "Monty|bytes of /out",
            monty_runner,
            monty_job("f = open('/out/x', 'w')\nwhile True: f.write('a' * 1000000)", time_sec=60, memory_mb=512),
            lambda _, f: size(f),
            "268435456 bytes",
        )
        tried(
            "Monty|files of /out",
            monty_runner,
            monty_job("for i in range(5000): open(f'/out/{i}', 'w').write('')", time_sec=60),
            lambda _, f: str(sum(1 for _ in f.rglob("*"))),
            "1024",
        )
        tried(
            "Monty|stdout",
            monty_runner,
            monty_job("while True: print('a' * 100000)", time_sec=60),
            lambda o, _: f"{o.stdout.size} bytes",
            f"{64 << 20} bytes",
        )
    monty_runner.close()
    return rows


def write_table(rows: list[tuple[str, str, str, str, str]]) -> None:
    """Put the table into docs/limits.md between its two marks."""
    path = Path(__file__).resolve().parents[1] / "docs" / "limits.md"
    text = path.read_text()
    table = ["| backend | limit | asked | reached | status |", "|---|---|---|---|---|"]
    table += [f"| {' | '.join(row)} |" for row in rows]
    head, rest = text.split(_MARK_BEGIN)
    path.write_text(f"{head}{_MARK_BEGIN}\n\n" + "\n".join(table) + f"\n\n{_MARK_END}{rest.split(_MARK_END)[1]}")


def main() -> None:
    """Run everything that this machine can run."""
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--write", action="store_true")
    chosen = options.parse_args()
    monty(chosen.rounds * 3)
    bubblewrap(chosen.rounds * 2)
    if ENGINE:
        era(chosen.rounds)
    rows = overshoot()
    for row in rows:
        print("{:<18} {:<24} asked {:<16} reached {:<16} {}".format(*row))
    if not ENGINE:
        print('no engine, so no table: eval "$(scripts/engine up)" first')
    elif chosen.write:
        write_table(rows)


if __name__ == "__main__":
    main()
