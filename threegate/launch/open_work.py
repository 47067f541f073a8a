"""What was begun by something that is not here any more: no daemon starts over it.

Invariant: a claimed request is called `interrupted` only by a process that has the code of its backend, and knows every
event of its history. Anyone else cannot tell what it left half done, and how to take that back.
"""

from __future__ import annotations

import re
from typing import Final

from threegate.core.errors import Unavailable
from threegate.core.plugins import OFF, plugin_named
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.launch.approved_file import named_backend
from threegate.request.backend import BACKENDS, why_off
from threegate.trail import moves
from threegate.trail.history import RequestHistory
from threegate.trail.payloads import Started
from threegate.trail.trail import Trail

_OPEN: Final = re.compile(r"open-([a-z]+)-.+").fullmatch
"""A file in control/ by which a plugin marks what it has begun and not ended: ``open-PLUGIN-…``."""


def refuse_open(workspace: Workspace, trail: Trail, settings: Settings) -> None:
    """Raises Unavailable while something is open that nothing here can end, in one line."""
    with trail.locked() as held:
        for history in held.index.unended_histories():
            if history.claimed is not None and (why := _not_here(workspace, settings, history)) is not None:
                raise _unavailable(f"{history.request_id} is claimed and has not ended", why)
    for path in sorted(workspace.control.glob("open-*")) if workspace.control.is_dir() else ():
        match = _OPEN(path.name)
        if match is not None and (why := _gone(match[1], settings)) is not None:
            raise _unavailable(f"{path} is open", why)


def _unavailable(what: str, why: str) -> Unavailable:
    return Unavailable(f"{what}, and {why}; start the daemon with it once, which settles it: nothing is started before")


def _not_here(workspace: Workspace, settings: Settings, history: RequestHistory) -> str | None:
    """What of a claimed request is not here."""
    if history.unknown is not None:
        return f"nothing here knows the kind {history.unknown} of one of its events"
    started = Started.of(history.started)
    backend: str | None = started.backend if started is not None else None
    if backend is None and (path := moves.find_file(workspace, history)) is not None:
        backend = named_backend(path)
    if backend is None:
        return None
    return why_off(backend, settings) if backend in BACKENDS else f"its backend {backend} is not here"


def _gone(name: str, settings: Settings) -> str | None:
    """Why a plugin cannot end what it began; None if it can."""
    plugin = plugin_named(name)
    if plugin is None:
        return f"there is no plugin {name} here"
    if name in settings.plugins.off:
        return f"the plugin {name} {OFF}"
    return plugin.why_absent()
