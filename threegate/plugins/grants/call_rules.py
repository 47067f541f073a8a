"""From an operator's rules for a tool's arguments to the parts of a grant, with one call that it covers.

Invariant: no argument is left open implicitly: each one that the schema names has a constraint, may have any
value of its one type, or must be absent. The schema is untrusted: it only decides which types and names need
a rule, and its evaluation is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from threegate.approval.ssh_wire import MalformedError
from threegate.core import limits
from threegate.core.errors import Refused
from threegate.core.json_operators import first_match
from threegate.plugins.grants.constraint import Constraint, Kind, kind_of
from threegate.plugins.grants.widened import ARGUMENTS, Widened, split_written
from threegate.plugins.tools.argument_schema import why_unfit

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KINDS: Final[tuple[Kind, ...]] = ("string", "integer", "number", "boolean")
_ALTERNATIVES: Final = ("anyOf", "oneOf", "allOf")
_PLAIN: Final[Mapping[Kind, tuple[Any, ...]]] = {
    "string": ("text", "a", "1"),
    "integer": (1, 0),
    "number": (1, 0),
    "boolean": (True, False),
}

Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CallRules:
    """What may differ between the calls that a grant covers, and one of these calls."""

    widened: tuple[Widened, ...]
    absent: tuple[str, ...]
    """Names of arguments that must be absent, as written."""
    example: Mapping[str, Any]
    """Arguments of a call that satisfy every constraint."""


def read_rules(schema: Node, *, where: Sequence[str], any_of: Sequence[str], absent: Sequence[str]) -> CallRules:
    """Read ``ARG OPERATOR OPERAND``, and the names of arguments that may have any value or must be absent.

    `schema` is the tool's pinned one. Raises Refused (grant_mismatch).
    """
    written = split_written([f"{ARGUMENTS}{text}" for text in (*where, *(f"{name} any" for name in any_of))])
    if len(written) > limits.GRANT_PARTS:
        raise _mismatch(f"at most {limits.GRANT_PARTS} arguments can be left open")
    tree: dict[str, Any] = {}
    widened = []
    for part, text in sorted(written.items()):
        path = part.split(".")[1:]
        if not all(map(_NAME.fullmatch, path)):
            raise _mismatch(f"{part}: not the name of an argument; write names and indexes as a.b.0")
        nodes = _at(schema, path)
        item = _widened(part, _types(schema, nodes), text)
        _put(tree, path, _example(schema, nodes, item))
        widened.append(item)
    _refuse_unsaid(schema, tree, absent)
    return CallRules(tuple(widened), tuple(absent), {name: _made(value) for name, value in tree.items()})


def _widened(part: str, types: frozenset[str], text: str) -> Widened:
    """The type is the one that the rule and the schema both allow."""
    kinds = [kind for kind in _KINDS if not types or kind in types]
    name = part.removeprefix(ARGUMENTS)
    if not kinds:
        raise _mismatch(f"{name}: is an {'/'.join(sorted(types))} in the tool's schema; name what is below it")
    try:
        return Widened.of(part, Constraint.read(text, kinds if types else ()))
    except MalformedError as error:
        raise _mismatch(f"{name}: {error}") from None


def _example(schema: Node, nodes: Sequence[Node], item: Widened) -> Any:
    """A value that satisfies the constraint and that the schema does not refuse. Raises Refused."""
    # What a node may refer to, in the place where references are resolved; `properties` alone does not
    # constrain a leaf.
    definitions = {name: schema[name] for name in ("$defs", "definitions", "properties") if name in schema}
    for value in (*_hints(_variants(schema, nodes)), *_samples(item)):
        if item.takes(value) and (
            not nodes or any(why_unfit({**definitions, "allOf": [node]}, value) is None for node in nodes)
        ):
            return value
    raise _mismatch(
        f"{item.part.removeprefix(ARGUMENTS)}: no value was found that both the constraint and the tool's schema take; "
        "write it as a list, as a range, or with *"
    )


def _hints(nodes: Iterable[Node]) -> Iterator[Any]:
    """Values that the schema itself names."""
    for node in nodes:
        for name in ("const", "default", "minimum", "maximum"):
            if name in node:
                yield node[name]
        for name in ("enum", "examples"):
            if isinstance(node.get(name), list):
                yield from node[name]
        if isinstance(node.get("pattern"), str):
            yield first_match(node["pattern"])
        if type(size := node.get("minLength")) is int and size <= limits.GRANT_WORD_CHARS:
            yield "x" * size


def _samples(item: Widened) -> Iterator[Any]:
    """Values that may satisfy a constraint; the closest to what was written come first."""
    operators = item.constraint.operators
    if not operators:
        yield from _PLAIN[item.constraint.kind]
    for name, operand in operators.items():
        if name == "one_of":
            yield from operand
        elif name in ("equals", "gte"):
            yield operand
        elif name == "regex":
            yield first_match(operand)
            yield _spelled_out(operand)
        for text in operand if isinstance(operand, list) else [operand]:
            if isinstance(text, str):
                if name == "under":
                    yield f"{text.removesuffix('/')}/x"
                yield re.sub(r"\*+|\?", "x", text)
                yield re.sub(r"\*+|\?", "1", text)
                yield f"x@{text.replace('*', 'x')}"


def _spelled_out(pattern: str) -> str:
    """A text that matches many patterns: the first of each choice and class, repeated as often as required.
    Only a guess.
    """
    text = re.sub(r"\((?:\?:)?([^()|]*)[^()]*\)", r"\1", pattern)
    text = re.sub(r"\[\\?(.)[^]]*\]", r"\1", text)
    text = re.sub(r"\\(.)", lambda found: {"d": "0", "w": "a"}.get(found[1], found[1]), text)
    text = re.sub(
        r"(.)\{([0-9]{1,2})(?:,[0-9]*)?\}", lambda found: found[1] * int(found[2]), text[: limits.GRANT_WORD_CHARS]
    )
    return re.sub(r"[*+?^$]", "", text)


def _put(tree: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Insert a leaf into a tree of objects, shorter paths first. Raises Refused below another leaf."""
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            raise _mismatch(f"{'.'.join(path)}: {name} has a constraint itself; name one or the other")
    tree[path[-1]] = value


def _made(value: Any) -> Any:
    """The tree with lists where all names are indexes. Raises Refused for a list with a gap."""
    if not isinstance(value, dict):
        return value
    if all(name.isdigit() for name in value):
        if set(value) != {str(place) for place in range(len(value))}:
            raise _mismatch("places of a list count from 0, without a gap")
        return [_made(value[str(place)]) for place in range(len(value))]
    return {name: _made(item) for name, item in value.items()}


def _refuse_unsaid(schema: Node, tree: Mapping[str, Any], absent: Sequence[str]) -> None:
    """Raises Refused if an argument named in the schema has no rule, or if a present one was declared
    absent.
    """
    objects: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [((), tree)]
    unsaid, there = [], set()
    for path, object_ in objects:
        names = {
            name: None for node in _variants(schema, _at(schema, path)) for name in _mapping(node.get("properties"))
        }
        unsaid += [".".join((*path, name)) for name in names if name not in object_]
        there |= {".".join((*path, name)) for name in object_}
        objects += [((*path, name), value) for name, value in object_.items() if isinstance(value, dict)]
    for name in absent:
        if name in there:
            raise _mismatch(f"{name}: is declared absent and has a rule; choose one")
    left = [name for name in unsaid if name not in absent]
    if left:
        raise _mismatch(f"{', '.join(left[:8])}: has no rule; give it one with --where, --any or --absent")


def _at(schema: Node, path: Sequence[str]) -> list[Node]:
    """The schema's nodes for a value at a path; none if it names no such value."""
    nodes: list[Node] = [schema]
    for name in path:
        nodes = [below for node in _variants(schema, nodes) for below in _below(node, name)]
    return nodes


def _below(node: Node, name: str) -> Iterator[Node]:
    found = _mapping(node.get("properties")).get(name)
    if found is None and name.isdigit():
        listed = node.get("prefixItems")
        first = listed[int(name)] if isinstance(listed, list) and len(name) < 4 and int(name) < len(listed) else None
        found = node.get("items") if first is None else first
    if isinstance(found, dict):
        yield found


def _variants(schema: Node, nodes: Sequence[Node]) -> list[Node]:
    """The nodes with their references and alternatives, unresolved; limited to more than any honest schema
    has.
    """
    return list(islice(_spread(schema, nodes, limits.JSON_DEPTH), limits.TOOL_SCHEMA_NODES))


def _spread(schema: Node, nodes: Iterable[Any], depth: int) -> Iterator[Node]:
    for node in nodes:
        if not isinstance(node, dict) or depth == 0:
            continue
        yield node
        further = [_referred(schema, node.get("$ref"))]
        for name in _ALTERNATIVES:
            listed = node.get(name)
            further += listed if isinstance(listed, list) else []
        yield from _spread(schema, further, depth - 1)


def _referred(schema: Node, reference: Any) -> Any:
    """The node that ``#/$defs/NAME`` names; None for anything else."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: Any = schema
    for name in reference[2:].split("/"):
        found = _mapping(found).get(name)
    return found


def _types(schema: Node, nodes: Sequence[Node]) -> frozenset[str]:
    """The JSON types that a schema allows for a value; empty if it names none."""
    found: set[str] = set()
    for node in _variants(schema, nodes):
        said = node.get("type")
        found |= {name for name in (said if isinstance(said, list) else [said]) if isinstance(name, str)}
        listed = node.get("enum")
        for value in (*(listed if isinstance(listed, list) else ()), *([node["const"]] if "const" in node else ())):
            found.add(kind_of(value) or "null")
    return frozenset(found - {"null"})


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mismatch(message: str) -> Refused:
    return Refused("grant_mismatch", message)
