"""The command line: a lazy table of commands, and the one place that maps errors to exit codes.

Invariant: a command's heavy imports happen only when that command is used; every error leaves as one line on
stderr with the exit code of its class; Click's own 2 for wrong usage becomes 64.
"""

from __future__ import annotations

import errno
import gc
import importlib
import importlib.util
import inspect
import os
import sys
import threading
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo

from threegate.cli import invocation
from threegate.cli.plugin_commands import find_command, names_below
from threegate.core.errors import EXIT_FAILED, EXIT_USAGE, ThreeGateError, place_of

_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Wrong usage. Typer has moved Click's class between versions; Typer's public subclass is importable in all
of them.
"""

COMMANDS: dict[str, tuple[str, str]] = {
    # name: (module below threegate.cli, one-line help, the same as the first line of the command's docstring)
    "init": ("init_command", "Make a workspace: folders, settings, key and first operator."),
    "validate": ("validate_command", "Check tool requests and say what is wrong and where."),
    "rules": ("rules_command", "List the rules of gate 1."),
    "explain": ("explain_command", "Explain a rule or any other code that ThreeGate shows."),
    "draft": ("draft_command", "Write a well-formed draft into the inbox."),
    "approve": ("approve_command", "Read, sign and promote a draft or a group of drafts."),
    "countersign": ("countersign_command", "Add a second operator's signature to an approved request."),
    "approval": ("approval_command", "Verify an approval, check by check."),
    "review": ("review_command", "Walk through all drafts and decide on each."),
    "reject": ("reject_command", "Refuse drafts, with a reason for the agent."),
    "cancel": ("cancel_command", "Stop a waiting or running request."),
    "retry": ("retry_command", "Make a fresh draft of an ended request."),
    "diff": ("diff_command", "Compare two requests, field by field."),
    "run": ("run_command", "Run the daemon in the foreground."),
    "status": ("status_command", "Show what is waiting, running and finished, and who must act."),
    "show": ("show_command", "Show everything known about one request."),
    "results": ("results_command", "List the results, or print those of one request."),
    "result": ("result_command", "Check result files."),
    "replay": ("replay_command", "Run a finished request again and compare its outputs."),
    "stats": ("stats_command", "Show who decided how much and how fast."),
    "audit": ("audit_command", "Show, verify, prove and export the trail."),
    "operator": ("operator_command", "Add, list and revoke the people who can approve."),
    "aana": ("aana_command", "Check events of the Agent Action Contract."),
    "contracts": ("contracts_command", "Check, test and play contracts."),
    "session": ("session_command", "Open, show and end sessions of the contract gate."),
    "workflow": ("workflow_command", "Show and end workflows of the contract gate."),
    "checkpoint": ("checkpoint_command", "Answer contract checkpoints."),
    "kill": ("kill_command", "End a session, a subtree or a workflow for good."),
    "sandbox": ("sandbox_command", "Build and check the sandbox images."),
    "settings": ("settings_command", "Check and show the settings."),
    "workspace": ("workspace_command", "Adopt a moved or restored workspace."),
    "prune": ("prune_command", "Remove runs and inputs that are no longer needed."),
    "service": ("service_command", "Run the daemon as a systemd service."),
    "doctor": ("doctor_command", "Check and measure what is enforced on this machine."),
}


def _module_exists(name: str) -> bool:
    return importlib.util.find_spec(f"threegate.cli.{name}") is not None


class Command(TyperCommand):
    """A command whose help shows its examples unwrapped and describes every argument."""

    def argument_texts(self) -> dict[str, str]:
        """The help of each argument by its name.

        It is read from the annotations, because Click 8.5 empties the `help` that Typer below 0.25 gives an
        argument.
        """
        hints = get_type_hints(inspect.unwrap(self.callback), include_extras=True) if self.callback else {}
        return {
            name: note.help
            for name, hint in hints.items()
            for note in getattr(hint, "__metadata__", ())
            if isinstance(note, ArgumentInfo) and note.help
        }

    def examples(self) -> list[str]:
        """The command lines of the help's last paragraph, `Example: …` or `Examples: …`."""
        *_, last = (self.help or "").split("\n\n")
        label, _, lines = last.partition(":")
        return [line.strip() for line in lines.splitlines()] if label in ("Example", "Examples") else []

    def format_help_text(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write what the command does; its examples are not wrapped."""
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text((self.help or "").replace("\n\nExample", "\n\n\b\nExample"))

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the arguments and the options. The arguments' texts are set only while this runs."""
        texts = self.argument_texts()
        for item in self.params:
            if item.name in texts:
                setattr(item, "help", texts[item.name])  # noqa: B010 - Click's class has it from 8.5 on only
        super().format_options(ctx, formatter)

    def format_arguments(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Return nothing: from 8.5 on, Click would repeat the arguments that Typer already lists."""


class LazyGroup(TyperGroup):
    """A group that knows its commands by name and imports one only when it is used: the core's table, or what a
    module of commands has, and what plugins add to it.
    """

    path = ""
    """The words between `threegate` and its commands; empty for all commands."""
    _listing = False

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Names in the order of the table; those of plugins are last."""
        own = super().list_commands(ctx)
        if not self.path:
            own = [name for name, (module, _) in COMMANDS.items() if _module_exists(module)]
        return [*own, *(name for name in names_below(self.path, _workspace_of(ctx)) if name not in own)]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> TyperCommand | TyperGroup | None:  # type: ignore[override]
        """Import the command's module. While `--help` builds its list, return a placeholder with the one-line
        help.
        """
        if self.path:
            own: Any = super().get_command(ctx, cmd_name)
            return own or self._of_a_plugin(ctx, f"{self.path} {cmd_name}")
        entry = COMMANDS.get(cmd_name)
        if entry is None or not _module_exists(entry[0]):
            return self._of_a_plugin(ctx, cmd_name)
        if self._listing:
            return _placeholder(cmd_name, entry[1])
        return _prepared(cmd_name, entry[1], importlib.import_module(f"threegate.cli.{entry[0]}").app)

    def _of_a_plugin(self, ctx: typer.Context, path: str) -> TyperCommand | TyperGroup | None:
        try:
            found = find_command(path, _workspace_of(ctx))
        except ThreeGateError:
            if ctx.resilient_parsing or self._listing:  # completing a line never fails
                return None
            raise
        if found is None:
            return None
        if self._listing:
            return _placeholder(path.split(" ")[-1], found.help)
        return _prepared(path, found.help, found.load())

    def shell_complete(self, ctx: typer.Context, incomplete: str) -> list[Any]:  # type: ignore[override]
        """Names for the shell's completion, without importing a single command."""
        self._listing = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._listing = False

    def get_help(self, ctx: typer.Context) -> str:  # type: ignore[override]
        """The help text, without importing a single command."""
        self._listing = True
        try:
            return super().get_help(ctx)
        finally:
            self._listing = False


def _workspace_of(ctx: typer.Context) -> str:
    """The value of --workspace; the root's callback, which keeps it, runs later."""
    return str(ctx.find_root().params.get("workspace") or "")


def _placeholder(name: str, summary: str) -> TyperCommand:
    return TyperCommand(name, help=summary, short_help=summary)


def _prepared(path: str, summary: str, own: typer.Typer) -> TyperCommand | TyperGroup:
    """The command of an application of its own, by the words after `threegate`."""
    own._add_completion = False  # complete the whole command, not its parts
    own.rich_markup_mode = None  # plain text: [HOST] is not markup
    own.info.cls = LazyGroup
    for registered in own.registered_commands:
        registered.cls = Command
    command = typer.main.get_command(own)
    command.name = path.split(" ")[-1]
    if isinstance(command, LazyGroup):
        command.help, command.path = summary, path
    return command  # type: ignore[return-value]


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=True, rich_markup_mode=None)


_MENDS = {
    errno.ENOSPC: "; make room on this disk, for instance with: threegate prune --older-than 30d",
    errno.EDQUOT: "; make room within your quota, for instance with: threegate prune --older-than 30d",
    errno.EROFS: "; mount this disk writable",
    errno.EACCES: "; run this as the owner, or give the daemon's user access (chown, chmod)",
    errno.EMFILE: "; raise the limit on open files (ulimit -n)",
}
"""What to do about an error of the operating system, by errno."""


def _version(wanted: bool) -> None:
    if wanted:
        from threegate.core.version import described

        invocation.say(f"threegate {described()}")
        raise typer.Exit


@app.callback()
def threegate(
    workspace: str = typer.Option(
        "", "--workspace", "-w", metavar="DIR", help="The workspace; default: here or above."
    ),
    json_: bool = typer.Option(False, "--json", help="Print JSON, for every command that prints."),
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print version and commit."
    ),
) -> None:
    """Stand between an AI agent and this machine: nothing runs that a human did not sign."""
    invocation.ROOT.workspace = workspace
    invocation.ROOT.json = json_


_COLLECT_AFTER = 200_000
"""How many new objects a short command may make before the collector runs: about twice what loading its
modules makes, none of which is garbage. The collector used to take a fifth of such a command's processor
time. A command that keeps running says so (`invocation.keep_running`).
"""


def main() -> None:
    """The console script: run a command and end with its exit code."""
    _read_names_as_utf8()
    arguments = sys.argv[1:]
    threading.excepthook = _thread_failed
    gc.set_threshold(_COLLECT_AFTER)
    code = execute(arguments)
    gc.freeze()  # skip the final collection; the process is about to exit anyway
    sys.exit(code)


def _read_names_as_utf8() -> None:
    """Start again where the locale makes Python take names of files for another encoding: names are bytes, and what we
    write of them is UTF-8.
    """
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        from threegate.core.own_process import this_process

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
        invocation.warn(f"{name}{error.strerror or error}{_MENDS.get(error.errno or 0, '')}")
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
    place = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":  # of Click; its message is the help, if that was not printed yet
        if message:
            invocation.put(message.split("\n"), err=True)
        return EXIT_USAGE
    formatted = error.format_message() if hasattr(error, "format_message") else message
    hint = f" (see: {place.command_path} --help)" if place is not None else ""
    invocation.warn(f"{formatted}{hint}")
    return EXIT_USAGE
