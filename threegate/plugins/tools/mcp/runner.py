"""Makes the call of a cleared mcp request: a new process of its server for one call; for a stateful server,
the requester's process.

Invariant: a call is sent once or not at all. Before it, the manifest's digest is compared with the signed
one, and the server with the manifest. Once the call may have reached the server, only the server's answer
determines how it ended: without one the request is `interrupted`, whatever went wrong, and the call is never
repeated.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from threegate.core import canonical, durable, limits
from threegate.core.errors import Refused, Unavailable
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.tools.action import BoundCall
from threegate.request.job import Job
from threegate.runners.interface import EMPTY, Artifact, Control, Outcome, Status, StreamMeter
from threegate.runners.live_output import PROGRESS

if TYPE_CHECKING:  # `doctor` makes each runner, and should not load what only a call needs
    from threegate.judgement.judge import Clearance
    from threegate.plugins.tools.called_server import Answer, CalledServer
    from threegate.plugins.tools.kept_servers import KeptServers
    from threegate.plugins.tools.manifest import Manifest
    from threegate.plugins.tools.message_stream import ServerError
    from threegate.plugins.tools.remote.guarded_http import Reach

_LOOK_SECONDS: Final = 0.1
_REFUSED: Final[Mapping[str, Status]] = {
    "state_changed": "state_changed",
    "url_refused": "unavailable",
    "login_required": "login_required",
}
"""How a call ends that was refused before it was sent; with any other code `tools_changed`."""


@dataclass(frozen=True, slots=True)
class _Ended:
    status: Status
    detail: str
    files: tuple[tuple[str, bytes], ...] = ()
    texts: str = ""


class CallRunner:
    """Runs jobs of backend mcp."""

    starts_late = False

    def __init__(self, settings: Settings, *, reach: Reach | None = None) -> None:
        """Store the secrets that servers may get; nothing is started. `reach` is for tests."""
        self._settings = settings
        self._reach = reach
        self._kept: KeptServers | None = None
        self._lock = threading.Lock()

    def available(self, job: Job | None = None) -> str | None:
        """None: a server's needs are known when it is started, and if it cannot be started, nothing was called."""
        return None

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        """Make the call; see Runner.run. Raises OSError for our own disk."""
        clearance.must_cover(job)
        assert isinstance(job.action, BoundCall) and control.workspace is not None
        begun = time.monotonic()
        if control.lasting is not None:
            control.lasting()
        ended = self._ended(control.workspace, clearance, job, job.action, control)
        out = control.run_folder / "out"
        durable.make_folder(out, 0o700, settled=False)  # the record is synced with all of it
        durable.write_files(out, ended.files, 0o600)
        meter = StreamMeter()
        meter.write(ended.texts.encode())
        control.ran()
        return Outcome(
            status=ended.status,
            detail=ended.detail,
            wall_ms=int((time.monotonic() - begun) * 1000),
            stdout=meter.result(),
            stderr=EMPTY,
            artifacts=tuple(Artifact(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in ended.files),
        )

    def close(self) -> None:
        """Terminate the processes of stateful servers."""
        with self._lock:
            kept = self._kept
        if kept is not None:
            kept.close()

    def _ended(self, workspace: Workspace, clearance: Clearance, job: Job, call: BoundCall, control: Control) -> _Ended:
        """Everything from the manifest to the answer; an error is an outcome too."""
        from threegate.plugins.tools.requested_call import pinned_manifest
        from threegate.plugins.tools.server_process import ServerError

        try:
            manifest = pinned_manifest(workspace, call)
            if call.by_caller:
                return self._by_caller(workspace, clearance, job, call, control)
            if manifest.stateful:
                return self._by_kept(workspace, manifest, clearance, job, call, control)
            return self._by_fresh(workspace, manifest, job, call, control)
        except Refused as error:
            return _Ended(_REFUSED.get(error.code, "tools_changed"), f"Nothing was called: {error}")
        except ServerError as error:
            return _failed(error)
        except Unavailable as error:
            return _Ended("unavailable", f"Nothing was called: {error}")

    def _by_caller(
        self, workspace: Workspace, clearance: Clearance, job: Job, call: BoundCall, control: Control
    ) -> _Ended:
        from threegate.plugins.tools.mcp.by_caller import watch_caller

        status, detail = watch_caller(workspace, clearance.request_id, job.limits.time_sec, call, control)
        return _Ended(status, detail)

    def _by_fresh(
        self, workspace: Workspace, manifest: Manifest, job: Job, call: BoundCall, control: Control
    ) -> _Ended:
        from threegate.plugins.tools.mcp.answer_files import progress_line
        from threegate.plugins.tools.server_process import open_fresh

        answer, left = None, ""
        try:
            with (
                open_fresh(workspace, self._settings, manifest, reach=self._reach) as server,
                _stoppable(server, control),
            ):
                server.check_pinned()
                answer = server.call(
                    call.tool,
                    call.arguments(),
                    job.limits.time_sec,
                    limits.TOOL_ANSWER_BYTES,
                    lambda said: control.output.put(PROGRESS, progress_line(said)),
                )
        except Unavailable as error:
            if answer is None:
                raise
            left = f" But its process did not end: {error}."
        return _answered(answer, left)

    def _by_kept(
        self,
        workspace: Workspace,
        manifest: Manifest,
        clearance: Clearance,
        job: Job,
        call: BoundCall,
        control: Control,
    ) -> _Ended:
        """A signed call needs the state that was shown; one under a grant, which says so, accepts any."""
        from threegate.plugins.tools.kept_servers import KeptServers, WantedCall
        from threegate.plugins.tools.mcp.answer_files import progress_line

        state = call.host.state
        if state is None or control.owner is None:
            raise Unavailable(f"{call.server}: is stateful, and it is not known whose call this is")
        with self._lock:
            if self._kept is None:
                self._kept = KeptServers(self._settings)
        wanted = WantedCall(
            request_id=clearance.request_id,
            call=call,
            owner=control.owner,
            seconds=job.limits.time_sec,
            signed=None if clearance.grant is not None else state,
            progress=lambda said: control.output.put(PROGRESS, progress_line(said)),
            stopped=lambda: control.cancelled.is_set() or control.interrupted.is_set(),
            run_ended=control.run_ended,
        )
        kept = self._kept.call(workspace, manifest, wanted)
        which = f" It was call {kept.state.count} of its process {kept.state.process}."
        return _answered(kept.answer, which)


def _answered(answer: Answer, which: str = "") -> _Ended:
    from threegate.plugins.tools.mcp.answer_files import answer_files, texts_of

    files = answer_files(answer)
    if answer.is_error:
        return _Ended("tool_error", f"The tool answered with an error.{which}", files, texts_of(files))
    return _Ended("succeeded", f"The tool answered.{which}", files, texts_of(files))


def _failed(error: ServerError) -> _Ended:
    """How a call without an answer ends. A server's words are repeated only as far as the error has them."""
    if not error.reached:
        status: Status = "cancelled" if error.code == "cancelled" else "unavailable"
        return _Ended(status, f"Nothing was called: {error}.")
    if error.code == "input_required":
        asked = canonical.canonical_bytes({"input_required": dict(error.asked or {})})
        return _Ended(
            "input_required",
            "The tool asked for something before it answered; pass it in the arguments of a new call.",
            (("input_required.json", asked),),
        )
    if error.code == "server_answer_too_large":
        return _Ended("output_exceeded", "The tool's answer is too large.")
    return _Ended("interrupted", f"The call may have been carried out but has no answer: {error}. It is not repeated.")


@contextmanager
def _stoppable(server: CalledServer, control: Control) -> Iterator[None]:
    """Stop the call when the run is to stop."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_SECONDS):
            if control.cancelled.is_set() or control.interrupted.is_set():
                server.cancel()
                return

    watcher = threading.Thread(target=watch, name="call-watch")
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
