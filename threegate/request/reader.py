"""The whole of gate 1: bytes in, a report out. The order of the checks is the order of this module.

Invariant: `read_request` never raises, and the report has a `Request` exactly if no rule found an error; an
error inside the gate is itself an error of the file. Everything is a pure function of bytes, path, settings
and `now`. Source: docs/spec/1-tool-request.md.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Container, Iterator
from datetime import datetime
from decimal import Decimal
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.file_names import is_request_name
from threegate.core.secretscan.scan import Found, find_secrets, has_secret
from threegate.core.strict_yaml import YamlNode
from threegate.request import sections
from threegate.request.action import Action
from threegate.request.backend import BACKENDS, DEFAULT_BACKEND, why_absent
from threegate.request.characters import describe, hidden_places, visible
from threegate.request.command.read_command import read_command
from threegate.request.content import check_content
from threegate.request.exposure import Exposure
from threegate.request.findings import Findings, mask_lines, tell
from threegate.request.front_matter import Bounds, check_together, read_keys
from threegate.request.model import OutputFile, Request, Stage, exposure_of
from threegate.request.problem import Problem
from threegate.request.report import Finding, Report
from threegate.request.rules import RULES
from threegate.request.sections import BodySection
from threegate.request.source import Source, SourceRefused, read_front, read_mapping, read_source, scalars

if TYPE_CHECKING:
    from threegate.core.settings import RequestSettings

warnings.filterwarnings("ignore", module="<unknown>")
"""What Python thinks of a request's code while `ast.parse` reads it is no message for our stderr."""

STANDARD_INPUT = "-"
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
        rule = RULES["TG199"]
        finding = Finding(rule.id, rule.severity, 1, 1, rule.message, rule.help)
        return Report(path, stage, sha256_hex(data), (finding,), None)


def refuse_unread(path: str, reason: str, stage: Stage | None = None) -> Report:
    """The report on a file that cannot be a request because it is not a regular file (a link, a device, too
    large).
    """
    rule = RULES["TG100"]
    finding = Finding(rule.id, rule.severity, 1, 1, visible(f"the file is not read: {reason}"), rule.help)
    return Report(path, stage or stage_of(path), "", (finding,), None)


class _Reading:
    """The reading of one file: what was found so far, step by step."""

    def __init__(self, data: bytes, path: str, stage: Stage, settings: RequestSettings, now: datetime) -> None:
        self.data = data
        self.path = path
        self.stage: Stage = stage
        self.settings = settings
        self.findings = Findings()
        self.bounds = Bounds(settings, now, self.findings)
        self.values: dict[str, Any] = {}
        self.written: Container[str] = ()
        self.secrets: list[Found] = []
        self.clean = True
        self.withheld: set[int] = set()
        self.closely: tuple[str, ...] = ()
        self.request: Request | None = None
        self.exposure: Exposure | None = None
        self.parts: dict[str, BodySection] = {}
        self.risk: sections.RiskLines | None = None
        self.unusual_program = False
        self.place = (1, 1)
        self.outputs: tuple[OutputFile, ...] = ()
        self.action: Action | None = None

    def report(self) -> Report:
        """Read everything and say what was found."""
        sha256 = sha256_hex(self.data)
        self._check_name()
        source = Source("", ())
        try:
            source = read_source(self.data)
        except SourceRefused as error:
            self.findings.take(error.problem)
        else:
            self._check_text(source)
            try:
                self._read(source)
            except SourceRefused as error:
                self.findings.take(error.problem)
            for problem in check_content(self._prose(source), secrets=self.secrets):
                self.findings.take(problem)
            self._make(sha256)
        findings = tell(self.findings.problems, source.text, self.secrets)
        valid = all(finding.severity != "error" for finding in findings)
        shown = source.lines if self.clean else mask_lines(source.text, self.secrets)
        if self.withheld:
            shown = tuple("[secret]" if index in self.withheld else line for index, line in enumerate(shown))
        name: str | None = self.values.get("request_id")
        return Report(
            self.path,
            self.stage,
            sha256,
            findings,
            self.request if valid else None,
            shown,
            None if name is None or has_secret(name) else name,
            self.exposure if valid else None,
        )

    def _check_name(self) -> None:
        name = PurePath(self.path).name
        if has_secret(name):
            self.findings.add("TG501", 1, 1, "the file's name contains a secret; rename it and revoke the secret")
        if self.path == STANDARD_INPUT or _NAME.fullmatch(name):
            return
        if is_request_name(name):
            self.findings.add("TG102", 1, 1, "the file's name is not TR-YYYYMMDD-HHMMSSZ-<slug>.md")
        else:
            self.findings.add(
                "TG101",
                1,
                1,
                "a request's file name is TR-<A-Z a-z 0-9 . _ ->.md; rename it, such as TR-20261122-050000Z-<slug>.md",
            )

    def _check_text(self, source: Source) -> None:
        """Rules for the whole text: hidden characters, secrets, words that no request may have."""
        text = source.text
        for index in islice(hidden_places(text), limits.FINDINGS_PER_RULE):
            line = text.count("\n", 0, index) + 1
            column = index - text.rfind("\n", 0, index)
            self.findings.add("TG107", line, column, f"the hidden character {describe(text[index])}; take it out")
            self.clean = False
        self.secrets = find_secrets(text)
        self.clean = self.clean and not self.secrets

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
        front = read_front(source)
        root, end = read_mapping(front.text), front.end
        if "\\" in front.text:
            self._check_decoded(root, end)
        self.values, self.written = read_keys(root, self.stage, self.bounds), root.value
        values, findings = self.values, self.findings
        name = values.get("backend", DEFAULT_BACKEND)
        if "backend" in root.value and "backend" not in values:  # misspelled: guessed, for what else is wrong
            if why_absent(root.value["backend"][1].text) is not None:
                return  # what else would be right is not known here
            plain = str(root.value["backend"][1].text).strip().casefold()
            name = next((known for known in BACKENDS if known.casefold() == plain), DEFAULT_BACKEND)
        backend = BACKENDS[name]
        check_together(root, values, backend, findings)
        parts = sections.read_sections(source.lines[end + 1 :], end + 2, backend, findings)
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

    def _check_decoded(self, root: YamlNode, last: int) -> None:
        """Escapes in quoted scalars can bring back what the raw text was cleared of."""
        for node in scalars(root):
            if node.style != '"':
                continue
            self._check_escaped(node.text, node.line, node.column, last)

    def _check_escaped(self, text: str, line: int, column: int, last: int, *, secrets_only: bool = False) -> None:
        """A text produced by escapes: it must not bring back anything hidden, or a word that the raw text may
        not contain. It is between the lines `line` and `last`, which are withheld if it contains a secret,
        because a secret can be read even when escaped.
        """
        for index in hidden_places(text):
            message = f"the text decodes to the hidden character {describe(text[index])}; take it out"
            self.findings.add("TG107", line, column, message)
            return
        for problem in check_content(text.replace("#", " ")):
            if problem.rule == "TG501":
                self.withheld.update(range(line - 1, last))
            elif secrets_only:
                continue
            self.findings.add(problem.rule, line, column, problem.message)

    def _make(self, sha256: str) -> None:
        """Make the request, if no rule found an error."""
        values, risk, action = self.values, self.risk, self.action
        failed = any(RULES[problem.rule].severity == "error" for problem in self.findings.problems)
        if failed or risk is None or action is None:
            return
        self.request = Request(
            file_name=PurePath(self.path).name,
            data=self.data,
            sha256=sha256,
            stage=self.stage,
            request_id=values["request_id"],
            created_utc=values["created_utc"],
            requested_by=values["requested_by"],
            approved_by=values.get("approved_by"),
            approved_utc=values.get("approved_utc"),
            purpose=values["purpose"],
            backend=values.get("backend", DEFAULT_BACKEND),
            language=values.get("language", ""),
            network=values["network"],
            cpu_limit=values.get("cpu_limit", Decimal(0)),
            memory_limit_mb=values.get("memory_limit_mb", 0),
            time_limit_sec=values["time_limit_sec"],
            inputs=values.get("inputs", ()),
            workdir=values.get("workdir", "/in"),
            outputs=self.outputs,
            network_allowlist=values.get("network_allowlist", ()),
            constraints=values.get("constraints", ()),
            session_id=values.get("session_id"),
            tool=action.tool_named(values.get("tool")),
            labels=values.get("labels", ()),
            workflow=values.get("workflow"),
            role=values.get("role"),
            risk_domain=values.get("risk_domain"),
            evidence=values.get("evidence", ()),
            action=action,
            risk_level=risk.risk_level,  # type: ignore[arg-type]
            justification=risk.justification,
            data_sensitivity=risk.data_sensitivity,  # type: ignore[arg-type]
            network_rationale=risk.network_rationale,
            unusual_program=self.unusual_program,
            deliver=values.get("deliver"),
        )
        self.exposure = exposure_of(self.request)
        if self.exposure.opaque:
            message = f"not all code that runs is on the screen: {self.exposure.why}"
            self.findings.add("TG332", *self.place, message)

    def knows(self, key: str) -> bool:
        """Whether what a key says is known."""
        return key in self.values or key not in self.written

    def command(self) -> tuple[str, ...] | None:
        """The words of the section Command."""
        piece = sections.read_command_line(self.parts["Command"], self.findings) if "Command" in self.parts else None
        if piece is None:
            return None
        command = read_command(piece.text, programs=self.settings.programs)
        self.place, self.unusual_program = (piece.line, piece.column), command.unusual_program
        for problem in command.problems:
            self.findings.take(problem, line=piece.line, column=piece.column)
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
        for problem in problems:
            self.findings.take(problem, line=piece.line, column=piece.column)
        if info == "json" and not problems and "\\" in piece.text:
            text = "\n\n".join(_strings(json.loads(piece.text)))
            last = piece.line + piece.text.count("\n")
            self._check_escaped(text, piece.line, piece.column, last, secrets_only=mentions_all)
        return piece.text


def _strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, keys included."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            stack.extend((*item, *item.values()))
        elif isinstance(item, list):
            stack.extend(item)
