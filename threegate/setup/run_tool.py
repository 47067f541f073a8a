"""Run another program for a setup command; a failure is one line."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from threegate.core.errors import Unavailable


def run_tool(
    words: Sequence[str], shown: str, *, seconds: float = 900, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it without standard input and wait. Raises Unavailable with `shown` and the last line of its stderr."""
    try:
        answer = subprocess.run(
            words, capture_output=True, text=True, timeout=seconds, env=environment, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{shown.partition(' ')[0]}: could not be run ({type(error).__name__})") from None
    if answer.returncode != 0:
        last = (answer.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise Unavailable(f"{shown}: {last}")
    return answer
