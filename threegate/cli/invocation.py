"""What every command needs: its workspace, JSON or text output, and safe printing.

Invariant: text reaches the terminal only through `approval/shown/messages.py`, so no foreign text becomes a line, an
escape sequence, an invisible character or markup.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import termios
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from threegate.approval.shown import messages
from threegate.approval.shown.escaped_lines import HEIGHT, LEAST_WIDTH, WIDTH, quoted
from threegate.approval.shown.messages import emit_data as emit_data
from threegate.approval.shown.messages import prompt as prompt
from threegate.approval.shown.messages import put as put
from threegate.approval.shown.messages import redraw as redraw
from threegate.approval.shown.messages import say as say
from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, NoWorkspace, ThreeGateError, TrailError
from threegate.core.settings import parse_duration
from threegate.core.workspace import Workspace, find_workspace

if TYPE_CHECKING:
    from threegate.launch.context import Context
    from threegate.trail.workspace_key import VerifierKey

PlainFlag = Annotated[
    bool, typer.Option("--plain", help="Print plain lines, even if the extra threegate[tui] is installed.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def argument(metavar: str, text: str, completion: Callable[..., Iterable[str]] | None = None) -> Any:
    """An argument of a command: how it is spelled, its help, and what Tab completes for it."""
    return typer.Argument(metavar=metavar, help=text, autocompletion=completion)


@dataclass
class RootOptions:
    """The options before the command's name; set once, by the root callback."""

    workspace: str = ""
    json: bool = False
    passed_over: Path | None = None
    """The workspace that was named as not used."""


_Key = TypeVar("_Key", bound="VerifierKey")

ROOT = RootOptions()


def workspace_here(*, only_own: bool = False) -> Workspace:
    """The workspace of --workspace, THREEGATE_WORKSPACE, the current folder or one above it, or the default place
    (`find_workspace`); one here that is not used is named. Raises NoWorkspace.
    """

    def pass_over(root: Path) -> None:
        if root != ROOT.passed_over:
            ROOT.passed_over = root
            warn(f"{root}: a workspace that you did not make here, so it is not used; to use it: --workspace {root}")

    return find_workspace(explicit=ROOT.workspace or None, only_own=only_own, pass_over=pass_over)


def threegate_here(workspace: Workspace) -> str:
    """How the program is called for this workspace, from where this process is."""
    with suppress(NoWorkspace):
        if find_workspace().root.samefile(workspace.root):
            return "threegate"
    return shlex.join(("threegate", "--workspace", str(workspace.root)))


def context_here() -> Context:
    """The context that commands and gates work with, for that workspace. Raises NoWorkspace, InvalidInput."""
    from threegate.launch.context import open_context  # late: it loads the gates, which `status` and `init` never need

    return open_context(workspace_here())


def wants_json(flag: bool = False) -> bool:
    """Whether JSON was requested, here or before the command's name."""
    return flag or ROOT.json


def emit_json(value: Any) -> None:
    """Print a JSON value to stdout."""
    emit_data(json.dumps(value, indent=2, ensure_ascii=True, sort_keys=False) + "\n")


def report(json_: bool, value: Any, lines: Iterable[str]) -> None:
    """Print the value as JSON where that was requested, else the lines."""
    if wants_json(json_):
        emit_json(value)
    else:
        put(lines)


def warn(text: str) -> None:
    """Print one of our lines to stderr."""
    messages.say(f"threegate: {text}", err=True)


def one_by_one(acts: Iterable[Callable[[], object]], take: Callable[[object], None] = lambda done: None) -> int:
    """Do one thing after the other and hand on what each returns. If one of several fails, print why and go on; return
    the highest exit code. Raises what the only one raises, TrailError.
    """
    code = 0
    acts = list(acts)
    for act in acts:
        try:
            take(act())
        except typer.Exit as done:
            code = max(code, done.exit_code)
        except TrailError:
            raise
        except ThreeGateError as error:
            if len(acts) == 1:
                raise
            warn(str(error))
            code = max(code, error.exit_code)
    return code


def typed_line(question: str, *, err: bool = False) -> str:
    """What a person types after a question, with the end of the line; empty if the input ended. What was typed before
    the question is not an answer to it.
    """
    with suppress(termios.error, OSError):  # not a terminal
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    prompt(question, err=err)
    return sys.stdin.readline()


def confirmed(question: str) -> bool:
    """Ask a question on the terminal; whether the answer is yes."""
    answer = typed_line(f"{question} [y/N] ")
    if not answer:
        say()
    return answer.strip().lower() in ("y", "yes")


def put_foreign(text: str) -> None:
    """Print a foreign text of several lines, each made safe: behind the gutter on a terminal, else as it is."""
    text = text.rstrip("\n")
    put(quoted(text, width=screen_width()) if sys.stdout.isatty() else text.split("\n"))


def screen_width(*, to_stderr: bool = False) -> int:
    """Columns for a screen with foreign text: the terminal's width, at most WIDTH. Raises InvalidInput below
    LEAST_WIDTH.

    A longer line would wrap, and foreign text could then start a row, where only our own labels may.
    """
    columns = messages.terminal_columns(err=to_stderr) or WIDTH
    if columns < LEAST_WIDTH:
        raise InvalidInput(
            f"this terminal is {columns} columns wide: a question needs at least {LEAST_WIDTH}; make it wider"
        )
    return min(columns, WIDTH)


def screen_height() -> int:
    """Rows for a list that is to fit: the terminal's, or HEIGHT, without the one that the prompt needs."""
    rows = os.get_terminal_size(sys.stdout.fileno()).lines if sys.stdout.isatty() else 0
    return (rows or HEIGHT) - 1


def on_terminal() -> bool:
    """Whether there is a terminal to ask a person on."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def moment_of(text: str) -> datetime:
    """The time given with ``--since``: a date, a time, or a duration ago. Raises InvalidInput."""
    for read in (moment_ago, utc_moment):
        with suppress(ValueError):
            return read(text)
    raise InvalidInput(f"--since {text}: give a date, a time or a duration (2026-11-22, 24h, 7d)")


def moment_ago(duration: str) -> datetime:
    """The time that is so long ago. Raises ValueError."""
    seconds = parse_duration(duration)
    try:
        return datetime.now(UTC) - timedelta(seconds=seconds)
    except OverflowError:
        raise ValueError("longer ago than there are dates") from None


def utc_moment(text: str) -> datetime:
    """A time in ISO 8601, which is in UTC if it does not say. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        raise ValueError("earlier or later than there are dates") from None


def read_key(kind: type[_Key], given: str) -> _Key:
    """A verifier key, given as a file or as the key itself. Raises InvalidInput."""
    if "+" in given and not os.path.lexists(given):
        return kind.parse(given)
    try:
        return kind.parse(
            durable.read_named(Path(given), max_bytes=limits.AUDIT_FILE_BYTES).decode("ascii", "replace").strip()
        )
    except InvalidInput as error:
        raise InvalidInput(str(error) if given in str(error) else f"{given}: {error}") from None
