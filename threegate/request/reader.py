"""The whole of gate 1: bytes in, a report out. The order of the checks is the order of this module.

Invariant: `read_request` never raises, and the report has a `Request` exactly if no rule found an error; an
error inside the gate is itself an error of the file. Everything is a pure function of bytes, path, settings
and `now`. Source: docs/spec/1-tool-request.md.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.file_names import is_request_name
from threegate.core.secretscan.scan import Found, find_secrets, has_secret
from threegate.request import sections
from threegate.request.action import Action
from threegate.request.backend import BACKENDS, DEFAULT_BACKEND, why_absent
from threegate.request.characters import describe, hidden_places, strings, visible
from threegate.request.command.read_command import read_command
from threegate.request.content import check_content
from threegate.request.findings import Findings, mask_lines, tell
from threegate.request.frame import find_frame, read_entries, section_of
from threegate.request.front_matter import Bounds, check_together, read_keys
from threegate.request.gate_rules import RULES
from threegate.request.model import OutputFile, Request, Stage, exposure_of
from threegate.request.problem import Problem, placed
from threegate.request.report import Report
from threegate.request.sections import BodySection
from threegate.request.source import (
    BYTE_ORDER_MARK,
    FrontMatter,
    Source,
    SourceRefused,
    read_mapping,
    read_source,
    scalars,
)

if TYPE_CHECKING:
    from threegate.core.settings import RequestSettings

# What Python thinks of a request's code while `ast.parse` reads it does not belong on our stderr.
warnings.filterwarnings("ignore", module="<unknown>")

STANDARD_INPUT = "-"
_FIELDS = frozenset(item.name for item in fields(Request))
_NAME = re.compile(r"TR-[0-9]{8}-[0-9]{6}Z-[a-z0-9-]{1,64}\.md")


def stage_of(path: str) -> Stage:
    """The stage that a file's place says: drafts are in inbox/ and tool-exec/drafts/, all others are approved."""
    parent = PurePath(path).parent
    if parent.name == "inbox" or (parent.name == "drafts" and parent.parent.name == "tool-exec"):
        return "draft"
    return "approved"


def read_request(
    data: bytes, *, path: str, settings: RequestSettings, now: datetime, stage: Stage | None = None
) -> Report:
    """Read and check one tool request. Never raises.

    `path` names the file in the report and decides the stage when none is given; nothing is opened. `now` is an
    aware moment in UTC.
    """
    stage = stage or stage_of(path)
    try:
        return _Reading(data, path, stage, settings, now).report()
    except Exception:  # noqa: BLE001 - a gate that errs refuses: whatever went wrong is an error of the file
        return Report(path, stage, sha256_hex(data), (RULES["TG199"].found(1, 1),), None)


def refuse_unread(path: str, reason: str, stage: Stage | None = None) -> Report:
    """The report on a file that cannot be a request: it is not a regular file (a link, a device), or is too large."""
    finding = RULES["TG100"].found(1, 1, visible(f"the file is not read: {reason}"))
    return Report(path, stage or stage_of(path), "", (finding,), None)


class _Reading:
    """The reading of one file: what was found so far, step by step."""

    def __init__(self, data: bytes, path: str, stage: Stage, settings: RequestSettings, now: datetime) -> None:
        self.data, self.path, self.settings = data, path, settings
        self.stage: Stage = stage
        self.findings = Findings()
        self.bounds = Bounds(settings, now, self.findings)
        self.values: dict[str, Any] = {}
        self.written: Container[str] = ()
        self.places: dict[str, int] = {}
        """The line on which each key of the front matter begins."""
        self.last = 0
        self.secrets: list[Found] = []
        self.withheld: set[int] = set()
        """Indexes of lines that spell a secret by escapes, which no pattern masks."""
        self.closely: tuple[str, ...] = ()
        self.parts: dict[str, BodySection] = {}
        self.risk: dict[str, Any] = {}
        self.unusual_program = False
        self.place = (1, 1)
        self.outputs: tuple[OutputFile, ...] = ()
        self.action: Action | None = None

    def report(self) -> Report:
        """Read everything and say what was found."""
        findings, hidden = self.findings, False
        sha256 = sha256_hex(self.data)
        request: Request | None = None
        self._check_name()
        if (source := self._source()) is None:
            source = Source("", ())
        else:
            for index in islice(hidden_places(source.text), limits.FINDINGS_PER_RULE):
                shown = describe(source.text[index])
                findings.add(*placed("TG107", source.text, index, f"the hidden character {shown}; take it out"))
                hidden = True
            self.secrets = find_secrets(source.text)
            try:
                self._read(source)
            except SourceRefused as error:
                findings.add(*error.problem)
            # Also after a refusal: a secret in a file that cannot be read is reported all the same.
            for problem in check_content(self._prose(source), secrets=self.secrets):
                findings.add(*problem)
            request = self._request(sha256)
        exposure = None if request is None else exposure_of(request)
        if exposure is not None and exposure.opaque:
            findings.add("TG332", *self.place, f"not all code that runs is on the screen: {exposure.why}")
        lines = mask_lines(source.text, self.secrets) if hidden or self.secrets else source.lines
        if self.withheld:
            lines = tuple("[secret]" if index in self.withheld else line for index, line in enumerate(lines))
        name: str | None = self.values.get("request_id")
        return Report(
            self.path,
            self.stage,
            sha256,
            tell(findings.problems, source.text, self.secrets),
            request,
            lines,
            None if name is None or has_secret(name) else name,
            exposure,
            known=self._known(),
        )

    def _source(self) -> Source | None:
        """The text of the file; None where it is not known, which is then a finding."""
        for data in dict.fromkeys((self.data, self.data.removeprefix(BYTE_ORDER_MARK))):
            try:
                return read_source(data)
            except SourceRefused as error:
                self.findings.add(*error.problem)
        return None

    def _check_name(self) -> None:
        name = PurePath(self.path).name
        if has_secret(name):
            self.findings.add("TG501", 1, 1, "the file's name contains a secret; rename it and revoke the secret")
        if self.path == STANDARD_INPUT or _NAME.fullmatch(name):
            return
        if is_request_name(name):
            self.findings.add("TG102", 1, 1, "the file's name is not TR-YYYYMMDD-HHMMSSZ-<slug>.md")
        else:
            message = (
                "a request's file name is TR-<A-Z a-z 0-9 . _ ->.md; rename it, such as TR-20261122-050000Z-<slug>.md"
            )
            self.findings.add("TG101", 1, 1, message)

    def _prose(self, source: Source) -> str:
        """The text with what has a closer reader (command, code, variables) blanked out and no heading left, every
        place kept: what counts as prose is decided by the sections that were read, not by what looks like one."""
        lines = [f" #{line[2:]}" if line.startswith("## ") else line for line in source.lines]
        for section in self.parts.values():
            if section.name in self.closely:
                start = section.heading - 1
                end = section.first_line - 1 + len(section.lines)
                lines[start:end] = [" " * len(line) for line in lines[start:end]]
        return "\n".join(lines)

    def _read(self, source: Source) -> None:
        """The front matter, then the body as its backend has it. Raises SourceRefused."""
        try:
            front = FrontMatter(source.text, max_bytes=limits.FRONT_MATTER_BYTES)
            root, first, last = read_mapping(front.text), 1, front.end
            below, end = front.end + 1, len(source.lines)
            unread: dict[str, Problem] = {}
        except SourceRefused as error:
            # The file is refused. What else is wrong with it is shown with it, as far as it can be known.
            frame = None if error.problem.rule == "TG109" else find_frame(source.lines)
            if frame is None or sum(map(len, source.lines[frame.first : frame.last])) > limits.FRONT_MATTER_BYTES:
                raise
            root, unread = read_entries(source.lines, frame)
            self._note_refusal(error.problem, tuple(unread.values()))
            first, last, below, end = frame.first, frame.last, frame.body, frame.end
        # Only in double quotes does YAML have escapes, with which a value can say what its line does not show.
        if any("\\" in line for line in source.lines[first:last]):
            for node in scalars(root):
                if node.style == '"':
                    self._check_escaped(node.text, node.line, node.column, last)
        self.values = read_keys(root, self.stage, self.bounds, unread)
        self.written = root.value.keys() | unread.keys()
        self.places, self.last = {name: key.line for name, (key, _) in root.value.items()}, last
        values, findings = self.values, self.findings
        name = values.get("backend", DEFAULT_BACKEND)
        if "backend" in unread:
            named = {section_of(line) for line in source.lines[below:end]}
            name = next((known for known in BACKENDS if BACKENDS[known].sections[0] in named), DEFAULT_BACKEND)
        elif "backend" in root.value and "backend" not in values:  # misspelled: guessed, for what else is wrong
            if why_absent(root.value["backend"][1].text) is not None:
                return  # what else would be right is not known here
            plain = str(root.value["backend"][1].text).strip().casefold()
            name = next((known for known in BACKENDS if known.casefold() == plain), DEFAULT_BACKEND)
        backend = BACKENDS[name]
        if not unread:
            check_together(root, values, backend, findings)
        parts = sections.read_sections(source.lines[below:end], below + 1, backend, findings)
        if parts is None:
            return
        self.parts, self.closely = parts, backend.closely
        self.action = backend.read(self)
        if "Output Expectations" in parts:
            section = parts["Output Expectations"]
            files = sections.read_file_list(section, "TG240", "/out/", findings)
            if files and backend.no_outputs:
                rule, message = backend.no_outputs
                findings.add(rule, section.heading, 1, message)
            elif files is not None:
                self.outputs = sections.merge_outputs(files, values.get("outputs_expected"), findings, section)
        if "Risk Assessment" in parts:
            self.risk = sections.read_risk(parts["Risk Assessment"], values.get("network"), findings)

    def _note_refusal(self, problem: Problem, entries: Sequence[Problem]) -> None:
        """Note why the front matter is not well-formed, and what is wrong with its entries, each once: of two readers
        of the same fault the one that read less knows its place better."""
        if problem.rule == "TG108":
            entries = (problem, *entries)
        elif not entries or entries[0].rule != problem.rule:
            entries = (problem, *entries[1:])
        for item in entries:
            self.findings.add(*item)

    def _known(self) -> dict[str, Any]:
        """What was read, of a file with errors too: the keys that were accepted, and each section without an error."""
        wrong = {problem.line for problem in self.findings.problems if RULES[problem.rule].severity == "error"}
        known = {name: value for name, value in self.values.items() if wrong.isdisjoint(self._lines_of(name))}
        for name, section in self.parts.items():
            if wrong.isdisjoint(range(section.heading, section.first_line + len(section.lines))):
                known[f"## {name}"] = section.lines
        return known

    def _lines_of(self, key: str) -> range:
        """The lines of the file that a key of the front matter takes."""
        starts = sorted((*self.places.values(), self.last + 1))
        return range(self.places[key], starts[starts.index(self.places[key]) + 1])

    def _check_escaped(self, text: str, line: int, column: int, last: int, *, secrets_only: bool = False) -> None:
        """A text produced by escapes: it must not bring back anything hidden, or a word that the raw text may
        not contain. It is between the lines `line` and `last`, which are withheld if it contains a secret,
        because a secret can be read even when escaped.
        """
        if (index := next(hidden_places(text), None)) is not None:
            message = f"the text decodes to the hidden character {describe(text[index])}; take it out"
            self.findings.add("TG107", line, column, message)
            return
        for problem in check_content(text.replace("#", " ")):
            if problem.rule == "TG501":
                self.withheld.update(range(line - 1, last))
            elif secrets_only:
                continue
            self.findings.add(problem.rule, line, column, problem.message)

    def _request(self, sha256: str) -> Request | None:
        """The request, if no rule found an error."""
        values, action = self.values, self.action
        failed = any(RULES[problem.rule].severity == "error" for problem in self.findings.problems)
        if failed or action is None or not self.risk:
            return None
        return Request(
            **{
                "backend": DEFAULT_BACKEND,
                **{name: values[name] for name in _FIELDS & values.keys()},
                **self.risk,
                "file_name": PurePath(self.path).name,
                "data": self.data,
                "sha256": sha256,
                "stage": self.stage,
                "outputs": self.outputs,
                "tool": action.tool_named(values.get("tool")),
                "action": action,
                "unusual_program": self.unusual_program,
            }
        )

    def knows(self, key: str) -> bool:
        """Whether what a key says is known: all of it was accepted, or it is not there."""
        if key in self.values:
            lines = self._lines_of(key)
            return not any(problem.line in lines for problem in self.findings.problems)
        return key not in self.written

    def command(self) -> tuple[str, ...] | None:
        """The words of the section Command."""
        piece = sections.read_command_line(self.parts["Command"], self.findings) if "Command" in self.parts else None
        if piece is None:
            return None
        command = read_command(piece.text, programs=self.settings.programs)
        self.place, self.unusual_program = (piece.line, piece.column), command.unusual_program
        self._take(command.problems, piece)
        return command.argv

    def block(
        self,
        name: str,
        rule: str,
        info: Literal["python", "json"],
        check: Callable[[str], tuple[Problem, ...]],
        *,
        mentions_all: bool = False,
    ) -> str | None:
        """The text of a section's block."""
        piece = sections.read_block(self.parts[name], rule, info, self.findings) if name in self.parts else None
        if piece is None:
            return None
        problems = check(piece.text)
        self._take(problems, piece)
        # As in the front matter: by escapes a string can say what its line does not show.
        if info == "json" and not problems and "\\" in piece.text:
            text = "\n\n".join(strings(json.loads(piece.text)))
            last = piece.line + piece.text.count("\n")
            self._check_escaped(text, piece.line, piece.column, last, secrets_only=mentions_all)
        return piece.text

    def _take(self, problems: Iterable[Problem], piece: sections.Piece) -> None:
        """Note the problems of a piece of the file."""
        for rule, line, column, message in problems:
            shift = piece.column - 1 if line == 1 else 0
            self.findings.add(rule, line + piece.line - 1, column + shift, message)
