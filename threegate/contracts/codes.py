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
    "FOLDER_TOO_LARGE": _error("The whole folder is larger than is read; remove what is no contract."),
    "TOO_MANY_FILES": _error("There are more files than a contracts folder may hold."),
    "NOT_UTF8": _error("Contract files are UTF-8 text."),
    "YAML_SYNTAX": _error("The file is no YAML document; most often the indentation is off."),
    "YAML_ANCHOR": _error("Anchors and aliases (&name, *name) hide what a rule says; write it out where it holds."),
    "YAML_TAG": _error("Tags (!name) change what a value means; leave them out."),
    "DUPLICATE_KEY": _error("A key may stand once in its mapping; YAML would silently keep the last one."),
    "BAD_KEY": _error("Keys are plain names; quote one that looks like a number or a boolean."),
    "AMBIGUOUS_SCALAR": _error("YAML 1.1 and 1.2 read this plain word differently (no, on, 012, 1_000); quote it."),
    "TOO_DEEP": _error("Contracts are shallow; something is nested far too deeply here."),
    "TOO_MANY_VALUES": _error("The file holds more values than a contract may have."),
    "UNEXPECTED_FILE": _error(
        "Only <tool>.yaml, session.yaml, workflow.yaml, *.test.yaml, <tool>.schema.json, README.md, and the files "
        "that these name, belong into a contracts folder. Move it away or fix its name."
    ),
    # ---- fields
    "UNKNOWN_FIELD": _error("No such field exists here; an unknown rule would be a rule that never holds."),
    "MISSING_FIELD": _error("A required field is not there; `threegate contracts new TOOL` shows them all."),
    "BAD_TYPE": _error("The value has another type, or is none of the allowed values."),
    "UNKNOWN_OPERATOR": _error("This place does not know that operator; docs/contracts.md lists them by place."),
    "NO_OPERATOR": _error("An entry without an operator checks nothing; say what must hold at the path."),
    "BAD_JSONPATH": _error(
        "The path is no JSONPath (RFC 9535) of the kind that is evaluated here: it starts with $, and filters "
        "compare single values only; match() and search() are the operator `regex`."
    ),
    "BAD_REGEX": _error(
        "The pattern is no linear-time regular expression (RE2): no look-around, no back-references, no repeat above "
        "1000."
    ),
    "BAD_OPERAND": _error(
        "No value could ever fulfil this operand: a path, host, domain or text is written in a spelling that is never "
        "judged. Write it plainly, as docs/contracts.md shows."
    ),
    "LIMIT_NOT_POSITIVE": _error("A limit of zero or less would block everything or nothing; give a positive number."),
    "DUPLICATE_NAME": _error("Names of phases, aggregates, envelopes, checkpoints, roles and cases are unique."),
    # ---- one tool
    "TOOL_NAME_MISMATCH": _error("The file of a tool is named <tool>.yaml, so that nobody edits the wrong one."),
    "BAD_WILDCARD": _error(
        "A wildcard is a name and `.*` at its end, in a contract of schema_version 1.1, and never stands for backends."
    ),
    "AMBIGUOUS_TOOL": _error(
        "A wildcard stands only for the tools that have no contract of their own; where a rule names it although there "
        "are such, write a wildcard further down, or give those tools the rule by name and the others a contract each."
    ),
    "DUPLICATE_TOOL": _error("Two files speak of the same tool; merge them."),
    "ACK_ONLY_ON_HIGH_RISK": _error(
        "evidence_class ack_only proves nothing about what was done; destructive, admin and financial tools need "
        "local_transaction or unverifiable."
    ),
    "RETRIES_ABOVE_READ": _error("A tool with a side effect runs at most once: retries.max_attempts is 1."),
    "TOLERANCE_WITHOUT_REF": _error("`tolerance` says how near a `ref` must be; without `ref` it means nothing."),
    "REF_NEVER_BOUND": _error(
        "No contract binds that slot: a `ref` would block every call for ever, and a stricter bound would never apply."
    ),
    "DUPLICATE_BIND": _error("Two entries capture into the same slot; the later would overwrite the earlier."),
    "BIND_NEVER_OBSERVED": _error("An unverifiable tool's output proves nothing and is never bound."),
    "POLICY_WITHOUT_PRINCIPAL": _error("An allow or deny rule says whom it is about: `principal: {path: …}`."),
    "TOOLS_TWICE": _error("Give `tools` beside or inside allow/deny, not in both places."),
    "CHECKPOINT_TIMEOUT_TOO_SHORT": _error("A person needs at least 30 seconds to decide."),
    "CHECKPOINT_WITHOUT_TRIGGER": _error("Say when a person must look: `when` or `when_side_effect`."),
    "TIMEOUT_ALLOW_NOT_PERMITTED": _error(
        "Silence is not consent: `on_timeout: allow` needs contracts.permit_timeout_allow = true in threegate.toml."
    ),
    "PRECONDITION_EMPTY": _error(
        "A precondition names `requires_prior_tool` or `requires_step_count`, and one of them."
    ),
    "BAD_SCHEMA": _error(
        "The tool's JSON Schema file cannot be read, or no rule follows from it; fix or remove it, or set "
        "schema_derived: false."
    ),
    "SCHEMA_NOT_DERIVED": _warning(
        "Rules in anyOf, oneOf, not or a remote $ref are not derived; write them as invariants."
    ),
    "BAD_CASE_INPUT": _error("The file that input_ref names is missing or is no JSON object."),
    "NO_IMPLEMENTS": _warning(
        "Without `implements` no request can name this tool: a request does not choose the rules it is judged by. A "
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
        "advances_to must be a transition from each phase in which the tool is valid, or that phase itself."
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
    "SUPPRESS_WITHOUT_REASON": _error("Who suppresses a diagnostic says why."),
    "SUPPRESS_STALE": _warning("Nothing is left to suppress here; remove the entry."),
    # ---- graph analysis
    "dead_tool": _warning("The tool is valid in no phase that a session can reach."),
    "unreachable_precondition": _warning("The tool requires another that cannot run before it."),
    "precondition_cycle": _warning("Tools require each other in a circle; none can ever run."),
    "self_forbidding": _warning("The tool forbids itself: it runs once and then never again."),
    "unused_bind": _warning("Nothing refers to this slot."),
    "phase_without_tool": _warning("No tool is valid in this phase."),
    "contradictory_invariants": _warning("No value can fulfil both rules at this path."),
}
