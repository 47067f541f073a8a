"""The body: Markdown in a strict sub-language, split into its sections, and what each of them says.

Invariant: two independent readers, markdown-it-py and a line scan, agree on every heading; otherwise the file is
refused. So what a person sees as a section is what the gate reads as one. A section that does not have exactly its form
is an error; nothing in it is skipped silently. The extracted parts (command, code, variables) are pieces of the raw
lines, so the human reads what will run. Only block rules run: the sub-language needs no inline parsing. Source:
docs/spec/1-tool-request.md, "Body"; CommonMark 0.31.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from threegate.core import limits
from threegate.request.backend import BACKENDS, Backend, Reading
from threegate.request.fields import FILE_NAME, check_output_path
from threegate.request.findings import Findings
from threegate.request.frame import section_of
from threegate.request.model import InputFile, OutputFile

_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_FENCE_OPENS = re.compile(r" {0,3}(?:(`{3,})[^`]*|(~{3,}).*)$")
_FENCE_CLOSES = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*$")
_PROSE_RULES = (
    ("TG208", re.compile(r"<[A-Za-z/!?]"), "this reads as raw HTML; put a blank after '<' or write it in words"),
    ("TG210", re.compile(r"!\["), "images are not allowed; name the file in words"),
)

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
        return self.offset + _start(token)


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
    lines: Sequence[str], first_line: int, backend: Backend, findings: Findings
) -> dict[str, BodySection] | None:
    """Split the body into sections by name; problems go to `findings`. None where the headings cannot be trusted."""
    env: dict[str, Any] = {}
    trusted = True
    scanned = {index for index, line in lines_outside_fences(lines) if "#" in line[:4] and _HEADING.match(line)}
    if len(scanned) > 2 * len(backend.sections):
        message = f"{len(scanned)} headings; the sections are {_names(backend)}"
        findings.add("TG201", first_line + min(scanned), 1, message)
        return None
    tokens = _MARKDOWN.parse("\n".join(lines), env)
    for reference in (*env.get("references", {}).values(), *env.get("duplicate_refs", ())):
        line = first_line + reference["map"][0]
        findings.add("TG209", line, 1, "a link reference definition is invisible when shown; write the address out")
    headings = [token for token in tokens if token.type == "heading_open"]
    underlines: set[int] = set()
    underlined: set[int] = set()
    # The file is refused for a heading in another form. What is in the sections is read all the same where it is clear
    # which section is meant, so that one reading shows all that is wrong.
    dressed: dict[int, str | None] = {}
    for token in headings:
        start, end = token.map or (0, 0)
        if not token.level and token.markup == "##" and lines[start].startswith("## "):
            dressed[start] = lines[start].removeprefix("## ").rstrip(" \t")
            continue
        name = section_of(lines[start])
        message = "headings are '## Name' at column 1: no other level, no underlines, not in lists or quotes"
        findings.add("TG205", first_line + start, 1, message)
        if not token.level and token.markup == "-":
            underlines.add(end - 1)
            underlined.add(start)
        elif not token.level and token.markup[0] == "#" and (name or not any(dressed.values())):
            dressed[start] = name  # None for a title above the first section
        else:
            trusted = False
    for index in sorted(scanned ^ (set(map(_start, headings)) - underlined)):
        message = "what looks like a heading here is none for Markdown, or the other way round; take the line out"
        findings.add("TG207", first_line + index, 1, message)
        trusted = False
    if trusted and underlines:
        plain = ["" if index in underlines else line for index, line in enumerate(lines)]
        return read_sections(plain, first_line, backend, findings)
    return _split(tokens, lines, first_line, backend, findings, dressed) if trusted else None


def _start(token: Token) -> int:
    """The line of the body that a block starts on, from 0."""
    return token.map[0] if token.map else 0


def _names(backend: Backend) -> str:
    return ", ".join(f"## {name}" for name in backend.sections)


def _split(
    tokens: Sequence[Token],
    lines: Sequence[str],
    first_line: int,
    backend: Backend,
    findings: Findings,
    names: Mapping[int, str | None],
) -> dict[str, BodySection]:
    """`names` has the section that each heading names, by its line; None for a title above the first section."""
    expected = backend.sections
    sections: dict[str, BodySection] = {}
    tokens = [
        token
        for number, token in enumerate(tokens)
        if not any(
            item.type == "heading_open" and names[_start(item)] is None
            for item in tokens[max(number - 2, 0) : number + 1]
        )
    ]
    starts = [number for number, token in enumerate(tokens) if token.type == "heading_open"]
    _check_blocks(tokens[: starts[0] if starts else len(tokens)], "", lines, first_line, findings)
    if tokens and (not starts or starts[0] > 0):
        findings.add(
            "TG206",
            first_line + _start(tokens[0]),
            1,
            f"text before the first section; the body starts with ## {expected[0]}",
        )
    last = -1
    for start, end in pairwise((*starts, len(tokens))):
        heading_map = tokens[start].map or [0, 0]
        next_map = tokens[end].map if end < len(tokens) else None
        name = names[heading_map[0]] or ""
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
            message = f"## {name} occurs twice; the first is on line {sections[name].heading}"
            findings.add("TG203", section.heading, 1, message)
        else:
            if expected.index(name) < last:
                findings.add("TG204", section.heading, 1, f"## {name} is out of order; the order is {_names(backend)}")
            last = max(last, expected.index(name))
            sections[name] = section
    for name in expected:
        if name not in sections and name not in backend.optional_sections:
            line = first_line + max(len(lines) - 1, 0)
            message = f"the section ## {name} is missing; backend {backend.name} has {_names(backend)}"
            findings.add("TG202", line, 1, message)
    return sections


def _unknown(name: str, backend: Backend) -> str:
    for other, rules in BACKENDS.items():
        if name in rules.sections:
            return f"## {name} belongs to backend {other}; this request's backend is {backend.name}"
    for known in backend.sections:
        if known.casefold() == name.strip(" \t#*_:").casefold():
            return f"unknown section; it is spelled exactly '## {known}'"
    return f"unknown section; backend {backend.name} has {_names(backend)}"


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
            # In a list or a quote, the marks of that come before the fence.
            closing = _FENCE_CLOSES.match(lines[end - 1].lstrip(" \t>")) if end - start > 1 else None
            if closing is None or len(closing[1]) < len(token.markup) or closing[1][0] != token.markup[0]:
                findings.add("TG213", line, 1, "this fenced block is never closed; end it with the same fence")
        elif token.type == "inline" and section != "Command":
            for index in range(start, end):
                for rule, grammar, message in _PROSE_RULES:
                    if (match := grammar.search(lines[index])) is not None:
                        findings.add(rule, first_line + index, match.start() + 1, message)


_BACKQUOTED = re.compile(r"`([^`]+)`(?:[ \t]+(.*))?", re.DOTALL)
_HASH = re.compile(r"\bsha[-_]?256(?![0-9A-Za-z])", re.IGNORECASE)
# A hash and its name, however people write it: `sha256:…`, `(sha256: …)`, `SHA-256 = `…` `.
_HASH_VALUE = re.compile(r"\bsha[-_]?256[ \t:=`'\"*()]{1,8}([0-9a-f]{64})(?![0-9A-Za-z])", re.IGNORECASE)
# A label however it is dressed up (bullet, number, quote, bold): two of a kind are an error in any dress.
_LABEL = re.compile(
    r"[^A-Za-z]{0,40}(risk level|justification|data sensitivity|network rationale)"
    r"[ \t*_`]{0,8}:[ \t]*(?:\*\*|__)?[ \t]*(.*)",
    re.IGNORECASE,
)
_WORDS = {
    "risk level": ("low", "medium", "high"),
    "data sensitivity": ("public", "internal", "confidential"),
}
# Words that give no reason, however they are put together: "none needed", "n/a", "the network is required".
_SAYS_NOTHING = frozenset(
    "a access an and any applicable be here is it its known n na necessary need needed needs network nil no none not "
    "nothing null of ok reason required requires so that the there this to tbd tbc todo unknown unspecified use used "
    "uses yes".split()
)
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the file that another reader takes: its text and where it starts."""

    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One entry of a list of files: its path as written, the rest of the line, and its line."""

    path: str
    rest: str
    line: int


# What is not plain text, as a message names it.
_BLOCKS = {
    "fence": "a code fence",
    "code_block": "an indented block",
    "bullet_list_open": "a list",
    "ordered_list_open": "a list",
    "blockquote_open": "a quote",
    "html_block": "HTML",
}
# The blocks of a list of one level, with how deep they are. In an item may be one paragraph.
_PLAIN_LIST = {
    (f"{block}_{end}", level)
    for level, block in enumerate(("bullet_list", "list_item", "paragraph"))
    for end in ("open", "close")
} | {("inline", 3)}


def read_command_line(section: BodySection, findings: Findings) -> Piece | None:
    """The one line of the command."""
    kinds = [token.type for token in section.tokens]
    filled = [(index, line) for index, line in enumerate(section.lines) if line.strip()]
    if kinds == ["paragraph_open", "inline", "paragraph_close"] and len(filled) == 1:
        index, line = filled[0]
        text = line.strip(" \t")
        return Piece(text, section.first_line + index, len(line) - len(line.lstrip(" \t")) + 1)
    if not filled:
        findings.add("TG220", section.heading, 1, "the section is empty; write the command as one line of plain text")
        return None
    message = f"the command is one line of plain text; this has {_what(kinds, len(filled))}"
    findings.add("TG220", section.first_line + filled[min(1, len(filled) - 1)][0], 1, message)
    return None


def _what(kinds: Sequence[str], lines: int) -> str:
    return next((words for kind, words in _BLOCKS.items() if kind in kinds), f"{lines} lines")


def read_block(section: BodySection, rule: str, info: str, findings: Findings) -> Piece | None:
    """The text of the one fenced block of a section, ending with a newline."""
    what = f"the section holds exactly one block fenced with ``` (info string {info} or none), at column 1"
    if [token.type for token in section.tokens] != ["fence"]:
        findings.add(rule, section.heading, 1, what)
        return None
    token = section.tokens[0]
    start, end = token.map or (0, 0)
    line = section.line_of(token)
    opening = section.lines[line - section.first_line]
    if not opening.startswith("```"):
        findings.add(rule, line, 1, what)
        return None
    named = opening.lstrip("`").strip(" \t")
    if named not in ("", info):
        findings.add(rule, line, len(token.markup) + 1, f"the info string must be {info} or empty")
        return None
    inner = section.lines[line - section.first_line + 1 : line - section.first_line + (end - start) - 1]
    text = "".join(f"{item}\n" for item in inner)
    if text != token.content:
        findings.add(rule, line, 1, "the block is read in two ways; close it with the fence that opens it")
        return None
    if not text.strip():
        findings.add(rule, line, 1, "the block is empty")
        return None
    return Piece(text, line + 1, 1)


def read_file_list(section: BodySection, rule: str, prefix: str, findings: Findings) -> tuple[ListedFile, ...] | None:
    """A list of files, one a bullet; or the word ``none``. None when the section is not of that form."""
    files: list[ListedFile] = []
    what = f"one file a line as '- {prefix}name', or the word none"
    words = [line.strip(" \t") for line in section.lines if line.strip()]
    if len(words) == 1 and words[0].removeprefix("- ").strip(" .").casefold() == "none":
        return ()
    before = ""
    for token in section.tokens:
        if (token.type, token.level) not in _PLAIN_LIST or (before, token.type) == (
            "paragraph_close",
            "paragraph_open",
        ):
            findings.add(rule, section.line_of(token), 1, f"{section.name} is a plain list: {what}")
            return None
        if token.type == "inline":
            files.append(_listed(token.content, section.line_of(token)))
        before = token.type
    if not files:
        findings.add(rule, section.heading, 1, f"the section is empty: {what}")
        return None
    if len(files) > limits.OUTPUT_ENTRIES:
        findings.add(rule, section.heading, 1, f"{len(files)} entries; at most {limits.OUTPUT_ENTRIES}")
        return None
    return tuple(files)


def _listed(content: str, line: int) -> ListedFile:
    if (quoted := _BACKQUOTED.fullmatch(content)) is not None:
        return ListedFile(quoted[1], quoted[2] or "", line)
    path, _, rest = content.partition("\n")[0].partition(" ")
    return ListedFile(path, rest + content[len(path) + 1 + len(rest) :], line)


def read_input_list(reading: Reading) -> None:
    """The section Input Files, which names the inputs of the front matter again."""
    if (section := reading.parts.get("Input Files")) is not None:
        listed = read_file_list(section, "TG230", "/in/", reading.findings)
        if listed is not None and reading.knows("inputs"):
            _check_input_list(listed, reading.values.get("inputs", ()), reading.findings, section)


def _check_input_list(
    files: Sequence[ListedFile], inputs: Sequence[InputFile], findings: Findings, section: BodySection
) -> None:
    """The list must name exactly the inputs of the front matter, and hashes written here must match."""
    declared = {f"/in/{item.name}": item for item in inputs}
    for item in inputs:
        if item.unpack:
            stem = item.name.removesuffix(".tar")
            declared[f"/in/{stem}"] = declared[f"/in/{stem}/"] = item
    listed: dict[str, int] = {}
    for entry in files:
        name = entry.path.removeprefix("/in/").rstrip("/")
        if not entry.path.startswith("/in/") or not FILE_NAME.fullmatch(name) or name in (".", ".."):
            message = "an input is listed as /in/<name>, the name it has in the front matter"
            findings.add("TG230", entry.line, 3, message)
            continue
        found = declared.get(entry.path)
        if found is None:
            message = "this file is not among the inputs of the front matter; declare it there"
            findings.add("TG231", entry.line, 3, message)
            continue
        if found.name in listed:
            findings.add("TG231", entry.line, 3, f"this input is listed twice; first on line {listed[found.name]}")
        listed[found.name] = entry.line
        if _HASH.search(entry.rest):
            values = [value.lower() for value in _HASH_VALUE.findall(entry.rest)]
            if len(_HASH.findall(entry.rest)) != 1 or values != [found.sha256]:
                findings.add("TG232", entry.line, 3, "the sha256 written here is not the one of the front matter")
    for item in inputs:
        if item.name not in listed:
            message = f"the input {item.name} is not listed; add the line '- /in/{item.name}'"
            findings.add("TG231", section.heading, 1, message)


def merge_outputs(
    files: Sequence[ListedFile], declared: Sequence[OutputFile] | None, findings: Findings, section: BodySection
) -> tuple[OutputFile, ...]:
    """The expected outputs of the body, which must be those of `outputs_expected` where that is given."""
    read: dict[str, OutputFile] = {}
    for entry in files:
        if not entry.path.startswith("/"):
            findings.add("TG241", entry.line, 3, "an output is listed with its whole path: /out/<path>")
            continue
        path, wrong = check_output_path(entry.path)
        if wrong is None and path in read:
            wrong = "occurs twice"
        if wrong is not None:
            findings.add("TG241", entry.line, 3, f"the output path {wrong}")
            continue
        read[path] = OutputFile(path, " ".join(entry.rest.split()).lstrip("-–—: "))
    if declared is None:
        return tuple(read.values())
    for path in sorted({item.path for item in declared} ^ read.keys()):
        where = "outputs_expected only" if path not in read else "this section only"
        findings.add("TG242", section.heading, 1, f"one output is in {where}; both lists name the same files")
        break
    return tuple(
        OutputFile(item.path, item.description or read[item.path].description) for item in declared if item.path in read
    )


def read_risk(section: BodySection, network: str | None, findings: Findings) -> dict[str, str]:
    """The labelled lines of the risk assessment, as a `Request` names them. A justification or rationale may go on over
    further lines.
    """
    marks: list[tuple[str, int, str]] = []
    blocks = [token.map for token in section.tokens if token.type == "fence" and token.map is not None]
    fenced = {section.offset + line for start, end in blocks for line in range(start, end)}
    for index, text in enumerate(section.lines):
        if section.first_line + index not in fenced and (match := _LABEL.fullmatch(text)) is not None:
            marks.append((match[1].casefold(), index, match[2]))
    answers: dict[str, tuple[int, str]] = {}
    for (label, index, first), (_, end, _) in pairwise((*marks, ("", len(section.lines), ""))):
        line = section.first_line + index
        if label in answers:
            findings.add("TG251", line, 1, f"'{label.capitalize()}:' occurs twice; say it once")
            continue
        further = section.lines[index + 1 : end]
        if label in _WORDS:
            # With the line below it, so that a word that goes on there is refused: it can be read in two ways.
            further = further[: next((at for at, text in enumerate(further) if not text.strip()), len(further))]
        answers[label] = (line, "\n".join((first, *further)).strip("\n \t"))
    for label in ("risk level", "justification", "data sensitivity"):
        if label not in answers:
            findings.add("TG250", section.heading, 1, f"the line '{label.capitalize()}:' is missing")
    for label, allowed in _WORDS.items():
        line, text = answers.get(label, (0, ""))
        if line and text not in allowed:
            spelled = f"; it is spelled {text.casefold()}" if text.casefold() in allowed else ""
            message = f"'{label.capitalize()}:' is one of {', '.join(allowed)} and nothing else{spelled}"
            findings.add("TG252", line, 1, message)
    line, justification = answers.get("justification", (0, ""))
    if line and not justification:
        findings.add("TG252", line, 1, "the justification is empty; say why the run is worth its risk")
    line, rationale = answers.get("network rationale", (section.heading, ""))
    if network == "allowlist" and _SAYS_NOTHING.issuperset(_WORD.findall(rationale.casefold())):
        findings.add("TG253", line, 1, "network is allowlist: 'Network rationale:' must say why it is needed")
    return {
        "risk_level": answers.get("risk level", (0, ""))[1],
        "justification": justification,
        "data_sensitivity": answers.get("data sensitivity", (0, ""))[1],
        "network_rationale": rationale,
    }
