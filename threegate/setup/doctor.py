"""What holds on this machine: each line was looked at or measured just now, none is what a setting says.

Invariant: `doctor` changes nothing; a check that cannot be made is a warning that says so, never an ok.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from threegate.core.errors import ThreeGateError, Unavailable
from threegate.core.settings import EraSettings, Settings
from threegate.core.version import described
from threegate.core.workspace import Workspace
from threegate.runners.era import container_engine
from threegate.runners.monty.runner import MontyRunner
from threegate.setup.sandbox import prove_era, prove_monty
from threegate.trail import Trail

State = Literal["ok", "warning", "failure"]
_SPACE_LOW, _SPACE_NONE = 2 << 30, 256 << 20
_YEAR_2026 = 1_767_225_600
_ESCAPES: tuple[tuple[str, tuple[int, ...], str], ...] = (
    ("CVE-2024-21626", (1, 1, 12), "1.1.5+ds1-1+deb12u1"),
    ("CVE-2025-31133, CVE-2025-52565, CVE-2025-52881", (1, 2, 8), ""),
)
"""Known ways out of runc: name, first upstream version without it, Debian 12 package without it."""


@dataclass(frozen=True, slots=True)
class Line:
    """One finding: what was looked at, its state, what was seen, and how to mend it."""

    name: str
    state: State
    seen: str
    mend: str = ""


def examine(workspace: Workspace | None, *, probes: bool = True) -> list[Line]:
    """All lines. Without a workspace those about it are left out; `probes` False leaves out the short runs."""
    lines: list[Line] = [Line("threegate", "ok", f"{described()} on Python {sys.version.split()[0]}")]
    settings = Settings()
    lines += _guarded("clock", _clock)
    lines += _guarded("ssh-keygen", _ssh_keygen)
    if workspace is None:
        lines.append(Line("workspace", "warning", "none here", "threegate init DIR, or --workspace DIR"))
    else:
        try:
            settings = workspace.load_settings()
            lines.append(Line("settings", "ok", str(workspace.settings_file)))
        except ThreeGateError as error:
            lines.append(Line("settings", "failure", str(error), "threegate settings check"))
        lines += _guarded("folders", lambda: _folders(workspace))
        lines += _guarded("operators", lambda: _operators(workspace))
        lines += _guarded("trail", lambda: _trail(workspace))
        lines += _guarded("disk", lambda: _disk(workspace.root))
    lines += _guarded("monty", lambda: _monty(probes))
    lines += _guarded("engine", lambda: _era(settings.runners.era, probes), failure="warning")
    return lines


def _guarded(name: str, check: Callable[[], Iterator[Line]], failure: State = "failure") -> list[Line]:
    """A check's lines; one that cannot be made is a line as well."""
    lines: list[Line] = []
    try:
        lines.extend(check())
    except (ThreeGateError, OSError, ValueError, subprocess.SubprocessError) as error:
        lines.append(Line(name, failure, str(error) or type(error).__name__))
    return lines


def _clock() -> Iterator[Line]:
    if time.time() < _YEAR_2026:
        yield Line("clock", "failure", time.strftime("%Y-%m-%d", time.gmtime()), "set the clock")
    else:
        yield Line("clock", "ok", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def _ssh_keygen() -> Iterator[Line]:
    path = Path("/usr/bin/ssh-keygen")
    if not path.is_file():
        yield Line("ssh-keygen", "failure", f"{path} is not there", "apt-get install openssh-client")
        return
    answer = subprocess.run(["/usr/bin/ssh", "-V"], capture_output=True, text=True, timeout=10)
    yield Line("ssh-keygen", "ok", (answer.stderr or answer.stdout).strip()[:80])


def _folders(workspace: Workspace) -> Iterator[Line]:
    bad = []
    own = (os.geteuid(), 0)
    for path in (workspace.tool_exec, *sorted(workspace.tool_exec.iterdir())):
        facts = path.lstat()
        if stat.S_ISDIR(facts.st_mode) and (facts.st_mode & 0o022 or facts.st_uid not in own):
            bad.append(f"{path.name} ({stat.filemode(facts.st_mode)}, uid {facts.st_uid})")
    if bad:
        yield Line(
            "folders",
            "failure",
            "others may write: " + ", ".join(bad),
            "chmod go-w; chown to the daemon's user",
        )
    else:
        yield Line("folders", "ok", f"tool-exec/ is written by uid {own[0]} alone")
    replaced = workspace.replaced_folder()
    if replaced is not None:
        yield Line("folders", "failure", replaced, "nothing is launched until then")
    with workspace.hold(workspace.root) as root:
        facts = root.stat("inbox")
    if facts.st_mode & 0o002:
        yield Line(
            "inbox", "warning", "everybody may write into it", "chmod o-w inbox; give CORE its own group"
        )
    else:
        yield Line("inbox", "ok", f"{stat.filemode(facts.st_mode)}, uid {facts.st_uid}")


def _operators(workspace: Workspace) -> Iterator[Line]:
    path = workspace.operators_file
    facts = path.lstat()
    count = sum(1 for line in path.read_bytes().splitlines() if line.strip() and not line.startswith(b"#"))
    if facts.st_mode & 0o022:
        yield Line("operators", "failure", f"{path} is written by others", "chmod go-w tool-exec/operators")
    elif not count:
        yield Line("operators", "warning", "nobody may approve", "threegate operator add NAME KEY.pub")
    else:
        yield Line("operators", "ok", f"{count} key(s)")


def _trail(workspace: Workspace) -> Iterator[Line]:
    """The whole chain, read once, and the head that is kept outside."""
    trail = Trail(workspace)
    try:
        count = sum(1 for _ in trail.events())
        with trail.locked() as held:
            problem = held.outside_problem()
            behind = held.clock_behind_seconds
    finally:
        trail.close()
    if problem is not None:
        yield Line("trail", "failure", problem, "threegate audit verify; then threegate workspace adopt")
    elif behind > 0:
        yield Line("trail", "warning", f"the clock is {int(behind)} s behind its last event", "set the clock")
    else:
        yield Line("trail", "ok", f"{count} events, chain and outside head agree")


def _disk(root: Path) -> Iterator[Line]:
    free = shutil.disk_usage(root).free
    seen = f"{free >> 20} MiB free"
    if free < _SPACE_NONE:
        yield Line("disk", "failure", seen, "make room: threegate prune --older-than 30d")
    elif free < _SPACE_LOW:
        yield Line("disk", "warning", seen, "make room: threegate prune --older-than 30d")
    else:
        yield Line("disk", "ok", seen)


def _monty(probes: bool) -> Iterator[Line]:
    runner = MontyRunner(1)
    try:
        missing = runner.isolation_missing()
        yield Line(
            "monty worker",
            "warning" if missing else "ok",
            f"not taken away: {'; '.join(missing)}"
            if missing
            else "own user, no capabilities, own namespaces",
            "run the daemon as root" if missing else "",
        )
        for wall in prove_monty(runner) if probes else ():
            yield Line(f"monty: {wall.name}", "ok" if wall.held else "failure", wall.seen)
    finally:
        runner.close()


def _era(settings: EraSettings, probes: bool) -> Iterator[Line]:
    """Engine, runtime, images, and the walls as the probe measures them."""
    with container_engine.client(container_engine.engine_url(settings.engine)) as api:
        version: dict[str, Any] = api.version()
        yield Line(
            "engine", "ok", f"{version.get('Version')} at {container_engine.engine_url(settings.engine)}"
        )
        yield _runtime_line(container_engine.check_runtime(api, settings.runtime), version)
        for name, image in (("image", settings.image), ("egress_image", settings.egress_image)):
            if not image:
                yield Line(name, "warning", "not set", "threegate sandbox build")
                continue
            try:
                container_engine.check_image(api, image)
                yield Line(name, "ok", image)
            except Unavailable as error:
                yield Line(name, "failure", str(error), "threegate sandbox build")
    if not probes or not settings.image:
        yield Line("era walls", "warning", "not measured", "threegate sandbox build; threegate sandbox check")
        return
    try:
        outcome, walls = prove_era(settings, network=bool(settings.egress_image))
    except Unavailable as error:
        # Say what is wrong with the way out, and measure the walls without it.
        yield Line("era: the way out", "failure", str(error), "threegate sandbox build; restart the engine")
        outcome, walls = prove_era(settings, network=False)
    for wall in walls:
        yield Line(f"era: {wall.name}", "ok" if wall.held else "failure", wall.seen)
    for name in ("memory", "processes", "cpu", "swap", "network"):
        seen = outcome.effective_limits.get(name, "not readable")
        yield Line(f"era: {name} as the kernel holds it", "failure" if seen == "not enforced" else "ok", seen)


def _debian_version(package: str) -> str:
    """The installed Debian package's whole version, which tells of fixes that the upstream number does not."""
    dpkg = shutil.which("dpkg-query")
    if dpkg is None:
        return ""
    words = [dpkg, "-W", "-f", "${Version}", package]
    answer = subprocess.run(words, capture_output=True, text=True, timeout=10)
    return answer.stdout.strip() if answer.returncode == 0 else ""


def _runtime_line(runtime: str, version: dict[str, Any]) -> Line:
    """The runtime's version against known ways out of it."""
    found = next(
        (
            str(item.get("Version", ""))
            for item in version.get("Components") or []
            if item.get("Name") == runtime
        ),
        "",
    )
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", found)
    packaged = _debian_version("runc")
    if packaged.startswith(found.split("+")[0]):
        found = packaged
    if runtime != "runc" or numbers is None:
        return Line("runtime", "ok" if runtime != "runc" else "warning", f"{runtime} {found}".strip())
    open_ones = [
        name
        for name, upstream, debian in _ESCAPES
        if tuple(map(int, numbers.groups())) < upstream
        and not (debian and found.startswith("1.1.5+") and found >= debian)
    ]
    if open_ones:
        seen = f"runc {found}: older than the fix of {', '.join(open_ones)} (a distribution may have it all the same)"
        return Line(
            "runtime", "warning", seen, "update runc; or set runners.era.runtime to runsc, kata or krun"
        )
    return Line("runtime", "ok", f"runc {found}")
