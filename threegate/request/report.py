"""Gate 1's report on a file: findings sorted by position, fixes for some of them, and the request if there is
no error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from threegate.request.exposure import Exposure, exposure_json
from threegate.request.model import Request, Stage

Severity = Literal["error", "warning"]
REPORT_SCHEMA = "threegate.report/1"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found. `line` and `column` count from 1; `message` never repeats a secret."""

    rule: str
    severity: Severity
    line: int
    column: int
    message: str
    help: str

    def to_json(self) -> dict[str, Any]:
        """The finding as a JSON object with the six keys of docs/spec/1-tool-request.md."""
        return asdict(self)


Op = Literal["replace", "insert", "delete", "rename"]


@dataclass(frozen=True, slots=True)
class Fix:
    """One change of whole lines that answers a finding of `rule`; any program can apply it.

    replace: line `line` becomes `text`; insert: `text` comes before line `line` (one more than the last line: at the
    end); delete: line `line` goes, `text` is empty; rename: the file's name becomes `text`, `line` is 1. `line`
    counts from 1 in the file as it was, split at LF or CRLF; `text` may hold several lines.
    """

    rule: str
    op: Op
    line: int
    text: str = ""

    def to_json(self) -> dict[str, Any]:
        """The fix as a JSON object, as in `threegate.report/1` and in verdicts."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of reading one file. `request` is there exactly when no finding is an error."""

    path: str
    stage: Stage
    sha256: str
    findings: tuple[Finding, ...]
    request: Request | None
    masked_lines: tuple[str, ...] = ()
    """The source with secrets masked and invisible characters shown, for carets and previews."""
    request_id: str | None = None
    """The id as far as it could be read, also from an invalid file."""
    exposure: Exposure | None = None
    """Opacity and reach of `request`; None where there is none."""
    fixes: tuple[Fix, ...] = ()
    """What `threegate.request.fixes` offers for the findings; empty until it was asked."""
    known: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What was read, of an invalid file too: the accepted keys of the front matter by name, and the lines of each
    section without an error by its heading."""

    @property
    def valid(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.severity != "error" for finding in self.findings)

    @property
    def first_error(self) -> Finding:
        """What keeps the file from being a request; only where it is none."""
        return next(finding for finding in self.findings if finding.severity == "error")

    def to_json(self) -> dict[str, Any]:
        """The report of one file as in `threegate.report/1`."""
        return {
            "path": self.path,
            "stage": self.stage,
            "valid": self.valid,
            **exposure_json(self.exposure),
            "findings": [finding.to_json() for finding in self.findings],
            "fixes": [fix.to_json() for fix in self.fixes],
        }
