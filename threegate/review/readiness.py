"""Whether anything can run now: the daemon, the engines of the backends, the trail, who can sign.

Invariant: a check waits at most as long as the caller allows; whatever has not answered by then is reported
as such, and the screen goes on.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from threegate.core import limits
from threegate.core.errors import ThreeGateError
from threegate.core.own_daemon import starts_by_itself
from threegate.core.plugins import OFF
from threegate.core.workspace import Workspace
from threegate.launch.launch_problem import launch_problem
from threegate.review.signers import operators_here, signers_line
from threegate.runners.backend import DoctorLine, LineState, backends, plugin_lines
from threegate.runners.machine import machine_of, workers_answer
from threegate.trail.trail import Trail

_ENGINE: Final = "engine"
NOT_YET: Final = "no answer yet"


def daemon_line(workspace: Workspace) -> DoctorLine:
    """Whether a daemon runs that starts what is approved; what is approved without one waits for it."""
    if workspace.daemon_lock_held():
        return DoctorLine("daemon", "ok", "runs")
    if starts_by_itself(workspace):
        return DoctorLine("daemon", "ok", "not running: it starts by itself when you approve")
    return DoctorLine("daemon", "failure", "not running, so nothing is started", "threegate run")


def would_wait(workspace: Workspace) -> str:
    """What each draft here would wait for, whatever is in it; empty if a daemon runs. An agent's own account cannot see
    whether one does.
    """
    if not os.access(workspace.tool_exec, os.R_OK) or (line := daemon_line(workspace)).state == "ok":
        return ""
    return f"daemon {line.seen}: {line.fix}"


class Readiness:
    """Checks daemon, engine and trail, each at most every HEALTH_SECONDS, in threads of its own."""

    def __init__(self, workspace: Workspace, *, trail: Trail | None = None) -> None:
        """Nothing is checked yet. `trail` is an incremental reader."""
        self._workspace = workspace
        self._trail = trail or Trail(workspace)
        self._looks = (_Look(_ENGINE, self._engine), _Look("trail", self._trail_line))

    def look(self, wait: float | None = None) -> list[DoctorLine]:
        """One line each for daemon, engine and trail, as last seen, and one about operators if too few can sign, and
        about plugins that are off or missing.
        Waits `wait` (HEALTH_WAIT_SECONDS) seconds for the first check.
        """
        until = time.monotonic() + (limits.HEALTH_WAIT_SECONDS if wait is None else wait)
        for item in self._looks:
            item.begin()
        looked = [daemon_line(self._workspace), *(item.seen(until - time.monotonic()) for item in self._looks)]
        return [*looked, *self._operators(), *self._plugins()]

    def _operators(self) -> list[DoctorLine]:
        """One line if too few operators can sign; none otherwise."""
        try:
            settings = self._workspace.load_settings()
        except ThreeGateError:  # the engine's line says it
            return []
        operators = operators_here(self._workspace)
        line = None if operators is None else signers_line(operators, settings, datetime.now(UTC))
        return [] if line is None else [line]

    def _plugins(self) -> list[DoctorLine]:
        """One line about the plugins that are off, or absent and have a section; none if there is no such plugin."""
        try:
            settings = self._workspace.load_settings()
        except ThreeGateError:  # the engine's line says it
            return []
        if not settings.plugins.off and not settings.unread():
            return []
        lines = [line for line in plugin_lines(settings) if line.seen.endswith(OFF) or line.state != "ok"]
        fixes = [line.fix for line in lines if line.fix]
        state: LineState = "warning" if fixes else "ok"
        return [DoctorLine("plugins", state, "; ".join(line.seen for line in lines), "; ".join(fixes))]

    def _engine(self) -> DoctorLine:
        """The first backend that depends on something which does not answer; or the workers, if they run everything."""
        try:
            settings = self._workspace.load_settings()
        except ThreeGateError as error:
            return DoctorLine(_ENGINE, "failure", str(error), "threegate settings check")
        if (rows := machine_of(settings).workers(self._workspace, settings)) is not None:
            return workers_answer(rows, "threegate doctor")
        lines = [line for item in backends() if (line := item.answers(settings)) is not None]
        lines.append(DoctorLine(_ENGINE, "ok", "none is needed"))
        return next((line for line in lines if line.state != "ok"), lines[0])

    def _trail_line(self) -> DoctorLine:
        try:
            settings = self._workspace.load_settings()
            with self._trail.locked() as held:
                problem = launch_problem(self._workspace, settings.workspace.id, held)
        except ThreeGateError as error:
            return DoctorLine("trail", "failure", str(error), "threegate audit verify")
        if problem is not None:
            return DoctorLine("trail", "failure", f"nothing is launched: {problem[0]}: {problem[1]}")
        return DoctorLine("trail", "ok", "verifies")


class _Look:
    """One thing that a thread checks, again when the last result is old."""

    def __init__(self, name: str, make: Callable[[], DoctorLine]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._line = DoctorLine(name, "warning", NOT_YET)
        self._when: float | None = None
        self._runs = False

    def begin(self) -> None:
        with self._lock:
            fresh = self._when is not None and time.monotonic() - self._when < limits.HEALTH_SECONDS
            if self._runs or fresh:
                return
            self._runs = True
        threading.Thread(target=self._work, name=f"look-{self._line.name}", daemon=True).start()

    def _work(self) -> None:
        name = self._line.name
        try:
            line = self._make()
        except Exception as error:  # noqa: BLE001 - a look that fails is said so, whatever it was; it decides nothing
            line = DoctorLine(name, "failure", f"could not be checked ({type(error).__name__})")
        with self._lock:
            self._line, self._when, self._runs = line, time.monotonic(), False
        self._answered.set()

    def seen(self, wait: float) -> DoctorLine:
        self._answered.wait(max(0.0, wait))
        with self._lock:
            return self._line
