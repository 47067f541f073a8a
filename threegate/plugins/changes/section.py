"""The sections [project], [apply] and [agents] of threegate.toml.

Invariant: it imports nothing heavy, because every command may read it. [agents] is here because a change of what is
protected is refused at every launch, whether or not agents are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

from threegate.core import limits
from threegate.core.settings import Section, parse_duration
from threegate.core.toml_table import Table, setting


class ProjectSettings(Table):
    """The project that file, git and shell proposals speak of."""

    root: str = setting(default="", description="absolute path of the project; empty: such proposals make no drafts")


class ApplySettings(Table):
    """Changes of projects (docs/projects.md)."""

    keep: int = setting(
        parse=parse_duration,
        default=30 * 24 * 3600,
        description="how long what a change replaced is kept for `threegate project undo ID`; `audit prune` leaves it "
        "alone until then",
    )


AGENT_NAME = r"[a-z][a-z0-9-]{0,31}"
"""The name of a profile; it is part of names of folders."""


CHOSEN_TOOL = r"[A-Za-z][A-Za-z0-9_-]{0,63}(/[A-Za-z0-9_.*-]{1,64})?"
"""A server, or some of its tools; ``*`` is any text."""


class AgentSettings(Table):
    """What an operator changes of a profile of agents, or a profile of their own (docs/agents.md)."""

    profile: str = setting(
        default="",
        pattern=rf"({AGENT_NAME})?",
        description="profile that it starts from; empty: the one of this name, or generic",
    )
    program: str = setting(default="", description="the agent's program: a name on PATH, or an absolute path")
    args: tuple[str, ...] = setting(default=(), description="arguments before those of the command line")
    environment: dict[str, str] = setting(
        default={}, description="variables in the jail, added to the profile's; no secret belongs here"
    )
    protocol: Literal["", "responses", "chat", "messages", "gemini"] = setting(
        default="", description="how it talks to its model; empty: the profile's"
    )
    url: str = setting(
        default="",
        pattern=r"(https://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?|http://(127\.0\.0\.1|localhost)(:[0-9]{1,5})?)?(/[A-Za-z0-9._~/-]{0,200})?",
        description="the model's endpoint, without /v1; http only on loopback; empty: the profile's",
    )
    models: tuple[str, ...] = setting(
        default=(),
        pattern=r"[A-Za-z0-9._:/@-]{1,128}",
        description="models it may ask for, the usual one first; empty: the profile's",
    )
    key: str = setting(
        default="", description="name of the secret (`secrets.NAME`) with the endpoint's key; it never enters the jail"
    )
    login: str = setting(
        default="",
        pattern=r"(/[^\x00-\x1f]{1,1000})?",
        description="instead of `key`: absolute path of the folder with a login of the agent's own program, for Codex "
        "a `CODEX_HOME` after `codex login`; it is read and never changed",
    )
    requests: int = setting(default=2000, ge=1, description="requests to the model that one run may make")
    megabytes: int = setting(default=1024, ge=1, description="MiB that one run may send to and get from the model")
    tokens: int = setting(default=0, ge=0, description="tokens that one run may use, as reported, else by size; 0: any")
    memory_mb: int = setting(default=0, ge=0, description="MiB of all its processes, where a cgroup can be had; 0: any")
    processes: int = setting(default=limits.JAIL_PROCESSES, ge=16, description="processes and threads in the jail")
    disk_mb: int = setting(
        default=8192, ge=16, description="MiB on the disk that one run may add: to its copy, home and inbox"
    )
    disk_files: int = setting(default=500_000, ge=100, description="files, folders and links that one run may add")
    wait_sec: int = setting(
        default=0, ge=0, le=3600, description="seconds that an agent's call waits; 0: the profile's"
    )
    tools: tuple[str, ...] = setting(
        default=(),
        pattern=CHOSEN_TOOL,
        description="tools of added servers that it may call, as SERVER or SERVER/TOOL, `*` is any text; empty: all",
    )


def _named_agents(value: dict[str, AgentSettings]) -> None:
    if not all(re.fullmatch(AGENT_NAME, name) for name in value):
        raise ValueError("a name has lower-case letters, digits and hyphens, at most 32")


def _chosen_tools(value: dict[str, tuple[str, ...]]) -> None:
    for words in value.values():
        for word in words:
            if not re.fullmatch(CHOSEN_TOOL, word):
                raise ValueError("a tool is written SERVER, or SERVER/TOOL with * for any text")


class AgentsSettings(Table):
    """Agents that run in a jail (docs/agents.md)."""

    protected: tuple[str, ...] = setting(
        default=(),
        pattern=r"[^\x00-\x1f/][^\x00-\x1f]{0,255}",
        description="names, or paths with a slash, that agents neither see nor change; `*` is any text",
    )
    projects: dict[str, tuple[str, ...]] = setting(
        default={},
        check=_chosen_tools,
        description="tools of added servers that agents may call on a project, by its name; goes before the profile's",
        example='app = ["git", "memory/read_*"]',
    )
    profiles: dict[str, AgentSettings] = setting(
        default={},
        description="agents that run in a jail, by profile",
        check=_named_agents,
        rest=True,
        example='codex = { key = "openai", models = ["gpt-5-codex"] }',
    )


def _model_keys(agents: AgentsSettings) -> Iterator[str]:
    """The keys of models: the launcher of a run reads them."""
    return (profile.key for profile in agents.profiles.values())


PROJECT: Final = Section(ProjectSettings, decides=("root",), bound=("root",))
APPLY: Final = Section(ApplySettings)
AGENTS: Final = Section(AgentsSettings, decides=("protected",), bound=("protected",), not_for_daemons=_model_keys)
