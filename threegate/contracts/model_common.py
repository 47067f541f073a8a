"""Parts shared by all three files: bounded names, numbers, paths and the entries with operators.

Invariant: a model accepts exactly the fields of the contract YAML format and its named extensions; an unset
field is absent (`model_fields_set`), so `equals: null` is a rule and a missing `equals` is not. A model that
`problems` finds nothing wrong with can be decided by: what is derived from its fields is compiled once, as a
`cached_property`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, ConfigDict, Field, StrictFloat, StrictInt, ValidationInfo

from threegate.contracts.comparisons import Entry, Variable
from threegate.contracts.document import KeyPath
from threegate.contracts.json_paths import BadPath
from threegate.contracts.path_compiler import Path, compile_path
from threegate.core import limits
from threegate.core.json_operators import BadPattern
from threegate.core.record import Record, without_null
from threegate.request.strict_texts import BadOperand

SideEffect = Literal["read", "write", "destructive", "admin", "financial"]
JsonType = Literal["string", "number", "integer", "boolean", "object", "array"]
Number = StrictInt | StrictFloat
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$")]
ToolPattern = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,128}(\.\*)?$")]
"""A tool or, in version 1.1, all tools below a name without their own contract: ``github.*``."""
JsonPath = Annotated[str, Field(description="JSONPath (RFC 9535), for example $.field")]
Reason = Annotated[str, Field(min_length=1, max_length=limits.CONTRACT_REASON_CHARS)]


Problem = tuple[str, KeyPath, str]
"""A diagnostic's code, its place below the model that reports it, and its message."""


class Terms(NamedTuple):
    """What a file and the settings decide about every part of the file."""

    version: str
    permit_timeout_allow: bool


class Model(Record):
    """Base of all contract models."""

    model_config = ConfigDict(json_schema_extra=without_null)

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """What is wrong with this part beyond the types of its fields; parts in it report their own."""
        return iter(())

    def parts(self, where: KeyPath = ()) -> Iterator[tuple[KeyPath, Model]]:
        """This part and all parts in it, each with its place."""
        yield where, self
        for name in self.model_fields_set:  # what the file does not set has its default, and nothing wrong with it
            yield from _parts_of(getattr(self, name), (*where, type(self).model_fields[name].alias or name))

    def not_positive(self, *names: str) -> Iterator[Problem]:
        """A problem for each of these fields that is a number of zero or less."""
        for name in names:
            number = getattr(self, name)
            if number is not None and number <= 0:
                yield "LIMIT_NOT_POSITIVE", (name,), "must be above zero"


def _parts_of(value: Any, where: KeyPath) -> Iterator[tuple[KeyPath, Model]]:
    if isinstance(value, Model):
        yield from value.parts(where)
    elif isinstance(value, list | dict):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _parts_of(item, (*where, key))


def repeated(names: list[str], where: KeyPath, key: str = "name") -> Iterator[Problem]:
    """A problem for each name that occurred before in its list."""
    for index, name in enumerate(names):
        if name in names[:index]:
            yield "DUPLICATE_NAME", (*where, index, key), f"{name!r} occurs twice"


def path_problems(path: str, where: KeyPath) -> Iterator[Problem]:
    """A problem if a path does not compile."""
    try:
        compile_path(path)
    except BadPath as problem:
        yield "BAD_JSONPATH", where, str(problem)


def said(model: Model, without: frozenset[str]) -> dict[str, Any]:
    """The operators that an entry really says, by name and sorted; what is in `not` as such a mapping."""
    found = {name: getattr(model, name) for name in sorted(model.model_fields_set - without)}
    if "negated" in found:
        found["not"] = said(found.pop("negated"), frozenset())
    return found


class Located(Model):
    """A part with a path."""

    path: JsonPath

    @cached_property
    def at(self) -> Path:
        """The compiled path. Raises BadPath."""
        return compile_path(self.path)

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """A path that does not compile."""
        return path_problems(self.path, ("path",))


class Judged(Located):
    """A path with operators, which must all hold."""

    @cached_property
    def operators(self) -> dict[str, Any]:
        """The operators of the value at the path, by name."""
        return said(self, frozenset({"path"}))

    @cached_property
    def entry(self) -> Entry:
        """The compiled path and operators. Raises BadPath, BadPattern, BadOperand."""
        return Entry(self.at, self.operators)

    def newer(self, terms: Terms) -> Iterator[Problem]:
        """Operators that the version of the file does not have yet."""
        names = self.model_fields_set & getattr(self, "SINCE_1_1", frozenset()) if terms.version == "1.0" else ()
        for name in ("not" if name == "negated" else name for name in names):
            message = f'{name!r} needs schema_version: "1.1" at the top of the file'
            yield "UNKNOWN_OPERATOR", (name,), message

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """What keeps the entry from being compiled."""
        # Each check needs that the ones before it found nothing, so one mistake is reported as one error.
        negated = self.operators.get("not")
        if not self.operators or negated == {}:
            yield "NO_OPERATOR", ("not",) if self.operators else (), "has no operator"
            return
        found = [*self.newer(terms)] or [*super().problems(terms)] or [*self._related()]
        yield from found
        if found:
            return
        try:
            Entry(self.at, self.operators)
        except BadPattern as problem:
            yield "BAD_REGEX", ("regex" if "regex" in self.operators else "not",), str(problem)
        except BadOperand as problem:
            at = problem.operator if problem.operator in self.operators else "not"
            yield "BAD_OPERAND", (at,), str(problem)

    def _related(self) -> Iterator[Problem]:
        """Arguments to compare with that are at no path, or are the value itself."""
        for operators, at in ((self.operators, ()), (self.operators.get("not", {}), ("not",))):
            if "equals_arg" not in operators:
                continue
            try:
                same = compile_path(operators["equals_arg"]).normal == self.at.normal
            except BadPath as problem:
                yield "BAD_JSONPATH", (*at, "equals_arg"), str(problem)
                continue
            if same:
                yield "BAD_OPERAND", (*at, "equals_arg"), "is the path itself; name another argument"


def _looked_up(name: str, info: ValidationInfo) -> str:
    """The name with the variable's value, which the compiler passes as the validation's context."""
    found = Variable(name)
    found.value = (info.context or {}).get(name)
    return found


EnvironmentName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"), AfterValidator(_looked_up)]


class Operators(Model):
    """The operators on one value."""

    equals: Any = Field(default=None, description="deep JSON equality")
    type: JsonType | None = Field(default=None, description="JSON type; 1.0 is an integer, as in JSON Schema")
    contains: str | None = Field(default=None, description="text within a text, or an entry of a list")
    one_of: list[Any] | None = Field(default=None, description="the value is one of these")
    regex: str | None = Field(default=None, description="RE2 pattern, searched, not anchored")
    gte: Number | None = Field(default=None, description="number, at least")
    lte: Number | None = Field(default=None, description="number, at most")
    length_gte: int | None = Field(default=None, ge=0, description="length of a text or list, at least")
    length_lte: int | None = Field(default=None, ge=0, description="length of a text or list, at most")
    equals_env: EnvironmentName | None = Field(default=None, description="equals that environment variable")


class Condition(Judged, Operators):
    """A path and the full set of operators; several operators in one entry must all hold."""

    exists: bool = Field(default=True, description="whether something other than null is at the path")


class ValueInvariant(Judged):
    """An argument rule: the subset of operators, and `ref` to a slot that was bound earlier."""

    exact_match: str | None = Field(default=None, description="exactly this text")
    type: JsonType | None = Field(default=None, description="JSON type; 1.0 is an integer, as in JSON Schema")
    regex: str | None = Field(default=None, description="RE2 pattern, searched, not anchored")
    one_of: list[Any] | None = Field(default=None, description="the value is one of these")
    gte: Number | None = Field(default=None, description="number, at least")
    lte: Number | None = Field(default=None, description="number, at most")
    ref: str | None = Field(default=None, description="equals the value bound to that slot")
    tolerance: Number | None = Field(default=None, ge=0, description="relative nearness to the ref")


class TriggerCondition(Judged):
    """A condition of a checkpoint."""

    gte: Number | None = Field(default=None, description="number, at least")
    lte: Number | None = Field(default=None, description="number, at most")
    equals: Any = Field(default=None, description="deep JSON equality")
    one_of: list[Any] | None = Field(default=None, description="the value is one of these")


class ContextField(Located):
    """What is shown to the person who answers a checkpoint."""

    label: Annotated[str, Field(min_length=1, max_length=limits.CONTRACT_LABEL_CHARS)]


WHEN: Final = "`always`, or conditions on the arguments"


class Checkpoint(Model):
    """When a person must decide before the call may run."""

    when: Literal["always"] | Sequence[Judged] | None = Field(default=None, description=WHEN)
    when_side_effect: SideEffect | None = Field(default=None, description="every tool of that side effect")
    match: Literal["any", "all"] = Field(default="any", description="any or all conditions trigger")
    timeout_seconds: Number = Field(description="how long an answer is waited for, and holds; at least 30")
    on_timeout: Literal["deny", "allow"] = Field(default="deny", description="what silence means")
    context: list[ContextField] = Field(default=[], description="shown to the person who decides")

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """A timeout that nobody can keep, consent by silence, and a checkpoint that nothing triggers."""
        if self.timeout_seconds < 30:
            message = f"{self.timeout_seconds} is below 30 seconds"
            yield "CHECKPOINT_TIMEOUT_TOO_SHORT", ("timeout_seconds",), message
        if self.on_timeout == "allow" and not terms.permit_timeout_allow:
            yield "TIMEOUT_ALLOW_NOT_PERMITTED", ("on_timeout",), "the settings do not permit it"
        if not self.when and self.when_side_effect is None:
            yield "CHECKPOINT_WITHOUT_TRIGGER", (), "neither when nor when_side_effect"

    def triggered(self, side_effect: str, arguments: Any) -> bool:
        """Whether a call with these arguments must wait for a person; a condition that cannot be judged holds."""
        if self.when_side_effect is None and self.when == "always":
            return True
        if self.when_side_effect == side_effect:
            return True
        conditions = self.when if isinstance(self.when, list) else []
        matches = [item.entry.matches(arguments) for item in conditions]
        return bool(matches) and (all(matches) if self.match == "all" else any(matches))


class NamedCheckpoint(Checkpoint):
    """A checkpoint of the session."""

    name: Name
    tool: str = Field(description='the tool, or "*"')
    when: Literal["always"] | list[TriggerCondition] | None = Field(default=None, description=WHEN)


class PrincipalRule(Model):
    """To whom a rule applies."""

    principal: Condition
    tools: list[str] | None = Field(default=None, description="only these tools")
