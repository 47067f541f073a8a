"""What an ERA run finds: the programs and modules of the sandbox image, by its labels, or of a root without an engine.

Invariant: only lists for exactly this image (its digest) or this root are used; without one nothing is known, and
nothing is refused. The prompt, `validate`, the verdict and the card all ask here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from threegate.core.errors import Unavailable
from threegate.core.extras import has_extra
from threegate.core.settings import EraSettings
from threegate.request.job import Platform
from threegate.request.sandbox_contents import NOTHING_KNOWN, Contents, contents_of
from threegate.runners.era.engine_answer import engine_url
from threegate.runners.era.platforms import era_platforms
from threegate.runners.era.root_identity import identify

PROGRAMS_LABEL: Final = "threegate.programs"
"""The names of all executables on the PATH of a container, separated by spaces. sandbox/bootstrap writes it."""
MODULES_LABEL: Final = "threegate.modules"
"""The names of all modules that the image's python3 imports, the standard library included, separated by spaces."""
PYTHON_LABEL: Final = "threegate.python"
"""The version of the image's python3, as in ``3.11``."""
IMAGE: Final = "the sandbox image"
HOST: Final = "this machine's /usr"
_ASK_AGAIN_SECONDS: Final = 60.0

_known: dict[str, Contents] = {}
_asked: dict[tuple[str, str], float] = {}


def contents(settings: EraSettings, platform: Platform | None = None) -> Contents:
    """What a run of these settings finds on a platform, by default the preferred one; `NOTHING_KNOWN` where that is not
    known.

    The engine is queried once for an image whose labels are known, and at most once a minute for any other.
    """
    platform = platform or era_platforms(settings).now[0]
    return _of_image(settings) if platform.engine else _of_root(settings)


def _of_root(settings: EraSettings) -> Contents:
    try:
        root = identify(settings)
    except Unavailable:
        return NOTHING_KNOWN
    where = HOST if root.path is None else f"the unpacked root {root.path.parent}"
    return contents_of(root.programs, root.modules, root.python, where)


def _of_image(settings: EraSettings) -> Contents:
    image = settings.image
    if not image or image in _known:
        return _known.get(image, NOTHING_KNOWN)
    if not has_extra("era"):
        return NOTHING_KNOWN
    from threegate.runners.era import container_engine

    url = engine_url(settings.engine)
    now = time.monotonic()
    if now - _asked.get((url, image), -_ASK_AGAIN_SECONDS) < _ASK_AGAIN_SECONDS:
        return NOTHING_KNOWN
    _asked[url, image] = now
    try:
        with container_engine.client(url) as api:
            labels = (container_engine.check_image(api, image).get("Config") or {}).get("Labels") or {}
    except Unavailable:
        return NOTHING_KNOWN
    found = _of_labels(labels)
    if found.programs or found.modules:
        _known[image] = found
    return found


def _of_labels(labels: Mapping[str, Any]) -> Contents:
    programs, modules, python = (str(labels.get(name, "")) for name in (PROGRAMS_LABEL, MODULES_LABEL, PYTHON_LABEL))
    return contents_of(programs.split(), modules.split(), python.strip(), IMAGE)
