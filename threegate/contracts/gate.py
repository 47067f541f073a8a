"""The one question that `judge` asks of gate 3b.

Invariant: a folder that does not compile lets nothing run; only an empty folder is no gate, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from threegate.contracts import engine
from threegate.contracts.compiler import Compiled
from threegate.contracts.state import Call, Decision, Reason, Session, Total, block


def ask(
    compiled: Compiled,
    session: Session | None,
    call: Call,
    now: datetime,
    *,
    others: Sequence[Total] = (),
    workflow: engine.WorkflowView | None = None,
) -> Decision:
    """What the contracts say about a call. `session` is None when the call names one that nobody opened."""
    if not compiled.ok:
        return block(
            0, "contracts_do_not_compile", "the contracts folder has errors: threegate contracts check"
        )
    if compiled.empty:
        return Decision("allow", (Reason(0, "no_contracts", "", "the workspace has no contracts"),))
    if session is None:
        return block(0, "unknown_session", "the operator has not opened that session", "session_id")
    return engine.decide(session, call, now, others=others, workflow=workflow)
