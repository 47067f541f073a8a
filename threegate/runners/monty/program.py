"""Where Monty's program is. It is imported before a worker is wanted, so nothing heavy is imported here."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

from threegate.core.errors import Unavailable


def worker_binary() -> Path:
    """The `monty` program that pip installed next to this interpreter. Raises Unavailable."""
    for scheme in (None, f"{os.name}_user"):
        folder = sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
        if folder and (path := Path(folder) / "monty").is_file():
            return path.resolve()
    raise Unavailable("monty's worker program is not installed; install it: pip install pydantic-monty")
