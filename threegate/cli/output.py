"""How reports are printed: text with a caret, JSON, SARIF 2.1.0, GitHub annotations.

Invariant: source lines come only from a report's masked lines, so no format can print a secret. Text is a list of
lines, because the name of a file may have line breaks; whoever prints them makes each safe for a terminal.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from threegate import __version__
from threegate.request.gate_rules import RULES
from threegate.request.report import REPORT_SCHEMA, Finding, Report

FORMATS = ("text", "json", "sarif", "github")
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
PROJECT = "https://github.com/threegate/threegate"
_LINE_CHARS = 160
_TAB = 4


def render(reports: Sequence[Report], form: str) -> str:
    """All reports as data: `json` or `sarif`."""
    if form == "sarif":
        return _dump(sarif(reports))
    return _dump({"schema": REPORT_SCHEMA, "files": [report.to_json() for report in reports]})


def report_lines(reports: Sequence[Report], form: str = "text", *, show_help: bool = True) -> list[str]:
    """All reports as lines: `text` for people, or `github`."""
    if form == "github":
        return [line for report in reports for line in _annotations(report)]
    lines = [line for report in reports for line in _text(report, show_help)]
    return [*lines, *_sum(reports)]


def _dump(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=True) + "\n"


def _text(report: Report, show_help: bool) -> Iterable[str]:
    if not report.findings:
        yield f"{report.path}: valid ({report.stage})"
        return
    told: set[str] = set()
    for finding in report.findings:
        place = f"{report.path}:{finding.line}:{finding.column}"
        yield f"{place}: {finding.severity} {finding.rule}: {finding.message}"
        yield from caret(report.masked_lines, finding)
        if show_help and finding.rule not in told:
            yield f"      = {finding.help}"
        told.add(finding.rule)


def caret(lines: Sequence[str], finding: Finding) -> Iterable[str]:
    """The source line with a mark under the position, cut if it is long. Empty if there is no such line."""
    if not 1 <= finding.line <= len(lines):
        return
    line = lines[finding.line - 1]
    column = min(finding.column, len(line) + 1)
    start = max(0, column - 1 - _LINE_CHARS // 2) if len(line) > _LINE_CHARS else 0
    before = line[start : column - 1].replace("\t", " " * _TAB)
    shown = before + line[column - 1 : start + _LINE_CHARS].replace("\t", " " * _TAB)
    yield f"{finding.line:5} | {shown}"
    yield f"      | {' ' * width(before)}^"


def width(text: str) -> int:
    """The number of terminal columns that `text` takes: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)

    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _sum(reports: Sequence[Report]) -> Iterable[str]:
    if len(reports) < 2:
        return
    invalid = sum(not report.valid for report in reports)
    found = [finding.severity for report in reports for finding in report.findings]
    yield (
        f"{len(reports)} files: {len(reports) - invalid} valid, {invalid} invalid; "
        f"{found.count('error')} errors, {found.count('warning')} warnings"
    )


def _annotations(report: Report) -> Iterable[str]:
    """GitHub workflow commands, one per finding."""
    for finding in report.findings:
        properties = (
            f"file={_property(report.path)},line={finding.line},col={finding.column},title={_property(finding.rule)}"
        )
        yield f"::{finding.severity} {properties}::{_data(f'{finding.message}. {finding.help}')}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def sarif(reports: Sequence[Report]) -> dict[str, Any]:
    """One SARIF 2.1.0 run over all reports, with the rules that found something."""
    used = [rule for rule in RULES.values() if any(f.rule == rule.id for r in reports for f in r.findings)]
    index = {rule.id: number for number, rule in enumerate(used)}
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "threegate",
                        "version": __version__,
                        "informationUri": PROJECT,
                        "rules": [
                            {
                                "id": rule.id,
                                "name": rule.name,
                                "shortDescription": {"text": rule.message},
                                "help": {"text": rule.help},
                                "defaultConfiguration": {"level": rule.severity},
                            }
                            for rule in used
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [
                    {
                        "ruleId": finding.rule,
                        "ruleIndex": index[finding.rule],
                        "level": finding.severity,
                        "message": {"text": finding.message},
                        "locations": [
                            {
                                "physicalLocation": {
                                    "artifactLocation": {"uri": quote(os.fsencode(report.path))},
                                    "region": {"startLine": finding.line, "startColumn": finding.column},
                                }
                            }
                        ],
                    }
                    for report in reports
                    for finding in report.findings
                ],
            }
        ],
    }
