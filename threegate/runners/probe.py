"""A short run of ours that tests every restriction and reports which ones held: for `threegate doctor` and
`doctor --sandbox`.

Invariant: a probe without a readable report counts as a restriction that did not hold.
"""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from threegate.runners.interface import Control, Outcome


@dataclass(frozen=True, slots=True)
class Wall:
    """One restriction: its name, whether it held, and what was seen."""

    name: str
    held: bool
    seen: str


def read_walls(text: bytes, outcome: Outcome) -> list[Wall]:
    """The restrictions that a probe reported; a single failed one if it could not report."""
    try:
        return [Wall(str(name), bool(held), str(seen)) for name, held, seen in json.loads(text)]
    except (ValueError, TypeError):
        return [Wall("the probe runs", False, outcome.detail)]


@contextmanager
def scratch_control() -> Iterator[Control]:
    """A temporary folder for a probe."""
    with tempfile.TemporaryDirectory(prefix="threegate-probe-") as name:
        root = Path(name)
        (root / "run").mkdir()
        (root / "inputs").mkdir()
        yield Control(root / "run", root / "inputs", "ws-probe", secrets.token_hex(8))
