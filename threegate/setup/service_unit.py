"""The systemd unit of a workspace's daemon, as text.

Invariant: the unit of Monty alone gives the daemon nothing but its workspace and its own state to write to, no
capability and no network; the unit with ERA leaves exactly what the container runner needs, each line saying why; the unit
of an ordinary user asks for nothing that a user's manager cannot give.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_HOMES = (Path("/home"), Path("/root"), Path("/run/user"))

WATCHDOG_SECONDS = 60
"""A turn of the daemon's loop takes a second; a long one pings as it comes forward."""


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """What a unit is written from."""

    version: str
    workspace: Path
    program: tuple[str, ...]
    """The words that start `threegate`, by absolute path."""
    account: str
    """Empty: the user whose own service manager starts it."""
    state: Path
    """Where this account keeps what belongs outside of the workspace (docs/spec/7-trail-and-results.md)."""
    era: bool
    network: bool
    """Whether notices are sent, runs handed to other machines, or witnesses asked: then the daemon itself needs a network."""
    installed: tuple[Path, ...] = ()
    """The folders that the program is read from: the virtual environment, its Python, the package itself."""
    writable: tuple[Path, ...] = ()
    """Further folders, of settings that name a file to be written."""
    projects: tuple[Path, ...] = ()
    """The projects that this account may change."""


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
        "# 2: the settings do not hold; 64: no workspace. A person has to fix that.",
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
    "MemoryDenyWriteExecute=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "SystemCallArchitectures=native",
    "SystemCallErrorNumber=EPERM",
)


def _monty(facts: UnitFacts) -> list[str]:
    families = "AF_UNIX AF_INET AF_INET6" if facts.network else "AF_UNIX"
    writable = [str(path) for path in (facts.workspace, facts.state, *facts.writable)]
    writable += [
        f"-{path}" for path in facts.projects
    ]  # a project that is gone keeps no daemon from starting
    return [
        "# ---- hardening: Monty alone",
        *_BOTH,
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
        *([] if facts.network else ["IPAddressDeny=any"]),
        f"RestrictAddressFamilies={families}",
        "# Each worker gets namespaces of its own by `unshare --user --net --ipc`.",
        "RestrictNamespaces=user net ipc",
        "ProtectKernelTunables=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelLogs=yes",
        "ProtectControlGroups=yes",
        "ProtectClock=yes",
        "ProtectHostname=yes",
        "ProtectProc=invisible",
        "RemoveIPC=yes",
        "DevicePolicy=closed",
        "SystemCallFilter=@system-service",
        "SystemCallFilter=~@privileged @resources",
        "# What takes a worker's privileges away: unshare, setpriv (capset gives nothing to who has nothing), prlimit.",
        "SystemCallFilter=unshare capset prlimit64 setrlimit",
        "# PrivateUsers stays off: the owner of a draft names its requester, so uids must be the machine's.",
        "PrivateUsers=no",
        "# ProcSubset stays all: setpriv reads /proc/sys/kernel/cap_last_cap.",
        "ProcSubset=all",
    ]


_ERA_CAPABILITIES = (
    ("CAP_CHOWN CAP_FOWNER CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH", "drafts and outputs belong to other users"),
    ("CAP_SYS_ADMIN", "namespaces of Monty workers"),
    ("CAP_SETUID CAP_SETGID CAP_SETPCAP", "each Monty worker is a user of its own without capabilities"),
    ("CAP_KILL CAP_SYS_PTRACE", "ends a run without the engine, and reads a relay's namespace back"),
    ("CAP_SYS_RESOURCE", "limits of a worker that is another user"),
    ("CAP_NET_ADMIN", "the proxy's own routes refuse private addresses"),
)


def _era(facts: UnitFacts) -> list[str]:
    capabilities = [f"# {why}" if odd else words for words, why in _ERA_CAPABILITIES for odd in (True, False)]
    bounded = [line if line.startswith("#") else f"CapabilityBoundingSet={line}" for line in capabilities]
    return [
        "# ---- hardening: with ERA",
        "# Whoever may speak to the engine's socket is root on this machine, so this unit does not pretend otherwise:",
        "# it bounds mistakes. No option that gives the daemon its own view of files (ProtectSystem, ReadWritePaths,",
        "# PrivateTmp, ...) is set: what becomes /in must be what the engine sees at the same path.",
        *_BOTH,
        "KeyringMode=private",
        *bounded,
        "RestrictNamespaces=user net ipc",
        "RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_INET AF_INET6",
        "SystemCallFilter=@system-service @mount @privileged setns unshare",
        "SystemCallFilter=~@clock @cpu-emulation @debug @module @obsolete @raw-io @reboot @swap",
    ]


def _own(facts: UnitFacts) -> list[str]:
    families = "AF_UNIX AF_NETLINK AF_INET AF_INET6" if facts.era or facts.network else "AF_UNIX"
    state = _word(f"XDG_STATE_HOME={facts.state.parent}")
    return [
        "# Where the key and the head of this workspace are kept, whatever the manager's environment says.",
        f"Environment={state}",
        "# ---- hardening: a service of an ordinary user",
        "# A user's manager gives no view of files or network of its own without a user namespace, and in one the owner of a",
        "# draft is not the machine's user any more. What it can take away is taken away.",
        *_BOTH,
        "# Each Monty worker gets namespaces of its own by `unshare --user --net --ipc`.",
        "RestrictNamespaces=user net ipc",
        f"RestrictAddressFamilies={families}",
        "SystemCallFilter=@system-service",
        "SystemCallFilter=~@privileged @resources",
        "SystemCallFilter=unshare capset prlimit64 setrlimit",
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
    # A virtual environment's python is a link out of it: both ends must be seen.
    paths = {*named, *(path.resolve() for path in named)}
    return any(path.is_relative_to(home) for path in paths for home in _HOMES)


def _shown(path: Path) -> str:
    """A path in a place where systemd takes the rest of the line; % is its own escape."""
    return str(path).replace("%", "%%")


def _word(text: str) -> str:
    """A word of a command line or a list, quoted where it must be."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return (
        escaped
        if escaped == text and not any(char.isspace() or char == "'" for char in text)
        else f'"{escaped}"'
    )
