"""Fixes of the body: the form of headings, blocks and lists, if the content is clear.

Invariant: no word of the content changes, only its surroundings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from threegate.request.backend import BACKENDS
from threegate.request.fields import FILE_NAME
from threegate.request.fixes.edit import Draft
from threegate.request.fixes.front_matter_fixes import left_out
from threegate.request.report import Finding, Fix

_LIST_ITEM = re.compile(r"(?:[-*+][ ]+|[0-9]+[.)][ ]+)?`?([^` ]+)`?([ ].*)?")
_LISTED = re.compile(r"'- /in/(" + FILE_NAME.pattern + r")'")
_RISK_VALUE = re.compile(r"(.*?:[ \t*_]*)(low|medium|high|public|internal|confidential)([ \t.*_]*)", re.IGNORECASE)


def _names() -> dict[str, None]:
    """Of the sections of all backends."""
    return dict.fromkeys(name for backend in BACKENDS.values() for name in backend.sections)


def heading(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A known section's heading in its one form."""
    plain = draft.line(finding.line).strip(" \t#:*_").casefold()
    for name in _names():
        if name.casefold() == plain:
            yield Fix(finding.rule, "replace", finding.line, f"## {name}")


def missing_section(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A list of files that is missing is empty, unless the front matter names files."""
    name = next((item for item in _names() if f"## {item} is missing" in finding.message), "")
    declared = {"Input Files": "inputs:", "Output Expectations": "outputs_expected:"}.get(name)
    if declared is None or _declares(draft, declared):
        return
    later = [
        f"## {item}"
        for rules in BACKENDS.values()
        if name in rules.sections
        for item in rules.sections[rules.sections.index(name) + 1 :]
    ]
    place = next((at for at, line in enumerate(draft.lines, start=1) if line.rstrip() in later), len(draft.lines) + 1)
    yield Fix(finding.rule, "insert", place, f"## {name}\n\nnone\n")


def command(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A one-line command without the fence, list or indent around it."""
    filled = _filled(draft, "Command")
    bare = [number for number in filled if not draft.line(number).startswith("```")]
    fences = [number for number in filled if number not in bare]
    if len(bare) != 1 or len(fences) not in (0, 2):
        return
    yield from (Fix(finding.rule, "delete", number) for number in fences)
    text = re.sub(r"^(?:[-*+>][ ]+|[0-9]+[.)][ ]+)", "", draft.line(bare[0]).strip())
    if text != draft.line(bare[0]):
        yield Fix(finding.rule, "replace", bare[0], text)


def block(name: str, info: str, taken: str) -> Callable[[Draft, Finding], Iterator[Fix]]:
    """The one fenced block of a section: fences where there are none, the right fence where there is one with an
    info string of the grammar `taken`."""

    def make(draft: Draft, finding: Finding) -> Iterator[Fix]:
        filled = _filled(draft, name)
        marks = [number for number in filled if draft.line(number).lstrip().startswith(("```", "~~~"))]
        if filled and not marks:
            yield Fix(finding.rule, "insert", filled[0], f"```{info}")
            yield Fix(finding.rule, "insert", filled[-1] + 1, "```")
            return
        if len(marks) != 2 or marks != [filled[0], filled[-1]]:
            return
        if re.fullmatch(taken, draft.line(marks[0]).strip().strip("`~"), re.IGNORECASE):
            yield Fix(finding.rule, "replace", marks[0], f"```{info}")
            yield Fix(finding.rule, "replace", marks[1], "```")

    return make


def listed(prefix: str, declared: str) -> Callable[[Draft, Finding], Iterator[Fix]]:
    """An entry of a list of files with its whole path, as a bullet; an empty list says none."""

    def make(draft: Draft, finding: Finding) -> Iterator[Fix]:
        line = draft.line(finding.line)
        if line.startswith("## "):
            if not _filled(draft, line[3:].rstrip()) and not _declares(draft, declared):
                yield Fix(finding.rule, "insert", finding.line + 1, "\nnone\n")
            return
        match = _LIST_ITEM.fullmatch(line.strip())
        path = match[1].removeprefix("./").removeprefix(prefix.lstrip("/")).removeprefix(prefix) if match else "/"
        if match and "/" not in path:
            yield Fix(finding.rule, "replace", finding.line, f"- {prefix}{path}{match[2] or ''}")

    return make


def input_listed(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The line of an input that the front matter has and the list has not."""
    match = _LISTED.search(finding.message)
    filled = _filled(draft, "Input Files")
    if not match or not filled:
        return
    nothing = re.fullmatch(r"(?:- )?none\.?", draft.line(filled[0]).strip(), re.IGNORECASE)
    if nothing:
        yield Fix(finding.rule, "delete", filled[0])
    yield Fix(finding.rule, "insert", filled[0], f"- /in/{match[1]}")


def one_hash(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The front matter's hash counts; the list need not repeat it."""
    before = re.split(r"\bsha256\b", draft.line(finding.line), maxsplit=1, flags=re.IGNORECASE)[0]
    yield Fix(finding.rule, "replace", finding.line, before.rstrip(" \t"))


def risk_value(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The value in its spelling, alone on its line."""
    match = _RISK_VALUE.fullmatch(draft.line(finding.line))
    if match:
        yield Fix(finding.rule, "replace", finding.line, f"{match[1]}{match[2].lower()}")


def _declares(draft: Draft, key: str) -> bool:
    return any(line.startswith(key) for line in draft.lines[: draft.end])


def _filled(draft: Draft, name: str) -> list[int]:
    """Numbers of the lines of a section that hold something. The section is there: a finding speaks of it."""
    start = [line.rstrip() for line in draft.lines].index(f"## {name}") + 1
    below = draft.lines[start:]
    headings = {f"## {item}" for item in _names()}
    end = next((at for at, line in enumerate(below) if line.rstrip() in headings), len(below))
    return [start + at for at, line in enumerate(below[:end], start=1) if line.strip()]


MAKERS: dict[str, Callable[[Draft, Finding], Iterator[Fix]]] = {
    "TG201": heading,
    "TG202": missing_section,
    "TG205": heading,
    "TG211": left_out,
    "TG220": command,
    "TG221": block("Code", "python", "(py.*)?"),
    "TG222": block("Inputs (JSON)", "json", ".*"),
    "TG230": listed("/in/", "inputs:"),
    "TG231": input_listed,
    "TG232": one_hash,
    "TG240": listed("/out/", "outputs_expected:"),
    "TG241": listed("/out/", "outputs_expected:"),
    "TG252": risk_value,
}
"""Who answers a finding of which rule."""
