"""Real programs from npm, agents most of all: each in a folder of a cache outside of the checkout, installed once from
a lock file.

A folder is there only when it is whole: npm works in a folder beside it, which is renamed at the end. Lock files name
exact versions and digests; no package's own script runs. From an empty cache, on two busy cores: Codex 13 s and 404 MB,
OpenCode 5 s and 177 MB, servers of tools 11 s and 40 MB, their clients 52 s and 332 MB (189 of it Node 24); nothing
else is installed for CI. Gemini CLI has 100 MB, Qwen Code 341, Claude Code 364.
`python -m tests.plugins.agents.npm_agents NAME…` installs by hand.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

LOCKS = Path(__file__).parent / "npm"
PAUSES = (2, 10, 30)
"""Seconds between attempts: a registry or its mirror hiccups now and then."""
ATTEMPT_SECONDS = 280


class Unavailable(Exception):
    """An agent cannot be installed here; the text says why."""


def cache() -> Path:
    """The folder of all agents: another account may have to read it, so root's is not in root's HOME."""
    if named := os.environ.get("THREEGATE_AGENTS_CACHE"):
        return Path(named)
    shared = Path("/var/cache") if os.geteuid() == 0 else Path.home() / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or shared) / "threegate-agents"


def install(name: str) -> Path:
    """The folder that holds `node_modules` of an agent (a folder of `npm/`), installed now if it is not there."""
    lock = (LOCKS / name / "package-lock.json").read_bytes()
    folder = cache() / f"{name}-{hashlib.sha256(lock).hexdigest()[:16]}"
    if folder.exists():
        return folder
    for program in ("node", "npm"):
        if not shutil.which(program):
            raise Unavailable(f"no {program} (apt-get install nodejs npm)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not folder.exists():
            _install(name, folder)
    return folder


def _install(name: str, folder: Path) -> None:
    part = folder.with_suffix(".part")

    def attempt() -> str:
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(LOCKS / name, part)
        return _npm_ci(part)

    if error := asked_again(attempt):
        shutil.rmtree(part, ignore_errors=True)
        raise Unavailable(f"npm ci of {name}: {error}")
    shutil.rmtree(part / "npm-cache", ignore_errors=True)
    part.rename(folder)


def asked_again(attempt: Callable[[], str]) -> str:
    """Ask a registry until it gives what is wanted, with pauses: nothing says when it is back. The last error, or
    "".
    """
    error = attempt()
    for pause in PAUSES:
        if not error:
            break
        time.sleep(pause)
        error = attempt()
    return error


def _npm_ci(folder: Path) -> str:
    """Why it failed, or nothing. The tarballs are not kept: what is unpacked is the cache."""
    words = [
        "npm",
        "ci",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
        "--fetch-retries",
        "5",
    ]
    try:
        done = subprocess.run(
            [*words, "--cache", str(folder / "npm-cache")],
            cwd=folder, capture_output=True, text=True, timeout=ATTEMPT_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"it did not end within {ATTEMPT_SECONDS} s"
    lines = [line for line in done.stderr.splitlines() if line.startswith("npm error")]
    return "" if done.returncode == 0 else "; ".join(lines[:4]) or f"exit {done.returncode}"


if __name__ == "__main__":
    for word in sys.argv[1:]:
        print(install(word))
