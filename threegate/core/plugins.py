"""The plugins: what is listed here can be turned off in threegate.toml, or its folder deleted, and the rest works on.

A plugin is a folder of `threegate/plugins/`. What it gives to a room of the core is named here, by place; the room has
the `Place`, and nothing of a plugin is imported until that room asks. Nothing is discovered from installed packages
(docs/adr/0013-plugins.md).

Invariant: no other module names a module of a plugin. A plugin of which anything is missing here, be it its folder or
a library that it needs, gives nothing: it is absent.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from threegate.core.errors import Unavailable
from threegate.core.extras import Extra, missing_extra

T = TypeVar("T")

OFF: Final = "is off (plugins.off in threegate.toml)"


@dataclass(frozen=True, slots=True)
class Plugin:
    """One folder of `threegate/plugins/`."""

    name: str
    """Also the name of its folder."""
    says: str
    """What it is for, as part of a sentence."""
    needs: tuple[Extra, ...] = ()
    """The extras without which it is absent."""
    folders: tuple[str, ...] = ()
    """Its folders in tool-exec/ with files that no event announces, whether or not it is on or even there."""
    uses: tuple[str, ...] = ()
    """The plugins whose code it imports; it is absent without them, whether they are on or off."""
    offers: Mapping[str, str] = field(default_factory=dict)
    """What it gives, by place: "module:NAME", the module below the plugin's folder. Where a place takes several things,
    each has a name: "place.name".
    """

    @property
    def package(self) -> str:
        """Its package."""
        return f"threegate.plugins.{self.name}"

    def named(self, place: str) -> list[str]:
        """The names of what it gives at a place where each has one."""
        return [offer.removeprefix(f"{place}.") for offer in self.offers if offer.startswith(f"{place}.")]

    def has_code(self) -> bool:
        """Whether its folder is there."""
        try:
            spec = importlib.util.find_spec(self.package)
        except ModuleNotFoundError:  # not even the folder of plugins
            return False
        return spec is not None and spec.origin is not None  # None: a folder with nothing but Python's caches

    def why_absent(self) -> str | None:
        """What is missing of it on this machine, as one line; None if nothing is."""
        if not self.has_code():
            return f"the plugin {self.name} is not part of this installation"
        for plugin in PLUGINS:
            if plugin.name in self.uses and (absent := plugin.why_absent()) is not None:
                return f"the plugin {self.name} needs another one, and {absent}"
        return missing_extra(f"the plugin {self.name}", *self.needs) if self.needs else None


PLUGINS: tuple[Plugin, ...] = (
    Plugin(
        "agents",
        "coding agents work on a copy of a project, in a jail",
        uses=("changes", "tools"),
        offers={
            "backend.reach": "reach.backend:BACKEND",
            "commands.agent": "agent_command:app",
            "commands.project survey": "survey_command:survey",
            "files": "remove_runs:FILES",
            "kinds": "kinds:KINDS",
            "report": "jail_doctor:agent_lines",
        },
    ),
    Plugin(
        "changes",
        "requests that change a project",
        offers={
            "backend.apply": "apply.backend:BACKEND",
            "commands.project": "project_command:app",
            "files": "kept_originals:FILES",
            "kinds": "kinds:KINDS",
            "needs": "unit:unit_needs",
            "report": "changes_doctor:project_lines",
            "settings.agents": "section:AGENTS",
            "settings.apply": "section:APPLY",
            "settings.project": "section:PROJECT",
            "work": "cut_off_changes:ChangesWork",
        },
    ),
    Plugin(
        "cluster",
        "requests run on other machines",
        needs=("cluster",),
        offers={
            "settings.cluster": "section:SECTION",
            "commands.serve worker": "worker_command:worker",
            "commands.settings cluster": "cluster_command:cluster",
            "commands.operator distribute": "distribute_command:distribute",
            "kinds": "kinds:KINDS",
            "machine": "capacity:MACHINE",
            "needs": "section:unit_needs",
            "report": "cluster_report:report",
        },
    ),
    Plugin(
        "drills",
        "now and then a draft that must not be approved, to practise reading",
        uses=("changes",),  # makes change sets as agents propose them: with the same rules, in the same words
        folders=("drills",),
        offers={
            "settings.drills": "section:SECTION",
            "commands.operator drills": "drill_command:app",
            "kinds": "kinds:KINDS",
            "source": "placed_drill:SOURCE",
            "work": "drill_watch:DrillWatch",
        },
    ),
    Plugin(
        "evidence",
        "what others can check: packs, witnesses, exports, reports",
        uses=("serve",),
        offers={
            "settings.witnesses": "section:WITNESSES",
            "settings.metrics": "section:METRICS",
            "commands.audit export": "export_command:export",
            "commands.audit pack": "evidence_command:pack",
            "commands.audit report": "report_command:report",
            "commands.serve witness": "witness_command:witness",
            "kinds": "kinds:KINDS",
            "work": "daemon_work:EvidenceWork",
            "needs": "section:unit_needs",
        },
    ),
    Plugin(
        "grants",
        "standing grants: a signature that covers several requests",
        uses=("tools",),
        offers={
            "settings.grants": "section:SECTION",
            "commands.grant": "grant_command:app",
            "kinds": "grants_kinds:KINDS",
            "way": "granted:WAY",
            "work": "promotion:Promotion",
        },
    ),
    Plugin(
        "page",
        "the operator's page in a browser, approvals with passkeys, and notices",
        uses=("serve",),
        offers={
            "settings.notify": "section:NOTIFY",
            "commands.operator passkey": "passkey_command:passkey",
            "commands.serve page": "page_command:page",
            "commands.serve passkeys": "serve_approve_command:passkeys",
            "commands.settings notify": "notify_command:notify",
            "work": "notices:Notices",
            "needs": "section:unit_needs",
        },
    ),
    Plugin(
        "proposals",
        "JSON action proposals become drafts",
        uses=("changes",),
        offers={
            "settings.proposals": "section:SECTION",
            "commands.draft --proposal": "proposal_command:draft_proposal",
            "commands.project note": "memory_command:app",
            "commands.validate --as proposal": "proposal_command:validate_proposals",
            "source": "proposal_source:SOURCE",
            "files": "prunable:FILES",
            "prompt": "prompt:PROMPT",
            "form": "proposal_form:FORM",
        },
    ),
    Plugin(
        "serve",
        "the gates over HTTP and MCP",
        uses=("agents",),
        offers={"commands.serve": "serve_command:app"},
    ),
    Plugin(
        "tools",
        "requests that call a tool of an MCP server",
        offers={
            "backend.mcp": "mcp.backend:BACKEND",
            "client": "function_call:draft_function_call",
            "commands.tools": "tools_command:app",
            "kinds": "kinds:KINDS",
            "needs": "unit:unit_needs",
            "report": "tools_doctor:tool_lines",
            "settings.tools": "section:TOOLS",
        },
    ),
    Plugin(
        "tui",
        "`review` and `status --watch` as an application on the terminal",
        needs=("tui",),
        offers={"application": "operator_app:run_operator"},
    ),
)
"""All of them. A new plugin is a folder and an entry here."""


class Place(Generic[T]):
    """Where a room of the core takes what plugins give. The room that asks defines it, with the type of what is
    given.
    """

    def __init__(self, name: str) -> None:
        """`name`: as in `Plugin.offers`."""
        self.name = name

    def plugins(self) -> list[Plugin]:
        """The plugins that offer something here, whether or not they are on; nothing is imported."""
        return [plugin for plugin in PLUGINS if self.name in plugin.offers]

    def listed(self) -> dict[str, Plugin]:
        """The names of what is offered here, where each has one, with their plugins, whether or not these are there;
        nothing is imported.
        """
        return {name: plugin for plugin in PLUGINS for name in plugin.named(self.name)}

    def names(self) -> dict[str, Plugin]:
        """Of `listed` those whose plugins are there to give it; nothing is imported."""
        return {name: plugin for name, plugin in self.listed().items() if plugin.why_absent() is None}

    def named(self, name: str) -> T:
        """What is given under this name. Raises KeyError."""
        plugin = self.listed()[name]
        if plugin.why_absent() is not None:
            raise KeyError(name)
        return Place[T](f"{self.name}.{name}").of(plugin)

    def all_named(self) -> dict[str, T]:
        """What is given here by plugins that are there, by its name."""
        return {name: Place[T](f"{self.name}.{name}").of(plugin) for name, plugin in self.names().items()}

    def of(self, plugin: Plugin) -> T:
        """What the plugin gives here. Its code must be there."""
        module, _, name = plugin.offers[self.name].partition(":")
        given: T = getattr(importlib.import_module(f"{plugin.package}.{module}"), name)
        return given

    def given(self, off: Collection[str] = ()) -> dict[str, T]:
        """What all plugins give here that are neither off nor absent, by the plugin's name."""
        return {
            plugin.name: self.of(plugin)
            for plugin in self.plugins()
            if plugin.name not in off and plugin.why_absent() is None
        }

    def why_unused(self, off: Collection[str]) -> str | None:
        """Which plugin that offers something here is off or absent, as one line; None if none is."""
        for plugin in self.plugins():
            if plugin.name in off:
                return f"the plugin {plugin.name} {OFF}"
            if (absent := plugin.why_absent()) is not None:
                return absent
        return None


def plugin_named(name: str) -> Plugin | None:
    """The listed plugin of this name."""
    return next((plugin for plugin in PLUGINS if plugin.name == name), None)


def require_plugin(what: str, name: str, off: Collection[str]) -> None:
    """Raises Unavailable with one line if the plugin is off or absent, without which there is no `what`."""
    if name in off:
        raise Unavailable(f"{what} needs the plugin {name}, which {OFF}")
    absent = (plugin_named(name) or Plugin(name, "")).why_absent()
    if absent is not None:
        raise Unavailable(f"{what} needs the plugin {name}: {absent}")
