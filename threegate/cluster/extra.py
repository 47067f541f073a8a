"""Whether the extra `[cluster]` is installed; imports nothing of it."""

from __future__ import annotations

import importlib.util
import sys

from threegate.core.errors import Unavailable


def require_extra() -> None:
    """Raises Unavailable with what to install."""
    for name in ("celery", "kombu", "amqp"):
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            raise Unavailable("a cluster needs its extra: pip install 'threegate[cluster]'")
