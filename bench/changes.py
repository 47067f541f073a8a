"""What a change of many files costs: made, read, shown, applied, undone; beside `git diff`, `git apply` and `cp -a` of
the same change, in turn.

    python -m bench.changes [--files 1000 10000] [--rounds 3]

Prints the median of the rounds in ms: of the clock, and of this process and its children in brackets. With several
sizes also how much more the last takes than the first. Runs as root (the change is made as another account) or as the
account that owns the temporary folder.
"""

from __future__ import annotations

import argparse
import io
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.plugins.changes.applying import Change, own
from tests.plugins.changes.trees_on_disk import build, held, made
from threegate.approval.shown.escaped_lines import diff_lines
from threegate.plugins.changes.change_facts import changed_paths, path_diff
from threegate.plugins.changes.change_tar import read_change_set
from threegate.plugins.changes.trees import HeldTree

Times = tuple[float, float]
"""Milliseconds of the clock, and of processors."""


def cpu() -> float:
    """Seconds of processors so far."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def timed(work: Callable[[], object]) -> Times:
    """What one call takes."""
    began, before = time.perf_counter(), cpu()
    work()
    return (time.perf_counter() - began) * 1000, (cpu() - before) * 1000


def show(project: Path, data: bytes) -> int:
    """All lines of the diff."""
    change = read_change_set(data)
    stream = io.BytesIO(data)
    with held(project) as folder:
        tree = HeldTree(folder)
        found = [path_diff(tree, change, stream, item).text for item in changed_paths(change, stream)]
        return sum(len(diff_lines(text)) for text in found if text is not None)


def applied(change: Change, act: str) -> None:
    done = getattr(change, act)()
    assert done.status == "succeeded", done
    change.forget()


def git_times(folder: Path, project: Path, work: Path) -> tuple[Times, Times]:
    """The same change made and applied by git, outside of any repository."""
    words = ["git", "diff", "--no-index", "--binary", str(project), str(work)]
    found: list[bytes] = []
    made_in = timed(lambda: found.append(subprocess.run(words, capture_output=True, check=False).stdout))
    copy = folder / "git"
    shutil.copytree(project, copy)
    patch = found[0].replace(b"b" + bytes(work), b"b" + bytes(project))
    apply = ["git", "apply", f"-p{len(project.parts)}", "-"]
    return made_in, timed(lambda: subprocess.run(apply, cwd=copy, input=patch, capture_output=True, check=True))


def one_round(count: int) -> dict[str, Times]:
    """Each part once."""
    before = {f"d{number % 50}/f{number}.py": f"value = {number}\n" * 20 for number in range(count)}
    after = {path: text.replace("value", "number", 1) for path, text in before.items()}
    with tempfile.TemporaryDirectory(prefix="threegate-bench-") as name:
        folder = Path(name)
        project, work = own(build(folder / "project", before)), build(folder / "work", after)
        told: dict[str, Times] = {}
        found = made(project, work)
        told["compare and make"] = timed(lambda: made(project, work))
        told["git diff"], told["git apply"] = git_times(folder, project, work)
        told["read"] = timed(lambda: read_change_set(found.data))
        told["show"] = timed(lambda: show(project, found.data))
        copied = ["cp", "-a", "--reflink=auto", str(project), str(folder / "copy")]
        told["cp -a"] = timed(lambda: subprocess.run(copied, check=True))
        change = Change(project, found.data, folder)
        told["apply"] = timed(lambda: applied(change, "apply"))
        told["undo"] = timed(lambda: applied(change, "undo"))
        return told


def middle(rounds: Sequence[Times]) -> Times:
    """The median of some rounds, of each by itself."""
    clock, processors = zip(*rounds, strict=True)
    return statistics.median(clock), statistics.median(processors)


def main() -> None:
    """Print a line for each part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    found = {}
    for count in asked.files:
        rounds = [one_round(count) for _ in range(asked.rounds)]
        found[count] = {part: middle([told[part] for told in rounds]) for part in rounds[0]}
        for part, (clock, processors) in found[count].items():
            print(f"{count:6} files  {part:18} {clock:8.0f} ms ({processors:.0f})", flush=True)
    if len(found) > 1:
        first, *_, last = asked.files
        for part in found[first]:
            growth = found[last][part][1] / max(found[first][part][1], 1)
            print(f"from {first} to {last} files  {part:18} {growth:5.1f}x of processors")


if __name__ == "__main__":
    main()
