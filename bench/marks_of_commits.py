"""How many of a repository's ordinary commits have marks: which ones, and how many lines a person would look at.

    python -m bench.marks_of_commits REPOSITORY [--commits 300] [--show "starts a process"]

REPOSITORY is a work tree or a bare repository of git. Prints, of its last commits that are not merges, how many commits
and lines have each mark; with --show the lines that have it, to judge which of them are false.
"""

from __future__ import annotations

import argparse
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from threegate.plugins.changes.change_facts import text_change
from threegate.plugins.changes.marks import marks_of
from threegate.plugins.changes.run_later import why_runs_later


class Repository:
    """A repository, read by git alone."""

    def __init__(self, folder: Path) -> None:
        self._words = ["git", "-C", str(folder)]

    def read(self, *words: str) -> bytes:
        return subprocess.run([*self._words, *words], capture_output=True, check=True).stdout

    def commits(self, most: int) -> list[str]:
        return self.read("log", "--no-merges", "--first-parent", f"-{most}", "--format=%H").decode().split()

    def changes(self, commit: str) -> Iterator[tuple[str, bytes, bytes]]:
        """Each path that a commit changes, with its bytes before and after."""
        listed = self.read("diff-tree", "-r", "-z", "--no-commit-id", "--no-renames", "--root", commit).split(b"\0")
        for facts, path in zip(listed[::2], listed[1::2], strict=False):
            _, mode, before, after, _ = facts.decode().split()
            if mode not in ("120000", "160000"):
                yield path.decode(errors="replace"), self._blob(before), self._blob(after)

    def _blob(self, name: str) -> bytes:
        return b"" if not name.strip("0") else self.read("cat-file", "blob", name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--show", default="")
    asked = parser.parse_args()
    repository = Repository(asked.repository)
    commits, lines, added = Counter[str](), Counter[str](), 0
    names = repository.commits(asked.commits)
    for commit in names:
        found: set[str] = set()
        for path, old, new in repository.changes(commit):
            text = None if b"\0" in old + new else text_change(old, new)
            if text is None:
                continue
            added += text.added
            runs = why_runs_later(path, executable=False, head=new[:64]) is not None
            for mark in marks_of(path, text, runs=runs):
                found.add(mark.what)
                lines[mark.what] += 1
                if mark.what == asked.show and mark.line:
                    side = text.old if mark.removed else text.new
                    print(f"{commit[:9]} {path}:{mark.line}: {side[mark.line - 1].strip()[:150]}")
        commits.update(found)
        commits["any of a line"] += any(what != "is a test that changes" for what in found)
    print(f"{len(names)} commits, {added} added lines")
    for what, count in commits.most_common():
        print(f"{count:5} commits ({100 * count / len(names):4.1f} %), {lines[what]:5} lines: {what}")


if __name__ == "__main__":
    main()
