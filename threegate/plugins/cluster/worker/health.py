"""The worker's doctor: what it can offer, measured, and why it accepts no work.

Invariant: a worker offers only what was tested here at its start: a restriction that is not in force, or a
wrong clock, key or file, keeps it from all work.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path

from cryptography import x509

from threegate.approval.operators import Operators
from threegate.core import limits
from threegate.core.errors import ThreeGateError
from threegate.core.extras import missing_extra
from threegate.core.settings import Settings
from threegate.plugins.cluster.notes import Rules, operators_digest
from threegate.plugins.cluster.worker.heartbeat import Capacity
from threegate.runners.backend import backends
from threegate.runners.machine import Budget
from threegate.setup.doctor import examine
from threegate.setup.sandbox import known_images


def images_of(settings: Settings) -> tuple[str, str]:
    """The ERA and proxy images: the settings', else this version's as far as the engine has them."""
    era = settings.runners.era
    if era.image:
        return era.image, era.egress_image
    try:
        found = known_images(era.engine)
    except ThreeGateError:
        return "", ""
    return found.era, found.egress


def look(settings: Settings, operators: Operators, state: Path) -> tuple[Capacity, str | None]:
    """What this worker offers, and the first problem that keeps it from working, if any. Takes a few seconds."""
    budget = Budget.of(settings.runners)
    era, egress = settings.runners.era.image, settings.runners.era.egress_image
    problem = quick_look(operators, state)
    for line in examine(None, probes=True) if problem is None else ():
        if line.state == "failure":
            problem = f"{line.name}: {line.seen}"
            break
    rows = {backend.name.lower(): backend.rows(settings.runners) for backend in backends() if backend.on_workers}
    if not era:
        rows["era"] = 0  # the engine has no image: container jobs go elsewhere
    elif problem is None:
        problem = _era_problem(settings)
    images = tuple(image for image in (era, egress) if image)
    memory, cores = budget.memory_mb, Decimal(budget.cpus)
    return Capacity(cores, memory, rows, images), problem


def quick_look(operators: Operators, state: Path) -> str | None:
    """What can change while a worker works, and costs nothing to look at."""
    if operators.problem is not None:
        return f"operators: {operators.problem}"
    if not os.access("/usr/bin/ssh-keygen", os.X_OK):
        return "ssh-keygen: not found (apt-get install openssh-client)"
    try:
        if shutil.disk_usage(state).free < limits.WORKER_FREE_BYTES:
            return f"disk: less than {limits.WORKER_FREE_BYTES >> 20} MiB free in {state}"
    except OSError as error:
        return f"disk: {state}: {error.strerror or error}"
    return None


def judges_by(settings: Settings, operators: Operators, identity: Path) -> dict[str, str | int]:
    """What a status says of how this worker judges, and when the certificate in `identity` ends (0: not known)."""
    try:
        ends = int(x509.load_pem_x509_certificate((identity / "tls.pem").read_bytes()).not_valid_after_utc.timestamp())
    except (OSError, ValueError):
        ends = 0
    return {
        **asdict(Rules.of(settings)),
        "operators_sha256": operators_digest(operators),
        "certificate_end": max(ends, 0),
    }


def _era_problem(settings: Settings) -> str | None:
    """None when the container sandbox holds, as its probe measures it."""
    if (problem := missing_extra("ERA", "era")) is not None:
        return problem
    from threegate.runners.era import container_engine
    from threegate.runners.era.era_doctor import prove_era

    try:
        with container_engine.client(container_engine.engine_url(settings.runners.era.engine)) as api:
            container_engine.check_image(api, settings.runners.era.image)
        _, walls = prove_era(settings.runners.era, network=False)
    except (ThreeGateError, OSError) as error:
        return f"ERA: {error}"
    return next((f"ERA: {wall.name}: {wall.seen}" for wall in walls if not wall.held), None)
