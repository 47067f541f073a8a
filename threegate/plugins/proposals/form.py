"""The form of a proposal: the published schema, checked with a table instead of a schema interpreter.

Invariant: `check_form(value)` finds no problem exactly if the published schema (formats asserted) accepts
`value`; a property test compares the two. Whether it may become a draft is another question (`rules.py`). Messages
never repeat a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from threegate.core import canonical, limits
from threegate.core.secretscan.scan import mask_secrets
from threegate.plugins.proposals.formats import is_date_time, is_uri
from threegate.plugins.proposals.tools import RISKS, SCHEMA_VERSION, TOOLS, ProposalRisk, ProposalTool, ToolField

_KINDS: Final[Mapping[str, tuple[Any, str]]] = {
    "string": (str, "a string"),
    "strings": (list, "a list of strings"),
    "integer": (int, "a whole number"),
    "boolean": (bool, "true or false"),
}


class FormProblem(NamedTuple):
    """One problem of a proposal: a JSON Pointer, a stable code, one line that says what to do."""

    path: str
    code: str
    message: str


class Proposal(NamedTuple):
    """A proposal whose form is valid. Whole numbers that the schema knows are ints, however they were written."""

    tool: ProposalTool
    args: Mapping[str, Any]
    risk: ProposalRisk | None
    whole: Mapping[str, Any]

    def said(self, key: Literal["id", "source", "task", "reason"]) -> str | None:
        """One of the texts that say who wants it and why; None if it is missing."""
        text: str | None = self.whole.get(key)
        return text


@dataclass(frozen=True, slots=True)
class _Key:
    """What a key of a proposal must contain, and the error if it does not."""

    holds: Callable[[Any], bool]
    code: str
    message: str


_TEXT: Final = _Key(lambda item: type(item) is str, "type", "must be a string")
_KEYS: Final[Mapping[str, _Key | None]] = {
    "schemaVersion": _Key((SCHEMA_VERSION,).__contains__, "version", f'must be "{SCHEMA_VERSION}"'),
    "id": _TEXT,
    "source": _TEXT,
    "task": _TEXT,
    "tool": None,
    "args": None,
    "reason": _TEXT,
    "risk": _Key(RISKS.__contains__, "risk", "must be low, medium, high or critical"),
    "createdAt": _Key(
        lambda item: type(item) is str and is_date_time(item), "date_time", "must be a date and time of RFC 3339"
    ),
}
"""The keys besides tool and args, which `check_form` checks itself."""
_UNKNOWN: Final = _Key(lambda item: False, "unknown_key", "a proposal has no such key; remove it")


def read_json(data: bytes) -> tuple[Any, FormProblem | None]:
    """The JSON value of a proposal's bytes, or the problem that makes it ambiguous or invalid."""
    try:
        value = canonical.loads_strict(data, max_bytes=limits.PROPOSAL_BYTES, max_depth=limits.PROPOSAL_DEPTH)
    except canonical.StrictJSONError as error:
        return None, FormProblem("", "json", f"not JSON with one meaning: {error}")
    return value, None


def check_form(value: Any) -> tuple[Proposal | None, list[FormProblem]]:
    """The proposal, or every violation of the schema in `value`."""
    if type(value) is not dict:
        return None, [FormProblem("", "type", "a proposal is a JSON object")]
    found: list[FormProblem] = []
    get = value.get
    name, args, risk = get("tool"), get("args"), get("risk")
    for key, item in value.items():
        wanted = _KEYS.get(key, _UNKNOWN)
        if wanted is not None and not wanted.holds(item):
            found.append(FormProblem(pointer(key), wanted.code, wanted.message))
    tool = TOOLS.get(name) if type(name) is str else None
    if tool is None:
        text = "names no tool" if "tool" in value else "is missing; name one of the 25 tools"
        found.append(FormProblem("/tool", "tool" if "tool" in value else "missing", text))
    if type(args) is not dict:
        text = "must be an object" if "args" in value else "is missing; an empty object will do"
        found.append(FormProblem("/args", "type" if "args" in value else "missing", text))
        return None, found
    if tool is None:
        return None, found
    clean = args if tool.open else check_arguments(tool, args, found)
    if found:
        return None, found
    return Proposal(tool, clean, risk, value), found


def sound_part(value: Any, problems: list[FormProblem]) -> Proposal | None:
    """The valid parts of an invalid proposal: its tool and the arguments without problems; None without a tool.

    The semantic rules check it, so that all errors are reported at once; it is used for nothing else.
    """
    if type(value) is not dict or type(value.get("tool")) is not str or type(value.get("args")) is not dict:
        return None
    tool = TOOLS.get(value["tool"])
    if tool is None:
        return None
    wrong = {problem.path.split("/")[2] for problem in problems if problem.path.startswith("/args/")}
    args = {key: item for key, item in value["args"].items() if key in tool.fields and key not in wrong}
    risk, task = value.get("risk"), value.get("task")
    known = risk if type(risk) is str and risk in RISKS else None
    return Proposal(tool, args, known, {"task": task} if type(task) is str else {})


def check_arguments(tool: ProposalTool, args: dict[str, Any], found: list[FormProblem]) -> Mapping[str, Any]:
    """The arguments with whole numbers as ints; what is wrong with them is added to `found`."""
    clean = dict(args)
    for key, item in args.items():
        field = tool.fields.get(key)
        if field is None:
            message = f"{tool.name} has no such argument; remove it"
            found.append(FormProblem("/args" + pointer(key), "unknown_key", message))
            continue
        if field.kind == "integer" and type(item) is float and item.is_integer():
            clean[key] = item = int(item)  # 5.0 is a whole number in JSON Schema
        found += [FormProblem(f"/args/{key}{below}", code, text) for below, code, text in _wrong(field, item)]
    missing = [key for key in tool.required if key not in args]
    found += [FormProblem(f"/args/{key}", "missing", f"{tool.name} needs it") for key in missing]
    return clean


def _wrong(field: ToolField, item: Any) -> Iterator[tuple[str, str, str]]:
    """What is wrong with one argument: where below it, the code and the message."""
    kind, named = _KINDS[field.kind]
    if type(item) is not kind:  # not isinstance: true is not a whole number here
        yield "", "type", f"must be {named}"
    elif field.uri and not is_uri(item):
        yield "", "uri", "must be a URI of RFC 3986"
    elif field.kind == "integer" and not field.minimum <= item <= field.maximum:
        yield "", "range", f"must be from {field.minimum} to {field.maximum}"
    elif field.kind == "strings":
        if not field.min_items <= len(item) <= field.max_items:
            yield "", "length", f"must have {field.min_items} to {field.max_items} entries"
        for index, part in enumerate(item):
            if type(part) is not str:
                yield f"/{index}", "type", "must be a string"


def pointer(key: str) -> str:
    """One step of a JSON Pointer (RFC 6901) for a key from outside: printable ASCII, short, without secrets."""
    # A key is foreign text too: it could be a secret, or control the terminal.
    shown = mask_secrets(key).encode("ascii", "backslashreplace").decode()
    plain = "".join(char if " " <= char <= "~" else f"\\x{ord(char):02x}" for char in shown)
    return "/" + plain.replace("~", "~0").replace("/", "~1")[: limits.PROPOSAL_KEY_CHARS]
