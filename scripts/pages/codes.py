"""docs/codes.md: every exit code, status and reason code, with what to do.

What a code means for a person is said once, in threegate/review/code_descriptions.py and beside what gives it; a test
reads the code's own text for codes and finds each of them on the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from threegate.contracts.codes import CODES
from threegate.contracts.reasons import REASONS
from threegate.judgement.judge import WAITING_CODES
from threegate.launch.results.model import ToolResult
from threegate.request.gate_rules import TYPES
from threegate.review.code_descriptions import (
    AANA,
    APPROVAL,
    DOCTOR,
    EXITS,
    HTTP,
    LOG,
    OTHERS,
    PROPOSALS,
    ROUTES,
    STATES,
    STATUSES,
    WALLS,
    WORDS,
    WORKER,
)
from threegate.review.fitness import DRAFT_RULES


def codes_page() -> str:
    """The whole page, ending with a newline."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Every exit code, status and reason code"
    yield ""
    yield "This page explains every code that a screen, a file or an exit shows, and what to do about it."
    yield ""
    yield (
        "`threegate validate --explain CODE` prints the same. Rules of gate 1 (TG…) are in [rules.md](rules.md), kinds"
    )
    yield "of event in [events.md](events.md). `scripts/generate_docs.py` makes this page."
    yield from _table("Exit codes of the command", "exit code", EXITS)
    known = get_args(ToolResult.model_fields["status"].annotation)
    yield from _table("Status of a result", "status", {name: STATUSES[name] for name in known})
    drafts = {**DRAFT_RULES, TYPES.id: TYPES.help}
    yield from _table("Findings that only the daemon and `approve` make", "rule", drafts)
    yield from _table("Gate 2: approval", "reason", APPROVAL)
    waiting = ", ".join(f"`{code}`" for code in sorted(WAITING_CODES))
    yield from ("", f"{waiting} leave a request waiting; all others end it.")
    yield from _table("Gate 3a: the Agent Action Contract", "blocker", AANA)
    yield from _table("AANA: routes", "route", ROUTES)
    yield from _table("Gate 3b: contracts", "reason", REASONS)
    diagnostics = {code: entry.help for code, entry in CODES.items() if entry.severity == "error"}
    warnings = {code: entry.help for code, entry in CODES.items() if entry.severity != "error"}
    yield from _table("Diagnostics of contract files", "error", diagnostics)
    yield from _table("Warnings of contract files", "warning", warnings)
    yield from _table("Verdicts: states", "state", STATES)
    yield from _table("Proposals", "code", PROPOSALS)
    yield from _table("What a worker refuses (cluster.md)", "code", WORKER)
    yield from _table("Everything else", "reason", OTHERS)
    walls = {f"{head}…": text for head, text in WALLS.items()}
    yield from _table("Lines of `threegate doctor`", "line", {**DOCTOR, **walls})
    yield from _table("First words of the daemon's log", "word", LOG)
    yield from _table("Answers of the HTTP server", "code", HTTP)
    yield from _table("Words that screens show", "word", WORDS)


def _table(title: str, what: str, rows: dict[str, str]) -> Iterator[str]:
    yield from ("", f"## {title}", "", f"| {what} | what it means, and what to do |", "|---|---|")
    for name, text in rows.items():
        yield f"| `{name}` | {text.replace('|', '/')} |"
