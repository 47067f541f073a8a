"""Asks a person, once for each finding, whether agents may see a file with what looks like a secret.

Invariant: what was typed before a question is not an answer to it, and a run that was stopped asks nothing more. An
answer that is not understood is asked for again; without an answer nothing is decided.
"""

from __future__ import annotations

import sys
import termios
from collections.abc import Callable, Sequence
from contextlib import suppress
from select import select
from typing import TYPE_CHECKING, Final

from threegate.cli import invocation

if TYPE_CHECKING:
    from threegate.plugins.agents.file_findings import Finding

LOOK_SECONDS: Final = 0.2
_PATH_CHARS, _KIND_CHARS = 32, 20


def finding_line(found: Finding) -> str:
    """Path, line, kind and masked excerpt of a finding, for people."""
    return f"{found.place:<{_PATH_CHARS}} {found.kind:<{_KIND_CHARS}} {found.excerpt}".rstrip()


def decide_findings(new: Sequence[Finding], stopped: Callable[[], int]) -> dict[str, bool]:
    """What a person decides, digest → whether it is hidden; without the findings that they gave no answer about."""
    hiding = {found.path for found in new if found.hides}
    decided: dict[str, bool] = {}
    for hides, said, question in (
        (True, "these files have secrets, and are hidden from agents:", "Hide"),
        (False, "these files may have secrets, and agents see them:", "Show"),
    ):
        some = [found for found in new if (found.path in hiding) is hides]
        if not some or stopped():
            continue
        invocation.warn(said)
        invocation.put([f"  {finding_line(found)}" for found in some], err=True)
        paths = list(dict.fromkeys(found.path for found in some))
        what = f"these {len(paths)} files" if len(paths) > 1 else paths[0]
        answer = _answer(f"{question} {what}? [Y/n{'/each' if len(paths) > 1 else ''}] ", stopped, len(paths) > 1)
        if answer == "each":
            answers = {path: _answer(f"{question} {path}? [Y/n] ", stopped) for path in paths}
        else:
            answers = dict.fromkeys(paths, answer)
        for found in some:
            if said_ := answers[found.path]:
                decided[found.digest] = hides if said_ == "yes" else not hides
    return decided


def _answer(question: str, stopped: Callable[[], int], each: bool = False) -> str:
    """``yes``, ``no`` or ``each``; empty if the run is stopped, or there is nobody to answer."""
    while not stopped():
        with suppress(termios.error, OSError):
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
        invocation.prompt(question, err=True)
        line = read_line(stopped)
        if not line:
            break
        word = line.strip().lower()
        for answer in ("yes", "no", "each") if each else ("yes", "no"):
            if word in (answer, answer[0]) or (word == "" and answer == "yes"):
                return answer
    return ""


def read_line(stopped: Callable[[], int]) -> str:
    """The line that a person types, with its end; empty if the run is stopped, or the terminal is gone."""
    while not stopped():
        if select([sys.stdin], [], [], LOOK_SECONDS)[0]:
            return sys.stdin.readline()
    return ""
