"""The result envelope of a decision: the names of the Agent Action Contract, and no values of the event.

Invariant: everything here is a fixed word, a number, a name of the vocabulary or an identifier that was
masked if anything in the event leaks (D9). `audit_safe_log_event` may be stored anywhere: its identifiers and
argument keys are always masked, personal data too.
"""

from __future__ import annotations

from typing import Any, Final

from threegate.aana import vocabulary as words
from threegate.aana.evidence import EvidenceFindings
from threegate.aana.leaks import masked, masked_all, masked_names
from threegate.core import limits

_SCORES: Final = (0.95, 0.72, 0.45, 0.15)
_ADVICE: Final = (
    "Execute the checked call and record the decision.",
    "Ask for what is missing, then check again.",
    "Take it to a person or fetch stronger evidence, then check again.",
    "Do not execute.",
)
EVENT_TYPE: Final = "aana_decision/1"
"""What an audit-safe event calls itself."""
_FORM_DEVIATIONS: Final = ("D1", "D2", "D10", "D12", "D15")
"""Those that a problem of form may name; whatever names none is D1."""


class GuardVerdict:
    """A decision while it is made. Ranks are those of `vocabulary`."""

    __slots__ = (
        "blockers",
        "category",
        "declared",
        "deviations",
        "event",
        "findings",
        "leaking",
        "own_route",
        "reasons",
        "recommended",
        "route",
        "state",
        "supported",
    )

    def __init__(self, event: dict[str, Any]) -> None:
        self.event = event
        self.category = ""
        self.route = self.own_route = self.recommended = words.ACCEPT
        self.declared = self.supported = self.state = words.NONE
        self.blockers: list[str] = []
        self.reasons: list[str] = []
        self.deviations: set[str] = set()
        self.findings: list[EvidenceFindings] = []
        self.leaking = False

    def block(self, route: int, blocker: str, reason: str) -> None:
        """Add a hard blocker and make the route at least `route`."""
        self.blockers.append(blocker)
        self.reasons.append(reason)
        if route > self.route:
            self.route = route


def render(verdict: GuardVerdict) -> dict[str, Any]:
    """The envelope of a finished decision."""
    event, blockers = verdict.event, verdict.blockers
    name: str = event["tool_name"]
    route = words.ROUTES[verdict.route]
    passed = verdict.route == words.ACCEPT and not blockers
    score = _SCORES[verdict.route]
    authorization = {
        "declared_state": words.STATES[verdict.declared],
        "evidence_supported_state": words.STATES[verdict.supported],
        "effective_state": words.STATES[verdict.state],
    }
    result = {
        "contract_version": words.CONTRACT_VERSION,
        "route": route,
        "tool_name": (masked(name) if verdict.leaking else name)[: limits.AANA_NAME_CHARS],
        "tool_category": event["tool_category"],
        "effective_category": verdict.category,
        "risk_domain": event["risk_domain"],
        "gate_decision": "pass" if passed else "fail",
        "recommended_action": route,
        "candidate_gate": "pass" if verdict.own_route == words.ACCEPT and not blockers else "fail",
        "aana_route": words.ROUTES[verdict.own_route],
        "runtime_recommended_route": words.ROUTES[verdict.recommended],
        "execution_allowed": passed,
        "hard_blockers": blockers,
        "deviations": sorted(verdict.deviations, key=_number) if verdict.deviations else [],
        "aix": _aix(route, score, blockers),
        "architecture_decision": {
            "route": route,
            "gate_decision": "pass" if passed else "fail",
            "execution_allowed": passed,
            "hard_blockers": list(blockers),
            "aix_score": score,
            "authorization_state": authorization["effective_state"],
            "recovery": _ADVICE[verdict.route],
        },
        "authorization": authorization,
        "validation_errors": [],
        "reasons": verdict.reasons,
        "evidence_report": _report(verdict),
    }
    return {**result, "audit_safe_log_event": _audit_safe(event, result, list(event["proposed_arguments"]))}


def unrecorded() -> dict[str, Any]:
    """The envelope where a decision could not be written down: refuse, whatever the decision was."""
    problem = {"path": "", "message": "the decision could not be written down; do not execute"}
    return malformed(None, [problem], blocker="decision_not_recorded")


def malformed(
    event: Any, problems: list[dict[str, str]], *, blocker: str = "contract_normalization_failed"
) -> dict[str, Any]:
    """The envelope for what is no well-formed event: refuse, score 0."""
    blockers = [blocker]
    event_is_at_fault = blocker == "contract_normalization_failed"
    deviations = [code for code in _FORM_DEVIATIONS if any(f"({code})" in item["message"] for item in problems)]
    if event_is_at_fault and not deviations:
        deviations = ["D1"]
    result = {
        "contract_version": words.CONTRACT_VERSION,
        "route": "refuse",
        "tool_name": _name_of(event),
        "tool_category": None,
        "effective_category": "unknown",
        "risk_domain": None,
        "gate_decision": "fail",
        "recommended_action": "refuse",
        "candidate_gate": "fail",
        "aana_route": "refuse",
        "runtime_recommended_route": None,
        "execution_allowed": False,
        "hard_blockers": blockers,
        "deviations": deviations,
        "aix": _aix("refuse", 0.0, blockers),
        "architecture_decision": {
            "route": "refuse",
            "gate_decision": "fail",
            "execution_allowed": False,
            "hard_blockers": list(blockers),
            "aix_score": 0.0,
            "authorization_state": "none",
            "recovery": "Fix the event: see validation_errors." if event_is_at_fault else _ADVICE[-1],
        },
        "authorization": {
            "declared_state": "none",
            "evidence_supported_state": "none",
            "effective_state": "none",
        },
        "validation_errors": problems,
        "reasons": ["event_is_not_well_formed" if event_is_at_fault else blocker],
        "evidence_report": _no_report(),
    }
    return {**result, "audit_safe_log_event": _audit_safe(event, result, [])}


def _audit_safe(event: Any, result: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    """The audit-safe event of a decision: ids, names, codes and argument `keys`, never values (docs/spec/3-aana.md)."""
    source: dict[str, Any] = event if isinstance(event, dict) else {}
    keys = keys[: limits.AANA_LOG_KEYS]
    sources = result["evidence_report"]["used_source_ids"][: limits.AANA_LOG_KEYS]
    request_id, agent_id, tool_name, *rest = masked_names(
        [source.get("request_id"), source.get("agent_id"), result["tool_name"], *sources, *keys]
    )
    return {
        "type": EVENT_TYPE,
        "request_id": request_id,
        "agent_id": agent_id,
        "tool_name": tool_name,
        "tool_category": result["tool_category"],
        "effective_category": result["effective_category"],
        "risk_domain": result["risk_domain"],
        "declared_state": result["authorization"]["declared_state"],
        "supported_state": result["authorization"]["evidence_supported_state"],
        "effective_state": result["authorization"]["effective_state"],
        "recommended_route": result["runtime_recommended_route"],
        "route": result["route"],
        "gate_decision": result["gate_decision"],
        "hard_blockers": list(result["hard_blockers"]),
        "deviations": list(result["deviations"]),
        "aix_score": result["aix"]["score"],
        "argument_keys": sorted((key or "")[: limits.AANA_LOG_KEY_CHARS] for key in rest[len(sources) :]),
        "evidence_source_ids": rest[: len(sources)],
    }


def _name_of(event: Any) -> str | None:
    """The tool's name of a malformed event, masked before it is cut; None when there is none of usual size."""
    name = event.get("tool_name") if isinstance(event, dict) else None
    if not isinstance(name, str) or len(name) > limits.AANA_EVENT_BYTES:
        return None
    return masked(name)[: limits.AANA_NAME_CHARS]


def _number(deviation: str) -> int:
    return int(deviation[1:])


def _aix(route: str, score: float, blockers: list[str]) -> dict[str, Any]:
    return {
        "score": score,
        "components": {"P": score, "C": score, "F": 1.0 if route == "accept" else 0.75},
        "decision": route,
        "hard_blockers": list(blockers),
        "thresholds": {"accept": 0.85, "ask": 0.6, "defer": 0.3, "refuse": 0.0},
    }


def _no_report() -> dict[str, Any]:
    return {
        "checked_ref_count": 0,
        "used_source_ids": [],
        "contradictory_source_ids": [],
        "missing_source_ids": [],
        "stale_source_ids": [],
        "warning_codes": [],
    }


def _report(verdict: GuardVerdict) -> dict[str, Any]:
    findings = verdict.findings
    if not findings:
        return _no_report()
    sources = [found.source_id for found in findings]
    if verdict.leaking:
        sources = masked_all(sources)
    names = [source[: limits.AANA_NAME_CHARS] for source in sources]
    pairs = list(zip(names, findings, strict=True))
    return {
        "checked_ref_count": len(findings),
        "used_source_ids": names,
        "contradictory_source_ids": [name for name, found in pairs if found.contradicts],
        "missing_source_ids": [name for name, found in pairs if found.missing],
        "stale_source_ids": [name for name, found in pairs if found.stale],
        "warning_codes": list(dict.fromkeys(code for found in findings for code in found.warnings)),
    }
