"""What a file becomes in the repository: ours beside git's own, for every kind of attribute and content."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import missing
from threegate.plugins.changes.git_objects import object_id
from threegate.plugins.changes.stored_form import how_stored, is_pointer, pointer, stored_bytes

ATTRIBUTES = ["", "text", "-text", "text=auto", "eol=crlf", "eol=lf", "text=auto eol=crlf", "binary", "crlf", "-crlf",
              "crlf=input", "text eol=lf", "-text eol=crlf", "text=odd", "filter", "-filter", "-ident"]  # fmt: skip
CONTENTS = [
    b"", b"a\n", b"a\r\n", b"a\r\nb\n", b"a\rb\r\n", b"\r\r\n", b"\0a\r\n", b"\x01a\r\n", b"x" * 300 + b"\x01\r\n",
    b"a\r\n\x1a", b"\x1a\r\n", b"\x1b[0m\t\b\f\r\n", b"x" * 127 + b"\x7f\r\n", b"x" * 128 + b"\x7f\r\n",
    b"\xff\xfe\r\n",
]  # fmt: skip
PRESENT = [None, b"a\n", b"a\r\n", b"\0\r\n"]


@pytest.mark.parametrize("autocrlf", [None, "true", "input", "false"])
def test_every_combination_is_what_git_add_stores(tmp_path: Path, autocrlf: str | None) -> None:
    """Each file is committed first with what HEAD has, which decides where git guesses."""
    if shutil.which("git") is None:
        missing("git (apt-get install git)")

    def git(*words: str) -> str:
        named = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.safecrlf=false")
        done = subprocess.run(["git", *named, *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout

    git("init", "-q")
    cases = dict(enumerate(itertools.product(ATTRIBUTES, CONTENTS, PRESENT)))
    for number, (_, _, present) in cases.items():
        if present is not None:
            (tmp_path / str(number)).write_bytes(present)
    git("add", "-A")
    git("commit", "-qm", "present")
    lines = [f"{number} {attributes}" for number, (attributes, _, _) in cases.items() if attributes]
    (tmp_path / ".git" / "info" / "attributes").write_text("\n".join(lines) + "\n")
    if autocrlf is not None:
        git("config", "core.autocrlf", autocrlf)
    for number, (_, content, _) in cases.items():
        (tmp_path / str(number)).unlink(missing_ok=True)  # another inode: git takes it for changed
        (tmp_path / str(number)).write_bytes(content)
    git("add", "-A")
    staged = {row.split("\t")[1]: row.split()[1] for row in git("ls-files", "-s", "-z").split("\0") if row}
    listed = git("check-attr", "-z", "-a", *map(str, cases)).split("\0")[:-1]
    found: dict[str, dict[str, str]] = {str(number): {} for number in cases}
    for name, key, value in zip(listed[::3], listed[1::3], listed[2::3], strict=True):
        found[name][key] = value
    wrong = []
    for number, (attributes, content, present) in cases.items():
        how, why = how_stored(found[str(number)], autocrlf)
        assert why == ""
        stored = object_id("sha1", b"blob", stored_bytes(content, how, present))
        if stored != staged[str(number)]:
            wrong.append((attributes, content, present, how))
    assert wrong == []


def test_a_pointer_of_git_lfs() -> None:
    """As git-lfs writes it, and once only."""
    made = (
        b"version https://git-lfs.github.com/spec/v1\n"
        b"oid sha256:9bfce334a37bd1bc1d36b0370195b31fe9a9389dd43d0873891a3544ef1140a1\nsize 6\n"
    )
    assert pointer(b"large\n") == stored_bytes(b"large\n", "lfs", None) == made
    assert is_pointer(made) and stored_bytes(made, "lfs", None) == made and stored_bytes(b"", "lfs", None) == b""


@pytest.mark.parametrize("attributes", [{"filter": "git-crypt"}, {"ident": "set"}, {"working-tree-encoding": "UTF-16"}])
def test_a_conversion_that_is_not_ours_is_named(attributes: dict[str, str]) -> None:
    assert how_stored(attributes, None)[1]
