"""The command line, and the one place that maps errors to exit codes.

Invariant: every error leaves as one line on stderr with the exit code of its class; wrong usage is 64.
"""

from __future__ import annotations

import errno
import os
import sys
import threading

import typer

from threegate.cli import invocation
from threegate.cli.nouns import Root
from threegate.core.errors import EXIT_FAILED, EXIT_USAGE, ThreeGateError, place_of
from threegate.core.own_process import this_process
from threegate.core.version import described

_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Wrong usage. Typer publishes only this subclass of it."""

app = typer.Typer(cls=Root, no_args_is_help=True, rich_markup_mode=None)


_FIXES = {
    errno.ENOSPC: "; make room on this disk, for instance with: threegate audit prune --older-than 30d",
    errno.EDQUOT: "; make room within your quota, for instance with: threegate audit prune --older-than 30d",
    errno.EROFS: "; mount this disk writable",
    errno.EACCES: "; run this as the owner, or give the daemon's user access (chown, chmod)",
    errno.EMFILE: "; raise the limit on open files (ulimit -n)",
}
"""What to do about an error of the operating system, by errno."""


def _version(wanted: bool) -> None:
    if wanted:
        invocation.say(f"threegate {described()}")
        raise typer.Exit


@app.callback()
def threegate(
    workspace: str = typer.Option(
        "", "--workspace", "-w", metavar="DIR", help="The workspace; default: here or above, else your own."
    ),
    json_: bool = typer.Option(False, "--json", help="Print JSON, for every command that prints."),
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print version and commit."
    ),
) -> None:
    """Stand between an AI agent and this machine: nothing runs that a human did not sign."""
    invocation.ROOT.workspace = workspace
    invocation.ROOT.json = json_


def main() -> None:
    """The console script: run a command and end with its exit code."""
    _read_names_as_utf8()
    # Else any package of this environment could register code that sees and changes what is validated.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    threading.excepthook = _thread_failed
    sys.exit(execute(sys.argv[1:]))


def _read_names_as_utf8() -> None:
    """Start again if the locale makes Python decode file names as another encoding: they are bytes, and what we write
    of them is UTF-8.
    """
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        words = this_process("-X", "utf8")
        os.execve(words[0], words, {**os.environ, "PYTHONUTF8": "1"})  # noqa: S606  (the same program)


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    """The same for a thread: no traceback, whose text may be foreign."""
    if failed.exc_value is not None:
        invocation.warn(f"internal error: {place_of(failed.exc_value)}; please report it")


def execute(arguments: list[str]) -> int:
    """Run one command line and return its exit code; messages go to stderr."""
    command = typer.main.get_command(app)
    try:
        code = command.main(args=arguments, prog_name="threegate", standalone_mode=False)
    except typer.Exit as error:
        return int(error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        invocation.warn("stopped; unfinished work changed nothing")
        return EXIT_FAILED
    except ThreeGateError as error:
        invocation.warn(str(error))
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_FAILED
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        invocation.warn(f"{name}{error.strerror or error}{_FIXES.get(error.errno or 0, '')}")
        return EXIT_FAILED
    except _UsageError as error:
        return _wrong_usage(error)
    except Exception as error:  # noqa: BLE001 - nobody is shown a traceback; an internal error is named as one
        invocation.warn(f"internal error: {place_of(error)}; the command stopped here, please report it")
        return EXIT_FAILED
    return int(code) if isinstance(code, int) else 0


def _wrong_usage(error: Exception) -> int:
    """One line for wrong usage, or the help text where a group was called without a command."""
    message = str(getattr(error, "message", "") or error)
    if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help, if that was not printed yet
        if message:
            invocation.put(message.split("\n"), err=True)
        return EXIT_USAGE
    place = getattr(error, "ctx", None)
    formatted = error.format_message() if hasattr(error, "format_message") else message
    hint = f" (see: {place.command_path} --help)" if place is not None else ""
    invocation.warn(f"{formatted}{hint}")
    return EXIT_USAGE
