"""All sessions and workflows of a workspace (or of a replay), as one value.

Invariant: a session exists only because the operator (or a replay) opened it, or because it is a requester's
default one; totals of requesters and of the workspace are the merge of their open sessions' tallies and
nothing else. A folder that does not compile lets nothing run; only an empty folder means that there is no
gate, and is reported as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from threegate.contracts import engine, transitions
from threegate.contracts.compiled import SESSION_FILE, Compiled
from threegate.contracts.decimals import EXACT
from threegate.contracts.state import (
    Answer,
    Call,
    CallOutcome,
    Decision,
    PendingCall,
    Reason,
    Session,
    Tally,
    Total,
    block,
)
from threegate.contracts.transitions import Effect, seen_key
from threegate.contracts.workflow import Member, Workflow, WorkflowGuard, closed_children
from threegate.core.errors import Refused

if TYPE_CHECKING:
    from threegate.contracts.model_session import Aggregate


_PLAIN: Final = tuple("tool session_id workflow_session call_id backend served code_sha256 image cost".split())
"""Fields of a call that JSON holds as they are."""


def call_to_json(call: Call) -> dict[str, Any]:
    """A claimed call as plain JSON (answers and artifacts are not kept: they were used)."""
    return {
        **{name: getattr(call, name) for name in _PLAIN},
        "arguments": dict(call.arguments),
        "principal": None if call.principal is None else dict(call.principal),
        "labels": list(call.labels),
        "asked": None if call.asked is None else call.asked.astimezone(UTC).isoformat(),
    }


def call_from_json(value: Mapping[str, Any]) -> Call:
    """The inverse of `call_to_json`. Raises KeyError, ValueError."""
    return Call(
        **{name: value[name] for name in _PLAIN},
        arguments=value["arguments"],
        principal=value["principal"],
        labels=tuple(value["labels"]),
        asked=None if value["asked"] is None else datetime.fromisoformat(value["asked"]),
    )


def answer_to_json(answer: Answer) -> dict[str, Any]:
    """A checkpoint answer as plain JSON."""
    return {**asdict(answer), "answered": answer.answered.isoformat()}


def answer_from_json(value: Mapping[str, Any]) -> Answer:
    """The inverse of `answer_to_json`. Raises KeyError, TypeError, ValueError."""
    return Answer(**{**value, "answered": datetime.fromisoformat(value["answered"])})


def merge(aggregates: Iterable[Aggregate], tallies: Iterable[Tally]) -> Tally:
    """One tally that merges several."""
    total = Tally()
    metrics = {item.name: item.metric for item in aggregates}
    for tally in tallies:
        total.steps += tally.steps
        total.cost = EXACT.add(total.cost, tally.cost)
        for name, calls in tally.calls.items():
            total.calls[name] = total.calls.get(name, 0) + calls
        for name, value in tally.aggregates.items():
            total.aggregates[name] = _together(metrics[name], total.aggregates.get(name), value)
    return total


def _together(metric: str, one: Any, other: Any) -> Any:
    if metric == "count_distinct":
        return (one or set()) | other
    if one is None:
        return other
    if metric == "count":
        return one + other
    if metric == "sum":
        return EXACT.add(one, other)
    return max(one, other) if metric == "max" else min(one, other)


@dataclass(slots=True)
class SessionTable:
    """The sessions under one compiled folder. `totals`: whether requester and workspace totals apply."""

    compiled: Compiled
    totals: bool = True
    sessions: dict[str, Session] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    """Session id: its place in a workflow."""
    workflows: dict[str, Workflow] = field(default_factory=dict)
    asked: dict[str, datetime] = field(default_factory=dict)
    """Request id: when a checkpoint was first asked for."""
    answers: dict[str, Answer] = field(default_factory=dict)
    """Request id: the operator's last answer."""
    _merged: dict[tuple[str, str | None], Tally] = field(default_factory=dict)

    def open(
        self,
        session_id: str,
        *,
        requester: str = "",
        workflow: str | None = None,
        role: str | None = None,
        parent: str | None = None,
    ) -> Session:
        """Open a session. Raises Refused with `session_exists`, `unknown_role`, `unknown_workflow`,
        `handoff_undeclared`, `unknown_session` (the parent) or `workflow_limit_exceeded`."""
        if session_id in self.sessions:
            raise Refused("session_exists", f"session {session_id} already exists; choose another name")
        rules = self.compiled.sessions[SESSION_FILE]
        if workflow is not None or role is not None or parent is not None:
            contract = self.compiled.workflow
            if contract is None:
                raise Refused("unknown_workflow", "there is no workflow.yaml; add one, or leave role and workflow out")
            name = workflow or contract.workflow
            state = self.workflows.get(name) or Workflow()
            member = state.admit(contract, self.members, self.sessions, name, role, parent)
            self.workflows[name] = state  # not before it has a session: a refused name is not kept
            rules = self.compiled.sessions[member.contract]
            self.members[session_id] = member
        session = transitions.open_session(rules, session_id, requester)
        self.sessions[session_id] = session
        return session

    def default_session(self, requester: str) -> Session:
        """A requester's default session, created on first use."""
        session_id = f"default:{requester}"
        if session_id not in self.sessions:
            self.open(session_id, requester=requester)
        return self.sessions[session_id]

    def _scopes(self, session: Session) -> tuple[tuple[str, str | None], ...]:
        return ((session.rules.file, session.requester), (session.rules.file, None))

    def _governed(self, scope: tuple[str, str | None]) -> list[Session]:
        """The sessions whose tallies make up a total: all that the operator has not closed."""
        file, requester = scope
        return [
            session
            for session in self.sessions.values()
            if session.rules.file == file
            and requester in (None, session.requester)
            and session.killed != "session_closed"
        ]

    def others(self, session: Session) -> tuple[Total, ...]:
        """The totals that apply to a session besides its own."""
        if not self.totals:
            return ()
        names = ("requester", "workspace")
        return tuple(
            Total(name, self._tally(scope), self._pending(scope, session))  # type: ignore[arg-type]
            for name, scope in zip(names, self._scopes(session), strict=True)
        )

    def _tally(self, scope: tuple[str, str | None]) -> Tally:
        if scope not in self._merged:
            sessions = self._governed(scope)
            aggregates = sessions[0].rules.contract.aggregates if sessions else ()
            self._merged[scope] = merge(aggregates, [session.tally for session in sessions])
        return self._merged[scope]

    def forget_totals(self) -> None:
        """Merge the tallies again when they are next needed."""
        self._merged.clear()

    def _pending(self, scope: tuple[str, str | None], session: Session) -> list[PendingCall]:
        return [item for other in self._governed(scope) if other is not session for item in other.pending.values()]

    def guard(self, session: Session) -> WorkflowGuard | None:
        """The workflow state around one session, None if there is none."""
        member = self.members.get(session.session_id)
        contract = self.compiled.workflow
        if member is None or contract is None:
            return None
        return WorkflowGuard(contract, self.workflows[member.workflow], member, self.members, self.sessions)

    def decide(self, call: Call, now: datetime) -> Decision:
        """The decision on a call. Changes nothing.

        A folder that does not compile lets nothing run; only an empty folder means that there is no gate, and
        is reported as such.
        """
        if not self.compiled.ok:
            return block(0, "contracts_do_not_compile", "the contracts folder has errors: threegate contracts check")
        if self.compiled.empty:
            return Decision("allow", (Reason(0, "no_contracts", "", "the workspace has no contracts"),))
        session = self.sessions.get(call.session_id)
        if session is None:
            return block(0, "unknown_session", "the operator has not opened that session", "session_id")
        return engine.decide(session, call, now, others=self.others(session), workflow=self.guard(session))

    def note_block(self, call: Call) -> None:
        """Count a blocked call."""
        self.note_blocked_key(call.session_id, seen_key(call))

    def note_blocked_key(self, session_id: str, key: bytes) -> None:
        """As `note_block`, for a call of which only the key is known (from the trail)."""
        session = self.sessions.get(session_id)
        if session is not None:
            was = session.killed
            transitions.note_block(session, key)
            self._broken(session, was)

    def _broken(self, session: Session, was: str | None) -> None:
        """A session whose breaker just opened has ended: its children are handled by their policy."""
        if was is None and session.killed == "circuit_open":
            self._ended(session.session_id)

    def _tallies(self, session: Session) -> list[Tally]:
        return [self._tally(scope) for scope in self._scopes(session)] if self.totals else []

    def reserve(self, call: Call) -> None:
        """Claim an allowed call. Raises ValueError, KeyError."""
        session = self.sessions[call.session_id]
        transitions.reserve(session, call, others=self._tallies(session))
        self._own(session, call)

    def commit(self, call: Call, outcome: CallOutcome, now: datetime | None = None) -> Effect:
        """Apply the outcome of a call. Raises ValueError, KeyError."""
        session = self.sessions[call.session_id]
        was = session.killed
        effect = transitions.commit(session, call, outcome, others=self._tallies(session), now=now)
        self._broken(session, was)
        member = self.members.get(call.session_id)
        if member is not None:
            self._own(session, call)
            if effect.status == "committed":
                member.artifacts.update(outcome.artifacts)
        return effect

    def release(self, session_id: str, call_id: str) -> None:
        """Release a claim that never started."""
        transitions.release(self.sessions[session_id], call_id)

    def _own(self, session: Session, call: Call) -> None:
        guard = self.guard(session)
        if guard is not None:
            guard.own(session, call)

    def close(self, session_id: str) -> tuple[Reason, ...]:
        """The operator closes a session: lower bounds are checked, its totals are released."""
        reasons = transitions.close(self.sessions[session_id])
        # Also of a session that was killed, whose share counts until the operator closes it.
        self.sessions[session_id].killed = "session_closed"
        self._merged.clear()
        self._ended(session_id)
        return reasons

    def kill(self, scope: str, name: str) -> list[str]:
        """Kill a session, a session with its descendants, or a workflow. Returns the sessions whose runs must
        be stopped.

        Raises Refused with `unknown_session`, `unknown_workflow` or `subtree_kill_off`.
        """
        if scope == "workflow":
            if name not in self.workflows:
                raise Refused("unknown_workflow", f"no workflow {name}; see: threegate contracts workflows")
            self.workflows[name].killed = True
            victims = [key for key, member in self.members.items() if member.workflow == name]
        else:
            if name not in self.sessions:
                raise Refused("unknown_session", f"no session {name}; see: threegate contracts sessions")
            victims = [name]
            if scope == "subtree":
                contract = self.compiled.workflow
                if contract is not None and not contract.cancellation.subtree_kill:
                    raise Refused("subtree_kill_off", "workflow.yaml says subtree_kill: false; kill one by one")
                victims = [name, *self._below(name)]
        stopped = []
        for victim in victims:
            if self.sessions[victim].killed is None:
                self.sessions[victim].killed = "session_killed"
                stopped.append(victim)
        if scope == "session":
            stopped.extend(self._ended(name))
        return stopped

    def _below(self, session_id: str) -> list[str]:
        """All descendants of a session."""
        found = []
        open_ = [session_id]
        while open_:
            parent = open_.pop()
            children = [key for key, member in self.members.items() if member.parent == parent]
            found.extend(children)
            open_.extend(children)
        return found

    def _ended(self, session_id: str) -> list[str]:
        """Handle the children of a session that ended. Returns those that were killed."""
        contract = self.compiled.workflow
        if contract is None:
            return []
        ended = [session_id]
        for parent in ended:  # a growing list: a chain may be longer than Python's recursion limit
            for child, policy in closed_children(contract, self.members, parent):
                if policy == "request_cancel":
                    self.members[child].closing = True
                elif self.sessions[child].killed is None:
                    self.sessions[child].killed = "session_killed"
                    ended.append(child)
        return ended[1:]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain JSON, except the compiled rules."""
        return {
            "sessions": {
                key: {
                    "contract": session.rules.file,
                    "state": session.to_json(),
                    "pending": {
                        call_id: {"call": call_to_json(item.call), "moved": item.moved}
                        for call_id, item in sorted(session.pending.items())
                    },
                }
                for key, session in sorted(self.sessions.items())
            },
            "members": {key: member.to_json() for key, member in sorted(self.members.items())},
            "workflows": {key: workflow.to_json() for key, workflow in sorted(self.workflows.items())},
            "asked": {key: moment.isoformat() for key, moment in sorted(self.asked.items())},
            "answers": {key: answer_to_json(item) for key, item in sorted(self.answers.items())},
        }

    @classmethod
    def from_json(cls, compiled: Compiled, value: Mapping[str, Any]) -> SessionTable:
        """The inverse of `to_json`, under the same rules. Raises KeyError, TypeError, ValueError."""
        table = cls(compiled)
        for key, kept in value["sessions"].items():
            session = Session.from_json(compiled.sessions[kept["contract"]], kept["state"])
            for call_id, item in kept["pending"].items():
                session.pending[call_id] = PendingCall(call_from_json(item["call"]), item["moved"])
            table.sessions[key] = session
        table.members = {key: Member.from_json(item) for key, item in value["members"].items()}
        table.workflows = {key: Workflow.from_json(item) for key, item in value["workflows"].items()}
        table.asked = {key: datetime.fromisoformat(item) for key, item in value["asked"].items()}
        table.answers = {key: answer_from_json(item) for key, item in value["answers"].items()}
        return table
