"""The command lines of our own processes.

Invariant: it loads ThreeGate and Python from where this process did, and nothing from its working folder, which may be
a project that an agent changes.
"""

from __future__ import annotations

import sys


def own_process(module: str, *arguments: str) -> list[str]:
    """Start one of our modules with this interpreter."""
    return [sys.executable, "-P", "-m", module, *arguments]


def standard_library_only(text: str) -> list[str]:
    """Run this text with this interpreter, without the environment, the user's folder or installed packages."""
    return [sys.executable, "-I", "-S", "-c", text]


def this_process(*options: str) -> list[str]:
    """The command line of this process itself, with more options of the interpreter."""
    return [sys.executable, *options, *sys.orig_argv[1:]]
