"""Which programs a sandbox image has, according to a label that sandbox/bootstrap writes.

Invariant: only a list for exactly this image (its digest) is used; without one nothing is known, and nothing
is refused.
"""

from __future__ import annotations

import time
from typing import Final

from threegate.core.errors import Unavailable
from threegate.core.extras import has_extra
from threegate.core.settings import EraSettings
from threegate.runners.era.engine_answer import engine_url

PROGRAMS_LABEL: Final = "threegate.programs"
"""The names of all executables on the PATH of a container, separated by spaces."""
PATH_FOLDERS: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_ASK_AGAIN_SECONDS: Final = 60.0

_known: dict[str, frozenset[str]] = {}
_asked: dict[tuple[str, str], float] = {}


def has_program(settings: EraSettings, program: str) -> bool | None:
    """Whether the image has `program` (the first word of an argv); None if that is not known.

    The engine is queried once for an image whose label is known, and at most once a minute for any other.
    """
    folder, _, name = program.rpartition("/")
    if folder and folder not in PATH_FOLDERS:
        # A file in /in is the request's own; the list does not cover other folders.
        return True if folder == "/in" or folder.startswith("/in/") else None
    programs = _programs(settings)
    return None if programs is None else name in programs


def _programs(settings: EraSettings) -> frozenset[str] | None:
    image = settings.image
    if not image or image in _known:
        return _known.get(image)
    if not has_extra("era"):
        return None
    from threegate.runners.era import container_engine

    url = engine_url(settings.engine)
    now = time.monotonic()
    if now - _asked.get((url, image), -_ASK_AGAIN_SECONDS) < _ASK_AGAIN_SECONDS:
        return None
    _asked[url, image] = now
    try:
        with container_engine.client(url) as api:
            labels = (container_engine.check_image(api, image).get("Config") or {}).get("Labels") or {}
    except Unavailable:
        return None
    programs = frozenset(str(labels.get(PROGRAMS_LABEL, "")).split())
    if programs:
        _known[image] = programs
    return programs or None
