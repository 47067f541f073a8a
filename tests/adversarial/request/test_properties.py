"""What holds for every input: a report and no exception, one reading of the headings, one meaning."""

from __future__ import annotations

import random
import re
import shlex
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.adversarial.request.builders import command, prose
from tests.adversarial.request.mutations import corpus, mutate
from tests.conftest import examples
from tests.request.examples import era, ids, monty, read
from threegate.request.backend import BACKENDS
from threegate.request.findings import Findings
from threegate.request.job import Platform, build_job
from threegate.request.model import Request
from threegate.request.render_draft import render_request
from threegate.request.report import Report
from threegate.request.sections import lines_outside_fences, read_sections

CORPUS = corpus()
WORDS = [
    "## Command",
    "## Code",
    "# a",
    "```",
    "~~~",
    "````",
    "> ",
    "- ",
    "1. ",
    "    ",
    "\t",
    "---",
    "===",
    "a",
    "<pre>",
    "</pre>",
    "<!--",
    "-->",
    "",
    "  ",
    "## ",
    "##",
    "[a]: b",
    "```py",
    "## Command ##",
]
LINES = st.lists(st.lists(st.sampled_from(WORDS), max_size=3).map("".join), max_size=14)
WHAT_RUNS = (
    "backend",
    "action",
    "workdir",
    "inputs",
    "network_allowlist",
    "cpu_limit",
    "memory_limit_mb",
    "time_limit_sec",
    "tool",
    "session_id",
    "labels",
    "workflow",
    "role",
    "requested_by",
)


def well(report: Report) -> Report:
    """A report that any input must give: complete, and not for want of the reader."""
    assert "TG199" not in ids(report), report.findings
    assert (report.request is not None) == report.valid
    for finding in report.findings:
        assert finding.line >= 1 and finding.column >= 1 and finding.message and "\n" not in finding.message
    assert list(report.findings) == sorted(report.findings, key=lambda item: (item.line, item.column, item.rule))
    report.to_json()
    return report


def same_again(request: Request) -> None:
    """Rendering and reading gives the request back."""
    again = read(render_request(request), stage=request.stage, name=request.file_name)
    assert again.request is not None, again.findings
    assert replace(again.request, data=b"", sha256="") == replace(request, data=b"", sha256="")


@examples(300)
@given(st.binary(max_size=400))
def test_any_bytes_give_a_report(data: bytes) -> None:
    well(read(data))
    well(read(b"---\n" + data + b"\n---\n"))


@examples(200)
@given(st.text(max_size=300))
def test_any_text_in_any_place_gives_a_report(text: str) -> None:
    well(read(era(purpose=text).encode("utf-8", "surrogatepass")))
    well(read(prose(text).encode("utf-8", "surrogatepass")))
    well(read(command(text).encode("utf-8", "surrogatepass")))
    well(read(monty().replace("print(1)", text).encode("utf-8", "surrogatepass")))
    well(read(monty().replace('{"limit": 3}', text).encode("utf-8", "surrogatepass")))


@examples(600)
@given(st.integers(0, 2**32))
def test_mutated_files_give_a_report_and_valid_ones_mean_the_same_when_rendered(seed: int) -> None:
    source = random.Random(seed)
    report = well(read(mutate(source.choice(CORPUS), CORPUS, source)))
    if report.request is not None:
        same_again(report.request)


def _digest(request: Request) -> str:
    sizes = {item.sha256: 1 for item in request.inputs}
    return build_job(request, input_sizes=sizes, platform=Platform()).digest


def _what_runs(request: Request) -> tuple[Any, ...]:
    return (*(getattr(request, name) for name in WHAT_RUNS), tuple(item.path for item in request.outputs))


@pytest.mark.no_cover
def test_what_runs_never_changes_without_the_digest() -> None:
    valid = [(text, found) for text in CORPUS if (found := read(text).request) is not None]
    met = 0

    @settings(max_examples=300)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        nonlocal met
        source = random.Random(seed)
        first, before = source.choice(valid)
        changed = (read(mutate(first, CORPUS, source)).request for _ in range(3))
        after = next((found for found in changed if found is not None), None)
        if after is not None and _what_runs(before) != _what_runs(after):
            met += 1
            assert _digest(before) != _digest(after)

    check()
    assert met >= 10


@examples(400)
@given(LINES)
def test_the_two_heading_readers_agree_or_the_file_is_refused(lines: list[str]) -> None:
    findings = Findings()
    sections = read_sections(lines, 1, BACKENDS["ERA"], findings)
    if sections is None or any(problem.rule == "TG205" for problem in findings.problems):
        assert findings.problems
        return
    tokens = MarkdownIt("commonmark").parse("\n".join(lines))
    seen = [token.map[0] for token in tokens if token.type == "heading_open" and token.map]
    scanned = [index for index, line in lines_outside_fences(lines) if re.match(r"##(\s|$)", line)]
    assert seen == scanned
    assert all(lines[section.heading - 1].rstrip() == f"## {name}" for name, section in sections.items())
    assert set(sections) <= set(BACKENDS["ERA"].sections)


SHELL = [
    "python3",
    "ls",
    "awk",
    "-c",
    "a",
    " ",
    " ",
    " ",
    "'",
    '"',
    "\\",
    "$",
    "x=1",
    "/in/a",
    "/out/b",
    ";",
    "|",
    "(",
    "*",
    "~",
    "é",
    "#",
    "=",
    "{",
    "}",
    "\t",
    "!",
    "^",
    "%",
    "-",
    "--",
]


@pytest.mark.no_cover
def test_the_argv_of_an_accepted_command_survives_quoting() -> None:
    met = 0

    @settings(max_examples=400)
    @given(st.lists(st.sampled_from(SHELL), min_size=1, max_size=12).map("".join))
    def check(line: str) -> None:
        nonlocal met
        report = well(read(command(line)))
        if report.request is None:
            return
        met += 1
        argv = report.request.action.words
        assert argv
        assert tuple(shlex.split(shlex.join(argv))) == argv
        assert tuple(shlex.split(line)) == argv, "what a POSIX shell's word splitting gives"
        same_again(report.request)

    check()
    assert met >= 10


@pytest.mark.no_cover
def test_texts_come_back_exactly() -> None:
    good = read(era()).request
    assert good is not None
    met = 0

    @settings(max_examples=150)
    @given(st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=80), st.text(max_size=200))
    def check(purpose: str, justification: str) -> None:
        nonlocal met
        made = replace(good, purpose=purpose, justification=justification, constraints=(purpose,))
        report = well(read(_bytes(made)))
        if report.request is not None:
            met += 1
            assert report.request.purpose == purpose and report.request.constraints == (purpose,)
            same_again(report.request)

    check()
    assert met >= 10


def _bytes(request: Request) -> bytes:
    try:
        return render_request(request)
    except UnicodeEncodeError:
        return b""
