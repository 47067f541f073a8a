"""What the fork server of `tests.commands` imports: the program without its servers, its terminal and its cluster; and
how Monty's workers are started here, which each command would find out by starting one.
"""

import gc
import importlib
import pkgutil
from contextlib import suppress

import docker  # noqa: F401
import watchdog.observers  # noqa: F401

import threegate
from threegate.core.errors import Unavailable
from threegate.runners.monty.program import worker_binary
from threegate.runners.monty.worker import find_isolation

_APART = ("threegate.plugins", "threegate.__main__")

for found in pkgutil.walk_packages(threegate.__path__, "threegate."):
    if not found.name.startswith(_APART):
        importlib.import_module(found.name)

with suppress(Unavailable):
    find_isolation(worker_binary())

# No command searches what is here for cycles again.
gc.collect()
gc.freeze()
