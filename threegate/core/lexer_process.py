"""The process that runs lexers: foreign text in, the same text in coloured pieces out. Started by `syntax_colours.py`.

Invariant: it gets nothing but a pair of pipes, and what it answers is checked by who asked. Each request and each
answer is one line of JSON: `[lexer, text]`, and `[[style, piece], …]`; `[lexer, ""]` loads a lexer.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final, TextIO

from threegate.core import limits

_STYLES: Final = (
    ("Token.Comment", "comment"),
    ("Token.Literal.String", "string"),
    ("Token.Literal.Number", "number"),
    ("Token.Keyword", "keyword"),
    ("Token.Operator.Word", "keyword"),
    ("Token.Name.Tag", "keyword"),
    ("Token.Name.Function", "name"),
    ("Token.Name.Class", "name"),
    ("Token.Name.Builtin", "name"),
    ("Token.Name.Decorator", "name"),
)
"""What kinds of tokens begin with, and their style; the others have none."""


def pieces(lexer: Any, text: str) -> Iterator[tuple[str, str]]:
    """Style and text of each piece; neighbours of one style are one."""
    styled = ((_style(repr(kind)), value) for kind, value in lexer.get_tokens(text))
    for style, found in groupby(styled, key=lambda token: token[0]):
        yield style, "".join(value for _, value in found)


def _style(kind: str) -> str:
    return next((style for begin, style in _STYLES if kind.startswith(begin)), "")


def answer(source: TextIO, target: TextIO) -> None:
    """Answer each request, until there are no more. An error ends the process, and what was asked stays plain."""
    from pygments.lexers import get_lexer_by_name

    lexers: dict[str, Any] = {}
    for line in source:
        name, text = json.loads(line)
        if name not in lexers:
            lexers[name] = get_lexer_by_name(name, stripnl=False, ensurenl=False)
        target.write(json.dumps(list(pieces(lexers[name], text))) + "\n")
        target.flush()


def main() -> None:
    """Limit this process and answer."""
    for what, most in (
        (resource.RLIMIT_CPU, limits.COLOUR_CPU_SECONDS),
        (resource.RLIMIT_AS, limits.COLOUR_MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))
    answer(sys.stdin, sys.stdout)


if __name__ == "__main__":
    main()
