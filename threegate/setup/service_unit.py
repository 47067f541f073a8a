"""The systemd unit of a workspace's daemon, as text.

Invariant: the unit for Monty alone lets the daemon write only to its workspace and its own state, without
capabilities and network; the unit with ERA allows exactly what the container runner needs, each line with a
reason; the unit of an ordinary user requests nothing that a user manager cannot grant. The permissions for
tool servers' jails are granted only if there are any.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_HOMES = (Path("/home"), Path("/root"), Path("/run/user"))

WATCHDOG_SECONDS = 60
"""A turn of the daemon's loop takes a second; a long one pings as it progresses."""


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
    """What a unit is generated from."""

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
    """Whether notices are sent, runs sent to other machines, or witnesses queried: then the daemon itself
    needs a network.
    """
    installed: tuple[Path, ...] = ()
    """The folders from which the program is loaded: the virtual environment, its Python, the package
    itself.
    """
    writable: tuple[Path, ...] = ()
    """Further folders, from settings that name a file to write."""
    projects: tuple[Path, ...] = ()
    """Folders that plugins change; one that is missing does not keep the daemon from starting."""
    jails: bool = False
    """Whether jails are created below this unit."""


def render_unit(facts: UnitFacts) -> str:
    """The text of the unit file."""
    lines = [
        f"# Written by threegate {facts.version} (threegate service install).",
        "# Your own changes go into a drop-in: systemctl edit NAME",
        "[Unit]",
        f"Description=ThreeGate at {_shown(facts.workspace)}",
        "Documentation=https://github.com/threegate/threegate",
        *(["After=network.target" + (" docker.service" if facts.era else "")] if facts.account else []),
        "",
        "[Service]",
        "Type=notify",
        "NotifyAccess=main",
        *([f"User={facts.account}"] if facts.account else []),
        f"WorkingDirectory={_shown(facts.workspace)}",
        f"ExecStart={' '.join(_word(word) for word in (*facts.program, '--workspace', str(facts.workspace), 'run'))}",
        "ExecReload=/bin/kill -HUP $MAINPID",
        f"WatchdogSec={WATCHDOG_SECONDS}",
        "# Verifying a trail of millions of lines and recovering come before READY.",
        "TimeoutStartSec=10min",
        "TimeoutStopSec=2min",
        "# The daemon ends its own runs; what is left after it is killed.",
        "KillMode=mixed",
        "Restart=on-failure",
        "RestartSec=30",
        "# 2: the settings are not valid; 64: no workspace. A person has to fix that.",
        "RestartPreventExitStatus=2 64",
        "UMask=0077",
        "LimitCORE=0",
        "",
        *(_own(facts) if not facts.account else _era(facts) if facts.era else _monty(facts)),
        "",
        "[Install]",
        f"WantedBy={'multi-user' if facts.account else 'default'}.target",
    ]
    return "\n".join(lines) + "\n"


_BOTH = (
    "NoNewPrivileges=yes",
    "LockPersonality=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "SystemCallArchitectures=native",
    "SystemCallErrorNumber=EPERM",
)


def _namespaces(facts: UnitFacts) -> tuple[str, ...]:
    if not facts.jails:
        return (
            "MemoryDenyWriteExecute=yes",
            "# Each Monty worker gets its own namespaces from `unshare --user --net --ipc`.",
            "RestrictNamespaces=user net ipc",
        )
    return (
        "# Tool servers: each has a jail with all kinds of namespaces, and Node compiles code at run time.",
        "MemoryDenyWriteExecute=no",
        "RestrictNamespaces=no",
    )


def _jail_calls(facts: UnitFacts) -> list[str]:
    return (
        ["# Needed to create a jail, in its own user namespace.", "SystemCallFilter=@mount sethostname"]
        if facts.jails
        else []
    )


def _monty(facts: UnitFacts) -> list[str]:
    families = "AF_UNIX AF_INET AF_INET6" if facts.network or facts.jails else "AF_UNIX"
    families += " AF_NETLINK" if facts.jails else ""
    seen = "no" if facts.jails else "yes"
    writable = [str(path) for path in (facts.workspace, facts.state, *facts.writable)]
    writable += [f"-{path}" for path in facts.projects]  # a missing project does not keep the daemon from starting
    return [
        "# ---- hardening: Monty alone",
        *_BOTH,
        *_namespaces(facts),
        "KeyringMode=private",
        "CapabilityBoundingSet=",
        "AmbientCapabilities=",
        "ProtectSystem=strict",
        f"ReadWritePaths={' '.join(map(_word, writable))}",
        f"ProtectHome={'read-only' if _in_homes(facts) else 'yes'}",
        "PrivateTmp=yes",
        "PrivateMounts=yes",
        "PrivateDevices=yes",
        f"PrivateNetwork={'no' if facts.network else 'yes'}",
        "PrivateIPC=yes",
        *([] if facts.network or facts.jails else ["IPAddressDeny=any"]),
        f"RestrictAddressFamilies={families}",
        *(
            ["# A jail mounts its own /proc, which the kernel allows only to a process that sees a complete one."]
            if facts.jails
            else []
        ),
        f"ProtectKernelTunables={seen}",
        "ProtectKernelModules=yes",
        f"ProtectKernelLogs={seen}",
        "ProtectControlGroups=yes",
        "ProtectClock=yes",
        f"ProtectHostname={seen}",
        "ProtectProc=invisible",
        "RemoveIPC=yes",
        "DevicePolicy=closed",
        "SystemCallFilter=@system-service",
        "SystemCallFilter=~@privileged @resources",
        "# These drop a worker's privileges: unshare, setpriv (capset cannot add any), prlimit.",
        "SystemCallFilter=unshare capset prlimit64 setrlimit",
        *_jail_calls(facts),
        "# PrivateUsers stays off: the owner of a draft names its requester, so uids must be the host's.",
        "PrivateUsers=no",
        "# ProcSubset stays all: setpriv reads /proc/sys/kernel/cap_last_cap.",
        "ProcSubset=all",
    ]


_ERA_CAPABILITIES = (
    ("CAP_CHOWN CAP_FOWNER CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH", "drafts and outputs belong to other users"),
    ("CAP_SYS_ADMIN", "namespaces of Monty workers"),
    ("CAP_SETUID CAP_SETGID CAP_SETPCAP", "each Monty worker is a user of its own without capabilities"),
    ("CAP_KILL CAP_SYS_PTRACE", "ends a run without the engine, and inspects a relay's namespace"),
    ("CAP_SYS_RESOURCE", "limits of a worker that is another user"),
    ("CAP_NET_ADMIN", "the proxy's own routes refuse private addresses"),
)


def _era(facts: UnitFacts) -> list[str]:
    capabilities = [f"# {why}" if odd else words for words, why in _ERA_CAPABILITIES for odd in (True, False)]
    bounded = [line if line.startswith("#") else f"CapabilityBoundingSet={line}" for line in capabilities]
    return [
        "# ---- hardening: with ERA",
        "# Access to the engine's socket is equivalent to root on this machine, and this unit does not "
        "pretend otherwise:",
        "# it limits accidents. No option that gives the daemon its own view of files (ProtectSystem, ReadWritePaths,",
        "# PrivateTmp, ...) is set, because the engine must see the same files at the paths that become /in.",
        *_BOTH,
        *_namespaces(facts),
        "KeyringMode=private",
        *bounded,
        "RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_INET AF_INET6",
        "SystemCallFilter=@system-service @mount @privileged setns unshare",
        "SystemCallFilter=~@clock @cpu-emulation @debug @module @obsolete @raw-io @reboot @swap",
        *_jail_calls(facts),
    ]


def _own(facts: UnitFacts) -> list[str]:
    wide = facts.era or facts.network or facts.jails
    families = "AF_UNIX AF_NETLINK AF_INET AF_INET6" if wide else "AF_UNIX"
    state = _word(f"XDG_STATE_HOME={facts.state.parent}")
    return [
        "# Where the key and the head of this workspace are stored, whatever the manager's environment says.",
        f"Environment={state}",
        "# ---- hardening: a service of an ordinary user",
        "# A user manager can restrict files or network only in a user namespace, in which the owner of a",
        "# draft is no longer the host's user. Everything else that it can restrict is restricted.",
        *_BOTH,
        *_namespaces(facts),
        f"RestrictAddressFamilies={families}",
        "SystemCallFilter=@system-service",
        "SystemCallFilter=~@privileged @resources",
        "SystemCallFilter=unshare capset prlimit64 setrlimit",
        *_jail_calls(facts),
    ]


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


def _shown(path: Path) -> str:
    """A path in a place where systemd takes the rest of the line; % is its own escape."""
    return str(path).replace("%", "%%")


def _word(text: str) -> str:
    """A word of a command line or a list, quoted if necessary."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return escaped if escaped == text and not any(char.isspace() or char == "'" for char in text) else f'"{escaped}"'
