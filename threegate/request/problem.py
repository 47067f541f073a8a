"""A rule's finding in a piece of text, before it is placed in a file.

The readers of commands, code and variables know only the text that they were given; the caller that cut this
text out of a file turns a `Problem` into a `Finding` by adding where the text began.
"""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    """A broken rule and where: `line` and `column` count from 1 in the given text.

    `message` is one line and never repeats a secret.
    """

    rule: str
    line: int
    column: int
    message: str
