"""The body: Markdown in a strict sub-language, split into its sections.

Invariant: two independent readers, markdown-it-py and a line scan, agree on every heading; otherwise the file
is refused. So what a person sees as a section is what the gate reads as one. Only block rules run: the
sub-language needs no inline parsing. Source: docs/spec/1-tool-request.md, "Body"; CommonMark 0.31.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from threegate.core import limits
from threegate.request.backend import BACKENDS
from threegate.request.findings import Findings

_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_FENCE_OPENS = re.compile(r" {0,3}(?:(`{3,})[^`]*|(~{3,}).*)$")
_FENCE_CLOSES = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*$")
_RAW_HTML = re.compile(r"<[A-Za-z/!?]")
_IMAGE = re.compile(r"!\[")

_MARKDOWN = MarkdownIt("commonmark")
_MARKDOWN.core.ruler.enableOnly(["normalize", "block"])
# It compiles its rules on first use without a lock. With two threads at once, some rules would be missing or
# duplicated.
_MARKDOWN.parse("x")


@dataclass(frozen=True, slots=True)
class BodySection:
    """One section. `heading` is the line of its heading, `lines` the raw lines below it, `tokens` its blocks.

    A token's map counts lines of the body from 0; `first_line` is the file's line of `lines[0]`.
    """

    name: str
    heading: int
    first_line: int
    lines: tuple[str, ...]
    tokens: tuple[Token, ...]
    offset: int
    """Line of the file that corresponds to a token's line 0."""

    def line_of(self, token: Token) -> int:
        """The line of the file that a block starts on."""
        return self.offset + (token.map[0] if token.map else 0)


def lines_outside_fences(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The line scan: (index, line) of every line that is not in or part of a fenced block at the top level."""
    fence = ""
    for index, line in enumerate(lines):
        if "```" not in line and "~~~" not in line:
            if not fence:
                yield index, line
            continue
        if fence:
            closing = _FENCE_CLOSES.match(line)
            if closing and closing[1][0] == fence[0] and len(closing[1]) >= len(fence):
                fence = ""
            continue
        opening = _FENCE_OPENS.match(line)
        if opening:
            fence = opening[1] or opening[2]
            continue
        yield index, line


def read_sections(
    lines: Sequence[str], first_line: int, backend: str, findings: Findings
) -> dict[str, BodySection] | None:
    """Split the body into sections by name; problems go to `findings`. None where the headings cannot be trusted."""
    env: dict[str, Any] = {}
    scanned = {index for index, line in lines_outside_fences(lines) if "#" in line[:4] and _HEADING.match(line)}
    if len(scanned) > 2 * len(BACKENDS[backend].sections):
        findings.add(
            "TG201",
            first_line + min(scanned),
            1,
            f"{len(scanned)} headings; the sections are {_names(backend)}",
        )
        return None
    tokens = _MARKDOWN.parse("\n".join(lines), env)
    for reference in (*env.get("references", {}).values(), *env.get("duplicate_refs", ())):
        line = first_line + reference["map"][0]
        findings.add("TG209", line, 1, "a link reference definition is invisible when shown; write the address out")
    headings = [token for token in tokens if token.type == "heading_open"]
    if not _headings_agree(headings, scanned, lines, first_line, findings):
        return None
    return _split(tokens, lines, first_line, backend, findings)


def _names(backend: str) -> str:
    return ", ".join(f"## {name}" for name in BACKENDS[backend].sections)


def _headings_agree(
    headings: Sequence[Token], scanned: set[int], lines: Sequence[str], first_line: int, findings: Findings
) -> bool:
    """Whether both readers see the same headings, all of the one form that is allowed."""
    good = True
    found = set()
    for token in headings:
        index = token.map[0] if token.map else 0
        found.add(index)
        if token.level or token.markup != "##" or not lines[index].startswith("## "):
            message = "headings are '## Name' at column 1: no other level, no underlines, not in lists or quotes"
            findings.add("TG205", first_line + index, 1, message)
            good = False
    for index in sorted(scanned ^ found):
        message = "what looks like a heading here is none for Markdown, or the other way round; take the line out"
        findings.add("TG207", first_line + index, 1, message)
        good = False
    return good


def _split(
    tokens: Sequence[Token],
    lines: Sequence[str],
    first_line: int,
    backend: str,
    findings: Findings,
) -> dict[str, BodySection]:
    expected = BACKENDS[backend].sections
    sections: dict[str, BodySection] = {}
    starts = [number for number, token in enumerate(tokens) if token.type == "heading_open"]
    _check_blocks(tokens[: starts[0] if starts else len(tokens)], "", lines, first_line, findings)
    if tokens and (not starts or starts[0] > 0):
        line = first_line + (tokens[0].map[0] if tokens[0].map else 0)
        findings.add("TG206", line, 1, f"text before the first section; the body starts with ## {expected[0]}")
    last = -1
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(tokens)
        heading_map = tokens[start].map or [0, 0]
        next_map = tokens[end].map if end < len(tokens) else None
        name = lines[heading_map[0]].removeprefix("## ").rstrip(" \t")
        section = BodySection(
            name,
            first_line + heading_map[0],
            first_line + heading_map[1],
            tuple(lines[heading_map[1] : next_map[0] if next_map else len(lines)]),
            tuple(tokens[start + 3 : end]),
            first_line,
        )
        _check_blocks(section.tokens, name, lines, first_line, findings)
        if name not in expected:
            findings.add("TG201", section.heading, 4, _unknown(name, backend))
        elif name in sections:
            message = f"## {name} stands twice; the first is on line {sections[name].heading}"
            findings.add("TG203", section.heading, 1, message)
        else:
            if expected.index(name) < last:
                findings.add("TG204", section.heading, 1, f"## {name} is out of order; the order is {_names(backend)}")
            last = max(last, expected.index(name))
            sections[name] = section
    for name in expected:
        if name not in sections and name not in BACKENDS[backend].optional_sections:
            line = first_line + max(len(lines) - 1, 0)
            findings.add("TG202", line, 1, f"the section ## {name} is missing; backend {backend} has {_names(backend)}")
    return sections


def _unknown(name: str, backend: str) -> str:
    for other, rules in BACKENDS.items():
        if name in rules.sections:
            return f"## {name} belongs to backend {other}; this request's backend is {backend}"
    for known in BACKENDS[backend].sections:
        if known.casefold() == name.strip(" \t#*_:").casefold():
            return f"unknown section; it is spelled exactly '## {known}'"
    return f"unknown section; backend {backend} has {_names(backend)}"


def _check_blocks(
    tokens: Sequence[Token], section: str, lines: Sequence[str], first_line: int, findings: Findings
) -> None:
    """What no section may hold: raw HTML, rules, images, unclosed fences, deep nesting."""
    for token in tokens:
        start, end = token.map or (0, 0)
        line = first_line + start
        if token.level > limits.BODY_NESTING:
            findings.add("TG212", line, 1, f"nested deeper than {limits.BODY_NESTING} lists or quotes; make it flatter")
        elif token.type == "html_block":
            findings.add("TG208", line, 1, "raw HTML is not allowed; write plain text")
        elif token.type == "hr":
            findings.add("TG211", line, 1, "a horizontal rule looks like the front matter's end; take it out")
        elif token.type == "fence":
            closing = _FENCE_CLOSES.match(lines[end - 1].lstrip(" \t>")) if end - start > 1 else None
            if closing is None or len(closing[1]) < len(token.markup) or closing[1][0] != token.markup[0]:
                findings.add("TG213", line, 1, "this fenced block is never closed; end it with the same fence")
        elif token.type == "inline" and section != "Command":
            for index in range(start, end):
                for rule, grammar, message in _PROSE_RULES:
                    if (match := grammar.search(lines[index])) is not None:
                        findings.add(rule, first_line + index, match.start() + 1, message)


_PROSE_RULES = (
    ("TG208", _RAW_HTML, "this reads as raw HTML; put a blank after '<' or write it in words"),
    ("TG210", _IMAGE, "images are not allowed; name the file in words"),
)
