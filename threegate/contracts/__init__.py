"""Gate 3b: the contract language. Rules an operator writes once, that hold for every request after.

Compile a folder once (`compile_folder`), open a `Session`, ask `engine.decide`, and tell `engine.commit` how it
ended. Everything here is pure but `contracts.session`, which keeps the sessions of a workspace.
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
