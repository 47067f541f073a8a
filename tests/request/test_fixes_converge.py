"""Fixes converge: what is offered for a broken file is one step to a valid one, or to what only its author can answer,
and what was not broken says the same afterwards.
"""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.conftest import examples
from tests.request.examples import KEYS, NAME, NOW, SETTINGS, era, monty, request
from tests.request.hurried import ERA_OUT, LEFT, MENDED, reaching, with_input
from threegate.core import limits
from threegate.request.fixes import propose_fixes
from threegate.request.fixes.edit import apply_fixes
from threegate.request.reader import read_request
from threegate.request.report import Report
from threegate.setup.agent_examples import request_examples


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


@pytest.mark.parametrize(("bound", "most"), [("FIX_ROUNDS", 1), ("FIX_READINGS", 1), ("FIX_READINGS", 3)])
def test_what_is_offered_is_bounded(monkeypatch: pytest.MonkeyPatch, bound: str, most: int) -> None:
    """Fewer fixes are offered then, never one that was not read."""
    text = era(purpose="a: b", network="off", language="Python 3", outputs_expected="nothing").replace(
        "## Input", "# Input"
    )
    whole = propose_fixes(text.encode(), read(text), settings=SETTINGS, now=NOW)
    monkeypatch.setattr(limits, bound, most)
    some = propose_fixes(text.encode(), read(text), settings=SETTINGS, now=NOW)
    assert set(some) <= set(whole) and len(some) <= len(whole)
    assert len(wrong(read(apply_fixes(text, some)))) <= len(wrong(read(text)))


def test_what_is_below_a_broken_front_matter_is_shown() -> None:
    """And the reverse: of a file with several faults all are in the first report."""
    text = (
        era(purpose="a: b", network="off")
        .replace("## Input Files", "### Input Files")
        .replace("level: low", "level: Low")
    )
    assert wrong(read(text)) >= {"TG110", "TG138", "TG205", "TG252"}
    wrapped = f"```markdown\n{era(network='off')}```\n"
    assert wrong(read(wrapped)) == {"TG108", "TG138"}
    underlined = era(network="off").replace("none\n\n## Risk", "none\n---\n## Risk").replace("level: low", "level: Low")
    assert wrong(read(underlined)) == {"TG138", "TG205", "TG252"}
    assert wrong(read("\ufeff" + era(network="off"))) == {"TG105", "TG138"}
    assert wrong(read(era(backend='"ERA', network="off"))) >= {"TG110"}


def test_no_part_of_a_broken_front_matter_is_read_that_is_too_large() -> None:
    text = era(purpose="x" * 20_000).replace("---\n", "----\n", 1)
    assert wrong(read(text)) == {"TG108"}


VALID = {
    "era": era(),
    "monty": monty(),
    "input": with_input("\n- /in/sales.csv\n"),
    "network": reaching("\n  - api.example.com\n  - b.example.com:8443"),
    "outputs": request({**KEYS, "outputs_expected": "\n  - path: /out/ranked.json"}, ERA_OUT),
    **{
        f"example-{number}": example.text
        for number, example in enumerate(request_examples(SETTINGS, NOW.replace(minute=0)))
    },
}
"""Valid files, also those that the prompt for agents shows."""
_IDENTITY = {"data", "sha256", "file_name", "stage"}
_WRITTEN = {"request_id", "created_utc", "language", "network", "cpu_limit", "memory_limit_mb", "time_limit_sec"}
"""Keys that have a value without a choice: one that cannot be read any more is written anew."""


def meaning(report: Report) -> dict[str, object]:
    """What a valid request says, key by key."""
    assert report.request is not None
    return {item.name: getattr(report.request, item.name) for item in fields(report.request)} | dict.fromkeys(_IDENTITY)


def plain(value: object) -> str:
    """The letters and digits of a value, in order: only marks and blanks are broken here, and code keeps its words."""
    return re.sub(r"\\\\?[nrt]|[^0-9A-Za-z]", "", repr(value))


def _put_in(lines: list[str], at: int, data: st.DataObject) -> None:
    lines.insert(at, data.draw(st.sampled_from(["---", "", "```", "***", "~~~", "<!-- -->", "----", "...", "#"])))


def _say(lines: list[str], at: int, data: st.DataObject) -> None:
    body = [number for number, line in enumerate(lines) if line == "---"][1:2]
    lines.insert(data.draw(st.sampled_from([0, *(number + 1 for number in body)])), "# Add the numbers")


def _dress(lines: list[str], at: int, data: st.DataObject) -> None:
    heads = [number for number, line in enumerate(lines) if line.startswith("## ")] or [0]
    at = data.draw(st.sampled_from(heads))
    form = data.draw(st.sampled_from(["### {}", "**{}**", "# {}", "## 2. {}", "## {}:"]))
    lines[at] = form.format(lines[at].removeprefix("## "))


def _unquote(lines: list[str], at: int, data: st.DataObject) -> None:
    lines[at] = lines[at].replace('"', data.draw(st.sampled_from(["", "'"])))


def _wrap(lines: list[str], at: int, data: st.DataObject) -> None:
    mark = data.draw(st.sampled_from(["```markdown", "```", "~~~md"]))
    lines[:] = [mark, *lines, mark[:3]]


def _indent(lines: list[str], at: int, data: st.DataObject) -> None:
    lines[at] = data.draw(st.sampled_from(["  ", "\t", "- ", "> "])) + lines[at]


def _drop(lines: list[str], at: int, data: st.DataObject) -> None:
    marks = [number for number, line in enumerate(lines) if line in ("---", "```", "")] or [0]
    del lines[data.draw(st.sampled_from(marks))]


def _end(lines: list[str], at: int, data: st.DataObject) -> None:
    lines[at] += data.draw(st.sampled_from([" ", "\u200b", ":", "`", '"', "\r", " \\", " #", ",", ": "]))


def _double(lines: list[str], at: int, data: st.DataObject) -> None:
    at = min(at, lines.index("---", 1) if "---" in lines[1:] else 0)
    lines.insert(at, lines[at])


def _swap(lines: list[str], at: int, data: st.DataObject) -> None:
    at = min(at, lines.index("---", 1) if "---" in lines[1:] else 1)
    if not lines[at].startswith(" ") and not lines[at - 1].startswith(" "):  # the order of keys means nothing
        lines[at - 1], lines[at] = lines[at], lines[at - 1]


BREAK = (_put_in, _say, _dress, _unquote, _wrap, _indent, _drop, _end, _double, _swap)


@examples(180)
@given(st.data())
def test_a_broken_file_becomes_what_it_was_or_stays_broken(data: st.DataObject) -> None:
    """Whatever is done to the form of a valid file: if what is offered makes it valid again, it says what it said."""
    text = data.draw(st.sampled_from(list(VALID.values())))
    lines = text.split("\n")
    for _ in range(data.draw(st.integers(1, 3))):
        data.draw(st.sampled_from(BREAK))(lines, data.draw(st.integers(0, len(lines) - 1)), data)
    broken = "\n".join(lines)
    report = read(broken)
    assume(not report.valid)
    made = propose_fixes(broken.encode(), report, settings=SETTINGS, now=NOW)
    fixed = read(apply_fixes(broken, made))
    if not fixed.valid:
        return
    before, after = meaning(read(text)), meaning(fixed)
    changed = {name for name in before if plain(before[name]) != plain(after[name])}
    changed -= _WRITTEN - report.known.keys()
    assert not changed, (changed, [(before[name], after[name]) for name in changed], broken, made)
