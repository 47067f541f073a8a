"""Packages of others in an environment of their own, installed once into a cache outside of the checkout."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
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
                pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--retries", "5"]
                subprocess.run([*pip, *words], check=True)
            (folder / "whole").touch()
    return python
