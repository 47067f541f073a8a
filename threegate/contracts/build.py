"""One tool's contract, compiled without its session: paths, patterns, rules from its schema.

Invariant: anything that cannot be compiled is a diagnostic at its location; nothing is left out silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from threegate.contracts.comparisons import CompiledEntry
from threegate.contracts.diagnostics import Diagnostic
from threegate.contracts.document import Document, KeyPath
from threegate.contracts.json_paths import BadPath, Path
from threegate.contracts.model_common import Model, NamedCheckpoint
from threegate.contracts.model_operators import ToolCheckpoint, said
from threegate.contracts.model_tool import ToolContract
from threegate.contracts.path_compiler import compile_path
from threegate.contracts.schema_derived import Derived
from threegate.contracts.tool_names import OURS, SERVED, WILDCARD
from threegate.contracts.tool_plan import (
    ArgumentCheck,
    BindPlan,
    CheckpointPlan,
    ExpectedFailure,
    OutputRule,
    OutputSourcePlan,
    PreconditionPlan,
    RefPlan,
    ToolParts,
    exact,
)
from threegate.core.json_operators import BadPattern, compile_pattern
from threegate.request.strict_texts import BadOperand

_FALLBACK = compile_path("$")


class Scope:
    """A document being compiled: collects diagnostics and the environment variables it names."""

    def __init__(self, document: Document, environment: Mapping[str, str], *, permit_timeout_allow: bool) -> None:
        self.document = document
        self.environment = environment
        self.permit_timeout_allow = permit_timeout_allow
        self.version = "1.0"
        self.diagnostics: list[Diagnostic] = []
        self.variables: set[str] = set()

    def error(self, code: str, path: KeyPath, message: str) -> None:
        """Report a diagnostic at `path`."""
        self.diagnostics.append(self.document.error(code, path, message))

    def path(self, text: str, where: KeyPath) -> Path:
        """Compile a JSONPath."""
        try:
            return compile_path(text)
        except BadPath as problem:
            self.error("BAD_JSONPATH", where, str(problem))
            return _FALLBACK

    def entry(
        self, model: Model, where: KeyPath, *, path: str | None = None, skip: Iterable[str] = ()
    ) -> CompiledEntry | None:
        """Compile an entry with operators. None if it has an error."""
        operators = said(model, frozenset({"path", *skip}))
        text = path if path is not None else str(model.model_dump()["path"])
        negated = operators.get("not", {})
        if not operators or ("not" in operators and not negated):
            self.error("NO_OPERATOR", where if not operators else (*where, "not"), "says no operator")
            return None
        if not self.knows(model, where):
            return None
        self.variables.update(item["equals_env"] for item in (operators, negated) if "equals_env" in item)
        compiled = self.path(text, (*where, "path"))
        for item, here in ((operators, where), (negated, (*where, "not"))):
            if "equals_arg" in item and not self._relates(compiled, item["equals_arg"], (*here, "equals_arg")):
                return None
        try:
            return CompiledEntry(compiled, operators, self.environment)
        except BadPattern as problem:
            at = "regex" if "regex" in operators else "not"
            self.error("BAD_REGEX", (*where, at), str(problem))
        except BadOperand as problem:
            at = problem.operator if problem.operator in operators else "not"
            self.error("BAD_OPERAND", (*where, at), str(problem))
        return None

    def _relates(self, path: Path, other: str, where: KeyPath) -> bool:
        """Whether an argument is compared with another one, at a readable path."""
        try:
            same = compile_path(other).normal == path.normal
        except BadPath as problem:
            self.error("BAD_JSONPATH", where, str(problem))
            return False
        if same:
            self.error("BAD_OPERAND", where, "is the path itself; name another argument")
        return not same

    def knows(self, model: Model, where: KeyPath) -> bool:
        """Whether the version of the contract has the operators of an entry."""
        newer = model.model_fields_set & getattr(model, "SINCE_1_1", frozenset())
        if self.version != "1.0" or not newer:
            return True
        for name in sorted("not" if name == "negated" else name for name in newer):
            message = f'{name!r} needs schema_version: "1.1" at the top of the file'
            self.error("UNKNOWN_OPERATOR", (*where, name), message)
        return False

    def entries(self, models: Iterable[Model], where: KeyPath) -> tuple[CompiledEntry, ...]:
        """Compile a list of entries."""
        compiled = [self.entry(model, (*where, index)) for index, model in enumerate(models)]
        return tuple(entry for entry in compiled if entry is not None)

    def checkpoint(self, model: ToolCheckpoint | NamedCheckpoint, where: KeyPath, name: str) -> CheckpointPlan:
        """Compile a checkpoint, the tool's or the session's."""
        if model.timeout_seconds < 30:
            self.error(
                "CHECKPOINT_TIMEOUT_TOO_SHORT",
                (*where, "timeout_seconds"),
                f"{model.timeout_seconds} is below 30 seconds",
            )
        if model.on_timeout == "allow" and not self.permit_timeout_allow:
            self.error("TIMEOUT_ALLOW_NOT_PERMITTED", (*where, "on_timeout"), "the settings do not permit it")
        if (model.when is None or model.when == []) and model.when_side_effect is None:
            self.error("CHECKPOINT_WITHOUT_TRIGGER", where, "neither when nor when_side_effect")
        conditions = model.when if isinstance(model.when, list) else []
        return CheckpointPlan(
            name=model.name if isinstance(model, NamedCheckpoint) else name,
            always=model.when == "always" and model.when_side_effect is None,
            conditions=self.entries(conditions, (*where, "when")),
            side_effect=model.when_side_effect,
            match_all=model.match == "all",
            timeout_seconds=float(model.timeout_seconds),
            on_timeout=model.on_timeout,
            context=tuple(
                (item.label, self.path(item.path, (*where, "context", index, "path")))
                for index, item in enumerate(model.context)
            ),
        )


def build_tool(scope: Scope, contract: ToolContract, schema: Derived | None) -> ToolParts:
    """Compile one tool. Errors are in `scope.diagnostics`."""
    scope.version = contract.schema_version
    policy = contract.policy
    parts = ToolParts(
        contract=contract,
        document=scope.document,
        manual=_manual(scope, contract),
        derived=_derived(scope, contract, schema),
        refs=_refs(scope, contract),
        output_rules=_output_rules(scope, contract),
        preconditions=_preconditions(scope, contract),
        outputs=scope.entries(contract.assertions.output_invariants, ("assertions", "output_invariants")),
        binds=_binds(scope, contract),
        expected_failures=_expected(scope, contract),
        deny=_rules(scope, [] if policy is None else policy.deny, "deny"),
        allow=_rules(scope, [] if policy is None else policy.allow, "allow"),
        checkpoint=None
        if contract.checkpoint is None
        else scope.checkpoint(contract.checkpoint, ("checkpoint",), f"tool:{contract.tool}"),
    )
    _simple_checks(scope, contract)
    parts.variables = scope.variables
    parts.schema = schema
    return parts


def _simple_checks(scope: Scope, contract: ToolContract) -> None:
    """Compile everything that needs no other file."""
    named: list[tuple[KeyPath, str | None]] = [
        (("tool",), contract.tool),
        *((("forbids_after", index), name) for index, name in enumerate(contract.forbids_after)),
        *(
            (("preconditions", index, "requires_prior_tool"), item.requires_prior_tool)
            for index, item in enumerate(contract.preconditions)
        ),
    ]
    for where, name in named:
        if name is None or not name.endswith(WILDCARD):
            continue
        if contract.schema_version == "1.0":
            scope.error("BAD_WILDCARD", where, 'a wildcard needs schema_version: "1.1" at the top of the file')
        if name.startswith(OURS):
            scope.error("BAD_WILDCARD", where, "backends are named one by one")
    if scope.document.file.rpartition("/")[2] != f"{contract.tool}.yaml":
        scope.error("TOOL_NAME_MISMATCH", ("tool",), f"{contract.tool!r} belongs into {contract.tool}.yaml")
    if contract.evidence_class == "ack_only" and contract.side_effect in (
        "destructive",
        "admin",
        "financial",
    ):
        scope.error("ACK_ONLY_ON_HIGH_RISK", ("evidence_class",), f"not with side_effect {contract.side_effect}")
    if contract.timeouts.total_ms <= 0:
        scope.error("LIMIT_NOT_POSITIVE", ("timeouts", "total_ms"), "must be above zero")
    if contract.retries.max_attempts < 1:
        scope.error("LIMIT_NOT_POSITIVE", ("retries", "max_attempts"), "must be at least 1")
    if contract.retries.max_attempts > 1 and contract.side_effect != "read":
        scope.error("RETRIES_ABOVE_READ", ("retries", "max_attempts"), f"side_effect is {contract.side_effect}")
    cases = [case.id for case in contract.golden_cases]
    for index, case in enumerate(contract.golden_cases):
        if case.id in cases[:index]:
            scope.error("DUPLICATE_NAME", ("golden_cases", index, "id"), f"{case.id!r} stands twice")
        if (case.arguments is None) == (case.input_ref is None):
            scope.error("MISSING_FIELD", ("golden_cases", index), "give arguments or input_ref, and one of them")
    for index, failure in enumerate(contract.allowed_errors):
        if failure.status is None and failure.exit_code is None and failure.stderr_regex is None:
            scope.error("MISSING_FIELD", ("allowed_errors", index), "give status, exit_code or stderr_regex")
    if (
        contract.implements is not None
        and contract.implements.argv_prefix is None
        and contract.implements.code_sha256 is None
    ):
        scope.error("MISSING_FIELD", ("implements",), "give argv_prefix or code_sha256")
    known_by_name = contract.tool.startswith(OURS) or SERVED.fullmatch(contract.tool)
    if contract.implements is None and not known_by_name:
        scope.error("NO_IMPLEMENTS", ("tool",), "no request can name this tool (plays can)")


def _manual(scope: Scope, contract: ToolContract) -> tuple[ArgumentCheck, ...]:
    """argument_value_invariants, execution_constraints and input_invariants, in the order of
    docs/spec/4-contracts.md.
    """
    checks = []
    for index, invariant in enumerate(contract.argument_value_invariants):
        where = ("argument_value_invariants", index)
        if invariant.tolerance is not None and invariant.ref is None:
            scope.error("TOLERANCE_WITHOUT_REF", (*where, "tolerance"), "there is no ref beside it")
            continue
        by_session = {"ref", "tolerance", "from_output"}
        if invariant.negated is not None and invariant.negated.from_output is not None:
            by_session.add("negated")
        if invariant.model_fields_set <= {"path", *by_session} and by_session & invariant.model_fields_set:
            continue
        entry = scope.entry(invariant, where, skip=by_session)
        if entry is not None:
            checks.append(ArgumentCheck("argument_invariant", entry))
    constraints = contract.execution_constraints
    if constraints is not None:
        found = scope.entries(constraints.arguments, ("execution_constraints", "arguments"))
        checks.extend(ArgumentCheck("execution_constraint", entry) for entry in found)
    found = scope.entries(contract.assertions.input_invariants, ("assertions", "input_invariants"))
    checks.extend(ArgumentCheck("input_invariant", entry) for entry in found)
    return tuple(checks)


def _derived(scope: Scope, contract: ToolContract, schema: Derived | None) -> tuple[ArgumentCheck, ...]:
    """Rules from the tool's JSON Schema, unless a manual invariant or an exclusion covers the path."""
    excluded = [
        scope.path(text, ("schema_derived_exclude", index))
        for index, text in enumerate(contract.schema_derived_exclude)
    ]
    if schema is None:
        return ()
    spoken = [
        scope.path(item.path, ("argument_value_invariants", index, "path"))
        for index, item in enumerate(contract.argument_value_invariants)
    ]
    manual = {path.normal for path in (*spoken, *excluded)}
    return tuple(
        ArgumentCheck("argument_invariant", entry, " (from the tool's schema)")
        for entry in schema.entries
        if entry.path.normal not in manual
    )


def _refs(scope: Scope, contract: ToolContract) -> tuple[RefPlan, ...]:
    return tuple(
        RefPlan(
            scope.path(item.path, ("argument_value_invariants", index, "path")),
            item.ref,
            None if item.tolerance is None else exact(item.tolerance),
        )
        for index, item in enumerate(contract.argument_value_invariants)
        if item.ref is not None
    )


def _output_rules(scope: Scope, contract: ToolContract) -> tuple[OutputRule, ...]:
    """The rules about what earlier calls returned, and must not have returned."""
    rules = []
    for index, item in enumerate(contract.argument_value_invariants):
        where: KeyPath = ("argument_value_invariants", index)
        denied = None if item.negated is None else item.negated.from_output
        for source, at in (
            (item.from_output, (*where, "from_output")),
            (denied, (*where, "not", "from_output")),
        ):
            if source is None or not scope.knows(item, where):
                continue
            if source is denied and item.negated is not None and len(item.negated.model_fields_set) > 1:
                scope.error("BAD_OPERAND", at, "stands alone in its `not`; give the others an entry each")
            path = scope.path(source.path, (*at, "path"))
            plan = OutputSourcePlan(f"{source.tool} {source.path}", source.tool, path)
            rules.append(OutputRule(scope.path(item.path, (*where, "path")), plan, source is denied))
    return tuple(rules)


def _preconditions(scope: Scope, contract: ToolContract) -> tuple[PreconditionPlan, ...]:
    plans = []
    for index, item in enumerate(contract.preconditions):
        where = ("preconditions", index)
        if (item.requires_prior_tool is None) == (item.requires_step_count is None):
            scope.error("PRECONDITION_EMPTY", where, "names one of requires_prior_tool, requires_step_count")
            continue
        if item.requires_step_count is not None and (item.with_output or item.resource):
            scope.error("PRECONDITION_EMPTY", where, "with_output and resource belong to requires_prior_tool")
            continue
        if item.requires_step_count is not None and item.requires_step_count.gte < 1:
            scope.error("LIMIT_NOT_POSITIVE", (*where, "requires_step_count", "gte"), "must be at least 1")
        resource = item.resource
        plans.append(
            PreconditionPlan(
                key=f"{contract.tool}#{index}",
                tool=item.requires_prior_tool,
                with_output=scope.entries(item.with_output or [], (*where, "with_output")),
                resource=None if resource is None else scope.path(resource.path, (*where, "resource", "path")),
                bind_from="arguments" if resource is None else resource.bind_from,
                steps=None if item.requires_step_count is None else item.requires_step_count.gte,
            )
        )
    return tuple(plans)


def _binds(scope: Scope, contract: ToolContract) -> tuple[BindPlan, ...]:
    for index, bind in enumerate(contract.binds):
        if bind.source == "output" and contract.evidence_class == "unverifiable":
            scope.error("BIND_NEVER_OBSERVED", ("binds", index), "evidence_class is unverifiable")
    return tuple(
        BindPlan(bind.name, bind.source, scope.path(bind.path, ("binds", index, "path")))
        for index, bind in enumerate(contract.binds)
    )


def _expected(scope: Scope, contract: ToolContract) -> tuple[ExpectedFailure, ...]:
    plans = []
    for index, item in enumerate(contract.allowed_errors):
        search = None
        if item.stderr_regex is not None:
            try:
                search = compile_pattern(item.stderr_regex)
            except BadPattern as problem:
                scope.error("BAD_REGEX", ("allowed_errors", index, "stderr_regex"), str(problem))
        plans.append(ExpectedFailure(item.status, item.exit_code, search, item.reason))
    return tuple(plans)


def _rules(scope: Scope, rules: Iterable[Any], name: str) -> tuple[CompiledEntry, ...]:
    compiled = [scope.entry(rule.principal, ("policy", name, index, "principal")) for index, rule in enumerate(rules)]
    return tuple(entry for entry in compiled if entry is not None)
