"""docs/codes.md: every exit code, status and reason code, with what to do.

What a code means for a person is said once, in threegate/review/code_descriptions.py and beside what gives it; a test reads the
code's own text for codes and finds each of them on the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from threegate.contracts.reasons import REASONS
from threegate.core.errors import EXIT_FAILED, EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from threegate.judgement.judge import WAITING_CODES
from threegate.results.model import ToolResult
from threegate.review.code_descriptions import AANA, APPROVAL, OTHERS, WORKER

EXITS = {
    EXIT_OK: "fine. `run` and `run --once`: they did their work, whatever became of the requests",
    EXIT_REFUSED: "the file or act that was asked about is invalid or refused; `doctor`: a line failed",
    EXIT_FAILED: "it could not be done: a program, the disk, the trail, another daemon; `run`: launches had to stop",
    EXIT_USAGE: "wrong usage, or no workspace here",
}

STATUSES = {
    "succeeded": "it ran to its end and the exit code is 0",
    "failed": "it ran, and ended with another exit code or an error",
    "timed_out": "stopped at time_limit_sec",
    "out_of_memory": "stopped at memory_limit_mb",
    "process_limit": "stopped at the limit of processes",
    "output_exceeded": "stopped at the limits of /out, stdout or stderr",
    "cancelled": "stopped by the operator, or by the end of its parent session",
    "unavailable": "no instruction of it ran: the sandbox could not be made",
    "interrupted": "the daemon ended while it ran; it is never run again by itself",
    "refused": "nothing of it ran; `reason` says why",
}


def codes_page() -> str:
    """The whole page, ending with a newline."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Every exit code, status and reason code"
    yield ""
    yield "Made by `scripts/generate_docs.py`. Rules of gate 1 (TG…) stand in [rules.md](rules.md), diagnostics of contract"
    yield "files in [contracts.md](contracts.md), kinds of event in [events.md](events.md)."
    yield from _table(
        "Exit codes of the command", "exit code", {str(code): text for code, text in EXITS.items()}
    )
    known = get_args(ToolResult.model_fields["status"].annotation)
    yield from _table("Status of a result", "status", {name: STATUSES[name] for name in known})
    yield from _table("Gate 2: approval", "reason", APPROVAL)
    waiting = ", ".join(f"`{code}`" for code in sorted(WAITING_CODES))
    yield from ("", f"{waiting} leave a request waiting; all others end it.")
    yield from _table("Gate 3a: the Agent Action Contract", "blocker", AANA)
    yield from _table("Gate 3b: contracts", "reason", REASONS)
    yield from _table("What a worker refuses (cluster.md)", "code", WORKER)
    yield from _table("Everything else", "reason", OTHERS)


def _table(title: str, what: str, rows: dict[str, str]) -> Iterator[str]:
    yield from ("", f"## {title}", "", f"| {what} | what it means, and what to do |", "|---|---|")
    for name, text in rows.items():
        yield f"| `{name}` | {text.replace('|', '/')} |"
