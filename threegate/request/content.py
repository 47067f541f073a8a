"""Rules for the whole file: what may stand in no part of a request, prose or code."""

from __future__ import annotations

from collections.abc import Collection

from threegate.request.problem import Problem
from threegate.secretscan import find_secrets


def check_content(text: str, *, skip: Collection[int] = ()) -> tuple[Problem, ...]:
    """Problems of a whole file's text. Lines in `skip` (from 1) were read by a closer reader and are only
    looked through for secrets. Never raises; linear time."""
    problems = []
    for found in find_secrets(text):
        line = text.count("\n", 0, found.start) + 1
        column = found.start - text.rfind("\n", 0, found.start)
        problems.append(
            Problem("TG501", line, column, f"a secret stands here ({found.kind}); remove and revoke it")
        )
    return tuple(problems)
