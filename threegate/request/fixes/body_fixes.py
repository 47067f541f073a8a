"""Fixes of the body: the form of headings, blocks and labels, if the content is clear.

Invariant: no word of the content changes, only its surroundings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from threegate.request.backend import BACKENDS
from threegate.request.code import check_code, check_vars
from threegate.request.fixes.edit import Draft
from threegate.request.fixes.front_matter_fixes import left_out
from threegate.request.frame import section_names, section_of
from threegate.request.problem import Problem
from threegate.request.report import Finding, Fix

_RISK_VALUE = re.compile(r"(.*?:[ \t*_]*)(low|medium|high|public|internal|confidential)([ \t.*_]*)", re.IGNORECASE)
_OTHER_SECTIONS = {
    "expected output": "Output Expectations",
    "expected outputs": "Output Expectations",
    "output": "Output Expectations",
    "output expectation": "Output Expectations",
    "output files": "Output Expectations",
    "outputs": "Output Expectations",
    "inputs": "Input Files",
    "input": "Input Files",
    "python": "Code",
    "python code": "Code",
    "script": "Code",
    "source code": "Code",
    "risk": "Risk Assessment",
    "risk analysis": "Risk Assessment",
    "risks": "Risk Assessment",
}
"""Other names that mean one section and nothing else."""
_OTHER_LABELS = {
    "Risk level": r"risk|level|overall risk|risk rating",
    "Justification": r"rationale|reason|why",
    "Data sensitivity": r"sensitivity|data classification|data",
}
_LISTS = {"Input Files": ("inputs", "/in/"), "Output Expectations": ("outputs_expected", "/out/")}
_OPENS = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_SYNTAX = frozenset({"TG401", "TG402", "TG411", "TG414"})


def heading(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A known section's heading in its one form."""
    line = draft.line(finding.line)
    plain = re.sub(r"^[#\s]*[*_]*(?:[0-9]{1,2}[.)][ \t]*)?", "", line[:200]).rstrip(" \t#:*_").casefold()
    known = {name.casefold(): name for name in section_names()}
    name = known.get(plain) or _OTHER_SECTIONS.get(plain)
    there = {item for number, item in draft.headings.items() if number != finding.line}
    if name is not None and name not in there and len(line) < 200 and line.rstrip() != f"## {name}":
        if name.casefold() == plain or f"## {name}" in finding.message:
            yield Fix(finding.rule, "replace", finding.line, f"## {name}")
    elif finding.rule == "TG201":
        yield from _section_of_another_backend(draft, finding, name)
    else:
        yield from _no_heading(draft, finding)


def _section_of_another_backend(draft: Draft, finding: Finding, name: str | None) -> Iterator[Fix]:
    """Where no backend is named, the sections name it. A list of inputs goes where the front matter's is enough."""
    monty = BACKENDS["monty"].sections
    if name == monty[0] and not any(line.startswith("backend:") for line in draft.lines[: draft.end]):
        if set(draft.headings.values()) <= {*monty, "Input Files"}:
            yield Fix(finding.rule, "insert", draft.end, "backend: monty")
    elif name == "Input Files" and "backend is monty" in finding.message:
        listed = [re.sub(r"^[-*+ `]*(?:/in/)?|[`. ]*$", "", draft.line(number)) for number in draft.filled(name)]
        if set(listed) <= {*(draft.declared("inputs") or ()), "none", "None"}:
            yield from (Fix(finding.rule, "delete", number) for number in draft.span(name))


def _no_heading(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A title above the first section goes, and so does a line of dashes below a text, which would underline it."""
    line = draft.line(finding.line)
    first = min(draft.headings, default=0)
    if line.startswith("#") and finding.line < first:
        yield Fix(finding.rule, "delete", finding.line)
    elif not line.lstrip().startswith("#"):
        # A text of several lines is underlined as a whole.
        number = next(
            (at for at in range(finding.line + 1, len(draft.lines) + 1) if not draft.line(at).strip("- \t")), 0
        )
        if draft.line(number).strip():
            yield Fix(finding.rule, "delete", number)


def missing_section(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A section that is there under a line that only looks like a heading; a list of files as the front matter has
    it."""
    name = next((item for item in section_names() if f"## {item} is missing" in finding.message), "")
    number = next((number for number, known in draft.headings.items() if known == name), 0)
    if number:
        yield Fix(finding.rule, "replace", number, f"## {name}")
        return
    key, prefix = _LISTS.get(name, ("", ""))
    declared = draft.declared(key) if key else None
    unnamed = any(re.match(r"#{1,6}[ \t]", line) and section_of(line) is None for line in _outside_code(draft))
    if declared is None or unnamed:
        return
    later = [
        f"## {item}"
        for rules in BACKENDS.values()
        if name in rules.sections
        for item in rules.sections[rules.sections.index(name) + 1 :]
    ]
    place = next((at for at, line in enumerate(draft.lines, start=1) if line.rstrip() in later), len(draft.lines) + 1)
    entries = "\n".join(f"- {prefix}{file}" for file in declared) or "none"
    yield Fix(finding.rule, "insert", place, f"## {name}\n\n{entries}\n")


def _outside_code(draft: Draft) -> Iterator[str]:
    code = set(draft.span("Code"))
    return (line for number, line in enumerate(draft.lines, start=1) if number > draft.end and number not in code)


def in_order(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The first section that is out of order, before the first that comes after it."""
    order = next((rules.sections for rules in BACKENDS.values() if _names(rules.sections) in finding.message), ())
    there = [(number, name) for number, name in sorted(draft.headings.items()) if name in order]
    moves = [
        (place, name)
        for at, (_, name) in enumerate(there)
        for place, other in there[:at]
        if order.index(other) > order.index(name)
    ]
    for place, name in moves[:1]:
        text = "\n".join(draft.lines[line - 1] for line in draft.span(name)).strip("\n")
        yield Fix(finding.rule, "insert", place, f"{text}\n")
        yield from (Fix(finding.rule, "delete", line) for line in draft.span(name))


def _names(sections: tuple[str, ...]) -> str:
    return "the order is " + ", ".join(f"## {name}" for name in sections)


def html(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A comment that is a line of its own goes; before a word, a '<' has a blank behind it."""
    line = draft.line(finding.line)
    if re.fullmatch(r"[ \t]*<!--(?:(?!-->).)*-->[ \t]*", line):
        yield Fix(finding.rule, "delete", finding.line)
    elif not line.lstrip().startswith("<"):
        yield Fix(finding.rule, "replace", finding.line, re.sub(r"<(?=[A-Za-z/!?])", "< ", line))


def closed(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A block is closed before the section that it would hide; a fence behind everything goes."""
    start = finding.line
    if finding.rule != "TG213":  # the block of code goes on until the next one ends
        start = next((number for number in draft.filled("Code") if _OPENS.match(draft.line(number))), 0)
    lines = {number: draft.line(number) for number in range(start, len(draft.lines) + 1)}
    exact = {f"## {name}" for name in section_names()}
    hidden = next((number for number, line in lines.items() if line.rstrip() in exact or _closes(line)), 0)
    mark = _OPENS.match(draft.line(start))
    if mark and draft.line(hidden).rstrip() in exact:
        yield Fix(finding.rule, "insert", hidden, f"{mark[1]}\n")
    elif finding.rule == "TG213" and not any(line.strip() for number, line in lines.items() if number > finding.line):
        yield Fix(finding.rule, "delete", finding.line)


def _closes(line: str) -> bool:
    return line.rstrip() == "```"


def command(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A one-line command without the fence, list, indent, quotes or prompt around it; a command that goes on over
    several lines in one."""
    filled = draft.filled("Command")
    bare = [number for number in filled if not draft.line(number).startswith(("```", "~~~"))]
    fences = [number for number in filled if number not in bare]
    text = " ".join(draft.line(number).strip().removesuffix("\\").strip() for number in bare)
    whole = all(draft.line(number).rstrip().endswith("\\") for number in bare[:-1])
    if not bare or not whole or len(fences) not in (0, 2):
        return
    yield from (Fix(finding.rule, "delete", number) for number in (*fences, *bare[1:]))
    text = re.sub(r"^(?:[-*+>][ ]+|[0-9]+[.)][ ]+)", "", text)
    if re.fullmatch(r"`[^`]+`", text):
        text = text[1:-1]
    text = re.sub(r"^[$%][ ]+", "", text)
    if text != draft.line(bare[0]):
        yield Fix(finding.rule, "replace", bare[0], text)


def block(
    name: str, info: str, taken: str, check: Callable[[str], tuple[Problem, ...]]
) -> Callable[[Draft, Finding], Iterator[Fix]]:
    """The one fenced block of a section: fences where there are none and `check` can read it, the right fence where
    there is one with an info string of the grammar `taken`."""

    def make(draft: Draft, finding: Finding) -> Iterator[Fix]:
        filled = draft.filled(name)
        marks = [number for number in filled if draft.line(number).lstrip().startswith(("```", "~~~"))]
        if filled and not marks:
            text = "\n".join(draft.lines[filled[0] - 1 : filled[-1]])
            if not any(problem.rule in _SYNTAX for problem in check(text)):
                yield Fix(finding.rule, "insert", filled[0], f"```{info}")
                yield Fix(finding.rule, "insert", filled[-1] + 1, "```")
            elif name in BACKENDS["monty"].optional_sections and re.fullmatch(r"none\.?", text.strip(), re.IGNORECASE):
                yield from (Fix(finding.rule, "delete", number) for number in draft.span(name))
            return
        if len(marks) != 2 or marks != [filled[0], filled[-1]]:
            return
        if re.fullmatch(taken, draft.line(marks[0]).strip().strip("`~ "), re.IGNORECASE):
            yield Fix(finding.rule, "replace", marks[0], f"```{info}")
            yield Fix(finding.rule, "replace", marks[1], "```")

    return make


def labelled(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A line of the risk assessment whose label is another word for the one that is missing."""
    label = next((item for item in _OTHER_LABELS if f"'{item}:' is missing" in finding.message), "Risk level")
    for number in draft.filled("Risk Assessment"):
        line = draft.line(number)
        match = re.fullmatch(rf"[-*_ \t]*(?:{_OTHER_LABELS[label]})[*_ \t]*:[*_ \t]*(\S.*)", line, re.IGNORECASE)
        if match:
            yield Fix(finding.rule, "replace", number, f"{label}: {match[1]}")
            return


def risk_value(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The value in its spelling, alone on its line."""
    match = _RISK_VALUE.fullmatch(draft.line(finding.line))
    if match:
        yield Fix(finding.rule, "replace", finding.line, f"{match[1]}{match[2].lower()}")


MAKERS: dict[str, Callable[[Draft, Finding], Iterator[Fix]]] = {
    "TG201": heading,
    "TG202": missing_section,
    "TG204": in_order,
    "TG205": heading,
    "TG208": html,
    "TG211": left_out,
    "TG213": closed,
    "TG220": command,
    "TG221": block("Code", "python", "(py.*)?", check_code),
    "TG222": block("Inputs (JSON)", "json", ".*", check_vars),
    "TG250": labelled,
    "TG252": risk_value,
    "TG303": command,
    "TG306": command,
    "TG401": closed,
}
"""Who answers a finding of which rule."""
