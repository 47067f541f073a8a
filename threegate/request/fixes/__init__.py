"""Fixes: for findings with an automatic answer, the lines to change.

Invariant: what is offered was applied as a whole and read again. No finding that it answers is left, what was read
before says the same afterwards, and no maker of fixes has an answer to what remains: the file is valid, or the rest is
for whoever wrote it. A fix never brings back a secret, and a file with a secret gets none. Fixes are an offer to the
drafter: gate 1 reads the fixed file from its first byte, and ThreeGate itself applies nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from threegate.core import limits
from threegate.request.characters import JOINING, escaped
from threegate.request.fixes import body_fixes, front_matter_fixes, list_fixes
from threegate.request.fixes.edit import Draft, Edited, apply_fixes, split_lines
from threegate.request.reader import read_request
from threegate.request.report import Finding, Fix, Report

if TYPE_CHECKING:
    from threegate.core.settings import RequestSettings

MAKERS = {**front_matter_fixes.MAKERS, **body_fixes.MAKERS, **list_fixes.MAKERS}
"""What makes the fixes of each rule that may have some."""
_LEAK = "TG501"
_FIRST = frozenset({"TG105", "TG106", "TG107"})
"""What cannot be seen goes first: without it a value may be a good one."""


class _Leaks(Exception):
    """A fix brought back a secret."""


class _Offer(NamedTuple):
    """The fixes that answer one finding."""

    finding: Finding
    fixes: tuple[Fix, ...]


class _Attempt(NamedTuple):
    """What came of some offers when they were applied together."""

    offers: list[_Offer]
    solved: list[_Offer]
    after: Report
    keeps: bool
    """Whether everything that was read before says the same."""

    @property
    def good(self) -> bool:
        """Whether these offers can be made."""
        return self.keeps and len(self.solved) == len(self.offers)


def propose_fixes(data: bytes, report: Report, *, settings: RequestSettings, now: datetime) -> tuple[Fix, ...]:
    """The fixes for `report`, which must be the reader's report on exactly these bytes. Never raises.

    Costs at most FIX_READINGS further readings of the file, but nothing if no finding has a fix.
    """
    rules = {finding.rule for finding in report.findings}
    if rules.isdisjoint(MAKERS) or _LEAK in rules:
        return ()
    try:
        return Fixing(data.decode("utf-8"), report, settings, now).fixes()
    except Exception:  # noqa: BLE001 - what cannot be fixed stays refused; an offer that fails is none
        return ()


class Fixing:
    """The fixing of one file, in rounds: a fix may show a finding that could not be seen before."""

    def __init__(self, text: str, report: Report, settings: RequestSettings, now: datetime) -> None:
        self._report, self._settings, self._now = report, settings, now
        self._edited = Edited(text, PurePath(report.path).name)
        self._readings = 0

    def fixes(self) -> tuple[Fix, ...]:
        """What all rounds together change in the file. Raises _Leaks, and whatever a maker raises."""
        for _ in range(limits.FIX_ROUNDS):
            draft = Draft(split_lines(self._edited.text), self._edited.name, self._settings, self._now)
            attempt = self._best(draft)
            if not attempt.offers:
                break
            self._edited.apply([fix for offer in attempt.offers for fix in offer.fixes])
            self._report = attempt.after
        return self._edited.fixes()

    def _best(self, draft: Draft) -> _Attempt:
        """The offers of one round that can be made: all, or else those that work, or else one after the other."""
        nothing = _Attempt([], [], self._report, True)
        offers = _offers(draft, self._report)
        if not offers:
            return nothing
        attempt = self._attempt(offers)
        if not attempt.good and attempt.solved:
            attempt = self._attempt(attempt.solved)
        if attempt.good:
            return attempt
        best = nothing
        for offer in offers:
            if self._readings < limits.FIX_READINGS:
                attempt = self._attempt([*best.offers, offer])
                best = attempt if attempt.good else best
        return best

    def _attempt(self, offers: list[_Offer]) -> _Attempt:
        """Apply these offers to the text as it is now, and read what results."""
        self._readings += 1
        before = self._report
        fixes = [fix for offer in offers for fix in offer.fixes]
        name = next((fix.text for fix in fixes if fix.op == "rename"), self._edited.name)
        data = apply_fixes(self._edited.text, fixes).encode("utf-8")
        path = str(PurePath(before.path).with_name(name))
        after = read_request(data, path=path, settings=self._settings, now=self._now, stage=before.stage)
        if any(finding.rule == _LEAK for finding in after.findings):
            raise _Leaks
        fixed = Counter(offer.finding.rule for offer in offers)
        left = Counter(finding.rule for finding in before.findings)
        left.subtract(fixed)
        now = Counter(finding.rule for finding in after.findings)
        places = {(finding.rule, finding.line) for finding in after.findings}
        wrong = {finding.line for finding in after.findings if finding.severity == "error"}
        solved = [
            offer
            for offer in offers
            if (now[offer.finding.rule] <= left[offer.finding.rule] or _gone(offer, fixes, places))
            and not any(_put(fix, fixes) & wrong for fix in offer.fixes)
        ]
        return _Attempt(offers, solved, after, _keeps(before.known, after.known))


def _offers(draft: Draft, report: Report) -> list[_Offer]:
    """What the makers have to answer; of two fixes of one line the first."""
    taken: set[tuple[bool, int]] = set()
    seen: set[Fix] = set()
    offers = []
    for finding in sorted(report.findings, key=lambda item: item.rule not in _FIRST):
        made = tuple(MAKERS[finding.rule](draft, finding)) if finding.rule in MAKERS else ()
        new = tuple(fix for fix in made if fix not in seen)
        places = {(fix.op == "rename", fix.line) for fix in new if fix.op != "insert"}
        if made and not places & taken:
            taken |= places
            seen.update(new)
            offers.append(_Offer(finding, new))
    return offers


def _gone(offer: _Offer, fixes: Sequence[Fix], places: set[tuple[str, int]]) -> bool:
    """Whether a finding is no longer at its line, which a fix replaced; others of its kind may be seen only now."""
    line = offer.finding.line
    if not any(fix.op == "replace" and fix.line == line for fix in offer.fixes):
        return False
    return (offer.finding.rule, _moved(line, fixes)) not in places


def _put(fix: Fix, fixes: Sequence[Fix]) -> set[int]:
    """The numbers of the lines that a fix put in, after all were applied."""
    if fix.op != "insert":
        return set()
    before = [other for other in fixes if other.op == "insert" and other.line == fix.line]
    first = _moved(fix.line, [other for other in fixes if other not in before])
    first += sum(other.text.count("\n") + 1 for other in before[: before.index(fix)])
    return set(range(first, first + fix.text.count("\n") + 1))


def _moved(line: int, fixes: Sequence[Fix]) -> int:
    """The number of a line after the fixes above it were applied."""
    return line + sum(
        fix.text.count("\n") + (fix.op == "insert") - (fix.op == "delete")
        for fix in fixes
        if fix.op != "rename" and (fix.line < line or (fix.line == line and fix.op == "insert"))
    )


def _keeps(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether everything that was read before says the same; a key that says nothing may go."""
    return all(
        _meaning(after[name]) == _meaning(value) if name in after else not _meaning(value)
        for name, value in before.items()
    )


def _meaning(value: Any) -> Any:
    """A value without what cannot be seen; of a section, also without empty lines at its ends."""
    if isinstance(value, str):
        return escaped(value.translate(JOINING), lambda char: "")
    if isinstance(value, tuple) and all(isinstance(item, str) for item in value):
        return "\n".join(map(_meaning, value)).strip("\n")
    return value
