"""Replays: calls one after another, with their outcomes, under a compiled folder.

`contracts decide`, scenario files and golden cases are replays. Invariant: a replay judges calls, not
requests: it opens every session, role and workflow that a line names, takes the principal from the line, and
neither `implements` nor the contract of a backend applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from threegate.contracts import contract_checkpoints
from threegate.contracts.compiled import Compiled
from threegate.contracts.contract_line import CallLine, CloseLine, FinishLine, read_line
from threegate.contracts.session_table import SessionTable
from threegate.contracts.state import Answer, Call, Decision, Reason, block
from threegate.contracts.transitions import Effect
from threegate.core.errors import InvalidInput, Refused

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
"""The clock of a replay; `at` counts seconds from here."""


@dataclass(frozen=True, slots=True)
class Played:
    """The result of one line: a decision for a call, reasons for the end of a session."""

    decision: Decision | None = None
    effect: Effect | None = None
    reasons: tuple[Reason, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The line's answer as JSON: the Decision, and the outcome's status if there was one."""
        value = {} if self.decision is None else self.decision.to_json()
        if self.effect is not None:
            value["outcome"] = {
                "status": self.effect.status,
                "reasons": [reason.to_json() for reason in self.effect.reasons],
            }
        if self.decision is None and self.effect is None:
            value["reasons"] = [reason.to_json() for reason in self.reasons]
        return value


@dataclass(slots=True)
class Play:
    """One replay. `line` raises InvalidInput for a line with nothing to decide."""

    compiled: Compiled
    table: SessionTable = field(init=False)
    claimed: dict[str, Call] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.table = SessionTable(self.compiled, totals=False)

    def line(self, value: Mapping[str, Any]) -> Played:
        """Process one line: a call, `close: SESSION`, `kill: {scope, name}` or `finish: CLAIM`."""
        line = read_line(value)
        if isinstance(line, CallLine):
            return self._call(line)
        if isinstance(line, FinishLine):
            return self._finish(line)
        try:
            if isinstance(line, CloseLine):
                return Played(reasons=self.table.close(line.close))
            self.table.kill(line.kill.scope, line.kill.name)
            return Played()
        except Refused as refusal:
            return Played(reasons=(Reason(0, refusal.code, "", str(refusal)),))
        except KeyError:
            return Played(reasons=(Reason(0, "unknown_session", "", "no such session"),))

    def _call(self, line: CallLine) -> Played:
        now = _when(line.at)
        call = Call(
            tool=line.tool,
            arguments=line.arguments,
            principal=line.principal,
            session_id="default" if line.session_id is None else line.session_id,
            workflow_session=line.workflow_session,
            labels=tuple(line.labels or ()),
            cost=line.cost or 0.0,
            artifacts=frozenset(line.artifacts or ()),
            asked=None if line.asked is None else _when(line.asked),
        )
        refused = self._open(line, call.session_id)
        if refused is not None:
            return Played(refused)
        if line.answer is not None:
            digest = contract_checkpoints.call_sha256(call)
            call = replace(call, answer=Answer(digest, line.answer == "approve", now, "operator"))
        decision = self.table.decide(call, now)
        if decision.verdict == "block":
            self.table.note_block(call)
            return Played(decision)
        if decision.verdict == "checkpoint" or self.compiled.empty:
            return Played(decision)
        if line.claim is not None:
            if line.claim in self.claimed:
                raise InvalidInput("claim names an open claim; name each claim once")
            claimed = replace(call, call_id=line.claim)
            self.table.reserve(claimed)
            self.claimed[claimed.call_id] = claimed
            return Played(decision)
        if line.outcome is None:
            return Played(decision)
        return Played(decision, self.table.commit(call, line.outcome.ended(), now))

    def _finish(self, line: FinishLine) -> Played:
        call = self.claimed.pop(line.finish, None)
        if call is None:
            raise InvalidInput(f"nothing was claimed as {line.finish!r}")
        return Played(effect=self.table.commit(call, line.outcome.ended(), _when(line.at)))

    def _open(self, line: CallLine, session_id: str) -> Decision | None:
        if session_id in self.table.sessions or not self.compiled.ok or self.compiled.empty:
            return None
        contract = self.compiled.workflow
        workflow, role = line.workflow_session, line.role
        if contract is None and role is None:
            workflow = None  # a replay may name the session that it was recorded in
        elif contract is not None and workflow is not None and role is None and len(contract.roles) == 1:
            role = contract.roles[0].name
        try:
            self.table.open(session_id, workflow=workflow, role=role, parent=line.parent)
        except Refused as refusal:
            return block(0, refusal.code, str(refusal))
        return None


def _when(seconds: float) -> datetime:
    return BEGINNING + timedelta(seconds=seconds)
