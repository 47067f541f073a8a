"""How many of a repository's ordinary commits have marks and look bad in a list, and how many planted changes do.

    python -m bench.marks_of_commits REPOSITORY [--commits 300] [--show "starts a process"]

REPOSITORY is a work tree or a bare repository of git. Prints, of its last commits that are not merges, how many commits
and lines have each mark, and how many a list would put first; with --show the lines that have a mark, or the files that
"look first", to judge which of them are false. Without REPOSITORY: the same of tests/data/planted_changes.jsonl.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.plugins.changes.planted_changes import change_table, seen_changes
from threegate.core.file_diff import Mark, TextChange
from threegate.plugins.changes.change_attention import attention_of_file, soonest
from threegate.plugins.changes.change_facts import text_change
from threegate.plugins.changes.marks import marks_of
from threegate.plugins.changes.run_later import is_source, why_runs_later
from threegate.request.backend import ATTENTIONS, Attention
from threegate.request.shown_whole import why_not_plain


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


def _attention(path: str, text: TextChange, new: bytes, marks: list[Mark], later: str | None) -> Attention:
    """The class of a file, as `change_attention` finds it; git's links and modes are left out."""
    if why_not_plain(new):
        return "look first"
    found = attention_of_file(path, text, marks, later=later, source=is_source(path))
    return found if new else soonest((found, "look"))


def planted() -> None:
    """Print each planted change set and what came of all."""
    with tempfile.TemporaryDirectory() as folder:
        found = list(seen_changes(Path(folder)))
    for item in found:
        marks = ", ".join(sorted({mark.what for marks in item.marks.values() for mark in marks}))
        print(f"{item.attention:<11} {'harmful' if item.row['harmful'] else 'plain':<9} {item.row['name']:<30} {marks}")
    print("\n".join(["", *change_table(found)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=Path, nargs="?")
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--show", default="")
    asked = parser.parse_args()
    if asked.repository is None:
        planted()
        return
    repository = Repository(asked.repository)
    classes = Counter[str]()
    commits, lines, added = Counter[str](), Counter[str](), 0
    names = repository.commits(asked.commits)
    for commit in names:
        found: set[str] = set()
        of_files: list[Attention] = []
        for path, old, new in repository.changes(commit):
            text = None if b"\0" in old + new else text_change(old, new)
            if text is None:
                continue
            added += text.added
            later = why_runs_later(path, executable=False, head=new[:64]) if new else None
            marks = list(marks_of(path, text, runs=later is not None))
            of_files.append(_attention(path, text, new, marks, later))
            if of_files[-1] == asked.show:
                print(f"{commit[:9]} {path}: {', '.join(sorted({mark.what for mark in marks})) or later}")
            for mark in marks:
                found.add(mark.what)
                lines[mark.what] += 1
                if mark.what == asked.show and mark.line:
                    side = text.old if mark.removed else text.new
                    print(f"{commit[:9]} {path}:{mark.line}: {side[mark.line - 1].strip()[:150]}")
        commits.update(found)
        classes[soonest(of_files)] += 1
        commits["any of a line"] += any(what != "is a test that changes" for what in found)
    print(f"{len(names)} commits, {added} added lines")
    for what in ATTENTIONS:
        print(f"{classes[what]:5} commits ({100 * classes[what] / len(names):4.1f} %): {what}")
    for what, count in commits.most_common():
        print(f"{count:5} commits ({100 * count / len(names):4.1f} %), {lines[what]:5} lines: {what}")


if __name__ == "__main__":
    main()
