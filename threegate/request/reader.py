"""Gate 1, whole: bytes in, a report out. The order of the checks is the order of this module.

Invariant: `read_request` never raises, and a `Request` is in the report exactly when no rule found an error;
an error inside the gate is itself an error of the file. Everything is a pure function of bytes, path, settings
and `now`. Source: spec 1, whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from threegate import limits
from threegate.canonical import sha256_hex
from threegate.request import rules, sections
from threegate.request.body import Section, read_sections
from threegate.request.characters import describe, hidden_places, visible
from threegate.request.code import check_code, check_vars
from threegate.request.command import Command, read_command
from threegate.request.content import check_content
from threegate.request.findings import Findings
from threegate.request.front_matter import Bounds, read_keys
from threegate.request.model import OutputFile, Request, Stage
from threegate.request.problem import Problem
from threegate.request.report import Finding, Report
from threegate.request.source import Source, SourceRefused, find_front_matter, read_source
from threegate.request.yaml_nodes import Node, YAMLRefused, read_mapping, scalars
from threegate.secretscan import Found, find_secrets

if TYPE_CHECKING:
    from threegate.settings import RequestSettings

STANDARD_INPUT = "-"
_NAME = re.compile(r"TR-[0-9]{8}-[0-9]{6}Z-[a-z0-9-]{1,64}\.md")
_ANY_NAME = re.compile(r"TR-[A-Za-z0-9._-]{0,200}\.md")
READ_CLOSELY = frozenset({"Command", "Code", "Inputs (JSON)"})
_GRAM = 5
"""A message that shares this many characters in a row with a secret is replaced by its rule's own words."""


def stage_of(path: str) -> Stage:
    """The stage that a file's place says: drafts lie in inbox/ and tool-exec/drafts/, all others are approved."""
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
        rule = rules.RULES["TG199"]
        finding = Finding(rule.id, rule.severity, 1, 1, rule.message, rule.help)
        return Report(path, stage, sha256_hex(data), (finding,), None)


def refuse_unread(path: str, reason: str, stage: Stage | None = None) -> Report:
    """The report of a file that is no request because it is no regular file of its own (a link, a device, too large)."""
    rule = rules.RULES["TG100"]
    finding = Finding(rule.id, rule.severity, 1, 1, visible(f"the file is not read: {reason}"), rule.help)
    return Report(path, stage or stage_of(path), "", (finding,), None)


class _Reading:
    """The reading of one file: what was found so far, step by step."""

    def __init__(
        self, data: bytes, path: str, stage: Stage, settings: RequestSettings, now: datetime
    ) -> None:
        self.data = data
        self.path = path
        self.stage: Stage = stage
        self.settings = settings
        self.findings = Findings()
        self.bounds = Bounds(settings, now, self.findings)
        self.values: dict[str, Any] = {}
        self.secrets: list[Found] = []
        self.source: Source | None = None
        self.request: Request | None = None
        self.parts: dict[str, Section] = {}
        self.risk: sections.RiskLines | None = None
        self.command: Command | None = None
        self.code: str | None = None
        self.vars_json: str | None = None
        self.outputs: tuple[OutputFile, ...] = ()

    def report(self) -> Report:
        """Read everything and say what was found."""
        sha256 = sha256_hex(self.data)
        self._check_name()
        try:
            self.source = read_source(self.data)
        except SourceRefused as error:
            self.findings.take(error.problem)
        else:
            self._check_text(self.source)
            try:
                self._read(self.source)
            except (SourceRefused, YAMLRefused) as error:
                self.findings.take(error.problem)
            for problem in check_content(self._prose(self.source), secrets=self.secrets):
                self.findings.take(problem)
            self._make(sha256)
        findings = self._told()
        valid = all(finding.severity != "error" for finding in findings)
        return Report(
            self.path,
            self.stage,
            sha256,
            findings,
            self.request if valid else None,
            self._masked_lines(),
            self.values.get("request_id"),
        )

    def _check_name(self) -> None:
        name = PurePath(self.path).name
        if self.path == STANDARD_INPUT or _NAME.fullmatch(name):
            return
        if _ANY_NAME.fullmatch(name):
            self.findings.add("TG102", 1, 1, "the file's name is not TR-YYYYMMDD-HHMMSSZ-<slug>.md")
        else:
            self.findings.add("TG101", 1, 1, "a request's file name is TR-<A-Z a-z 0-9 . _ ->.md; rename it")

    def _check_text(self, source: Source) -> None:
        """Rules for the whole text: hidden characters, secrets, words that no request may have."""
        text = source.text
        for index in hidden_places(text):
            line = text.count("\n", 0, index) + 1
            column = index - text.rfind("\n", 0, index)
            self.findings.add(
                "TG107", line, column, f"the hidden character {describe(text[index])}; take it out"
            )
        self.secrets = find_secrets(text)

    def _prose(self, source: Source) -> str:
        """The text with what has a closer reader (command, code, variables) blanked out and no heading left, every
        place kept: what counts as prose is decided by the sections that were read, not by what looks like one."""
        lines = [f" #{line[2:]}" if line.startswith("## ") else line for line in source.lines]
        for section in self.parts.values():
            if section.name in READ_CLOSELY:
                start = section.heading - 1
                end = section.first_line - 1 + len(section.lines)
                lines[start:end] = [" " * len(line) for line in lines[start:end]]
        return "\n".join(lines)

    def _read(self, source: Source) -> None:
        end = find_front_matter(source)
        root = read_mapping("\n".join(source.lines[1:end]), first_line=2, max_depth=limits.FRONT_MATTER_DEPTH)
        self._check_decoded(root)
        self.values = read_keys(root, self.stage, self.bounds)
        backend = self._backend(root)
        self._check_together(root, backend)
        parts = read_sections(source.lines[end + 1 :], end + 2, backend, self.findings)
        if parts is not None:
            self.parts = parts
            self._read_parts(root, backend, parts)

    def _check_decoded(self, root: Node) -> None:
        """Escapes in quoted scalars can bring back what the raw text was cleared of."""
        for node in scalars(root):
            if node.style != '"':
                continue
            for index in hidden_places(node.text):
                message = (
                    f"the text decodes to the hidden character {describe(node.text[index])}; take it out"
                )
                self.findings.at("TG107", node, message)
                break
            for problem in check_content(node.text.replace("#", " ")):
                self.findings.take(Problem(problem.rule, node.line, node.column, problem.message))

    def _backend(self, root: Node) -> str:
        """The backend whose sections are expected; a misspelled one is guessed, and is an error anyway."""
        if "backend" in self.values:
            return str(self.values["backend"])
        written = root.value["backend"][1].text if "backend" in root.value else "ERA"
        return "monty" if written.strip().casefold() == "monty" else "ERA"

    def _check_together(self, root: Node, backend: str) -> None:
        """Rules between keys."""
        values, findings = self.values, self.findings

        def place(name: str) -> Node:
            return root.value[name][1] if name in root.value else Node("", "", 1, 1)

        if backend == "monty":
            if "language" in values and values["language"].casefold() != "python":
                findings.at("TG137", place("language"), "language must be python for backend monty")
            if values.get("network") == "allowlist":
                findings.at(
                    "TG138", place("network"), "network must be none for backend monty, which has no network"
                )
        if "network" in values and (values["network"] == "allowlist") != ("network_allowlist" in root.value):
            findings.at(
                "TG158",
                place("network_allowlist"),
                "network_allowlist is there exactly when network is allowlist",
            )
        created, approved = values.get("created_utc"), values.get("approved_utc")
        if created is not None and approved is not None and approved < created:
            findings.at("TG144", place("approved_utc"), "approved_utc lies before created_utc")
        below = values.get("workdir", "/in").removeprefix("/in").removeprefix("/").split("/")[0]
        stems = {item.name.removesuffix(".tar") for item in values.get("inputs", ()) if item.unpack}
        if below and values["workdir"] != "/out" and below not in stems:
            findings.at(
                "TG155", place("workdir"), "workdir lies in no unpacked input; only those make folders in /in"
            )

    def _read_parts(self, root: Node, backend: str, parts: dict[str, Section]) -> None:
        """Read the sections."""
        findings, values = self.findings, self.values
        if backend == "ERA":
            self.command = self._command(parts)
            if "Input Files" in parts:
                listed = sections.read_file_list(parts["Input Files"], "TG230", "/in/", findings)
                if listed is not None and ("inputs" in values or "inputs" not in root.value):
                    sections.check_input_list(
                        listed, values.get("inputs", ()), findings, parts["Input Files"]
                    )
        else:
            self.code = self._block(parts, "Code", "TG221", "python", check_code)
            self.vars_json = self._block(parts, "Inputs (JSON)", "TG222", "json", check_vars)
        if "Output Expectations" in parts:
            section = parts["Output Expectations"]
            files = sections.read_file_list(section, "TG240", "/out/", findings)
            if files is not None:
                self.outputs = sections.merge_outputs(
                    files, values.get("outputs_expected"), findings, section
                )
        if "Risk Assessment" in parts:
            self.risk = sections.read_risk(parts["Risk Assessment"], values.get("network"), findings)

    def _make(self, sha256: str) -> None:
        """Make the request, if no rule found an error."""
        values, risk, command = self.values, self.risk, self.command
        failed = any(rules.RULES[problem.rule].severity == "error" for problem in self.findings.problems)
        if failed or risk is None:
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
            backend=values.get("backend", "ERA"),
            language=values["language"],
            network=values["network"],
            cpu_limit=values["cpu_limit"],
            memory_limit_mb=values["memory_limit_mb"],
            time_limit_sec=values["time_limit_sec"],
            inputs=values.get("inputs", ()),
            workdir=values.get("workdir", "/in"),
            outputs=self.outputs,
            network_allowlist=values.get("network_allowlist", ()),
            constraints=values.get("constraints", ()),
            session_id=values.get("session_id"),
            tool=values.get("tool"),
            labels=values.get("labels", ()),
            workflow=values.get("workflow"),
            role=values.get("role"),
            risk_domain=values.get("risk_domain"),
            evidence=values.get("evidence", ()),
            argv=command.argv if command is not None else None,
            code=self.code,
            vars_json=self.vars_json,
            risk_level=risk.risk_level,  # type: ignore[arg-type]
            justification=risk.justification,
            data_sensitivity=risk.data_sensitivity,  # type: ignore[arg-type]
            network_rationale=risk.network_rationale,
            unusual_program=command is not None and command.unusual_program,
        )

    def _command(self, parts: dict[str, Section]) -> Command | None:
        if "Command" not in parts:
            return None
        piece = sections.read_command_line(parts["Command"], self.findings)
        if piece is None:
            return None
        command = read_command(piece.text, programs=self.settings.programs)
        for problem in command.problems:
            self.findings.take(problem, line=piece.line, column=piece.column)
        return command

    def _block(self, parts: dict[str, Section], name: str, rule: str, info: str, check: Any) -> str | None:
        if name not in parts:
            return None
        piece = sections.read_block(parts[name], rule, info, self.findings)
        if piece is None:
            return None
        for problem in check(piece.text):
            self.findings.take(problem, line=piece.line, column=piece.column)
        return piece.text

    def _told(self) -> tuple[Finding, ...]:
        """The findings by place, with severity and help of their rules, and without a trace of a secret."""
        grams = self._secret_grams()
        told = []
        for problem in self.findings.problems:
            rule = rules.RULES[problem.rule]
            message = rule.message if _shares(problem.message, grams) else visible(problem.message)
            told.append(Finding(rule.id, rule.severity, problem.line, problem.column, message, rule.help))
        return tuple(sorted(told, key=lambda item: (item.line, item.column, item.rule)))

    def _secret_grams(self) -> frozenset[str]:
        if self.source is None:
            return frozenset()
        grams: set[str] = set()
        for found in self.secrets:
            text = self.source.text[found.start : found.end]
            grams.update(text[index : index + _GRAM] for index in range(max(len(text) - _GRAM, 0) + 1))
        return frozenset(grams)

    def _masked_lines(self) -> tuple[str, ...]:
        if self.source is None:
            return ()
        if not self.secrets and not any(problem.rule == "TG107" for problem in self.findings.problems):
            return self.source.lines
        return tuple(_mask(self.source.text, self.secrets).split("\n"))


def _shares(message: str, grams: frozenset[str]) -> bool:
    return bool(grams) and any(
        message[index : index + _GRAM] in grams for index in range(max(len(message) - _GRAM, 0) + 1)
    )


def _mask(text: str, secrets: Sequence[Found]) -> str:
    """The text with each secret replaced by its kind and each hidden character shown; lines stay lines."""
    parts: list[str] = []
    last = 0
    for found in sorted(secrets, key=lambda item: item.start):
        if found.end <= last:
            continue
        start = max(found.start, last)
        parts.append(text[last:start])
        parts.append(f"[{found.kind}]" + "\n" * text.count("\n", start, found.end))
        last = found.end
    parts.append(text[last:])
    return visible("".join(parts))
