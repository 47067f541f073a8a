"""Whether an ERA run could start now: the image that it needs is in the engine, and the runtime is there.

Invariant: the answer is the runner's own (`EraRunner.available`), asked without a job; it is at most KNOWN_SECONDS old.
"""

from __future__ import annotations

import time
from typing import Final

from threegate.core.errors import Unavailable
from threegate.core.settings import EraSettings
from threegate.runners.backend import DoctorLine
from threegate.runners.era import container_engine
from threegate.runners.era.engine_answer import engine_url
from threegate.runners.era.runner import EraRunner

KNOWN_SECONDS: Final = 2.0
"""How long an answer is used again: many drafts are checked in a row."""

_known: dict[tuple[EraSettings, str, bool], tuple[float, DoctorLine | None]] = {}


def why_blocked(settings: EraSettings, *, network: bool) -> DoctorLine | None:
    """What an ERA run would wait for; None for nothing. `network`: it has an allowlist, which needs a proxy."""
    now, key = time.monotonic(), (settings, engine_url(settings.engine), network)
    found = _known.get(key)
    if found is None or now - found[0] >= KNOWN_SECONDS:
        _known.clear()  # one workspace's settings at a time
        found = _known[key] = (now, _look(settings, network))
    return found[1]


def _look(settings: EraSettings, network: bool) -> DoctorLine | None:
    problem = EraRunner(settings).available()
    if problem is None and network:
        problem = _without_proxy(settings)
    return None if problem is None else DoctorLine("engine", "warning", problem)


def _without_proxy(settings: EraSettings) -> str | None:
    if not settings.egress_image:
        return "no image: runners.era.egress_image is not set; build it: threegate settings images"
    try:
        with container_engine.client(engine_url(settings.engine)) as api:
            container_engine.check_image(api, settings.egress_image)
    except Unavailable as error:
        return str(error)
    return None
