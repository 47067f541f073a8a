"""ERA's lines of `threegate doctor`: engine, OCI runtime, images, and the restrictions as the probe measures them."""

from __future__ import annotations

import grp
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from threegate.core.errors import Unavailable
from threegate.core.settings import EraSettings
from threegate.runners.backend import DoctorLine
from threegate.runners.era import container_engine
from threegate.runners.era.contents import MODULES_LABEL, PROGRAMS_LABEL
from threegate.runners.era.engine_runner import EngineRunner
from threegate.runners.era.measured_walls import limit_lines, measured
from threegate.runners.interface import Outcome
from threegate.runners.probe import Wall

_LISTS = {PROGRAMS_LABEL: "programs", MODULES_LABEL: "modules"}
_ESCAPES: tuple[tuple[str, tuple[int, ...], str], ...] = (
    ("CVE-2024-21626", (1, 1, 12), "1.1.5+ds1-1+deb12u1"),
    ("CVE-2025-31133, CVE-2025-52565, CVE-2025-52881", (1, 2, 8), ""),
)
"""Known escapes from runc: name, first fixed upstream version, first fixed Debian 12 package."""


def era_lines(settings: EraSettings, probes: bool) -> Iterator[DoctorLine]:
    """Engine, runtime, images, and the restrictions as the probe measures them."""
    with container_engine.client(container_engine.engine_url(settings.engine)) as api:
        version: dict[str, Any] = api.version()
        url = container_engine.engine_url(settings.engine)
        yield DoctorLine("engine", "ok", f"{version.get('Version')} at {url}")
        yield _access_line(Path(url.removeprefix("unix://")))
        yield runtime_line(container_engine.check_runtime(api, settings.oci_runtime), version)
        for name, image in (("image", settings.image), ("egress_image", settings.egress_image)):
            if not image:
                yield DoctorLine(name, "warning", "not set", "threegate settings images")
                continue
            try:
                facts = container_engine.check_image(api, image)
                labels = (facts.get("Config") or {}).get("Labels") or {}
                lacks = [what for label, what in _LISTS.items() if not labels.get(label)]
                if name == "image" and lacks:
                    seen = f"{image}: lists no {' and no '.join(lacks)}, so a missing one is noticed only at run time"
                    yield DoctorLine(name, "warning", seen, "threegate settings images")
                    continue
                yield DoctorLine(name, "ok", image)
            except Unavailable as error:
                yield DoctorLine(name, "failure", str(error), "threegate settings images")
    if not probes or not settings.image:
        yield DoctorLine(
            "era walls", "warning", "not measured", "threegate settings images; threegate doctor --sandbox"
        )
        return
    try:
        outcome, walls = prove_era(settings, network=bool(settings.egress_image))
    except Unavailable as error:
        # Report what is wrong with the network access, and measure the other restrictions without it.
        yield DoctorLine("era: the way out", "failure", str(error), "threegate settings images; restart the engine")
        outcome, walls = prove_era(settings, network=False)
    for wall in walls:
        yield DoctorLine(f"era: {wall.name}", "ok" if wall.held else "failure", wall.seen)
    yield from limit_lines(outcome)


def _access_line(socket: Path) -> DoctorLine:
    """Who may access the engine, and what that amounts to."""
    facts = socket.stat()
    if facts.st_uid == os.geteuid() != 0:
        return DoctorLine(
            "engine access",
            "ok",
            "the engine is your own (rootless): whoever may access it has your permissions, not root's",
        )
    if facts.st_mode & 0o002:
        seen = "everyone may access the engine, which is equivalent to root on this machine"
        return DoctorLine("engine access", "failure", seen, f"chmod o-w {socket}")
    if facts.st_gid == 0 or not facts.st_mode & 0o020:
        return DoctorLine("engine access", "ok", "only root")
    try:
        group = grp.getgrgid(facts.st_gid)
        name, members = group.gr_name, ", ".join(group.gr_mem) or "no members listed"
    except KeyError:
        name, members = str(facts.st_gid), "unknown"
    seen = f"every member of group {name} ({members}) is equivalent to root: the engine mounts whatever they request"
    return DoctorLine(
        "engine access", "warning", seen, "keep CORE out of the group, or give the daemon a rootless engine"
    )


def _debian_version(package: str) -> str:
    """The version of the installed Debian package, which may include fixes that the upstream number does not show."""
    dpkg = shutil.which("dpkg-query")
    if dpkg is None:
        return ""
    words = [dpkg, "-W", "-f", "${Version}", package]
    answer = subprocess.run(words, capture_output=True, text=True, timeout=10)
    return answer.stdout.strip() if answer.returncode == 0 else ""


def runtime_line(runtime: str, version: dict[str, Any]) -> DoctorLine:
    """The runtime's version compared with known escapes."""
    found = next(
        (str(item.get("Version", "")) for item in version.get("Components") or [] if item.get("Name") == runtime), ""
    )
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", found)
    packaged = _debian_version("runc")
    if packaged.startswith(found.split("+")[0]):
        found = packaged
    if runtime != "runc" or numbers is None:
        return DoctorLine("runtime", "ok" if runtime != "runc" else "warning", f"{runtime} {found}".strip())
    open_ones = [
        name
        for name, upstream, debian in _ESCAPES
        if tuple(map(int, numbers.groups())) < upstream
        and not (debian and found.startswith("1.1.5+") and found >= debian)
    ]
    if open_ones:
        seen = f"runc {found}: older than the fix of {', '.join(open_ones)} (a distribution may have backported it)"
        return DoctorLine("runtime", "warning", seen, "update runc; or set runners.era.runtime to runsc, kata or krun")
    return DoctorLine("runtime", "ok", f"runc {found}")


def prove_era(settings: EraSettings, *, network: bool) -> tuple[Outcome, list[Wall]]:
    """Run the probe in a container and return its measurements. Raises OSError."""
    return measured(partial(EngineRunner(settings).prove, network=network))
