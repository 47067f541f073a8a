"""The command line: a lazy table of commands, and the one place that decides what an exit code means.

Invariant: nothing heavy is imported until its command is asked for; every error leaves as one line on
stderr and the exit code of its class; Click's own 2 for wrong usage becomes 64.
"""

from __future__ import annotations

import errno
import gc
import importlib
import importlib.util
import sys
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from threegate.cli import invocation
from threegate.core.errors import EXIT_FAILED, EXIT_USAGE, ThreeGateError, place_of

_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Wrong usage. Typer has moved Click's class before; its own public subclass names it wherever it lives."""

COMMANDS: dict[str, tuple[str, str]] = {
    # name: (module below threegate.cli, one line of help)
    "init": ("init_command", "Make a workspace: folders, settings, key, operators."),
    "validate": ("validate_command", "Check tool requests and say what is wrong and where."),
    "rules": ("rules_command", "List the rules of gate 1."),
    "explain": ("explain_command", "Explain one rule, or any other code that is shown."),
    "draft": ("draft_command", "Write a well-formed draft into the inbox."),
    "approve": ("approve_command", "Read, sign and promote a draft."),
    "countersign": ("countersign_command", "Add a second operator's signature to an approved request."),
    "approval": ("approval_command", "Verify an approval, check by check."),
    "review": ("review_command", "Walk through all drafts, one by one."),
    "reject": ("reject_command", "Refuse a draft, with a reason."),
    "cancel": ("cancel_command", "Stop a waiting or running request."),
    "retry": ("retry_command", "Make a fresh draft of an ended request."),
    "diff": ("diff_command", "Compare two requests."),
    "grant": ("grant_command", "Standing grants: new, list, show, revoke."),
    "drill": ("drill_command", "Drafts that must not be approved, to practise reading."),
    "run": ("run_command", "Run the daemon, or one pass with --once."),
    "worker": ("worker_command", "Be a machine of a cluster."),
    "cluster": ("cluster_command", "Many machines: make a CA, certificates and the broker's files."),
    "status": ("status_command", "What waits, runs and has ended."),
    "show": ("show_command", "Everything that is known about one request."),
    "results": ("results_command", "List results, or print one."),
    "result": ("result_command", "Check a result file."),
    "replay": ("replay_command", "Run a finished request again and compare."),
    "stats": ("stats_command", "How people decided: how much, how fast, and how stops went."),
    "audit": ("audit_command", "Show, verify, prove and export the trail."),
    "evidence": ("evidence_command", "Write a pack that an auditor checks without ThreeGate."),
    "witness": ("witness_command", "Cosign the trail checkpoints of other workspaces."),
    "operator": ("operator_command", "Who may approve: add, list, revoke."),
    "aana": ("aana_command", "The Agent Action Contract: check events, sum up decisions."),
    "contracts": ("contracts_command", "The contract language: check, test, decide."),
    "session": ("session_command", "Sessions of the contract gate."),
    "workflow": ("workflow_command", "Workflows of the contract gate."),
    "checkpoint": ("checkpoint_command", "Answer what a contract asks of a person."),
    "kill": ("kill_command", "Kill a session, a subtree or a workflow."),
    "proposal": ("proposal_command", "JSON action proposals: validate, explain, draft."),
    "undo": ("undo_command", "Take a change of a project back."),
    "project": ("project_command", "Projects that may be changed: add, list, remove."),
    "tools": ("tools_command", "Servers of tools (MCP): add, list, show, refresh, remove, test."),
    "memory": ("memory_command", "Notes that proposals may search."),
    "sandbox": ("sandbox_command", "Build and check the sandbox images."),
    "notify": ("notify_command", "Try the notices of the settings."),
    "settings": ("settings_command", "Check and show the settings."),
    "workspace": ("workspace_command", "Adopt a moved or restored workspace."),
    "prune": ("prune_command", "Remove what nothing needs any more."),
    "page": ("page_command", "The operator's page in a browser, to look at only."),
    "serve": ("serve_command", "HTTP and MCP servers (extras)."),
    "agent": ("agent_command", "Agents: run one in a jail, list, show, stop, connect."),
    "service": ("service_command", "The daemon as a systemd service."),
    "doctor": ("doctor_command", "What is enforced on this machine, measured."),
}


def _module_exists(name: str) -> bool:
    return importlib.util.find_spec(f"threegate.cli.{name}") is not None


class LazyGroup(TyperGroup):
    """A group that knows its commands by name and imports one only when it is used."""

    _listing = False

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Names in the order of the table."""
        return [name for name, (module, _) in COMMANDS.items() if _module_exists(module)]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> TyperCommand | TyperGroup | None:  # type: ignore[override]
        """Import the command's module. For the list of `--help` a placeholder with the one line is enough."""
        entry = COMMANDS.get(cmd_name)
        if entry is None or not _module_exists(entry[0]):
            return None
        if self._listing:
            return TyperCommand(cmd_name, help=entry[1], short_help=entry[1])
        module = importlib.import_module(f"threegate.cli.{entry[0]}")
        module.app._add_completion = False  # completion is of the whole command, not of each part
        module.app.rich_markup_mode = None  # a help text is text: [HOST] is no markup
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        command.help = command.help or entry[1]
        return command  # type: ignore[return-value]

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


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=True, rich_markup_mode=None)


_MENDS = {
    errno.ENOSPC: "; make room on this disk, for instance with: threegate prune --older-than 30d",
    errno.EDQUOT: "; make room in your quota, for instance with: threegate prune --older-than 30d",
    errno.EROFS: "; mount this disk writable",
    errno.EACCES: "; do it as the user that it belongs to, or give that to the daemon's user (chown, chmod)",
    errno.EMFILE: "; raise the limit of open files (ulimit -n)",
}
"""What the operating system's errors ask of a person."""


def _version(wanted: bool) -> None:
    if wanted:
        from threegate.core.version import described

        typer.echo(f"threegate {described()}")
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
    """Stands between an AI agent and this machine: nothing runs that a human did not sign."""
    invocation.ROOT.workspace = workspace
    invocation.ROOT.json = json_


_STAYING = frozenset({"run", "serve", "worker"})
"""Words of commands that stay: their garbage is collected as Python does it."""
_COLLECT_AFTER = 200_000
"""New objects before a command that ends soon looks for garbage: twice what it makes while it loads its modules, none of them
garbage. Looking at those again and again, and once more at the end, was a fifth of its processor time."""


def main() -> None:
    """The console script: run a command and end with its exit code."""
    arguments = sys.argv[1:]
    ends_soon = _STAYING.isdisjoint(arguments)
    if ends_soon:
        gc.set_threshold(_COLLECT_AFTER)
    code = execute(arguments)
    if ends_soon:
        gc.freeze()  # spares the look for garbage when Python ends, just before the system takes all memory back
    sys.exit(code)


def execute(arguments: list[str]) -> int:
    """Run one command line and return its exit code; messages go to stderr."""
    command = typer.main.get_command(app)
    try:
        code = command.main(args=arguments, prog_name="threegate", standalone_mode=False)
    except typer.Exit as error:
        return int(error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        invocation.warn("stopped; nothing was changed by what did not finish")
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
        invocation.warn(f"an internal error: {place_of(error)}; please report it, nothing more was done")
        return EXIT_FAILED
    return int(code) if isinstance(code, int) else 0


def _wrong_usage(error: Exception) -> int:
    """One line for wrong usage, or the help text where a group was called without a command."""
    message = str(getattr(error, "message", "") or error)
    place = getattr(error, "ctx", None)
    if "\n" in message or not message:
        if message:  # Typer with rich has printed the help itself
            typer.echo(message, err=True)
        return EXIT_USAGE
    formatted = error.format_message() if hasattr(error, "format_message") else message
    hint = f" (see: {place.command_path} --help)" if place is not None else ""
    invocation.warn(f"{formatted}{hint}")
    return EXIT_USAGE
