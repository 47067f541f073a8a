"""The values of the engine: a call, a decision, an outcome, and the session that they move.

Invariant: a `Session` is its rules and plain counters; `Session.from_json(rules, s.to_json())` equals `s`,
and its size does not grow with the number of calls, except for what a rule must remember (distinct values,
resource ids, and a bounded number of digests of outputs).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal

from threegate.contracts.json_paths import MISSING
from threegate.core import limits

if TYPE_CHECKING:
    from threegate.contracts.tool_rules import Rules


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason: `code` and `path` may be shown to anyone, `expected` and `found` only to the operator."""

    layer: int
    code: str
    path: str
    message: str
    expected: Any = None
    found: Any = None

    def to_json(self) -> dict[str, Any]:
        """The reason as JSON, with expected and found."""
        return {
            "layer": self.layer,
            "code": self.code,
            "path": self.path,
            "message": self.message,
            "expected": None if self.expected is MISSING else self.expected,
            "found": None if self.found is MISSING else self.found,
        }


@dataclass(frozen=True, slots=True)
class CheckpointDemand:
    """A checkpoint that requires a person: who must answer what, and how long the answer is valid."""

    name: str
    timeout_seconds: float
    on_timeout: Literal["deny", "allow"]
    context: tuple[tuple[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """The demand as JSON, with the context shown to the person."""
        return {
            "name": self.name,
            "timeout_seconds": self.timeout_seconds,
            "on_timeout": self.on_timeout,
            "context": [{"label": label, "value": value} for label, value in self.context],
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """The engine's decision on one call."""

    verdict: Literal["allow", "block", "checkpoint"]
    reasons: tuple[Reason, ...] = ()
    checkpoints: tuple[CheckpointDemand, ...] = ()
    allowed_tools: tuple[str, ...] | None = None
    """Set with max_tool_calls_mode narrow, when the limit is reached: the tools that are left."""

    @property
    def code(self) -> str | None:
        """The first reason's code."""
        return self.reasons[0].code if self.reasons else None

    def to_json(self) -> dict[str, Any]:
        """The decision as JSON: verdict, reasons, and what only some decisions have."""
        value: dict[str, Any] = {"verdict": self.verdict, "reasons": [reason.to_json() for reason in self.reasons]}
        if self.checkpoints:
            value["checkpoints"] = [demand.to_json() for demand in self.checkpoints]
        if self.allowed_tools is not None:
            value["allowed_tools"] = list(self.allowed_tools)
        return value


ALLOW = Decision("allow")


def block(layer: int, code: str, message: str, path: str = "") -> Decision:
    """A block with one reason."""
    return Decision("block", (Reason(layer, code, path, message),))


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's verified answer to a checkpoint of one call (`judge` verifies the signature)."""

    call_sha256: str
    approve: bool
    answered: datetime
    by: str


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call. `backend` is set for requests: its contract applies besides the named tool's."""

    tool: str
    arguments: Mapping[str, Any]
    principal: Mapping[str, Any] | None = None
    session_id: str = "default"
    workflow_session: str | None = None
    labels: tuple[str, ...] = ()
    call_id: str = ""
    """The request's id; empty in plays."""
    backend: str | None = None
    """``threegate.era`` or ``threegate.monty`` for a request; None for one that calls a tool of a server."""
    served: bool = False
    """Whether it calls a tool of a server; plays and the other clients of the gates have neither."""
    code_sha256: str | None = None
    image: str = ""
    cost: float = 0.0
    """The highest possible cost of the call."""
    asked: datetime | None = None
    """When a checkpoint of this call was first asked for."""
    answer: Answer | None = None
    artifacts: frozenset[str] = frozenset()
    """Output paths of finished requests of the parent, for handoffs."""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How a call ended. `output` is MISSING when there is none."""

    status: str
    output: Any = MISSING
    cost: float | None = None
    exit_code: int | None = None
    stderr: str = ""
    artifacts: tuple[str, ...] = ()
    """Output paths, for handoffs."""
    retry_after: float | None = None
    """Seconds of a Retry-After that the proxy saw with a 429 (0 if it named none); None: no 429."""


@dataclass(slots=True)
class Tally:
    """Totals of committed calls: of a session, a requester or a workspace."""

    steps: int = 0
    cost: Decimal = Decimal(0)
    calls: dict[str, int] = field(default_factory=dict)
    aggregates: dict[str, Any] = field(default_factory=dict)
    """By name: a Decimal, an int, or for count_distinct a set of canonical values."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; Decimals as text."""
        return {
            "steps": self.steps,
            "cost": str(self.cost),
            "calls": dict(sorted(self.calls.items())),
            "aggregates": {
                name: {"distinct": sorted(value)}
                if isinstance(value, set)
                else {"count": value}
                if isinstance(value, int)
                else {"number": str(value)}
                for name, value in sorted(self.aggregates.items())
            },
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Tally:
        """The inverse of `to_json`."""
        aggregates: dict[str, Any] = {}
        for name, kept in value["aggregates"].items():
            if "distinct" in kept:
                aggregates[name] = set(kept["distinct"])
            elif "count" in kept:
                aggregates[name] = kept["count"]
            else:
                aggregates[name] = Decimal(kept["number"])
        return cls(value["steps"], Decimal(value["cost"]), dict(value["calls"]), aggregates)


@dataclass(slots=True)
class OutputValues:
    """What a session remembers about the values at one path of one tool's outputs."""

    digests: OrderedDict[str, None] = field(default_factory=OrderedDict)
    """sha256 of each value's canonical JSON, in hex, the newest last; at most CONTRACT_OUTPUT_VALUES."""
    complete: bool = True
    """False: there were more, so that an unlisted value may have occurred too."""

    def take(self, digests: Iterable[str]) -> None:
        """Remember values; the oldest are dropped first."""
        for item in digests:
            self.digests[item] = None
            self.digests.move_to_end(item)
        while len(self.digests) > limits.CONTRACT_OUTPUT_VALUES:
            self.digests.popitem(last=False)
            self.complete = False


@dataclass(slots=True)
class PendingCall:
    """A claimed call that has not ended: it counts for limits, aggregates, envelopes and loop detection."""

    call: Call
    moved: bool
    """Whether its state already moved at launch (commit_requirement none)."""


@dataclass(frozen=True, slots=True)
class Total:
    """A tally beyond the session's own, with the calls pending under it in other sessions."""

    name: Literal["requester", "workspace"]
    tally: Tally
    pending: Sequence[PendingCall] = ()


@dataclass(slots=True)
class Session:
    """The state of a session. Made by `transitions.open_session`; changed only there."""

    rules: Rules
    session_id: str = "default"
    requester: str = ""
    phase: str | None = None
    tally: Tally = field(default_factory=Tally)
    binds: dict[str, Any] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)
    forbidden: dict[str, str] = field(default_factory=dict)
    """Tool: the tool whose forbids_after closed it."""
    fulfilled: dict[str, set[str]] = field(default_factory=dict)
    """Precondition id: canonical resource values of successful calls that fulfil it ("" without resource)."""
    outputs: dict[str, OutputValues] = field(default_factory=dict)
    """By the key of an OutputSource; absent until a call of its tool ended."""
    references: dict[str, Any] = field(default_factory=dict)
    """Envelope role (``name/role``): the captured number."""
    window: deque[bytes] = field(default_factory=deque)
    blocks: int = 0
    errors: int = 0
    delayed: dict[str, str] = field(default_factory=dict)
    """Tool: the time (ISO 8601, UTC) before which a 429 blocks it."""
    killed: str | None = None
    """``session_killed``, ``circuit_open`` or ``session_closed``; for good."""
    pending: dict[str, PendingCall] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, sorted, without the rules and the pending calls (the store saves those)."""
        return {
            **{name: getattr(self, name) for name in _AS_THEY_ARE},
            **{name: dict(sorted(getattr(self, name).items())) for name in _MAPPINGS},
            "tally": self.tally.to_json(),
            "labels": sorted(self.labels),
            "fulfilled": {key: sorted(value) for key, value in sorted(self.fulfilled.items())},
            "outputs": {
                key: {"digests": list(kept.digests), "complete": kept.complete}
                for key, kept in sorted(self.outputs.items())
            },
            "window": [key.hex() for key in self.window],
        }

    @classmethod
    def from_json(cls, rules: Rules, value: Mapping[str, Any]) -> Session:
        """The inverse of `to_json`, under the same rules."""
        same: dict[str, Any] = {name: value[name] for name in _AS_THEY_ARE}
        copied: dict[str, Any] = {name: dict(value[name]) for name in _MAPPINGS}
        return cls(
            rules=rules,
            **same,
            **copied,
            tally=Tally.from_json(value["tally"]),
            labels=set(value["labels"]),
            fulfilled={key: set(items) for key, items in value["fulfilled"].items()},
            outputs={
                key: OutputValues(OrderedDict.fromkeys(kept["digests"]), kept["complete"])
                for key, kept in value["outputs"].items()
            },
            window=deque(map(bytes.fromhex, value["window"]), maxlen=rules.contract.window_size),
        )


_AS_THEY_ARE: Final = ("session_id", "requester", "phase", "blocks", "errors", "killed")
_MAPPINGS: Final = ("binds", "forbidden", "references", "delayed")
"""Fields of a session that JSON holds as they are, and sorted."""
