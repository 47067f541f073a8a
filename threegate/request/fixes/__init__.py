"""Fixes: for findings with an automatic answer, the lines to change.

Invariant: every offered fix was applied and read again, and its finding is gone; a fix never brings back a
secret, and a file with a secret gets none. Fixes are an offer to the drafter: gate 1 reads the fixed file
from its first byte, and ThreeGate itself applies nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING

from threegate.request.fixes import body_fixes, front_matter_fixes
from threegate.request.fixes.edit import Draft, apply_fixes, split_lines
from threegate.request.reader import read_request
from threegate.request.report import Finding, Fix, Report

if TYPE_CHECKING:
    from threegate.core.settings import RequestSettings

MAKERS = {**front_matter_fixes.MAKERS, **body_fixes.MAKERS}
"""What makes the fixes of each rule that may have some."""
_LEAK = "TG501"
# At these the reader stops, so that fixing one may show the next of its kind, elsewhere.
_STOPPING = frozenset({"TG105", "TG106", "TG108", "TG110", "TG112", "TG113", "TG114"})


def propose_fixes(data: bytes, report: Report, *, settings: RequestSettings, now: datetime) -> tuple[Fix, ...]:
    """The fixes for `report`, which must be the reader's report on exactly these bytes. Never raises.

    Costs a second reading of the file, but nothing if no finding has a fix.
    """
    rules = {finding.rule for finding in report.findings}
    if rules.isdisjoint(MAKERS) or _LEAK in rules:
        return ()
    try:
        return _proposed(data.decode("utf-8"), report, settings, now)
    except Exception:  # noqa: BLE001 - what cannot be fixed stays refused; an offer that fails is none
        return ()


def _proposed(text: str, report: Report, settings: RequestSettings, now: datetime) -> tuple[Fix, ...]:
    draft = Draft(split_lines(text), PurePath(report.path).name, settings, now)
    taken: set[tuple[bool, int]] = set()
    fixes: list[Fix] = []
    fixed: list[Finding] = []
    for finding in report.findings:
        made = tuple(MAKERS[finding.rule](draft, finding)) if finding.rule in MAKERS else ()
        new = [fix for fix in made if fix not in fixes]
        places = {(fix.op == "rename", fix.line) for fix in new if fix.op != "insert"}
        if made and not places & taken:
            taken |= places
            fixes += new
            fixed.append(finding)
    solved = _solved(text, report, fixes, fixed, settings, now)
    return tuple(sorted((fix for fix in fixes if fix.rule in solved), key=lambda fix: fix.line))


def _solved(
    text: str,
    report: Report,
    fixes: Sequence[Fix],
    fixed: Sequence[Finding],
    settings: RequestSettings,
    now: datetime,
) -> frozenset[str]:
    """The rules whose fixed findings are gone when the file with all fixes is read. None if a secret appeared."""
    name = next((fix.text for fix in fixes if fix.op == "rename"), report.path)
    data = apply_fixes(text, fixes).encode("utf-8")
    again = read_request(data, path=name, settings=settings, now=now, stage=report.stage)
    before = Counter(finding.rule for finding in report.findings)
    after = Counter(finding.rule for finding in again.findings)
    if after[_LEAK]:
        return frozenset()
    left = {(finding.rule, finding.line) for finding in again.findings}
    solved = set()
    for rule, count in Counter(finding.rule for finding in fixed).items():
        if rule in _STOPPING:
            good = left.isdisjoint((rule, _moved(finding.line, fixes)) for finding in fixed if finding.rule == rule)
        else:
            good = after[rule] <= before[rule] - count
        if good:
            solved.add(rule)
    return frozenset(solved)


def _moved(line: int, fixes: Sequence[Fix]) -> int:
    """The number of a line after the fixes above it were applied."""
    return line + sum(
        fix.text.count("\n") + (fix.op == "insert") - (fix.op == "delete")
        for fix in fixes
        if fix.line < line and fix.op != "rename"
    )
