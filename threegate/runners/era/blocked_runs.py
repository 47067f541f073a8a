"""Whether an ERA run could start now: its runner is asked with a Job that needs the same of the machine.

Invariant: the answer is the runner's own (`EraRunner.available`), as at a launch; it is at most KNOWN_SECONDS old.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from threegate.core.settings import EraSettings
from threegate.request.action import Command
from threegate.request.job import Job, JobLimits, Platform
from threegate.runners.backend import DoctorLine, RunNeed
from threegate.runners.era.engine_answer import engine_url
from threegate.runners.era.runner import EraRunner

KNOWN_SECONDS: Final = 2.0
"""How long an answer is used again: many drafts are checked in a row."""
_KEPT: Final = 64

_known: dict[tuple[EraSettings, str, RunNeed, Platform], tuple[float, DoctorLine | None]] = {}


def why_blocked(
    settings: EraSettings, need: RunNeed, platform: Platform, answers: Callable[[], DoctorLine]
) -> DoctorLine | None:
    """What an ERA run on a platform would wait for; None for nothing. `answers`: the quick look at the engine or
    bubblewrap, which is enough where it finds neither.
    """
    now, key = time.monotonic(), (settings, engine_url(settings.engine), need, platform)
    found = _known.get(key)
    if found is None or now - found[0] >= KNOWN_SECONDS:
        if len(_known) >= _KEPT:
            _known.clear()
        line = answers()
        found = _known[key] = (now, line if line.state != "ok" else _look(settings, key[1], need, platform))
    return found[1]


def _look(settings: EraSettings, url: str, need: RunNeed, platform: Platform) -> DoctorLine | None:
    problem = _runner(settings, url).available(_job(need, platform))
    name = "engine" if platform.engine else "bubblewrap"
    return None if problem is None else DoctorLine(name, "warning", problem)


@lru_cache(maxsize=4)
def _runner(settings: EraSettings, url: str) -> EraRunner:
    """The runner of these settings at an engine; what it tried once it need not try again."""
    return EraRunner(settings)


def _job(need: RunNeed, platform: Platform) -> Job:
    """A Job with these needs, which is never run."""
    return Job(
        backend=need.backend,
        action=Command(("true",)),
        workdir="/in",
        inputs=(),
        outputs=(),
        limits=JobLimits(str(need.cpus), need.memory_mb, 1),
        network=("example.org:443",) if need.network else (),
        environment={},
        image=platform.image,
        egress_image=platform.egress_image,
        runtime=platform.runtime,
        seccomp_sha256=platform.seccomp_sha256,
    )
