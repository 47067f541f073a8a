"""The systemd unit of a workspace's daemon: service.template, and the values that vary.

Invariant: the unit for Monty alone lets the daemon write only to its workspace and its own state, without
capabilities and network; the unit with ERA allows exactly what the container runner needs, each line with a
reason; the unit of an ordinary user requests nothing that a user manager cannot grant. The permissions for
tool servers' jails are granted only if there are any.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

_TEMPLATE: Final = Path(__file__).with_name("service.template")
"""Its lines are `CONDITIONS|LINE`: a line is in the unit if all of its conditions hold."""
_HOMES = (Path("/home"), Path("/root"), Path("/run/user"))


@dataclass(frozen=True, slots=True)
class UnitNeeds:
    """What a plugin needs of the unit."""

    network: bool = False
    """Whether the daemon itself needs a network for it."""
    reads: tuple[Path, ...] = ()
    """Folders with programs that it starts."""
    writable: tuple[Path, ...] = ()
    """Folders outside of the workspace that the daemon writes to for it."""
    projects: tuple[Path, ...] = ()
    """The same; one that is missing does not keep the daemon from starting."""
    jails: bool = False
    """Whether the daemon creates jails for it."""
    notes: tuple[str, ...] = ()
    """For who installs the unit."""


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """What a unit is generated from; the fields that `UnitNeeds` has too are what all plugins need."""

    version: str
    workspace: Path
    program: tuple[str, ...]
    """The words that start `threegate`, by absolute path."""
    account: str
    """If empty, the user's own service manager starts it."""
    state: Path
    """Where this account stores its state outside the workspace (docs/spec/7-trail-and-results.md)."""
    era: bool
    network: bool
    installed: tuple[Path, ...] = ()
    """The folders from which programs are loaded: the virtual environment, its Python, the package itself."""
    writable: tuple[Path, ...] = ()
    projects: tuple[Path, ...] = ()
    jails: bool = False


def render_unit(facts: UnitFacts) -> str:
    """The text of the unit file."""
    era, own = facts.era and bool(facts.account), not facts.account
    holds = {
        "": True,
        "own": own,
        "system": not own,
        "era": era,
        "monty": not own and not era,
        "narrow": not era,
        "jails": facts.jails,
        "alone": not facts.jails,
        "network": facts.network,
        "offline": not facts.network,
    }
    wide = facts.network or facts.jails or (own and facts.era)
    internet = "AF_UNIX AF_NETLINK AF_INET AF_INET6" if own else "AF_UNIX AF_INET AF_INET6"
    netlink = " AF_NETLINK" if facts.jails and not own else ""
    values = {
        "version": facts.version,
        "workspace": str(facts.workspace).replace("%", "%%"),  # the rest of the line; % is systemd's own escape
        "account": facts.account,
        "start": " ".join(map(_word, (*facts.program, "--workspace", str(facts.workspace), "run"))),
        "state": _word(f"XDG_STATE_HOME={facts.state.parent}"),
        "writable": " ".join(
            # with -, one that is missing does not keep the daemon from starting
            map(_word, [*map(str, (facts.workspace, facts.state, *facts.writable)), *(f"-{p}" for p in facts.projects)])
        ),
        "home": "read-only" if _in_homes(facts) else "yes",
        "families": f"{internet if wide else 'AF_UNIX'}{netlink}",
        "unless_jails": "no" if facts.jails else "yes",
    }
    lines = []
    for line in _TEMPLATE.read_text("utf-8").splitlines():
        conditions, _, text = line.partition("|")
        if all(holds[name] for name in conditions.split()):
            lines.append(Template(text).substitute(values))
    return "\n".join(lines) + "\n"


def _in_homes(facts: UnitFacts) -> bool:
    named = (
        facts.workspace,
        facts.state,
        Path(facts.program[0]),
        *facts.installed,
        *facts.writable,
        *facts.projects,
    )
    # A virtual environment's python is a link to a file outside it: both ends must be visible.
    paths = {*named, *(path.resolve() for path in named)}
    return any(path.is_relative_to(home) for path in paths for home in _HOMES)


def _word(text: str) -> str:
    """A word of a command line or a list, quoted if necessary."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return escaped if escaped == text and not any(char.isspace() or char == "'" for char in text) else f'"{escaped}"'
