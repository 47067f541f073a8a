"""Completion in real shells, installed as a person would and asked with the Tab key."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import missing, slow

BIN = Path(sys.executable).parent


def environment(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "TERM": "dumb",
        "PS1": "$ ",
        "LANG": "C.UTF-8",
    }


def after_tab(shell: list[str], home: Path, typed: str, wanted: str) -> str:
    """Start an interactive shell, type, press Tab; what the terminal shows until `wanted` is in it."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(home)
        os.execve(shutil.which(shell[0]) or "", shell, environment(home))
    shown, sent, quiet, until = "", False, 0, time.monotonic() + 90
    try:
        while time.monotonic() < until and not (sent and wanted in shown):
            if select.select([terminal], [], [], 0.2)[0]:
                shown += os.read(terminal, 65536).decode(errors="replace").replace("\a", "")
                quiet = 0
            elif not sent and re.search("[$#] ", shown) and (quiet := quiet + 1) > 1:  # the prompt, and the shell waits
                os.write(terminal, f"{typed}\t".encode())
                shown, sent, quiet = "", True, 0
            elif sent and (quiet := quiet + 1) % 5 == 0:  # zsh loads the completion at the first Tab
                os.write(terminal, b"\t")
    except OSError:
        pass
    finally:
        os.close(terminal)
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return shown


@pytest.mark.parametrize("shell", [["bash", "-i"], slow(["zsh", "-i"])], ids=["bash", "zsh"])
def test_tab_completes_commands(shell: list[str], tmp_path: Path) -> None:
    if shutil.which(shell[0]) is None:
        missing(f"{shell[0]} (apt-get install {shell[0]})")
    said = subprocess.run(
        [shell[0], "-c", "threegate --install-completion && true"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert f"{shell[0]} completion installed" in said.stdout
    assert "audit" in after_tab(shell, tmp_path, "threegate aud", "audit")
    assert "verify" in after_tab(shell, tmp_path, "threegate audit veri", "verify")


def completed(words: str, tmp_path: Path) -> list[str]:
    number = str(len(words.split(" ")) - 1)
    more = {"COMP_WORDS": words, "COMP_CWORD": number, "_THREEGATE_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-m", "threegate"],
        env={**environment(tmp_path), **more},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout.split()


def test_names_and_options_are_completed(tmp_path: Path) -> None:
    assert completed("threegate re", tmp_path) == ["review", "reject", "request-changes"]
    assert completed("threegate settings ad", tmp_path) == ["adopt"]
    assert completed("threegate approve --pri", tmp_path) == ["--print-statement"]


def test_completion_is_an_option_of_the_whole_command_only(tmp_path: Path) -> None:
    for words, there in ((("--help",), True), (("reject", "--help"), False), (("audit", "--help"), False)):
        done = subprocess.run(
            [BIN / "threegate", *words], env=environment(tmp_path), capture_output=True, text=True, timeout=60
        )
        assert ("--install-completion" in done.stdout) is there, words
