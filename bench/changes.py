"""What a change of 1,000 files costs: made, read, shown, applied, undone; beside `cp -a` and `git apply` of the same
change.

    python -m bench.changes [--files N]

Runs as root (the change is made as another account) or as the account that owns the temporary folder.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.changes.trees_on_disk import build, held, made
from tests.runners.applying import Change, own
from threegate.changes.change_facts import changed_paths, path_diff
from threegate.changes.change_tar import read_change_set
from threegate.changes.trees import HeldTree


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    began = time.perf_counter()
    work()
    return round((time.perf_counter() - began) * 1000, 1)


def show(project: Path, data: bytes) -> int:
    """All lines of the diff."""
    change = read_change_set(data)
    stream = io.BytesIO(data)
    with held(project) as folder:
        tree = HeldTree(folder)
        return sum(len(path_diff(tree, change, stream, item).lines) for item in changed_paths(change, stream))


def applied(change: Change, act: str) -> None:
    done = getattr(change, act)()
    assert done.status == "succeeded", done
    change.forget()


def git_apply(folder: Path, project: Path, work: Path) -> float:
    """The same change by git, outside of any repository."""
    patch = subprocess.run(
        ["git", "diff", "--no-index", "--binary", str(project), str(work)], capture_output=True, check=False
    ).stdout
    copy = folder / "git"
    shutil.copytree(project, copy)
    strip = str(len(project.parts) + 1)
    target = {"cwd": copy, "input": patch, "capture_output": True}
    return timed(lambda: subprocess.run(["git", "apply", f"-p{strip}", "-"], check=False, **target))  # type: ignore[call-overload]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=1000)
    count = parser.parse_args().files
    before = {f"d{number % 50}/f{number}.py": f"value = {number}\n" * 20 for number in range(count)}
    after = {path: text.replace("value", "number", 1) for path, text in before.items()}
    with tempfile.TemporaryDirectory(prefix="threegate-bench-") as name:
        folder = Path(name)
        project, work = own(build(folder / "project", before)), build(folder / "work", after)
        told: dict[str, float] = {"files": count}
        found = made(project, work)
        told["compare and make, ms"] = timed(lambda: made(project, work))
        told["read, ms"] = timed(lambda: read_change_set(found.data))
        told["show, ms"] = timed(lambda: show(project, found.data))
        told["git apply, ms"] = git_apply(folder, project, work)
        told["cp -a, ms"] = timed(lambda: subprocess.run(["cp", "-a", str(project), str(folder / "copy")], check=True))
        change = Change(project, found.data, folder)
        told["apply, ms"] = timed(lambda: applied(change, "apply"))
        told["undo, ms"] = timed(lambda: applied(change, "undo"))
        print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
