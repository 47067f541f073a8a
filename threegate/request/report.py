"""What gate 1 says about a file: findings sorted by place, and the request when there is no error."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

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
        """The finding as a JSON object with the six keys of spec 1."""
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

    @property
    def valid(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.severity != "error" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The report of one file as in `threegate.report/1`."""
        return {
            "path": self.path,
            "stage": self.stage,
            "valid": self.valid,
            "findings": [finding.to_json() for finding in self.findings],
        }
