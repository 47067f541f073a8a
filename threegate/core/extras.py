"""The extras of pyproject.toml: what each provides, and the one line about a missing one.

Invariant: nothing of an extra is imported here, and whether it is installed is looked up each time. Code that
needs an extra checks here before it imports, so that a missing one causes a line with what to install and
never a traceback.
"""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from threegate.core import durable, limits
from threegate.core.errors import Unavailable

Extra = Literal["era", "export", "http", "mcp", "tui", "agents", "notify", "metrics", "cluster"]

MODULES: Final[Mapping[Extra, tuple[str, ...]]] = {
    "era": ("docker", "h11"),
    "export": ("securesystemslib", "in_toto_attestation"),
    "http": ("fastapi", "uvicorn", "jinja2"),
    "mcp": ("mcp", "h11"),
    "tui": ("textual",),
    "agents": ("uvicorn", "h11", "httpx"),
    "notify": ("apprise",),
    "metrics": ("prometheus_client",),
    "cluster": ("celery", "kombu", "amqp"),
}
"""The modules that are imported of each extra."""


def has_extra(extra: Extra) -> bool:
    """Whether every module of the extra can be found."""
    return not missing_modules(extra)


def missing_modules(*extras: Extra) -> tuple[str, ...]:
    """The modules of these extras that are not installed."""
    # A module that was loaded without a spec makes find_spec raise; None in sys.modules is how Python marks what must
    # not be imported.
    return tuple(
        name
        for name in dict.fromkeys(name for extra in extras for name in MODULES[extra])
        if (sys.modules[name] if name in sys.modules else importlib.util.find_spec(name)) is None
    )


def install_line(*extras: Extra) -> str:
    """What to type to get these extras, as this installation was made; an environment of pipx or uv has no pip of its
    own to type.
    """
    environment = Path(sys.prefix)
    package = f"'threegate[{','.join(extras)}]'"
    if (environment / "pipx_metadata.json").is_file():
        return f"pipx runpip {environment.name} install {package}"
    if (environment / "uv-receipt.toml").is_file():  # of `uv tool install`, which takes away what it does not name
        kept = [extra for extra in MODULES if extra in extras or has_extra(extra)]
        return f"uv tool install 'threegate[{','.join(kept)}]'"
    if "\nuv = " in _made_by(environment):
        return f"uv pip install --python {shlex.quote(str(environment))} {package}"
    return f"pip install {package}"


def _made_by(environment: Path) -> str:
    """What a virtual environment says of itself."""
    try:
        return durable.read_regular(environment / "pyvenv.cfg", max_bytes=limits.SETTINGS_BYTES).decode()
    except (OSError, ValueError):
        return ""


def missing_extra(what: str, *extras: Extra) -> str | None:
    """One line that says which extras `what` lacks and how to get them; None when all are installed."""
    missing = [extra for extra in extras if missing_modules(extra)]
    if not missing:
        return None
    return f"{what} needs the extra{'s' if len(missing) > 1 else ''} {' and '.join(missing)}: {install_line(*missing)}"


def require_extra(what: str, *extras: Extra) -> None:
    """Raises Unavailable with `missing_extra`'s line."""
    if (problem := missing_extra(what, *extras)) is not None:
        raise Unavailable(problem)
