"""A workspace's gates for callers over HTTP and MCP: verdicts on proposals, decisions by its contracts.

Invariant: a verdict is the one that the command line gives, and is recorded before it is returned. A contract
decision comes from a replay as in `threegate contracts decide`, which lasts as long as the server: the clock
is the server's, a caller can neither answer contract checkpoints nor kill sessions, and after the contracts
change nothing is decided.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from threegate.aana import DecisionLog
from threegate.aana.decision_log import Surface
from threegate.contracts.compiled import read_folder
from threegate.contracts.compiler import compile_folder
from threegate.contracts.play import Play
from threegate.core import canonical, limits
from threegate.core.errors import InvalidInput, NoWorkspace, Unavailable
from threegate.core.forms import Form
from threegate.core.secretscan.scan import mask_secrets
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace

_OPERATORS: Final = frozenset({"answer", "asked", "at", "kill"})
"""Keys of a replay's line that only an operator or the clock may set."""
_SHOWN: Final = ("layer", "code", "path")
"""The fields of a reason that a caller may see; expected and actual values are for the operator's terminal."""


class WorkspaceGates:
    """The gates of one workspace; without one, documents are judged by the default settings. Thread-safe."""

    def __init__(
        self,
        workspace: Workspace | None,
        log: DecisionLog,
        *,
        clock: Callable[[], float] = time.monotonic,
        surface: Surface = "http",
    ) -> None:
        """Store the context of the gates; contracts are read at the first call. `clock` is in seconds."""
        self._surface = surface
        self._workspace = workspace
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._files: Mapping[str, bytes] | None = None
        self._play: Play | None = None
        self._began = 0.0
        self._taken = 0
        """The size of the sessions when last measured, and the bytes of the lines since, few of which are kept."""
        self._full = False

    def judge_document(self, form: Form, data: bytes, now: datetime) -> dict[str, Any]:
        """The verdict on a document's bytes. Raises Unavailable for unreadable settings, OSError for the log."""
        begun = time.perf_counter_ns()
        try:
            settings = Settings() if self._workspace is None else self._workspace.load_settings()
        except InvalidInput:
            raise Unavailable("the workspace's settings cannot be read: threegate settings check") from None
        judged = form.judge(data, settings)
        self._log.record_verdict(
            form.log_type,
            judged.value,
            names=judged.names,
            verdict=judged.verdict,
            codes=judged.codes,
            surface=self._surface,
            now=now,
            latency_us=(time.perf_counter_ns() - begun) // 1000,
        )
        return judged.answer

    def decide_call(self, data: bytes, now: datetime) -> dict[str, Any]:
        """The contracts' decision on one line: a call, or the end of a call or of a session.

        Raises InvalidInput for a line with nothing to decide, NoWorkspace without a workspace, Unavailable if
        the contracts cannot be used, OSError for the log.
        """
        begun = time.perf_counter_ns()
        value = _line(data)
        # One call at a time: the sessions are one state, and two calls could both take what only one may.
        with self._lock:
            play = self._current_play()
            if max(len(play.table.sessions), len(play.claimed)) >= limits.SERVE_CONTRACT_SESSIONS:
                raise Unavailable(f"{limits.SERVE_CONTRACT_SESSIONS} sessions or claims are open; restart the server")
            self._take(len(data), play)
            try:
                # The server's own clock: a caller that sets the time could outwait a limit.
                answer = play.line({**value, "at": self._clock() - self._began}).to_json()
            except InvalidInput as error:
                raise InvalidInput(mask_secrets(str(error))) from None
            except (ArithmeticError, KeyError, RecursionError, TypeError, ValueError):
                # Values of a caller reach the contracts' expressions; whatever they raise must not end as an allow.
                raise InvalidInput("the call cannot be judged; do not execute") from None
        outcome = answer.get("outcome", {})
        reasons = [*answer.get("reasons", ()), *outcome.get("reasons", ())]
        self._log.record_verdict(
            "contract_decision/1",
            value,
            names={"tool_name": value.get("tool"), "session_id": value.get("session_id")},
            verdict=answer.get("verdict") or outcome.get("status") or "done",
            codes=[reason["code"] for reason in reasons],
            surface=self._surface,
            now=now,
            latency_us=(time.perf_counter_ns() - begun) // 1000,
        )
        return _for_callers(answer)

    def _take(self, size: int, play: Play) -> None:
        """Ensure that the sessions have room for a line of `size` bytes. Raises Unavailable."""
        most = limits.SERVE_CONTRACT_STATE_BYTES
        if not self._full and self._taken + size > most:
            self._taken = len(canonical.canonical_bytes(play.table.to_json()))
            self._full = 2 * self._taken > most  # otherwise it would soon be measured again
        if self._full:
            raise Unavailable("the open sessions have reached this server's limit; restart the server")
        self._taken += size

    def _current_play(self) -> Play:
        if self._workspace is None:
            raise NoWorkspace("no workspace: start the server with --workspace DIR")
        try:
            files = read_folder(self._workspace.contracts)
            if self._play is None:
                permit = self._workspace.load_settings().contracts.permit_timeout_allow
                self._play = Play(compile_folder(files, environment=os.environ, permit_timeout_allow=permit))
                self._files, self._began = files, self._clock()
        except InvalidInput:
            raise Unavailable("the contracts or the settings cannot be read: threegate contracts check") from None
        if files != self._files:
            raise Unavailable("the contracts changed since the server read them; restart the server")
        return self._play


def _line(data: bytes) -> dict[str, Any]:
    """A line of a replay, limited to what a caller may set. Raises InvalidInput, whose message repeats no value."""
    try:
        value = canonical.loads_strict(data, max_bytes=limits.AANA_EVENT_BYTES)
    except canonical.StrictJSONError as error:
        raise InvalidInput(f"the body cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidInput("the body must be an object: a call, finish or close")
    if not _OPERATORS.isdisjoint(value):
        raise InvalidInput(
            "answer, asked, at and kill are not accepted here: the server sets the time, and a person decides"
        )
    return value


def _for_callers(answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer of a replay without what only the operator may see."""
    shown = dict(answer)
    if "reasons" in shown:
        shown["reasons"] = _reasons(shown["reasons"])
    if "outcome" in shown:
        shown["outcome"] = {**shown["outcome"], "reasons": _reasons(shown["outcome"]["reasons"])}
    if "checkpoints" in shown:
        shown["checkpoints"] = [
            {name: value for name, value in demand.items() if name != "context"} for demand in shown["checkpoints"]
        ]
    return shown


def _reasons(reasons: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: reason[name] for name in _SHOWN} for reason in reasons]
