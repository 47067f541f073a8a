"""The table of diagnostic codes: severity and what to do. `threegate validate --explain CODE` prints from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Code:
    """What a diagnostic code means: its severity and one or two sentences of help."""

    severity: Literal["error", "warning"]
    help: str


def _error(text: str) -> Code:
    return Code("error", text)


def _warning(text: str) -> Code:
    return Code("warning", text)


CODES: Final[dict[str, Code]] = {
    # ---- files and YAML
    "FILE_TOO_LARGE": _error("A contract file has a bound in bytes; split the rules over more tools."),
    "FOLDER_TOO_LARGE": _error("The whole folder is larger than the limit; remove files that are not contracts."),
    "TOO_MANY_FILES": _error("The folder has more files than the limit."),
    "NOT_UTF8": _error("Contract files are UTF-8 text."),
    "YAML_SYNTAX": _error("The file is not valid YAML; most often the indentation is wrong."),
    "YAML_ANCHOR": _error(
        "Anchors and aliases (&name, *name) hide what a rule says; write the value out in each place."
    ),
    "YAML_TAG": _error("Tags (!name) change what a value means; leave them out."),
    "DUPLICATE_KEY": _error("A key may occur only once in its mapping; YAML would silently keep the last one."),
    "BAD_KEY": _error("Keys are plain names; quote one that looks like a number or a boolean."),
    "AMBIGUOUS_SCALAR": _error("YAML 1.1 and 1.2 read this plain word differently (no, on, 012, 1_000); quote it."),
    "TOO_DEEP": _error("Something is nested too deeply for a contract."),
    "TOO_MANY_VALUES": _error("The file has more values than the limit for a contract."),
    "UNEXPECTED_FILE": _error(
        "Only <tool>.yaml, session.yaml, workflow.yaml, *.test.yaml, <tool>.schema.json, README.md, and the files "
        "that these name, belong in a contracts folder. Move the file away or fix its name."
    ),
    # ---- fields
    "UNKNOWN_FIELD": _error("There is no such field here; an unknown rule would never be applied."),
    "MISSING_FIELD": _error("A required field is missing; `threegate contracts new TOOL` shows them all."),
    "BAD_TYPE": _error("The value has the wrong type, or is not one of the allowed values."),
    "UNKNOWN_OPERATOR": _error("There is no such operator here; docs/spec/4-contracts.md lists them."),
    "NO_OPERATOR": _error("An entry without an operator checks nothing; write what must be true at the path."),
    "BAD_JSONPATH": _error(
        "The path is not a supported JSONPath (RFC 9535): it must start with $, and filters must "
        "compare single values; instead of match() and search(), use the operator `regex`."
    ),
    "BAD_REGEX": _error(
        "The pattern is not a linear-time regular expression (RE2): no look-around, no back-references, no repeat "
        "above 1000."
    ),
    "BAD_OPERAND": _error(
        "No value could ever satisfy this operand: a path, host, domain or text is in a spelling that is never "
        "judged. Write it plainly, as docs/spec/4-contracts.md shows."
    ),
    "LIMIT_NOT_POSITIVE": _error("A limit of zero or less would block everything or nothing; use a positive number."),
    "DUPLICATE_NAME": _error("Names of phases, aggregates, envelopes, checkpoints, roles and cases must be unique."),
    # ---- one tool
    "TOOL_NAME_MISMATCH": _error("The file of a tool is named <tool>.yaml, so that nobody edits the wrong one."),
    "BAD_WILDCARD": _error(
        "A wildcard is a name that ends with `.*`, needs schema_version 1.1, and never matches a backend."
    ),
    "AMBIGUOUS_TOOL": _error(
        "A wildcard matches only tools that have no contract of their own. Where a rule names one although there "
        "are such tools, use a narrower wildcard, or name those tools and give the others a contract each."
    ),
    "DUPLICATE_TOOL": _error("Two files describe the same tool; merge them."),
    "ACK_ONLY_ON_HIGH_RISK": _error(
        "evidence_class ack_only proves nothing about what was done; destructive, admin and financial tools need "
        "local_transaction or unverifiable."
    ),
    "RETRIES_ABOVE_READ": _error("A tool with a side effect runs at most once: retries.max_attempts is 1."),
    "TOLERANCE_WITHOUT_REF": _error(
        "`tolerance` says how close to a `ref` a value must be; without `ref` it has no meaning."
    ),
    "REF_NEVER_BOUND": _error(
        "No contract binds that slot: a `ref` would block every call, and a stricter bound would never apply."
    ),
    "DUPLICATE_BIND": _error("Two entries capture into the same slot; the later would overwrite the earlier."),
    "BIND_NEVER_OBSERVED": _error("The output of an unverifiable tool proves nothing and is never bound."),
    "POLICY_WITHOUT_PRINCIPAL": _error("An allow or deny rule must name its subject: `principal: {path: …}`."),
    "TOOLS_TWICE": _error("Give `tools` beside or inside allow/deny, not in both places."),
    "CHECKPOINT_TIMEOUT_TOO_SHORT": _error("A person needs at least 30 seconds to decide."),
    "CHECKPOINT_WITHOUT_TRIGGER": _error("Say when a person must decide: `when` or `when_side_effect`."),
    "TIMEOUT_ALLOW_NOT_PERMITTED": _error(
        "Silence is not consent: `on_timeout: allow` needs contracts.permit_timeout_allow = true in threegate.toml."
    ),
    "PRECONDITION_EMPTY": _error("A precondition has exactly one of `requires_prior_tool` and `requires_step_count`."),
    "BAD_SCHEMA": _error(
        "The tool's JSON Schema file cannot be read, or no rule follows from it; fix or remove it, or set "
        "schema_derived: false."
    ),
    "SCHEMA_NOT_DERIVED": _warning(
        "Rules in anyOf, oneOf, not or a remote $ref are not derived; write them as invariants."
    ),
    "BAD_CASE_INPUT": _error("The file that input_ref names is missing or is not a JSON object."),
    "NO_IMPLEMENTS": _warning(
        "Without `implements`, no request can name this tool: a request does not choose the rules that apply to it. A "
        "tool of a server (`github.create_issue`) needs none: a call names what is pinned."
    ),
    # ---- phases
    "PHASE_NONE_INITIAL": _error("Exactly one phase has `initial: true`."),
    "PHASE_MANY_INITIAL": _error("Exactly one phase has `initial: true`."),
    "PHASE_NONE_TERMINAL": _error("At least one phase has `terminal: true`."),
    "PHASE_UNDECLARED": _error("A phase is used that `phases` does not declare."),
    "PHASE_UNREACHABLE": _error("No transition leads to this phase from the initial one."),
    "TERMINAL_PHASE_UNREACHABLE": _warning("No transition leads to this terminal phase."),
    "PHASE_DEAD_END": _warning("No terminal phase can be reached from this one: a session stays here."),
    "ADVANCE_WITHOUT_EDGE": _error(
        "`advances_to` must be reachable by a transition from each phase in which the tool is valid, or be that phase."
    ),
    # ---- aggregates, envelopes
    "AGGREGATE_WITHOUT_BOUND": _error(
        "An aggregate has at least one of gte and lte (a `when` entry: then_gte, then_lte)."
    ),
    "AGGREGATE_WITHOUT_PATH": _error("Every metric but count needs the path of the value."),
    "BOUNDS_NEVER_USED": _warning("No contract binds that slot, so the wider bounds are never used: the base applies."),
    "FIRST_CALL_BLOCKED": _warning(
        "Bounds are checked before each call as if it were committed; no call could be the first one. For a number of "
        "calls that must come first, use `requires_step_count` or `requires_prior_tool` of the tool that needs them."
    ),
    "ENVELOPE_TOO_SHORT": _error("An envelope has at least two stages: where a value comes from and where it binds."),
    "ENVELOPE_ROLE_MISMATCH": _error(
        "The constraint needs other roles: lte_ceiling a ceiling, gte_floor a floor, within_band an anchor, "
        "monotonic_* an initial, bounded a ceiling and a floor; and each a constrained stage after it. A tool may be "
        "its own initial or anchor, at one path, but sets no ceiling or floor for itself."
    ),
    "BAND_MISSING": _error("within_band needs `band`, a fraction such as 0.05; other constraints take none."),
    # ---- session, workflow
    "UNKNOWN_TOOL_REFERENCE": _error("A tool is named that no contract describes; most often a spelling mistake."),
    "UNKNOWN_RESOURCE": _error("A shared resource's alias is the key of an entry in a session's `resources`."),
    "ROLE_UNDECLARED": _error("A handoff names a role that `roles` does not declare."),
    "SESSION_CONTRACT_MISSING": _error("The session contract that a role names is not below contracts/."),
    "BAD_PROVIDER_PATTERN": _error("A provider pattern is `field=value`, `field` or `model-name`, joined by ` + `."),
    "SUPPRESS_WITHOUT_REASON": _error("A suppressed diagnostic needs a reason."),
    "SUPPRESS_STALE": _warning("The diagnostic does not occur here; remove the entry."),
    # ---- graph analysis
    "dead_tool": _warning("The tool is valid in no phase that a session can reach."),
    "unreachable_precondition": _warning("The tool requires another that cannot run before it."),
    "precondition_cycle": _warning("Tools require each other in a cycle; none of them can ever run."),
    "self_forbidding": _warning("The tool forbids itself: it runs once and never again."),
    "unused_bind": _warning("Nothing refers to this slot."),
    "phase_without_tool": _warning("No tool is valid in this phase."),
    "contradictory_invariants": _warning("No value can satisfy both rules at this path."),
}
