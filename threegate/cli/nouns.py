"""The commands: twenty-one nouns in four panels, with the verbs of the core and those that plugins add below them.

Invariant: a module of commands is imported when its noun is typed, and a plugin's only for a verb that the core does
not have. A noun that can do nothing here is not listed; if it is typed, the error says which plugin is missing.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import typer
from typer.core import TyperCommand, TyperGroup

from threegate.cli.invocation import ROOT
from threegate.core.errors import ThreeGateError, Unavailable, WrongUsage
from threegate.core.plugins import OFF, Place
from threegate.core.workspace import find_workspace

PANELS: Final[Mapping[str, Mapping[str, str]]] = {
    "Work": {
        "draft": "Write a draft, or draft an ended request again.",
        "validate": "Check requests and other documents, and explain codes.",
        "run": "Run the daemon in the foreground.",
        "cancel": "Stop a waiting or running request.",
        "agent": "Run, list, show, stop and connect agents.",
        "project": "Add, list and remove projects, and undo changes to them.",
        "tools": "Add, list, test and remove MCP tool servers.",
    },
    "Decide": {
        "review": "Walk through all drafts and decide on each.",
        "approve": "Read a request and sign what it still needs.",
        "reject": "Refuse drafts, with a reason for the agent.",
        "request-changes": "Ask an agent to change its draft.",
        "grant": "Make, list, show and revoke standing grants.",
        "contracts": "Check and test contracts, decide calls, and end sessions.",
    },
    "Look": {
        "status": "Show what is waiting and running, and who must act.",
        "show": "Show everything known about one request.",
        "audit": "Show, verify, prove and export what happened.",
    },
    "Set up": {
        "init": "Make a workspace: folders, settings, key and first operator.",
        "operator": "Add, list and revoke the people who can approve.",
        "settings": "Check, show and write settings, and install the service.",
        "serve": "Serve the gates, the operator's page, or other workspaces.",
        "doctor": "Check and measure what is enforced on this machine.",
    },
}
"""By panel, the nouns and what they are for. A noun of the core such as `audit` is in `cli/audit_command.py`: a
function of this name (`_` for `-`), whose help begins with the line here, or `app` with its verbs.
"""
_SAYS: Final = {noun: says for nouns in PANELS.values() for noun, says in nouns.items()}
_Given = typer.Typer | Callable[..., Any]

ADDED: Final = Place[_Given]("commands")
"""What plugins add, by path: all verbs of a noun ("agent"), or one ("serve page"), which may have verbs of its own. A
path such as "validate --as proposal" is what an option of a core command does.
"""


class Command(TyperCommand):
    """A command whose help shows its examples unwrapped."""

    def examples(self) -> list[str]:
        """The command lines of the help's last paragraph, `Example: …` or `Examples: …`."""
        *_, last = (self.help or "").split("\n\n")
        label, _, lines = last.partition(":")
        return [line.strip() for line in lines.splitlines()] if label in ("Example", "Examples") else []

    def format_help_text(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write what the command does; \\b keeps the lines of the next paragraph."""
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text((self.help or "").replace("\n\nExample", "\n\n\b\nExample"))


class _Group(TyperGroup):
    """Commands; the error for an unknown one says which was probably meant."""

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        """The command of the first word. Raises the error of wrong usage."""
        if args and not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), 2, 0.65)
            near = [f"{ctx.command_path} {name}" for name in near] or self.elsewhere(ctx, args[0])
            lines = [f"{line} {shlex.join(args[1:])}".strip() for line in near]
            hint = f"; did you mean: {', or '.join(lines)}" if near else "."
            ctx.fail(f"No such command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def elsewhere(self, ctx: typer.Context, word: str) -> list[str]:
        """Commands of this name in other groups."""
        return []


class Noun(_Group):
    """A noun with its verbs."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Those of the core come first."""
        return [*self.commands, *self._added(ctx)]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> TyperCommand | TyperGroup | None:  # type: ignore[override]
        """The command of a verb. Raises as `refuse_unusable` for one of a plugin that is not here."""
        found: Any = self.commands.get(cmd_name) or self._added(ctx).get(cmd_name)
        if found is None and not ctx.resilient_parsing:  # completing a line never fails
            refuse_unusable(f"{self.name} {cmd_name}", off_in(_workspace_of(ctx)))
        return cast(TyperCommand | TyperGroup | None, found)

    def _added(self, ctx: typer.Context) -> dict[str, TyperCommand | TyperGroup]:
        off = off_in(_workspace_of(ctx))
        found: dict[str, TyperCommand | TyperGroup] = {}
        for path, plugin in ADDED.names().items():
            noun, _, verb = path.partition(" ")
            if noun == self.name and plugin.name not in off:
                command = _built(ADDED.named(path), verb or noun)
                found |= {verb: command} if verb else cast(Any, command).commands
        return found


class Root(_Group):
    """`threegate`: the nouns."""

    def elsewhere(self, ctx: typer.Context, word: str) -> list[str]:
        """The nouns that have a verb of this name. Only a wrong word is worth importing them all."""
        nouns = {noun: cast(Any, self.get_command(ctx, noun)) for noun in self.list_commands(ctx)}
        groups = {noun: found for noun, found in nouns.items() if isinstance(found, Noun)}
        return [
            f"{ctx.command_path} {noun} {word}" for noun, group in groups.items() if word in group.list_commands(ctx)
        ]

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """The nouns that can do something here."""
        off = off_in(_workspace_of(ctx))
        usable = {path.partition(" ")[0] for path, plugin in ADDED.names().items() if plugin.name not in off}
        return [noun for noun in _SAYS if noun in usable or _in_core(noun)]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> TyperCommand | TyperGroup | None:  # type: ignore[override]
        """Import the noun's module. Raises as `refuse_unusable` if nothing of it is here."""
        if cmd_name not in _SAYS:
            return None
        if not _in_core(cmd_name):
            if cmd_name not in self.list_commands(ctx) and not ctx.resilient_parsing:
                refuse_unusable(cmd_name, off_in(_workspace_of(ctx)))
            return _built(typer.Typer(), cmd_name)
        module = importlib.import_module(_module_of(cmd_name))
        return _built(getattr(module, "app", None) or getattr(module, cmd_name.replace("-", "_")), cmd_name)

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the panels; no module of a command is imported for it."""
        listed = self.list_commands(ctx)
        width = max(map(len, listed))
        for panel, nouns in PANELS.items():
            if rows := [(noun.ljust(width), says) for noun, says in nouns.items() if noun in listed]:
                with formatter.section(panel):
                    formatter.write_dl(rows)


def refuse_unusable(path: str, off: tuple[str, ...]) -> None:
    """Raises Unavailable if a plugin that gives this path, or something below it, is absent, WrongUsage
    if it is off.
    """
    for place, plugin in ADDED.listed().items():
        if not (f"{place} ".startswith(f"{path} ") or f"{path} ".startswith(f"{place} ")):
            continue
        if plugin.name in off:
            raise WrongUsage(f"{place} is a command of the plugin {plugin.name}, which {OFF}")
        if (absent := plugin.why_absent()) is not None:
            raise Unavailable(absent)


def off_in(workspace: str) -> tuple[str, ...]:
    """The plugins that are off there: none without a workspace, or with settings that the command itself refuses."""
    try:
        return find_workspace(explicit=workspace or None).load_settings().plugins.off
    except (ThreeGateError, OSError):
        return ()


def _workspace_of(ctx: typer.Context) -> str:
    """The value of --workspace; the root's callback, which keeps it, runs later."""
    return str(ctx.find_root().params.get("workspace") or "")


def _in_core(noun: str) -> bool:
    return importlib.util.find_spec(_module_of(noun)) is not None


def _module_of(noun: str) -> str:
    """Where a noun of the core is."""
    return f"threegate.cli.{noun.replace('-', '_')}_command"


def _built(given: _Given, name: str) -> TyperCommand | TyperGroup:
    """The command of a function, or the group of an application."""
    if isinstance(given, typer.Typer):
        _plain(given)
        given.info.cls, given.info.help = Noun, given.info.help or _SAYS.get(name)
        given.info.no_args_is_help = True
        built: TyperCommand | TyperGroup = typer.main.get_group(given)
    else:
        alone = typer.Typer()
        alone.command(name)(given)
        _plain(alone)
        built = cast(TyperCommand, typer.main.get_command(alone))
    built.name = name
    return built


def _plain(app: typer.Typer) -> None:
    """Plain text, in which [HOST] is not markup; and completion is an option of the whole command only."""
    app.rich_markup_mode, app._add_completion = None, False
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _plain(group.typer_instance)


def given_by_plugin(path: str) -> Callable[..., Any]:
    """What an option of a core command does that a plugin gives. Raises as `refuse_unusable`."""
    refuse_unusable(path, off_in(ROOT.workspace))
    if path not in ADDED.names():
        raise WrongUsage(f"{path}: no plugin of this installation has this")
    return ADDED.named(path)
