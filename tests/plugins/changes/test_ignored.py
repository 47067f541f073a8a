"""Rules of `.gitignore` as git reads them, with git beside: also lines that are no pattern, and names that are no
text.
"""

from __future__ import annotations

import os
import subprocess
import warnings
from pathlib import Path

import pytest

from tests.plugins.changes.trees_on_disk import build
from threegate.core.held_folder import hold_path
from threegate.plugins.changes.ignored import IgnoreRules, Ignoring
from threegate.plugins.changes.trees import HeldTree

NAMES = [os.fsdecode(name) for name in (b"foo", b"bar", b"Icon", b"Icon\r", b"\xff", b"caf\xe9", b"a!", b"x\\", b"b[c")]


@pytest.mark.parametrize(
    "rules",
    [
        "!\nfoo\n", "\\\nfoo\n", "x\\\nfoo\n", "[z-a]\nfoo\n", "[[:nonsense:]]\nfoo\n", "[\nfoo\n", "/\nfoo\n",
        "\ufefffoo\n", "foo\r\nbar\r\n", "Icon\r\r\n", "Icon[\r]\r\n", "foo\fbar\n", "foo\u2028bar\n", "foo  \n",
        " foo\n", "?\n", "caf?\n", "*\n!foo\n", "fo[n-p]\n",
    ],
)  # fmt: skip
def test_odd_lines_and_names_are_what_they_are_to_git(tmp_path: Path, rules: str) -> None:
    folder = build(tmp_path, {".gitignore": "", **dict.fromkeys(NAMES, "1")})
    (folder / ".gitignore").write_bytes(rules.encode())
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    names = b"\0".join(map(os.fsencode, NAMES))
    asked = subprocess.run(["git", "check-ignore", "-z", "--stdin"], cwd=folder, input=names, capture_output=True)
    ignored = {os.fsdecode(name) for name in asked.stdout.split(b"\0") if name}
    with hold_path(folder) as held, warnings.catch_warnings(action="error"):
        tree = HeldTree(held)
        found = IgnoreRules(tree, tree, Ignoring())
        assert {name for name in NAMES if found.why(name, folder=False) is not None} == ignored
