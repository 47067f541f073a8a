"""Read an Agent Action Contract event: bounds, fields, values, and nothing else.

Invariant: any Python value is accepted and none raises; a value that is not a well-formed v1 event yields
problems (`{path, message}`) that repeat no value and no unknown name that could be one. Missing keys of an
evidence reference mean the weakest: kind other, tier unknown, redaction unknown, freshness unknown
(docs/spec/3-aana.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from threegate.aana import vocabulary as words
from threegate.core import limits
from threegate.core.risk_domains import RISK_DOMAINS

EvidenceMode = Literal["quickstart", "production"]
"""`production` takes structured evidence references only (D12)."""

EventProblem = dict[str, str]
"""``{"path": "evidence_refs.0.kind", "message": "..."}``; the path is empty for the event as a whole."""

_FIELDS: Final = frozenset(words.REQUIRED_FIELDS + words.OPTIONAL_FIELDS)
_REQUIRED: Final = frozenset(words.REQUIRED_FIELDS)
_REF_FIELDS: Final = frozenset(words.REF_FIELDS)
_FRESHNESS_FIELDS: Final = frozenset(words.FRESHNESS_FIELDS)
_ENUMERATIONS: Final = (
    ("tool_category", frozenset(words.CATEGORIES)),
    ("authorization_state", frozenset(words.STATES)),
    ("risk_domain", frozenset(RISK_DOMAINS)),
    ("recommended_route", frozenset(words.ROUTES)),
)
_REF_ENUMERATIONS: Final = (
    ("kind", frozenset(words.KINDS)),
    ("trust_tier", frozenset(words.TIERS)),
    ("redaction_status", frozenset(words.REDACTIONS)),
)
_STATUSES: Final = (("status", frozenset(words.FRESHNESS)),)
_SUBJECTS: Final = (("subject_type", frozenset(words.SUBJECT_TYPES)),)
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz_")


def check_event(event: Any, mode: EvidenceMode) -> tuple[list[EventProblem], list[str], list[str]]:
    """Problems of an event, with the text lines (``key: value``) and the keys of its arguments.

    Lines and keys are complete only when there is no problem.
    """
    if not isinstance(event, dict):
        return [_problem("", "the event is not a JSON object")], [], []
    lines: list[str] = []
    keys: list[str] = []
    if (oversize := _measure(event, lines, keys)) is not None:
        return [oversize], lines, keys
    problems: list[EventProblem] = []
    if not _FIELDS.issuperset(event):
        problems += _unknown("", event, _FIELDS)
    if not event.keys() >= _REQUIRED:
        problems += [_problem(field, "is required (D1)") for field in words.REQUIRED_FIELDS if field not in event]
    if "schema_version" in event and event["schema_version"] != words.CONTRACT_VERSION:
        problems.append(_problem("schema_version", f"is not {words.CONTRACT_VERSION} (D2)"))
    if "tool_name" in event and not (isinstance(event["tool_name"], str) and event["tool_name"]):
        problems.append(_problem("tool_name", "is not a non-empty string"))
    _check_values("", event, _ENUMERATIONS, (), problems)
    if not isinstance(event.get("proposed_arguments", {}), dict):
        problems.append(_problem("proposed_arguments", "is not an object"))
    refs = event.get("evidence_refs", [])
    if not isinstance(refs, list):
        problems.append(_problem("evidence_refs", "is not an array"))
    else:
        for index, ref in enumerate(refs):
            _check_ref(ref, index, mode, problems)
    if len(event) > len(_REQUIRED):
        _check_optional(event, problems)
    if "schema_version" in event and not problems:
        _check_conditions(event, problems)
    return problems, lines, keys


def validate_event(event: Any, *, evidence_mode: EvidenceMode = "quickstart") -> list[EventProblem]:
    """What is wrong with the form of an event, as ``{path, message}``."""
    return check_event(event, evidence_mode)[0]


def _measure(event: dict[Any, Any], lines: list[str], keys: list[str]) -> EventProblem | None:
    """Walk the whole event once: bounds, JSON types, and the texts of `proposed_arguments`."""
    budget = limits.AANA_EVENT_BYTES
    stack: list[tuple[Any, int, bool]] = [(event, 0, False)]
    while stack:
        item, depth, inside = stack.pop()
        if depth >= limits.AANA_EVENT_DEPTH:
            return _problem("", f"is nested deeper than {limits.AANA_EVENT_DEPTH} (D10)")
        budget -= len(item)
        named = isinstance(item, dict)
        for key in item:
            if named:
                if not isinstance(key, str):
                    return _problem("", "has a key that is not a string")
                value = item[key]
                budget -= len(key)
                if inside:
                    keys.append(key)
            else:
                value = key
            if isinstance(value, str):
                budget -= len(value)
                if inside:
                    lines.append(f"{key}: {value}" if named else value)
                continue
            # A secret can be a key too (D7).
            if inside and named:
                lines.append(key)
            if isinstance(value, dict | list):
                stack.append((value, depth + 1, inside or (depth == 0 and key == "proposed_arguments")))
            elif isinstance(value, float):
                if not math.isfinite(value):
                    return _problem("", "has a number that JSON does not have")
            elif not (value is None or isinstance(value, int)):
                return _problem("", "has a value that JSON does not have")
            if budget < 0:
                break
        if budget < 0:
            return _problem("", f"is larger than {limits.AANA_EVENT_BYTES} bytes (D10)")
    return None


def _check_ref(ref: Any, index: int, mode: EvidenceMode, problems: list[EventProblem]) -> None:
    if isinstance(ref, str):
        if mode == "production":
            problems.append(_problem(f"evidence_refs.{index}", "must be a structured reference (D12)"))
        elif not ref or ref.isspace():
            problems.append(_problem(f"evidence_refs.{index}", "is blank"))
        return
    path = f"evidence_refs.{index}"
    if not isinstance(ref, dict):
        problems.append(_problem(path, "is neither a string nor an object"))
        return
    if not _REF_FIELDS.issuperset(ref):
        problems += _unknown(path, ref, _REF_FIELDS)
    source = ref.get("source_id")
    if not isinstance(source, str) or not source or source.isspace():
        problems.append(_problem(f"{path}.source_id", "is required and must not be blank"))
    _check_values(f"{path}.", ref, _REF_ENUMERATIONS, words.REF_STRINGS, problems)
    if ref.get("provenance") == "":
        problems.append(_problem(f"{path}.provenance", "must not be empty"))
    for field in ("supports", "contradicts"):
        value = ref.get(field, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            problems.append(_problem(f"{path}.{field}", "is not an array of strings"))
    freshness, path = ref.get("freshness", {}), f"{path}.freshness"
    if not isinstance(freshness, dict):
        problems.append(_problem(path, "is not an object"))
        return
    if not _FRESHNESS_FIELDS.issuperset(freshness):
        problems += _unknown(path, freshness, _FRESHNESS_FIELDS)
    _check_values(f"{path}.", freshness, _STATUSES, ("checked_at", "source"), problems)
    for field in ("max_age_hours", "age_hours"):
        value = freshness.get(field, 0)
        # In Python true is a number.
        if isinstance(value, bool) or not isinstance(value, int | float):
            problems.append(_problem(f"{path}.{field}", "is not a number"))


def _check_optional(event: dict[str, Any], problems: list[EventProblem]) -> None:
    _check_values("", event, (), ("request_id", "agent_id", "user_intent"), problems)
    if "authorization_subject" not in event:
        return
    subject = event["authorization_subject"]
    if not isinstance(subject, dict):
        problems.append(_problem("authorization_subject", "is not an object"))
        return
    problems += _unknown("authorization_subject", subject, frozenset({"subject_type", "subject_ref"}))
    _check_values("authorization_subject.", subject, _SUBJECTS, ("subject_ref",), problems)


def _check_conditions(event: dict[str, Any], problems: list[EventProblem]) -> None:
    """The rules of the published v1 schema that join fields, for an event that names v1 (D15)."""
    if event["recommended_route"] != "accept":
        return
    category = event["tool_category"]
    if category == "unknown":
        problems.append(_problem("recommended_route", "v1 accepts no call of an unknown category (D15)"))
    least = words.ACCEPTED_FROM.get(category, words.NONE)
    if words.STATE_RANK[event["authorization_state"]] < least:
        problems.append(
            _problem("authorization_state", f"v1 accepts a {category} from {words.STATES[least]} on only (D15)")
        )


def _check_values(
    prefix: str,
    value: Mapping[str, Any],
    enumerations: Iterable[tuple[str, frozenset[str]]],
    strings: Iterable[str],
    problems: list[EventProblem],
) -> None:
    """The fields that are there: a value that the contract lists, or any string."""
    for field, allowed in enumerations:
        given = value.get(field)
        if field not in value or (isinstance(given, str) and given in allowed):
            continue
        message = "is none of the contract's values"
        if field == "recommended_route" and isinstance(given, str) and given in words.BROADER_ROUTES:
            message = (
                f"{given} is a route for answers and workflows, not for a tool call: {words.BROADER_ROUTES[given]}"
            )
        problems.append(_problem(f"{prefix}{field}", message))
    for field in strings:
        if field in value and not isinstance(value[field], str):
            problems.append(_problem(f"{prefix}{field}", "is not a string"))


def _unknown(path: str, value: Mapping[str, Any], known: frozenset[str]) -> list[EventProblem]:
    """One problem for each unknown key. A key is named only when it is a plain short word, so no secret."""
    found = []
    for key in value:
        if key not in known:
            plain = len(key) <= 32 and _PLAIN.issuperset(key)
            found.append(_problem(path, f"unknown key {key}" if plain else "has an unknown key"))
    return found


def _problem(path: str, message: str) -> EventProblem:
    return {"path": path, "message": message}


def tool_evidence_ref(
    *,
    source_id: str,
    kind: str = "other",
    trust_tier: str = "unknown",
    redaction_status: str = "unknown",
    freshness: Mapping[str, Any] | str = "unknown",
    provenance: str = "runtime",
    summary: str | None = None,
    retrieved_at: str | None = None,
    citation_url: str | None = None,
    retrieval_url: str | None = None,
    supports: Sequence[str] | None = None,
    contradicts: Sequence[str] | None = None,
) -> dict[str, Any]:
    """One structured evidence reference. `freshness` is a status or the whole object. Raises ValueError."""
    ref: dict[str, Any] = {
        "source_id": source_id,
        "kind": kind,
        "trust_tier": trust_tier,
        "redaction_status": redaction_status,
        "freshness": {"status": freshness} if isinstance(freshness, str) else dict(freshness),
        "provenance": provenance,
    }
    optional = {
        "summary": summary,
        "retrieved_at": retrieved_at,
        "citation_url": citation_url,
        "retrieval_url": retrieval_url,
        "supports": None if supports is None else list(supports),
        "contradicts": None if contradicts is None else list(contradicts),
    }
    ref |= {field: value for field, value in optional.items() if value is not None}
    problems: list[EventProblem] = []
    _check_ref(ref, 0, "production", problems)
    if problems:
        raise ValueError("; ".join(f"{item['path'][16:]}: {item['message']}" for item in problems))
    return ref


def tool_precheck_event(
    *,
    tool_name: str,
    tool_category: str,
    authorization_state: str,
    evidence_refs: Sequence[str | Mapping[str, Any]],
    risk_domain: str,
    proposed_arguments: Mapping[str, Any],
    recommended_route: str = "accept",
    request_id: str | None = None,
    agent_id: str | None = None,
    user_intent: str | None = None,
    authorization_subject: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A well-formed event of the contract. It has no `schema_version`, so one that recommends too much is judged, not
    refused (D15). Raises ValueError that names the first bad field, never its value.
    """
    event: dict[str, Any] = {
        "tool_name": tool_name,
        "tool_category": tool_category,
        "authorization_state": authorization_state,
        "evidence_refs": [ref if isinstance(ref, str) else dict(ref) for ref in evidence_refs],
        "risk_domain": risk_domain,
        "proposed_arguments": dict(proposed_arguments),
        "recommended_route": recommended_route,
    }
    optional = {
        "request_id": request_id,
        "agent_id": agent_id,
        "user_intent": user_intent,
        "authorization_subject": None if authorization_subject is None else dict(authorization_subject),
    }
    event |= {field: value for field, value in optional.items() if value is not None}
    problems = validate_event(event)
    if problems:
        raise ValueError(f"{problems[0]['path'] or 'event'}: {problems[0]['message']}")
    return event
