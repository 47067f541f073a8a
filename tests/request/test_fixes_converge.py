"""Fixes converge: what is offered for a broken file is one step to a valid one, or to what only its author can answer,
and what was not broken says the same afterwards.
"""

from __future__ import annotations

import pytest

from tests.request.examples import NAME, NOW, SETTINGS
from tests.request.hurried import LEFT, MENDED
from threegate.request.fixes import propose_fixes
from threegate.request.fixes.edit import apply_fixes
from threegate.request.reader import read_request
from threegate.request.report import Report


def read(text: str) -> Report:
    return read_request(text.encode(), path=NAME, settings=SETTINGS, now=NOW, stage="draft")


def step(text: str) -> str:
    """The file after what is offered for it, as `threegate validate --json` prints it, was applied."""
    return apply_fixes(text, propose_fixes(text.encode(), read(text), settings=SETTINGS, now=NOW))


def wrong(report: Report) -> set[str]:
    return {finding.rule for finding in report.findings if finding.severity == "error"}


def test_the_corpus_is_large_enough() -> None:
    assert len(MENDED) + len(LEFT) >= 60


@pytest.mark.parametrize("name", MENDED)
def test_one_step_makes_it_valid(name: str) -> None:
    report = read(MENDED[name])
    assert not report.valid or report.findings
    fixed = step(MENDED[name])
    assert wrong(read(fixed)) == set(), (fixed, read(fixed).findings)
    assert step(fixed) == fixed


@pytest.mark.parametrize("name", LEFT)
def test_one_step_leaves_only_what_its_author_can_answer(name: str) -> None:
    text, left = LEFT[name]
    fixed = step(text)
    assert wrong(read(fixed)) and wrong(read(fixed)) <= left, (fixed, read(fixed).findings)
    assert step(fixed) == fixed
