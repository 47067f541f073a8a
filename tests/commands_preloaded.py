"""What the fork server of `tests.commands` imports: the program without its servers, its terminal and its cluster."""

import importlib
import pkgutil

import docker  # noqa: F401
import watchdog.observers  # noqa: F401

import threegate

_APART = ("threegate.serve", "threegate.tui", "threegate.worker", "threegate.__main__")

for found in pkgutil.walk_packages(threegate.__path__, "threegate."):
    if not found.name.startswith(_APART) and "cluster" not in found.name:
        importlib.import_module(found.name)
