"""The command line of one of our processes.

Invariant: it loads ThreeGate and Python from where this process did, and nothing from its working folder, which may be
a project that an agent changes.
"""

from __future__ import annotations

import sys


def own_process(module: str, *arguments: str) -> list[str]:
    """Start one of our modules with this interpreter."""
    return [sys.executable, "-P", "-m", module, *arguments]
