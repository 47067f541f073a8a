"""Processes of stateful servers that a daemon keeps: one for each requester and manifest, each with its own thread.

Invariant: a process answers the calls of one requester only, one at a time. A signed call is sent only while the
process has done exactly what was on the signed screen; a granted one regardless of earlier calls. A process that failed
a call, no longer matches its manifest, or was cancelled is terminated and gets no further call.

The thread starts the process, talks to it and terminates it: the kernel kills a jail with the thread that started it,
so nothing outlives the daemon, however that exits.
"""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from threegate.core import limits
from threegate.core.errors import Refused, ThreeGateError, Unavailable
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.tools.action import EarlierCall, ServerState, ToolCall
from threegate.plugins.tools.called_server import Answer, Progress
from threegate.plugins.tools.manifest import Manifest, manifest_name
from threegate.plugins.tools.process_states import FRESH, RUNNING, write_states
from threegate.plugins.tools.requested_call import pinned_manifest
from threegate.plugins.tools.server_process import Server, ServerError
from threegate.plugins.tools.server_start import refuse_changed_program
from threegate.trail.payloads.payload import Owner

_LOOK_SECONDS: Final = 1.0
_CANCEL_SECONDS: Final = 0.1
_JOIN_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Kept:
    """The result of a call to a kept process."""

    answer: Answer
    state: ServerState
    """The state of the process, including this call."""


@dataclass(frozen=True)
class WantedCall:
    """A cleared call of a stateful server."""

    request_id: str
    call: ToolCall
    owner: Owner
    seconds: float
    signed: ServerState | None
    """The state that was shown to the operator; None for a call under a grant, which needs none."""
    progress: Progress
    stopped: Callable[[], bool]
    """Whether to stop the call."""
    run_ended: Callable[[], bool]
    """Whether the agent's run has ended. May raise ThreeGateError, OSError."""


class _GoneError(Exception):
    """The process ended before this call's turn."""


@dataclass
class _Task:
    wanted: WantedCall
    future: Future[Kept] = field(default_factory=Future)
    cancelled: bool = False


class KeptServers:
    """All kept processes. `call` is thread-safe; call `close` once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._kept: dict[tuple[Owner, str], _Process] = {}
        self._closed = False

    def call(self, workspace: Workspace, manifest: Manifest, wanted: WantedCall) -> Kept:
        """Make one call, with the existing process for it or a new one.

        Raises Refused (state_changed, tools_changed: nothing was sent), ServerError, Unavailable.
        """
        while True:
            if wanted.stopped():
                raise ServerError("cancelled", "the call was cancelled before its turn")
            process, task = self._put(workspace, manifest, wanted)
            try:
                return self._result(process, task)
            except _GoneError:
                continue  # nothing of this call was sent; a new process is also compared with what was signed

    def close(self) -> None:
        """Terminate all of them, and wait for that."""
        with self._lock:
            self._closed = True
            processes = list(self._kept.values())
        for process in processes:
            process.stop()
        for process in processes:
            process.thread.join(_JOIN_SECONDS)

    def changed(self, workspace: Workspace) -> None:
        """Record what all of them have done."""
        with self._lock:
            self._write(workspace)

    def forget(self, process: _Process, workspace: Workspace) -> list[_Task]:
        """A process was terminated: remove what still waits for it."""
        with self._lock:
            if self._kept.get(process.key) is process:
                del self._kept[process.key]
            self._write(workspace)
            return process.left()

    def _put(self, workspace: Workspace, manifest: Manifest, wanted: WantedCall) -> tuple[_Process, _Task]:
        key = (wanted.owner, manifest.server)
        task = _Task(wanted)
        while True:
            with self._lock:
                if self._closed:
                    raise Unavailable("the daemon is stopping its servers")
                process = self._kept.get(key)
                if process is None:
                    if len(self._kept) >= limits.TOOLS_KEPT:
                        raise Unavailable(
                            f"{limits.TOOLS_KEPT} processes of stateful servers are already running; one ends with its "
                            f"run, after {limits.TOOLS_IDLE_SECONDS:.0f} s without a call, or with: threegate tools "
                            "remove NAME"
                        )
                    process = self._kept[key] = _Process(self, key, workspace, self._settings, manifest)
                    process.thread.start()
                if process.manifest.digest == manifest.digest:
                    process.tasks.put(task)
                    return process, task
            process.stop()  # of the manifest signed before
            process.thread.join(_JOIN_SECONDS)
            if process.thread.is_alive():
                raise Unavailable(f"{manifest.server}: its process from before the change does not exit")

    def _result(self, process: _Process, task: _Task) -> Kept:
        while True:
            try:
                return task.future.result(_CANCEL_SECONDS)
            except TimeoutError:
                if not task.wanted.stopped():
                    continue
                if task.future.cancel():
                    raise ServerError("cancelled", "the call was cancelled before its turn") from None
                process.cancel(task)

    def _write(self, workspace: Workspace) -> None:
        write_states(
            workspace, [(key[0], process.manifest.digest, process.state) for key, process in self._kept.items()]
        )


class _Process:
    """One process and its thread. Only the thread talks to the process; `stop` and `cancel` are called by others."""

    def __init__(
        self, servers: KeptServers, key: tuple[Owner, str], workspace: Workspace, settings: Settings, manifest: Manifest
    ) -> None:
        self.key = key
        self.manifest = manifest
        self.state = FRESH
        self.tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._work, name=f"server-{manifest.server}", daemon=True)
        self._servers = servers
        self._workspace = workspace
        self._settings = settings
        self._server: Server | None = None
        self._lock = threading.Lock()
        self._current: _Task | None = None
        self._last: WantedCall | None = None
        self._used = time.monotonic()
        self._seen: tuple[int, ...] | None = None

    def stop(self) -> None:
        """Request its termination; a call in progress is cancelled."""
        self.tasks.put(None)
        with self._lock:
            current = self._current
        if current is not None:
            self.cancel(current)

    def cancel(self, task: _Task) -> None:
        """Stop a call in progress, and with it the process."""
        with self._lock:
            if self._current is task and self._server is not None:
                task.cancelled = True
                self._server.cancel()

    def left(self) -> list[_Task]:
        """The calls still waiting for it."""
        found = []
        with suppress(queue.Empty):
            while True:
                task = self.tasks.get_nowait()
                if task is not None:
                    found.append(task)
        return found

    def _work(self) -> None:
        """Process calls one by one, until it is to exit."""
        failed: tuple[_Task, BaseException] | None = None
        try:
            while failed is None and (task := self._next()) is not None:
                failed = self._answer(task)
                if self._server is None:
                    break
        finally:
            with suppress(ThreeGateError, OSError):
                self._end()
            left = self._servers.forget(self, self._workspace)
            if failed is not None:
                failed[0].future.set_exception(failed[1])
            for task in left:
                if task.future.set_running_or_notify_cancel():
                    task.future.set_exception(_GoneError())

    def _next(self) -> _Task | None:
        """The next call; None if the process is to exit."""
        while True:
            try:
                task = self.tasks.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                if self._over():
                    return None
                continue
            if task is None or task.future.set_running_or_notify_cancel():
                return task
            if self._server is None:  # its caller gave up, and without a server nothing is left to wait for
                return None

    def _answer(self, task: _Task) -> tuple[_Task, BaseException] | None:
        """Make a call and report its result; or return the error that ends the process, for after its end."""
        error: BaseException | None = None
        with self._lock:
            self._current = task
        try:
            kept = self._made(task.wanted)
        except BaseException as raised:  # noqa: BLE001 - whatever it is, the caller gets it, and the process its end
            error = raised
        with self._lock:
            self._current = None
        if error is None:
            # A stop request that arrives too late for this call would hit the next one: so the process exits too.
            if task.cancelled:
                with suppress(ThreeGateError, OSError):
                    self._end()
            task.future.set_result(kept)
        elif self._server is not None and not task.cancelled and _is_other_state(error):
            task.future.set_exception(error)
        else:
            return task, error
        return None

    def _made(self, wanted: WantedCall) -> Kept:
        """One call. Raises the same as KeptServers.call; after any error but `state_changed` the process must
        not be used again.
        """
        if wanted.signed is not None and wanted.signed != self.state:
            raise Refused(
                "state_changed", f"{self.manifest.server}: was called, or its process ended, since the call was signed"
            )
        server = self._server
        if server is None:
            server = Server(self._workspace, self._settings, self.manifest)
            server.__enter__()
            with self._lock:
                self._server = server
            server.check_pinned()
        else:
            refuse_changed_program(self.manifest)
            server.check_again()
        self._last = wanted
        before = self.state
        # Before it is sent: it may be carried out whatever becomes of its answer, and then the state is another one.
        self._tell(before, wanted, RUNNING)
        answer = server.call(
            wanted.call.tool, wanted.call.arguments(), wanted.seconds, limits.TOOL_ANSWER_BYTES, wanted.progress
        )
        self._tell(before, wanted, "tool_error" if answer.is_error else "succeeded")
        self._used = time.monotonic()
        return Kept(answer, self.state)

    def _tell(self, before: ServerState, wanted: WantedCall, status: str) -> None:
        """Record the call, before it is sent and when it is answered."""
        text = wanted.call.arguments_json
        if len(text) > limits.TOOLS_EARLIER_CHARS:
            text = f"{text[: limits.TOOLS_EARLIER_CHARS]}… ({len(text)} characters)"
        call = EarlierCall(wanted.request_id, wanted.call.tool, text, status)
        self.state = replace(
            before,
            process=before.process or secrets.token_hex(8),
            count=before.count + 1,
            calls=(*before.calls, call)[-limits.TOOLS_EARLIER_CALLS :],
        )
        self._servers.changed(self._workspace)

    def _over(self) -> bool:
        """Whether the process is no longer needed."""
        idle = time.monotonic() - self._used >= limits.TOOLS_IDLE_SECONDS
        if idle or self._server is None or not self._server.alive or self._last is None:
            return True
        try:
            if self._last.run_ended():
                return True
        except (ThreeGateError, OSError):
            pass  # the trail is unavailable now; nothing is launched meanwhile, and the idle timeout ends it
        return self._manifest_changed(self._last.call)

    def _manifest_changed(self, call: ToolCall) -> bool:
        """Whether the pinned manifest changed or was removed; it is read again only if its file changed."""
        try:
            facts = (self._workspace.tools / manifest_name(self.manifest.server)).lstat()
            seen = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
            if seen != self._seen:
                pinned_manifest(self._workspace, call)
                self._seen = seen
        except (OSError, ThreeGateError):
            return True
        return False

    def _end(self) -> None:
        with self._lock:
            server, self._server = self._server, None
            self._current = None
        if server is not None:
            server.close()


def _is_other_state(error: BaseException) -> bool:
    return isinstance(error, Refused) and error.code == "state_changed"
