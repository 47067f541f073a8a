"""Gate 3b: the contract language. An operator writes rules once; they apply to every later request.

Compile a folder once (`compile_folder`), open a `Session`, call `engine.decide`, and report the outcome with
`engine.commit`. Everything here is pure except `contracts.session`, which stores the sessions of a workspace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.core.on_demand import on_demand

if TYPE_CHECKING:
    from threegate.contracts.compiled import Compiled
    from threegate.contracts.compiler import compile_folder
    from threegate.contracts.diagnostics import Diagnostic
    from threegate.contracts.reasons import PASSING
    from threegate.contracts.state import Call, CallOutcome, Decision, Reason, Session
else:
    __getattr__ = on_demand(
        __name__,
        {
            "compiled": "Compiled",
            "compiler": "compile_folder",
            "diagnostics": "Diagnostic",
            "reasons": "PASSING",
            "state": "Call CallOutcome Decision Reason Session",
        },
    )

__all__ = [
    "PASSING",
    "Call",
    "CallOutcome",
    "Compiled",
    "Decision",
    "Diagnostic",
    "Reason",
    "Session",
    "compile_folder",
]
