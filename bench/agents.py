"""Agents: how long a run takes to start and to draft, and a person's change to be approved and applied.

    python -m bench.agents [--copy 20000] [--codemod 1000 6000 10000] [--ignored 60000] [--notebooks 80]

As root, the commands run as `nobody`. Each command is timed from outside, beside what git and cp take for the same
files, in turn. Seconds are those of the clock, and of processors in brackets.
"""

from __future__ import annotations

import argparse
import base64
import os
import random
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.plugins.agents.people import Person, as_account, person
from threegate.core.workspace import Workspace
from threegate.plugins.agents.names_layer import names_work
from threegate.plugins.agents.work_changes import read_changes
from threegate.plugins.agents.work_copy import SCRATCH, UPPER, CopyKind, WorkCopy
from threegate.runners.jail.jail import Account, Jail

ROUNDS = 9
NOW = "date +%s.%N"
"""The last that an agent here does: what the command takes after that is the reading and drafting of its changes."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a command took, and what it wrote to stdout."""

    began: float
    seconds: float
    cpu: float
    out: str

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s ({self.cpu:.2f})"


def spent(words: Sequence[str], *, cwd: Path, environment: dict[str, str] | None = None, account: str = "") -> Spent:
    """Run a program to its end."""
    before, began, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.time(), time.perf_counter()
    done = subprocess.run(
        words, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        **as_account(account),
    )  # fmt: skip
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(f"bench: {words[0]}: {done.stderr[-500:]}")
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Spent(began, seconds, cpu, done.stdout)


def command(who: Person, *words: str) -> Spent:
    """Run a command of ThreeGate as this person."""
    return spent(who.command(*words), cwd=who.home, environment=who.environ(), account=who.account)


def started(who: Person) -> tuple[float, Spent]:
    """Seconds until an agent's first program runs, and what the whole run took."""
    run = command(who, *who.words("/bin/sh", "-c", NOW, options=["--propose", "never"]))
    return float(run.out.split()[-1]) - run.began, run


def committed(who: Person) -> None:
    """Make the project a repository with one commit, and give everything to the person."""
    git = ["git", "-c", "safe.directory=*", "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run([*git, "-C", str(who.project), *words], check=True)
    who.own()


def codemod(count: int) -> dict[str, Spent]:
    """One word in each of `count` files: drafted at the end of a run, approved, and applied."""
    with person("user") as who:
        for number in range(count):
            place = who.project / f"src/d{number % 60}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"f{number}.py").write_text(f"value = {number}\n" * 20)
        committed(who)
        script = f"find src -name '*.py' | xargs sed -i 1s/value/number/; {NOW}"
        run = command(who, *who.words("/bin/sh", "-c", script, options=["--propose", "always"]))
        ended = float(run.out.split()[-1])
        [draft] = (who.workspace / "tool-exec" / "agents").glob("*/inbox/TR-*.md")
        found = {"run": run, "drafted": Spent(ended, run.began + run.seconds - ended, run.cpu, "")}
        before = who.root / "before"
        copied = ["cp", "-a", "--reflink=auto", str(who.project), str(before)]
        found["cp -a"] = spent(copied, cwd=who.root)
        sign = ["approve", str(draft), "--as", "operator", "--key", str(who.key), "--yes"]
        found["approved"] = command(who, *sign)
        found["applied"] = command(who, "run", "--once")
        if [event["status"] for event in who.events("finished")] != ["succeeded"]:
            raise SystemExit("bench: the change was not applied")
        differing = ["git", "diff", "--no-index", "--binary", "before/src", str(who.project / "src")]
        found["git diff"] = spent(differing, cwd=who.root)
        patch = who.root / "patch"
        patch.write_text(found["git diff"].out.replace(f"b{who.project}/src", "b/before/src"))
        found["git apply"] = spent(["git", "apply", str(patch)], cwd=who.root)
        return found


def tell_codemod(counts: Sequence[int]) -> None:
    """Print each of these sizes, and how the last grew from the first."""
    taken = {}
    for count in counts:
        found = codemod(count)
        whole = found["approved"].seconds + found["applied"].seconds
        taken[count] = [sum(found[name].cpu for name in names) for names in (("run",), ("approved", "applied"))]
        print(f"codemod of {count} files: drafted {found['drafted'].seconds:.2f} s after the agent's end")
        print(f"  the whole run {found['run']}; beside git diff {found['git diff']}, cp -a {found['cp -a']}")
        print(f"  approved {found['approved']}, applied {found['applied']}: together {whole:.2f} s")
        print(f"  beside git apply {found['git apply']}, cp -a {found['cp -a']}", flush=True)
    if len(counts) > 1:
        first, last = taken[counts[0]], taken[counts[-1]]
        growth = " and ".join(f"{many / few:.1f}x" for few, many in zip(first, last, strict=True))
        print(f"from {counts[0]} to {counts[-1]} files processors take {growth} (run; approval and application)")


def tell_start(what: str, fill: Callable[[Path], None]) -> None:
    """Print how long an agent takes to start in a project."""
    with person("user") as who:
        fill(who.project)
        committed(who)
        copied = spent(["cp", "-a", "--reflink=auto", str(who.project), str(who.root / "copy")], cwd=who.root)
        for times in ("first", "again"):
            seconds, run = started(who)
            print(
                f"start with {what}, {times}: {seconds:.2f} s; the whole run {run}; beside cp -a {copied}", flush=True
            )


def ignored(count: int) -> Callable[[Path], None]:
    """A project with so many ignored files in packages."""

    def fill(project: Path) -> None:
        (project / ".gitignore").write_text("node_modules/\n")
        for number in range(count):
            place = project / f"node_modules/p{number // 60}/lib{number % 4}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"f{number}.js").write_text(f"exports.f{number} = (a, b) => a + b;\n" * (1 + number % 60))

    return fill


def notebooks(megabytes: int) -> Callable[[Path], None]:
    """A project with so many MB of pictures in notebooks."""

    def fill(project: Path) -> None:
        draw = random.Random(8)
        for number in range(megabytes):
            picture = base64.b64encode(draw.randbytes(780_000)).decode()
            cell = f'{{"cells": [{{"outputs": [{{"data": {{"image/png": "{picture}"}}}}]}}]}}'
            (project / f"n{number}.ipynb").write_text(cell)

    return fill


def median_ms(act: Callable[[], object]) -> float:
    """Milliseconds of the middle one of some rounds."""
    taken = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        act()
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)


def in_jail(copy: WorkCopy, *words: str, begin: bool) -> None:
    """Run a program in the copy to its end."""
    jail = Jail(copy.account, copy.bound, copy.layered, cwd=str(copy.root))
    process = jail.start(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, begin=begin
    )
    if process.wait() != 0:
        raise SystemExit("bench: the jail did not start")


def tell_copy(count: int) -> None:
    """Print how long a work copy takes to make and to read, and what the jail adds to a start."""
    with tempfile.TemporaryDirectory(prefix="threegate-bench-") as name:
        root = Path(name)
        project = root / "project"
        for number in range(count):
            place = project / f"d{number // 200}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"f{number}").write_bytes(b"%d\n" % number * 50)
        (root / "tool-exec").mkdir()
        run = Workspace(root).agent_run("ar-20260101-000000z-00000000").make()
        for part in (UPPER, SCRATCH):
            (run.work / part).mkdir()
        ordinary = os.geteuid() != 0
        overlay = ordinary and names_work(Account.own(), project, run.work, run.work)
        kind: CopyKind = "overlay" if overlay else "plain"
        for what in ("first", "again"):
            begun = time.perf_counter()
            where = Workspace(root).agent_run(f"ar-20260101-000000z-0000000{1 + (what == 'again')}").make()
            copy = WorkCopy.make(where, project, account=Account.own(), kind=kind, cache=root / "cache")
            print(f"{kind} work copy of {count} files, {what}: {(time.perf_counter() - begun) * 1000:.0f} ms")
        bare = median_ms(lambda: subprocess.run(["/bin/true"], check=True))
        jailed = median_ms(lambda: in_jail(copy, "/bin/true", begin=False))
        print(f"start of a program: bare {bare:.1f} ms, in the jail {jailed:.1f} ms (+{jailed - bare:.1f})")
        in_jail(
            copy,
            "/bin/sh",
            "-c",
            "for n in $(seq 0 999); do echo changed >>d$((n / 200))/f$n; done",
            begin=False,
        )
        begun = time.perf_counter()
        rows = len(read_changes(copy).rows)
        print(f"change set of {rows} files: {(time.perf_counter() - begun) * 1000:.0f} ms")
        for place in root.glob("tool-exec/agents/*/work/scratch/*"):
            place.chmod(0o700)


def main() -> None:
    """Print the parts that are asked for, all if none is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copy", type=int, help="files of a work copy")
    parser.add_argument("--codemod", type=int, nargs="+", help="files that are changed")
    parser.add_argument("--ignored", type=int, help="ignored files of a project")
    parser.add_argument("--notebooks", type=int, help="MB of notebooks of a project")
    asked = parser.parse_args()
    if not any(vars(asked).values()):
        asked = argparse.Namespace(copy=20_000, codemod=[1000, 6000, 10_000], ignored=60_000, notebooks=80)
    if asked.copy:
        tell_copy(asked.copy)
    if asked.codemod:
        tell_codemod(asked.codemod)
    if asked.ignored:
        tell_start(f"{asked.ignored} ignored files", ignored(asked.ignored))
    if asked.notebooks:
        tell_start(f"{asked.notebooks} MB of notebooks", notebooks(asked.notebooks))


if __name__ == "__main__":
    main()
