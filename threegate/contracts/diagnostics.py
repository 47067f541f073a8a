"""What the compiler reports about a contracts folder, and what each code means.

Invariant: every code that is used has an entry in `CODES`; `validate --explain CODE` prints it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from threegate.contracts.codes import CODES

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, order=True)
class Diagnostic:
    """One thing the compiler found. `line` and `column` count from 1; `path` is the field in the file."""

    file: str
    line: int
    column: int
    code: str
    severity: Severity
    path: str
    message: str

    def to_json(self) -> dict[str, Any]:
        """The diagnostic as a JSON object, with the help of its code."""
        return {**asdict(self), "help": CODES[self.code].help}

    def render(self) -> str:
        """One line for people: file:line:column: severity CODE message."""
        where = f" ({self.path})" if self.path else ""
        return f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.code}{where}: {self.message}"


def error(code: str, file: str, message: str, *, line: int = 1, column: int = 1, path: str = "") -> Diagnostic:
    """A diagnostic with the severity of its code."""
    return Diagnostic(file, line, column, code, CODES[code].severity, path, message)
