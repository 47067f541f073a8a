"""Packages of others in an environment of their own, installed once into a cache outside of the checkout."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


def environment(name: str, version: str, *installs: Sequence[str]) -> Path:
    """The Python of the environment `version` of `name`, made now if it is not there: each of `installs` has the words
    of one `pip install`. Raises CalledProcessError.
    """
    shared = Path("/var/cache") if os.geteuid() == 0 else Path.home() / ".cache"
    folder = Path(os.environ.get("XDG_CACHE_HOME") or shared) / f"threegate-{name}" / version
    python = folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (folder / "whole").exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            for words in installs:
                _install(python, words)
            (folder / "whole").touch()
    return python


def _install(python: Path, words: Sequence[str]) -> None:
    """With uv, which takes seconds where pip takes minutes, or with pip where uv does not get through."""
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    told = subprocess.run([*pip, "config", "get", "global.index-url"], capture_output=True, text=True, check=False)
    index = ["--default-index", told.stdout.strip()] if told.stdout.strip() else []
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--no-config", "--native-tls"]
    with suppress(OSError, subprocess.CalledProcessError):
        subprocess.run([*uv, *index, "--python", str(python), *words], check=True)
        return
    subprocess.run([*pip, "install", "--retries", "5", *words], check=True)
