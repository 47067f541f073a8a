"""Whether enough operators could sign: what a request would wait for however it is decided.

Invariant: nobody counts who could not sign now (revoked, expired, the requester), and nobody twice, by name or by key.
What is not known (a revocation list that only ssh-keygen can read) refuses nobody.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import Final

from threegate.approval.operators import Operators
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.launch.launch_problem import read_operators
from threegate.request.job import RISKS
from threegate.request.model import Risk
from threegate.runners.backend import DoctorLine

ADD: Final = "threegate operator add NAME --key KEY.pub"
_NAME: Final = "operators"


def operators_here(workspace: Workspace) -> Operators | None:
    """Who may sign, read now; None for an account that cannot see that."""
    file = workspace.operators_file
    seen = os.access(workspace.tool_exec, os.X_OK) and (os.access(file, os.R_OK) or not os.path.lexists(file))
    return read_operators(workspace) if seen else None


def few_signers(
    operators: Operators, settings: Settings, requester: str, risk: Risk, now: datetime
) -> DoctorLine | None:
    """What a request of this requester and effective risk lacks, with what to type; None: enough can sign."""
    if operators.problem is not None:
        return _nobody(operators)
    able = _able(operators, now)
    if not able:
        return _nobody(operators)
    others = able - {requester}
    if not others:
        return DoctorLine(_NAME, "warning", "whoever asks cannot approve, and no other operator can sign", ADD)
    return _fewer(len(others), settings, risk)


def signers_line(operators: Operators, settings: Settings, now: datetime) -> DoctorLine | None:
    """The same for a whole workspace: None if enough can sign for each risk."""
    able = set() if operators.problem is not None else _able(operators, now)
    if not able:
        return _nobody(operators)
    lacking = (_fewer(len(able), settings, risk) for risk in RISKS)
    return next((line for line in lacking if line is not None), None)


def _able(operators: Operators, now: datetime) -> set[str]:
    """The names with a key that could sign now. A key occurs once in the file, so names have distinct keys."""
    revoked = operators.revoked_keys or frozenset()
    return {
        entry.name
        for entry in operators.entries
        if entry.key.blob not in revoked
        and (entry.valid_after is None or entry.valid_after <= now)
        and (entry.valid_before is None or now < entry.valid_before)
    }


def _nobody(operators: Operators) -> DoctorLine:
    lines = [line for line in operators.data.splitlines() if line.strip() and not line.startswith(b"#")]
    if operators.problem is not None and lines:
        return DoctorLine(
            _NAME, "failure", f"nobody can sign: {operators.problem}", "fix it, then: threegate operator record --yes"
        )
    why = "no key of tool-exec/operators is valid now" if lines else "there are no operators"
    return DoctorLine(_NAME, "failure", f"nobody can sign: {why}", ADD)


def _fewer(count: int, settings: Settings, risk: Risk) -> DoctorLine | None:
    needed: int = getattr(settings.approval.quorum, risk)
    if count >= needed:
        return None
    seen = f"{needed} operators must sign for risk {risk} (approval.quorum.{risk}), and {count} can"
    return DoctorLine(_NAME, "warning", seen, ADD)
