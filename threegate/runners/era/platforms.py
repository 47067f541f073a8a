"""On which platforms an ERA request can run here, the preferred first (docs/spec/6-runners.md, "Where an ERA request
runs").

Invariant: both are listed as long as the settings allow them, whether or not the engine answers: an approval that names
one stays valid while that one is away. Nothing heavy is imported.
"""

from __future__ import annotations

import os
from typing import Final

from threegate.core.errors import Unavailable
from threegate.core.extras import has_extra
from threegate.core.settings import EraSettings
from threegate.request.job import BUBBLEWRAP, Platform, Platforms
from threegate.runners.era.engine_answer import has_image
from threegate.runners.era.root_identity import identify
from threegate.runners.seccomp import BUBBLEWRAP_SECCOMP_SHA256, SECCOMP_SHA256

PROGRAM: Final = "/usr/bin/bwrap"


def era_platforms(settings: EraSettings, *, here: bool = True) -> Platforms:
    """The platforms of ERA requests. Not `here`: the workers of a cluster run them, each with its engine."""
    engine = Platform(settings.image, settings.egress_image, settings.oci_runtime, SECCOMP_SHA256)
    if not here or settings.runtime not in ("auto", BUBBLEWRAP):
        return Platforms((engine,))
    try:
        bubblewrap = Platform(identify(settings).digest, "", BUBBLEWRAP, BUBBLEWRAP_SECCOMP_SHA256)
    except Unavailable as error:
        return Platforms((engine if settings.runtime == "auto" else Platform(runtime=BUBBLEWRAP),), str(error))
    if settings.runtime == BUBBLEWRAP or not settings.image:
        return Platforms((bubblewrap,))
    # Where bubblewrap is not installed, a request waits for the engine that the settings name.
    if not os.access(PROGRAM, os.X_OK) or (has_extra("era") and has_image(settings.engine, settings.image)):
        return Platforms((engine, bubblewrap))
    return Platforms((bubblewrap, engine))
