"""Fixes converge: what is offered for a broken file is one step to a valid one, or to what only its author can answer,
and what was not broken says the same afterwards.
"""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.request.examples import KEYS, NAME, NOW, SETTINGS, era, monty, request
from tests.request.hurried import ERA_OUT, LEFT, MENDED, reaching, with_input
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


@settings(max_examples=150, deadline=None)
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
