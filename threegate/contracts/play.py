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
from threegate.contracts.json_paths import MISSING
from threegate.contracts.session_table import SessionTable
from threegate.contracts.state import Answer, Call, CallOutcome, Decision, Reason, block
from threegate.contracts.transitions import Effect
from threegate.core.errors import InvalidInput, Refused

CALL_KEYS = frozenset(
    {
        "tool", "arguments", "principal", "session_id", "workflow_session", "labels", "role", "parent", "cost",
        "artifacts", "outcome", "answer", "at", "claim", "asked",
    }
)  # fmt: skip
OUTCOME_KEYS = frozenset({"status", "output", "cost", "exit_code", "stderr", "artifacts", "retry_after"})
ACT_KEYS = frozenset({"close", "kill", "finish", "outcome", "at"})

_TEXTS = ("session_id", "workflow_session", "role", "parent", "claim")

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
        if "tool" in value:
            return self._call(value)
        _keys(value, ACT_KEYS)
        if "finish" in value:
            return self._finish(value)
        try:
            if "close" in value:
                return Played(reasons=self.table.close(str(value["close"])))
            if "kill" in value:
                act = value["kill"]
                _keys(act, frozenset({"scope", "name"}))
                self.table.kill(str(act.get("scope")), str(act.get("name")))
                return Played()
        except Refused as refusal:
            return Played(reasons=(Reason(0, refusal.code, "", str(refusal)),))
        except KeyError:
            return Played(reasons=(Reason(0, "unknown_session", "", "no such session"),))
        raise InvalidInput("a line is a call (tool, arguments), or close, kill or finish")

    def _call(self, line: Mapping[str, Any]) -> Played:
        _keys(line, CALL_KEYS)
        value = {key: item for key, item in line.items() if item is not None or key in ("tool", "arguments")}
        now = _when(value.get("at", 0))
        call = _read_call(value)
        outcome = read_outcome(value["outcome"]) if "outcome" in value else None
        refused = self._open(value, call.session_id)
        if refused is not None:
            return Played(refused)
        if "answer" in value:
            answered = _when(value.get("at", 0))
            call = replace(
                call,
                answer=Answer(
                    contract_checkpoints.call_sha256(call), value["answer"] == "approve", answered, "operator"
                ),
            )
        decision = self.table.decide(call, now)
        if decision.verdict == "block":
            self.table.note_block(call)
            return Played(decision)
        if decision.verdict == "checkpoint" or self.compiled.empty:
            return Played(decision)
        if "claim" in value:
            if str(value["claim"]) in self.claimed:
                raise InvalidInput("claim names an open claim; name each claim once")
            claimed = replace(call, call_id=str(value["claim"]))
            self.table.reserve(claimed)
            self.claimed[claimed.call_id] = claimed
            return Played(decision)
        if outcome is None:
            return Played(decision)
        return Played(decision, self.table.commit(call, outcome, now))

    def _finish(self, value: Mapping[str, Any]) -> Played:
        outcome, now = read_outcome(value.get("outcome", "succeeded")), _when(value.get("at", 0))
        call = self.claimed.pop(str(value["finish"]), None)  # only now: an invalid line ends no claim
        if call is None:
            raise InvalidInput(f"nothing was claimed as {value['finish']!r}")
        return Played(effect=self.table.commit(call, outcome, now))

    def _open(self, value: Mapping[str, Any], session_id: str) -> Decision | None:
        if session_id in self.table.sessions or not self.compiled.ok or self.compiled.empty:
            return None
        contract = self.compiled.workflow
        workflow, role = value.get("workflow_session"), value.get("role")
        if contract is None and role is None:
            workflow = None  # a replay may name the session that it was recorded in
        elif contract is not None and workflow is not None and role is None and len(contract.roles) == 1:
            role = contract.roles[0].name
        try:
            self.table.open(session_id, workflow=workflow, role=role, parent=value.get("parent"))
        except Refused as refusal:
            return block(0, refusal.code, str(refusal))
        return None


def _read_call(value: Mapping[str, Any]) -> Call:
    arguments = value.get("arguments", {})
    principal = value.get("principal")
    labels = value.get("labels", [])
    artifacts = value.get("artifacts", [])
    wrong = [
        name
        for name, right in (
            ("tool", isinstance(value["tool"], str)),
            ("arguments", isinstance(arguments, dict)),
            ("principal", principal is None or isinstance(principal, dict)),
            *((name, isinstance(value.get(name, ""), str)) for name in _TEXTS),
            ("labels", isinstance(labels, list) and all(isinstance(item, str) for item in labels)),
            ("artifacts", isinstance(artifacts, list) and all(isinstance(item, str) for item in artifacts)),
            ("cost", _cost(value.get("cost", 0))),
            ("answer", value.get("answer", "approve") in ("approve", "deny")),
        )
        if not right
    ]
    if wrong:
        raise InvalidInput(f"{wrong[0]} has another type than a call's")
    return Call(
        tool=value["tool"],
        arguments=arguments,
        principal=principal,
        session_id=value.get("session_id", "default"),
        workflow_session=value.get("workflow_session"),
        labels=tuple(labels),
        cost=float(value.get("cost", 0)),
        artifacts=frozenset(artifacts),
        asked=_when(value["asked"]) if "asked" in value else None,
    )


def read_outcome(value: Any) -> CallOutcome:
    """An outcome of a line: a status, or a mapping. Raises InvalidInput."""
    if isinstance(value, str):
        value = {"status": value}
    if not isinstance(value, dict) or not isinstance(value.get("status"), str):
        raise InvalidInput("an outcome is a status, or a mapping with status, output, cost, exit_code, stderr")
    _keys(value, OUTCOME_KEYS)
    for name in ("cost", "retry_after", "exit_code"):
        if value.get(name) is not None and not (_cost if name == "cost" else _number)(value[name]):
            raise InvalidInput(f"{name} of an outcome is a number; a cost is not below 0")
    if not isinstance(value.get("artifacts", []), list):
        raise InvalidInput("artifacts of an outcome are a list")
    return CallOutcome(
        status=value["status"],
        output=value.get("output", MISSING),
        cost=value.get("cost"),
        exit_code=value.get("exit_code"),
        stderr=str(value.get("stderr", "")),
        artifacts=tuple(str(item) for item in value.get("artifacts", ())),
        retry_after=value.get("retry_after"),
    )


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cost(value: Any) -> bool:
    """A number that releases no budget."""
    return _number(value) and value >= 0


def _keys(value: Any, known: frozenset[str]) -> None:
    if not isinstance(value, dict):
        raise InvalidInput("each line must be a JSON object")
    for key in value:
        if key not in known:
            raise InvalidInput(f"a line has no key {key!r}; it has {', '.join(sorted(known))}")


def _when(seconds: Any) -> datetime:
    if not _number(seconds) or not 0 <= seconds < 10**9:
        raise InvalidInput("at is a number of seconds from the beginning of the play")
    return BEGINNING + timedelta(seconds=seconds)
