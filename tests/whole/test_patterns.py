"""Patterns mean the same under every Python that we run on."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import threegate

_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^]\\])*\]|\\.")
_POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{[0-9,]+\})\+")


def test_no_group_is_possessive() -> None:
    """Before Python 3.11.5 such a group may match too little (CPython issue 106052); Debian 12 has 3.11.2."""
    assert re.match(r"(?>(?:[ \n]++|:(?!x))*)", ": {") and _POSSESSIVE_GROUP.search(_CLASS.sub("x", r"(?:a|[)])*+"))
    found = [
        f"{path.name}:{node.lineno}"
        for path in Path(threegate.__file__).parent.rglob("*.py")
        if ")" in (text := path.read_text()) and re.search(r"\)[*+?}0-9,{]+\+", text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _POSSESSIVE_GROUP.search(_CLASS.sub("x", node.value))
    ]
    assert found == [], "write (?>(?:…)*) in place of (?:…)*+"
