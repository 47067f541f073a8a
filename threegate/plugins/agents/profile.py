"""Profiles of agents: how a program is started in the jail, and which files are written for it.

Invariant: a profile is package data, changed only by the operator's settings. It contains no secret: what an agent uses
as its key is a placeholder that is worthless outside the jail.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import Final, Literal
from urllib.parse import urlsplit

from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.settings import Settings
from threegate.core.toml_table import Table, WrongValueError, read_table
from threegate.plugins.changes.section import AGENT_NAME, AgentSettings, AgentsSettings
from threegate.runners.jail.jail import DOOR, HOME, MODEL_PORT, Bound
from threegate.runners.jail.program_folder import folder_of, interpreter_of

Protocol = Literal["responses", "chat", "messages", "gemini"]
LOOPBACK: Final = ("127.0.0.1", "localhost")
DOOR_ARGV: Final = ("/usr/bin/socat", "-", f"UNIX-CONNECT:{DOOR}")
"""What an agent starts as its MCP server; nothing of ThreeGate has to be in the jail."""


class WrittenFile(Table):
    """A file below the agent's HOME; with `once` it is written only if it does not exist yet."""

    path: str
    text: str
    once: bool = False


class Profile(Table):
    """How one kind of agent is run. Texts are templates: $HOME, $PROJECT, $URL, $MODEL, $INSTRUCTIONS,
    $DOOR_… (`Filled`).
    """

    name: str = ""
    title: str
    program: str
    """A name on PATH or an absolute path; if empty, the program follows `--`."""
    install: str
    """How to install the program, for people."""
    tried: str
    """The version that was tested."""
    protocol: Protocol
    url: str
    """The model's endpoint without /v1; empty if it has no model."""
    models: tuple[str, ...]
    """The models it may use; the first is the default."""
    key_variable: str = ""
    """The variable in which the agent itself looks for the key of `url`."""
    url_variable: str = ""
    """The variable in which the agent itself looks for another endpoint."""
    login_url: str = ""
    """The only endpoint that gets the token of a login of the agent's own program; empty: no such login is used."""
    identity_url: str = ""
    """The host that knows the account of an access token."""
    args: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    files: tuple[WrittenFile, ...] = ()
    wait_sec: int = 45
    """How long a call of the door waits before it answers `pending`: the client's timeout, less a margin."""
    connect_file: str = ""
    """Where people who run it without a jail put `connect`."""
    connect: str = ""
    """Its entry for the MCP server."""
    limits: AgentSettings = AgentSettings()
    """Budgets, and the name of the key."""

    @property
    def host(self) -> str:
        """Host of the endpoint, with its port if one is given; empty without a model."""
        return urlsplit(self.url).netloc

    @property
    def needs_key(self) -> bool:
        """Whether its endpoint needs a key: it is not on loopback, and no login is used."""
        return bool(self.url) and not self.limits.login and urlsplit(self.url).hostname not in LOOPBACK


@dataclass(frozen=True, slots=True)
class Filled:
    """A profile's texts for one run."""

    profile: Profile
    project: str
    instructions: str = ""
    door: tuple[str, ...] = DOOR_ARGV

    def text(self, template: str) -> str:
        """A template with all values filled in. Raises InvalidInput for an unknown name."""
        model = self.profile.models[0] if self.profile.models else ""
        try:
            return Template(template).substitute(
                HOME=HOME,
                PROJECT=self.project,
                PROJECT_JSON=json.dumps(self.project),
                URL=f"http://127.0.0.1:{MODEL_PORT}",
                MODEL=model,
                MODEL_JSON=json.dumps(model),
                INSTRUCTIONS=self.instructions,
                DOOR_COMMAND=json.dumps(self.door[0]),
                DOOR_ARGUMENTS=json.dumps(self.door[1:]),
                DOOR_ARGV=json.dumps(self.door),
            )
        except (KeyError, ValueError) as error:
            raise InvalidInput(
                f"profile {self.profile.name}: {template[:40]!r} is not a valid template ({error})"
            ) from None


@dataclass(frozen=True, slots=True)
class Program:
    """An agent's program and its arguments, as the jail starts it."""

    file: str
    arguments: tuple[str, ...]
    sha256: str
    bound: tuple[Bound, ...]
    """The folders that it needs, read-only, and never the home folder or a folder that contains it."""
    path: tuple[str, ...]
    """Folders for PATH, before the system's."""


def find_program(profile: Profile, arguments: Sequence[str]) -> Program:
    """The program of a profile. Raises InvalidInput, Unavailable with how to install it."""
    words = [profile.program, *arguments] if profile.program else [*arguments]
    if not words:
        raise InvalidInput(f"{profile.name}: no program; {profile.install}")
    name, *rest = words
    place = shutil.which(name)
    if place is None:
        how = f"install it with: {profile.install}" if profile.program else profile.install
        raise Unavailable(f"{name}: {profile.title} is not installed; {how}")
    real = Path(place).resolve()
    interpreter = interpreter_of(real)
    files = [real] if interpreter is None else [real, interpreter]
    with real.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    folders = dict.fromkeys(folder for folder in map(folder_of, files) if folder is not None)
    path = dict.fromkeys(str(file.parent) for file in files)
    return Program(
        str(real),
        tuple(rest),
        digest,
        tuple(Bound(folder, str(folder)) for folder in folders),
        tuple(place for place in path if not place.startswith("/usr/")),
    )


def profile_names(settings: Settings) -> list[str]:
    """The profiles from the package and the settings."""
    packaged = {item.name.removesuffix(".toml") for item in _folder().iterdir() if item.name.endswith(".toml")}
    return sorted(packaged | set(settings.section(AgentsSettings).profiles))


def load_profile(name: str, settings: Settings) -> Profile:
    """A profile with the operator's changes. Raises InvalidInput if there is no such profile."""
    own = settings.section(AgentsSettings).profiles.get(name, AgentSettings())
    base = own.profile or name
    if not re.fullmatch(AGENT_NAME, base) or not (_folder() / f"{base}.toml").is_file():
        if name not in settings.section(AgentsSettings).profiles or own.profile:
            raise InvalidInput(
                f"{base}: no such profile (known: {', '.join(profile_names(settings))}); to run any program: "
                "threegate agent run generic -- PROGRAM"
            )
        base = "generic"
    try:
        packaged = read_table(Profile, tomllib.loads((_folder() / f"{base}.toml").read_text("utf-8")))
    except (WrongValueError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(
            f"profile {base} of the package is broken ({type(error).__name__}); reinstall threegate"
        ) from None
    changes = {  # what is empty in the settings is the profile's
        key: getattr(own, key)
        for key in ("program", "args", "protocol", "url", "models", "wait_sec")
        if getattr(own, key)
    }
    if own.login:
        _refuse_login(name, packaged, own)
        changes["url"] = packaged.login_url
    environment = {**packaged.environment, **own.environment}
    return packaged.but(**changes, name=name, environment=environment, limits=own)


def _refuse_login(name: str, packaged: Profile, own: AgentSettings) -> None:
    """Refuse a login that would go elsewhere, or that is not the agent's. Raises InvalidInput."""
    if not packaged.login_url:
        raise InvalidInput(f"agents.{name}.login: no login of {packaged.title} is used; set agents.{name}.key instead")
    for key in ("key", "url", "protocol"):
        if getattr(own, key):
            raise InvalidInput(
                f"agents.{name}.{key} and agents.{name}.login are both set; a login goes to {packaged.login_url} only: "
                "keep one of the two"
            )


def _folder() -> resources.abc.Traversable:
    return resources.files("threegate.plugins.agents") / "profiles"
