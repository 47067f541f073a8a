"""A decision for a function of the program that asks: a draft, a wait, and the signed arguments, once.

Invariant: nothing here decides. A `Decision` has words only: `use` gets the arguments from the daemon of a workspace
that this process named or finds, which claims the request for it, and whatever is missing, late or different is an
exception before the function is called.
The same call in the same run is the same request, whichever process asks, so a step that is repeated asks nobody twice.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from threegate.core import canonical, limits
from threegate.core.errors import InvalidInput, Refused, ThreeGateError, Unavailable
from threegate.core.own_daemon import daemon_at_own_place, starts_by_itself
from threegate.core.plugins import Place, require_plugin
from threegate.core.workspace import Workspace, find_workspace
from threegate.launch.approved_file import CALLER_ABSENT
from threegate.launch.caller_use import CallerHold
from threegate.launch.results.verdict import Verdict, read_verdict
from threegate.review.readiness import would_wait

State = Literal["ready", "pending", "refused"]


@dataclass(frozen=True, slots=True)
class Drafted:
    """A draft of a call that is not in the inbox yet."""

    file: str
    data: bytes


DRAFT: Final = Place[Callable[[Workspace, str, Mapping[str, Any], str | None, str], Drafted]]("client")
"""Makes the draft: workspace, function, arguments, digest of the manifest if the account knows only that, end of the
name.
"""
_ASKED_IN: Final[set[str]] = set()
"""Folders of the workspaces that this process named or found itself, when it asked."""
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,127}").fullmatch
_MARK_CHARS: Final = 16
_SUFFIX: Final = ".md"
_LOOK_SECONDS: Final = 0.02
_LATER_SECONDS: Final = 0.25
_LATE: Final = 0.04
"""The part of the time that somebody has waited after which a file is read again."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is known of a call that was asked for. It can be stored and pickled; it proves nothing."""

    tool: str
    """NAME.FUNCTION, as it is pinned."""
    arguments_json: str
    """As they were asked for, in the form of RFC 8785."""
    request_id: str
    workspace: str
    """Its folder."""
    state: State
    """``ready``: approved, to be used; ``pending``: not decided, ask again; ``refused``: it will not be made again."""
    reason: str
    """Why, in one line; empty if it is ready."""

    @contextmanager
    def use(self, *, workspace: str | os.PathLike[str] | None = None) -> Iterator[dict[str, Any]]:
        """Claim the request for this process, and yield a copy of the signed arguments; call the function inside.

        `workspace` is needed for a stored decision in another workspace than this process finds or asked in: who wrote
        the decision's words could name one where he signs himself.

        How the block ends is recorded. It waits up to CALLER_GO_SECONDS before the block, and CALLER_RECORD_SECONDS
        after it. Raises Refused before the block if it may not be called, and Unavailable if the daemon does not
        answer; after the block, Unavailable if the end is not on record as the block's (`interrupted`).
        """
        place = self._place(workspace)
        if line := would_wait(place):
            raise Unavailable(f"{self.request_id}: nothing was called: {line}")
        with _daemon(place, self.request_id), CallerHold(place, self.request_id) as hold:
            tool, arguments = self._begin(place, hold)
            try:
                if (tool, canonical.canonical_bytes(arguments).decode()) != (self.tool, self.arguments_json):
                    raise Refused("request_changed", f"{self.request_id}: something else was signed than was asked for")
                yield arguments
            except BaseException as error:
                with suppress(ThreeGateError):  # the block's own error is the one to raise
                    hold.end(type(error))
                    self._recorded(place)
                raise
            hold.end(None)
            if (status := self._recorded(place)) != "succeeded":
                raise Unavailable(f"{self.request_id}: the function returned, and the record says {status}")

    def _place(self, named: str | os.PathLike[str] | None) -> Workspace:
        """The workspace, if this process trusts it. Raises Refused (`workspace_mismatch`; `not_approved` for an id that
        would lead out of the inbox), NoWorkspace.
        """
        if not _REQUEST_ID(self.request_id):
            raise Refused("not_approved", "the decision names no request")
        if named is None and self.workspace in _ASKED_IN:
            return Workspace(Path(self.workspace))
        place = find_workspace(explicit=None if named is None else os.fspath(named))
        if str(place.root) != self.workspace:
            raise Refused(
                "workspace_mismatch",
                f"{self.request_id}: the decision names another workspace than {place.root}; if that is the one you "
                "mean, give it: use(workspace=DIR)",
            )
        return place

    def _begin(self, workspace: Workspace, hold: CallerHold) -> tuple[str, dict[str, Any]]:
        """What the daemon gives to this process. Raises Refused, Unavailable."""
        for _ in _looks(limits.CALLER_GO_SECONDS):
            begun = hold.begin()
            if begun is not None:
                return begun
            verdict = _verdict(workspace, self.request_id)
            if verdict is None or verdict.state in ("draft", "invalid"):
                raise Refused("not_approved", f"{self.request_id}: nobody approved it")
            if verdict.state == "waiting" and verdict.reason != CALLER_ABSENT:
                raise Refused(str(verdict.reason), f"{self.request_id}: a gate requires something first")
            if verdict.state == "finished":
                raise Refused("replayed", f"{self.request_id}: was used before, and ended {verdict.reason}")
            if verdict.state == "refused":
                raise Refused(str(verdict.reason), f"{self.request_id}: is refused ({verdict.reason})")
        raise Unavailable(f"{self.request_id}: nothing was called: no daemon took it up; see: threegate status")

    def _recorded(self, workspace: Workspace) -> str:
        """The status on record. Raises Unavailable if none is in time."""
        for _ in _looks(limits.CALLER_RECORD_SECONDS):
            verdict = _verdict(workspace, self.request_id)
            if verdict is not None and verdict.state in ("finished", "refused"):
                return str(verdict.reason)
        raise Unavailable(f"{self.request_id}: the end is not recorded; the next daemon records interrupted")


@contextmanager
def _daemon(workspace: Workspace, request_id: str) -> Iterator[None]:
    """In a workspace where commands start the daemon, have one run for the block. Raises Unavailable."""
    if not starts_by_itself(workspace):  # an account of its own cannot see whether one runs
        yield
        return
    with daemon_at_own_place(workspace, workspace.load_settings()) as is_running:
        if not is_running():
            raise Unavailable(f"{request_id}: nothing was called: the daemon does not start; see: threegate run")
        yield


async def ask(
    tool: str,
    arguments: Mapping[str, Any],
    *,
    run: str,
    wait: float | None = None,
    workspace: str | os.PathLike[str] | None = None,
    manifest_sha256: str | None = None,
) -> Decision:
    """Ask for one call of a function of this program, and wait for the decision.

    `tool` is NAME.FUNCTION (`threegate tools add NAME --functions FILE`). `run` names this call in your program, such
    as a thread and the id of a model's tool call: the same run, tool and arguments are the same request, also after a
    restart. `wait` is in seconds; None waits until it is decided, and 0 returns at once. `workspace` is its folder; by
    default it is found as by the command `threegate`. Raises InvalidInput (also for arguments that are not JSON),
    Refused (tools_unknown, tools_changed, arguments_unfit), Unavailable, NoWorkspace.
    """
    place = find_workspace(explicit=None if workspace is None else os.fspath(workspace))
    _ASKED_IN.add(str(place.root))
    text = _exact(arguments)
    mark = canonical.digest([tool, text, run])[:_MARK_CHARS]
    file = await asyncio.to_thread(_placed, place, tool, text, mark, manifest_sha256)
    until = None if wait is None else time.monotonic() + wait
    begun = time.monotonic()
    while True:
        state, reason = _state(place, _verdict(place, file.removesuffix(_SUFFIX)))
        now = time.monotonic()
        if state != "pending" or (until is not None and now >= until):
            return Decision(tool, text, file.removesuffix(_SUFFIX), str(place.root), state, reason)
        pause = _pause(now - begun)
        await asyncio.sleep(pause if until is None else min(pause, until - now))


def _exact(arguments: Mapping[str, Any]) -> str:
    """The arguments in canonical form. Raises InvalidInput for a value that JSON does not have."""
    try:
        text = canonical.canonical_bytes(dict(arguments)).decode()
        # What came back must be what was given: a tuple, or a text of a class of its own, would be something else.
        if canonical.loads_strict(text.encode(), max_bytes=len(text.encode())) == arguments:
            return text
    except (TypeError, ValueError):
        pass
    raise InvalidInput("arguments: not JSON; use dict, list, str, int up to 2^53, float, bool and None only")


def _placed(workspace: Workspace, tool: str, text: str, mark: str, manifest_sha256: str | None) -> str:
    """The file of the request for this call: the one that is there, or a new draft. Raises as `ask`."""
    require_plugin("a decision for a function", "tools", workspace.load_settings().plugins.off)
    try:
        with workspace.hold(workspace.inbox) as inbox:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            # Locked while a program looks for its request and, if there is none, writes it.
            lock = os.open(f".asks-{os.geteuid()}", flags, 0o600, dir_fd=inbox.fileno())
            try:
                _hold(lock, workspace)
                end = f"-{mark}{_SUFFIX}"
                with inbox.entries() as entries:
                    names = [entry.name for entry in entries]
                names += [name.removesuffix(".json") for name in os.listdir(workspace.verdicts)]
                if found := [name for name in names if name.endswith(end)]:
                    return min(found)
                [draft] = DRAFT.given().values()
                arguments = canonical.loads_strict(text.encode(), max_bytes=limits.CALLER_GO_BYTES)
                drafted = draft(workspace, tool, arguments, manifest_sha256, mark)
                inbox.deliver(drafted.file, drafted.data, 0o644)
                return drafted.file
            finally:
                os.close(lock)
    except OSError as error:
        raise Unavailable(f"{workspace.root}: cannot ask there ({error.strerror or error})") from None


def _hold(lock: int, workspace: Workspace) -> None:
    """Hold the lock. Raises Unavailable if another one keeps it, such as a program that was stopped."""
    for _ in _looks(limits.CALLER_GO_SECONDS):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
    raise Unavailable(f"{workspace.root}: another program is asking there and does not go on; end it, then ask again")


def _state(workspace: Workspace, verdict: Verdict | None) -> tuple[State, str]:
    if verdict is not None and verdict.state in ("finished", "refused", "invalid"):
        first = next((str(found["message"]) for found in verdict.findings), "") if verdict.state == "invalid" else ""
        used = "used before: " if verdict.state == "finished" else ""
        return "refused", first or f"{used}{verdict.reason}"
    if verdict is not None and (verdict.state, verdict.reason) == ("waiting", CALLER_ABSENT):
        return "ready", ""
    if line := would_wait(workspace):
        return "pending", line
    if verdict is None:
        return "pending", "the daemon has not checked it yet"
    if verdict.state == "running":
        return "pending", "another process is using it"
    if verdict.state == "waiting":
        return "pending", f"it is signed, but a gate requires something first: {verdict.reason}"
    return "pending", "a person has to read and sign it" if verdict.state == "draft" else "it is signed"


def _verdict(workspace: Workspace, request_id: str) -> Verdict | None:
    with suppress(InvalidInput):
        return read_verdict(workspace, f"{request_id}{_SUFFIX}")
    return None


def _looks(seconds: float) -> Iterator[None]:
    """Each time to look, for so long; the first is now, and the last at the end."""
    begun = time.monotonic()
    while (past := time.monotonic() - begun) < seconds:
        yield
        time.sleep(min(_pause(past), seconds - past))
    yield


def _pause(past: float) -> float:
    return min(max(past * _LATE, _LOOK_SECONDS), _LATER_SECONDS)
