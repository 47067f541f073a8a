"""docs/events.md: every kind of event of the trail, with each key of its data. Made from the classes of
threegate/trail/payloads.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields

from threegate.trail.event import known_kinds
from threegate.trail.payloads import ContractMove, Uses
from threegate.trail.payloads.payload import Fields
from threegate.trail.payloads.run_events import JudgedContract, TakenPart

_TYPES = {
    "str": "text",
    "int": "integer",
    "bool": "true or false",
    "tuple[str, ...]": "list of texts",
    "tuple[int, ...]": "list of integers",
    "Mapping[str, str]": "object, text to text",
    "Mapping[str, str | None]": "object, text to text or null",
    "tuple[JudgedReason, ...]": "list of objects: `code`, `path`",
    "ContractMove": "object, see [the call](#the-call-of-a-contract)",
    "Signature": "object: `nonce`, `key` (fingerprint), `act_sha256`",
    "JudgedContract": "object, see [the verdict](#the-verdict-of-the-contracts)",
    "Uses": "object, see [what a request uses](#what-a-request-uses)",
    "TakenPart": "object, see [the part](#the-part-of-a-change)",
}


def events_page() -> str:
    """The whole page, ending with a newline."""
    lines = [
        "# Every kind of event",
        "",
        "This page lists every kind of event in the trail, with the keys of its `data`.",
        "",
        "[The specification](spec/7-trail-and-results.md) describes the other keys of a line. A key that is not marked",
        "*always* may be missing or null. `scripts/generate_docs.py` makes this page.",
    ]
    for kind, payload in sorted(known_kinds().items()):
        lines += ["", f"## `{kind}`", "", *_described(payload)]
    lines += ["", "## The call of a contract", "", *_described(ContractMove)]
    lines += ["", "## The verdict of the contracts", "", *_described(JudgedContract)]
    lines += ["", "## What a request uses", "", *_described(Uses)]
    lines += ["", "## The part of a change", "", *_described(TakenPart)]
    return "\n".join(lines) + "\n"


def _described(cls: type[Fields]) -> Iterator[str]:
    yield f"{inspect.getdoc(cls)}"
    meanings = _meanings(cls)
    rows = [
        f"| `{item.name.rstrip('_')}` | {_type(str(item.type))}{', always' if item.default is MISSING else ''}"
        f" | {meanings.get(item.name, '')} |"
        for item in fields(cls)  # type: ignore[arg-type]
    ]
    if rows:
        yield from ("", "| key | value | meaning |", "|---|---|---|", *rows)


def _type(annotation: str) -> str:
    return _TYPES[annotation.removesuffix(" | None")]


def _meanings(cls: type[Fields]) -> dict[str, str]:
    """The text under each field, also of the classes that it has them from."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for field, text in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                words = ast.literal_eval(text.value).split()  # a cell of a table is one line
                found[ast.unparse(field.target)] = " ".join(words).replace("``", "`")
    return found
