"""How many of a repository's ordinary commits have marks, and how many a list of drafts would have first.

    python -m bench.marks_of_commits REPOSITORY... [--days 365] [--show "starts a process"] [--first]
    python -m bench.marks_of_commits --planted

REPOSITORY is a work tree or a bare repository of git. Of its commits that are not merges, in so many days before the
newest one, prints how many have each mark, and the class of each as a change set. --show prints the lines with a mark,
to judge which of them are false; --first the commits that come first, with why. --planted prints the same for the
planted change sets of tests/data/planted_changes.jsonl.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.plugins.changes.planted_changes import SeenChange, figures, planted_changes, seen_change
from threegate.plugins.changes.change_facts import file_change
from threegate.plugins.changes.marks import marks_of
from threegate.plugins.changes.run_later import why_runs_later
from threegate.request.backend import ATTENTIONS

_MODES = ("100644", "100755", "120000")
_DAY = 86_400


class Repository:
    """A repository, read by git alone."""

    def __init__(self, folder: Path) -> None:
        self._words = ["git", "-C", str(folder)]
        self._blobs = subprocess.Popen(
            [*self._words, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def read(self, *words: str) -> bytes:
        return subprocess.run([*self._words, *words], capture_output=True, check=True).stdout

    def commits(self, days: int) -> list[str]:
        newest = int(self.read("log", "-1", "--format=%ct"))
        return self.read("log", "--no-merges", f"--since={newest - days * _DAY}", "--format=%H").decode().split()

    def changes(self, commit: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The paths that a commit changes, as trees before and after."""
        listed = self.read("diff-tree", "-r", "-z", "--no-commit-id", "--no-renames", "--root", commit).split(b"\0")
        trees: tuple[dict[str, Any], dict[str, Any]] = {}, {}
        for facts, name in zip(listed[::2], listed[1::2], strict=False):
            old_mode, mode, old, new, _ = facts.decode().lstrip(":").split()
            path = name.decode(errors="replace")
            for tree, mode_there, blob in ((trees[0], old_mode, old), (trees[1], mode, new)):
                if mode_there in _MODES:
                    data = self._blob(blob)
                    kinds = {"100755": ("x", data), "120000": ("link", os.fsdecode(data))}
                    tree[path] = kinds.get(mode_there, data)
        return trees

    def _blob(self, name: str) -> bytes:
        assert self._blobs.stdin is not None and self._blobs.stdout is not None
        self._blobs.stdin.write(f"{name}\n".encode())
        self._blobs.stdin.flush()
        size = int(self._blobs.stdout.readline().split()[2])
        data = self._blobs.stdout.read(size)
        self._blobs.stdout.read(1)
        return data


def show(commit: str, before: dict[str, Any], after: dict[str, Any], what: str) -> None:
    """Print the lines of a commit that have this mark."""
    for path in sorted({*before, *after}):
        old, new = ((there.get(path, b"")) for there in (before, after))
        old, new = (data if isinstance(data, bytes) else os.fsencode(data[1]) for data in (old, new))
        text = None if b"\0" in old + new else file_change(old, new)
        if text is None:
            continue
        runs = why_runs_later(path, executable=False, head=new[:64]) is not None
        for mark in marks_of(path, text, runs=runs):
            if mark.what == what and mark.line:
                side = text.old if mark.removed else text.new
                print(f"{commit[:9]} {path}:{mark.line}: {side[mark.line - 1].strip()[:150]}")


def seen_commits(repository: Repository, days: int, shown: str) -> Iterator[SeenChange]:
    """Each commit as a change set."""
    for commit in repository.commits(days):
        before, after = repository.changes(commit)
        if shown:
            show(commit, before, after, shown)
        with tempfile.TemporaryDirectory() as folder:
            found = seen_change(Path(folder), commit[:9], before, after)
        if found is not None:  # nothing but what change sets do not have, such as a submodule
            yield found


def print_counts(found: list[SeenChange], *, first: bool) -> None:
    """What so many commits have."""
    for item in found if first else ():
        if item.attention == "look first":
            print(f"  {item.name}: {'; '.join(item.why)}")
    for name in ATTENTIONS:
        count = sum(item.attention == name for item in found)
        print(f"{count:5} commits ({100 * count / len(found):4.1f} %): {name}")
    for what, count in Counter(what for item in found for what in item.why).most_common():
        print(f"{count:5} commits ({100 * count / len(found):4.1f} %) first because: {what}")
    for what, count in Counter(mark for item in found for mark in item.marks).most_common():
        print(f"{count:5} commits ({100 * count / len(found):4.1f} %) with the mark: {what}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=Path, nargs="*")
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--show", default="")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--planted", action="store_true")
    asked = parser.parse_args()
    if asked.planted:
        with tempfile.TemporaryDirectory() as folder:
            planted = list(planted_changes(Path(folder)))
        for item in planted:
            print(f"{item.attention:<11}{'harmful' if item.harmful else 'ordinary':<9}{item.name:<32}{item.kind}")
        print("\n".join(figures(planted)))
    for folder in asked.repository:
        found = list(seen_commits(Repository(folder), asked.days, asked.show))
        print(f"{folder}: {len(found)} commits")
        print_counts(found, first=asked.first)


if __name__ == "__main__":
    main()
