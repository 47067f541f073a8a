"""A call that the program which asked for it makes itself: let it begin once, and watch until it ends.

Invariant: the signed arguments are given to the one process that asks when the claimed request is run, and only then.
Once they were given, only what that process says before it lets go of its file determines how the call ended: otherwise
the request is `interrupted`, whatever went wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from threegate.core.errors import Unavailable
from threegate.core.workspace import Workspace
from threegate.launch.caller_use import (
    CallerAsk,
    CallerEnd,
    caller_ask,
    clear_use,
    is_asked,
    let_begin,
)
from threegate.plugins.tools.action import BoundCall
from threegate.request.action import Action
from threegate.runners.interface import Control, Status
from threegate.trail.payloads.payload import Owner

_LOOK_SECONDS: Final = 0.02
_OFTEN_SECONDS: Final = 1.0
_LATER_SECONDS: Final = 0.1


def caller_asks(
    workspace: Workspace, owner: Owner | None, request_id: str, action: Action
) -> Callable[[], bool] | None:
    """See `RunningBackend.caller_asks`."""
    if not isinstance(action, BoundCall) or not action.by_caller:
        return None
    # A run of an agent has no such calls (`requested_call`).
    return partial(is_asked, workspace, owner, request_id) if isinstance(owner, int) else lambda: False


def watch_caller(
    workspace: Workspace, request_id: str, seconds: int, call: BoundCall, control: Control
) -> tuple[Status, str]:
    """How the call ended, with one sentence. Raises Unavailable: nothing was given; OSError for our own disk."""
    ask = caller_ask(workspace, control.owner, request_id) if isinstance(control.owner, int) else None
    if ask is None:
        raise Unavailable("the process that asked for the call is gone")
    try:
        if control.cancelled.is_set() or control.interrupted.is_set():
            return "cancelled", "Nothing was called: it was stopped before its arguments were given."
        let_begin(workspace, request_id, ask, call.name, call.arguments())
        return _watched(ask, seconds, control)
    finally:
        clear_use(workspace, request_id)
        ask.close()


def _watched(ask: CallerAsk, seconds: int, control: Control) -> tuple[Status, str]:
    begun = time.monotonic()
    why = ""
    while not why:
        lives = ask.lives()  # before the look at what it says: its last word counts
        end = ask.end()
        if end is not None:
            return _said(end)
        past = time.monotonic() - begun
        if not lives:
            why = "its process let go of the call without saying how it ended"
        elif control.cancelled.is_set():
            why = "it was cancelled"
        elif control.interrupted.is_set():
            why = control.because
        elif past >= seconds:
            why = f"no end after {seconds} s"
        else:
            control.cancelled.wait(_LOOK_SECONDS if past < _OFTEN_SECONDS else _LATER_SECONDS)
    return "interrupted", f"The function may have been called and has no end: {why}. It is not repeated."


def _said(end: CallerEnd) -> tuple[Status, str]:
    if end.raised:
        return "tool_error", f"Its program says that the function raised {end.raised}; nothing else is known of it."
    return "succeeded", "Its program says that the function returned; nothing else is known of it."
