"""Commits one by one, where git stores a file otherwise than the work tree has it."""

from __future__ import annotations

from tests.plugins.changes.branches import archive, branching


def test_line_ends_are_those_that_git_stores() -> None:
    """The project has CRLF, HEAD and the agent's commits have LF: the diff has the line that changed and no other."""
    with branching({"win.txt": b"a\r\nb\r\n"}, before=lambda here: here.git("config", "core.autocrlf", "true")) as here:
        commits = archive({"win.txt": (b"a\nb\n", b"a\nx\n")}, {"win.txt": (b"a\nx\n", b"a\nc\n")})
        draft = here.propose(lambda work: (work / "win.txt").write_bytes(b"a\r\nc\r\n"), commits=commits)
        shown = here.approve(draft, "--deliver", "commits", "--full").out
        diff = shown.partition("/in/commits.tar")[2].partition("commit 2")[0]
        assert "- | b\n" in diff and "+ | x\n" in diff and "\\r" not in diff and "- | a" not in diff
        here.place.once()
        [branch] = here.branches()
        assert here.git("show", f"{branch}~1:win.txt") == "a\nx\n" and here.git("show", f"{branch}:win.txt") == "a\nc\n"
        assert here.git("status", "--porcelain") == ""


def test_a_repository_with_other_ids() -> None:
    """sha256, executable files, and the same bytes in two commits."""
    with branching({"a": "1\n"}, init=["--object-format=sha256"]) as here:
        commits = archive({"a": (b"1\n", b"2\n"), "b/c": (None, b"1\n")}, {"a": (b"2\n", b"1\n")})

        def edit(work) -> None:  # type: ignore[no-untyped-def]
            (work / "b").mkdir()
            (work / "b" / "c").write_text("1\n")

        here.approve(here.propose(edit, commits=commits), "--deliver", "commits")
        here.place.once()
        [branch] = here.branches()
        assert here.git("log", "--format=%s", "--name-status", "--reverse", f"main..{branch}").split() == (
            ["Do", "it", "M", "a", "A", "b/c", "Do", "it", "M", "a"]
        )
        here.git("fsck", "--strict")
