"""threegate.toml: every setting, its safe default, and what it means.

Invariant: a settings file with an unknown key, a wrong type or a value out of range is refused whole; no
setting switches a gate off. `deciding()` is the part that goes into the policy digest of a grant, and `unbound()` into
that of an approval (docs/spec/2-approval.md): a new setting is in both until somebody says by what else it is bound.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from threegate.core import limits
from threegate.core.errors import InvalidInput
from threegate.core.file_names import SETTINGS_FILE
from threegate.core.plugins import PLUGINS, Place, Plugin, plugin_named
from threegate.core.risk_domains import RiskDomain
from threegate.core.toml_table import Rule, Table, WrongValueError, is_table, kinds_of, read_table, setting
from threegate.core.web_origin import parse_origin

_AnyTable = TypeVar("_AnyTable", bound=Table)
_DURATION = re.compile(r"([1-9][0-9]{0,6})(s|m|h|d)")
_DURATION_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(value: object) -> int:
    """``90s``, ``15m``, ``24h``, ``7d`` or a whole number of seconds, in seconds. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, str) and (match := _DURATION.fullmatch(value)):
        return int(match[1]) * _DURATION_SECONDS[match[2]]
    raise ValueError("a duration is a number and a unit: 90s, 15m, 24h or 7d")


def parse_duration_or_never(value: object) -> int:
    """A duration, or ``never`` or 0, which are 0. Raises ValueError."""
    if value == "never" or (value == 0 and not isinstance(value, bool)):
        return 0
    return parse_duration(value)


class WorkspaceSettings(Table):
    """Which workspace this is; written by `threegate init`."""

    id: str = setting(default="", pattern=r"(ws-[0-9a-f]{32})?", description="this workspace's own id, made by init")


class RequestSettings(Table):
    """Gate 1: the maxima and the programs that need no extra look."""

    max_cpu: float = setting(
        default=limits.REQUEST_MAX_CPU, ge=0.05, le=1024, description="highest cpu_limit, in cores"
    )
    max_memory_mb: int = setting(
        default=limits.REQUEST_MAX_MEMORY_MB, ge=8, description="highest memory_limit_mb, in MiB"
    )
    max_time_sec: int = setting(
        default=limits.REQUEST_MAX_TIME_SEC, ge=1, description="highest time_limit_sec, in seconds"
    )
    programs: tuple[str, ...] = setting(
        default=limits.REQUEST_PROGRAMS,
        description="programs that do not raise the effective risk; any other makes it high",
    )


class QuorumSettings(Table):
    """How many operators must sign, by effective risk."""

    low: int = setting(default=1, ge=1, le=16, description="operators that must sign a request of low risk")
    medium: int = setting(default=1, ge=1, le=16, description="the same for medium risk")
    high: int = setting(default=1, ge=1, le=16, description="the same for high risk")


def _origin_or_none(value: str) -> None:
    if value:
        parse_origin(value)


class ApprovalSettings(Table):
    """Gate 2: what makes an approval one."""

    signature: Literal["required", "optional"] = setting(
        default="required",
        description='"optional" lets hand-promoted requests of low risk run unsigned (docs/spec/2-approval.md)',
    )
    ttl: int = setting(
        parse=parse_duration,
        default=86400,
        le=30 * 86400,
        description="how long an approval is valid",
    )
    draft_ttl: int = setting(
        parse=parse_duration_or_never,
        default=7 * 86400,
        le=3650 * 86400,
        description='how long a draft waits for a decision before it is refused; "never" or 0: for ever',
    )
    quorum: QuorumSettings = QuorumSettings()
    passkey_origin: str = setting(
        default="",
        description="where `threegate serve passkeys` is reached, like https://approve.example.org:8443;"
        " a host name used for nothing else (docs/approve-from-elsewhere.md)",
        check=_origin_or_none,
    )


class AanaSettings(Table):
    """Gate 3a: the Agent Action Contract."""

    risk_domain: RiskDomain = setting(default="research", description="risk domain of requests that name none")


class ContractSettings(Table):
    """Gate 3b: the contract language."""

    mode: Literal["enforce", "shadow"] = setting(
        default="enforce", description="shadow records what would be blocked and blocks nothing"
    )
    cost_per_second: float = setting(default=0.0, ge=0, description="cost of one second of runtime, for cost limits")
    permit_timeout_allow: bool = setting(
        default=False,
        description="whether a contract checkpoint's `on_timeout: allow` compiles; silence is not consent",
    )


class MontySettings(Table):
    """The embedded sandbox."""

    workers: int = setting(default=2, ge=1, le=64, description="requests that run at once")


class EraSettings(Table):
    """The sandbox for commands: a container, or without an engine bubblewrap."""

    engine: str = setting(
        default="", description="URL of the engine's socket; empty: DOCKER_HOST or the default socket"
    )
    image: str = setting(
        default="",
        pattern=r"(sha256:[0-9a-f]{64})?",
        description="ERA image by digest; from `threegate settings images`",
    )
    egress_image: str = setting(
        default="",
        pattern=r"(sha256:[0-9a-f]{64})?",
        description="egress proxy image by digest, for network: allowlist",
    )
    runtime: str = setting(
        default="auto",
        pattern=r"[A-Za-z0-9._-]{1,64}",
        description="`auto`: the engine if it answers and has the image, else bubblewrap; `engine`; `bubblewrap`; "
        "or the name of an OCI runtime of the engine (runc, runsc, kata, krun)",
    )
    root: str = setting(
        default="",
        pattern=r"(/[^\x00-\x1f]{0,1000})?",
        description="root file system for bubblewrap, from `threegate settings images --rootfs DIR`; empty: this "
        "machine's /usr",
    )
    parallel: int = setting(default=1, ge=1, le=64, description="ERA runs at once")
    require_readback: bool = setting(
        default=False, description="refuse a run of which a wall cannot be read back on this machine"
    )

    @property
    def oci_runtime(self) -> str:
        """The engine's OCI runtime that is asked for; empty: its default."""
        return "" if self.runtime in ("auto", "engine", "bubblewrap") else self.runtime


class RunnersSettings(Table):
    """Where requests run, and how much of the machine they may take together."""

    memory_budget_mb: int = setting(
        default=0, ge=0, description="memory of all runs together; 0: three quarters of the machine"
    )
    cpu_budget: float = setting(
        default=0.0, ge=0, description="cores of all runs together; 0: as many as the machine has"
    )
    monty: MontySettings = MontySettings()
    era: EraSettings = EraSettings()


class AuditSettings(Table):
    """The trail."""

    checkpoint_every: int = setting(
        default=1000, ge=1, description="events between two trail checkpoints that the daemon signs"
    )


class SecretReference(Table):
    """Where the operator keeps a secret: an environment variable of the daemon, or a file; and for what it is used.

    `method`, `host` and `path` are the one request that the run's proxy adds it to.
    """

    env: str = setting(
        default="", pattern=r"([A-Za-z_][A-Za-z0-9_]*)?", description="the daemon's variable that holds it"
    )
    file: str = setting(default="", description="or the file that holds it")
    method: Literal["GET", "POST", "PATCH", "PUT"] = setting(
        default="POST", description="method of the one request that it is added to"
    )
    host: str = setting(default="api.github.com", pattern=r"[a-z0-9.-]{1,253}", description="host of that request")
    path: str = setting(default="", pattern=r"(/[A-Za-z0-9._/-]{1,500})?", description="path of that request")


class ResultsSettings(Table):
    """What is returned to the requester, besides the result (docs/results.md)."""

    release: Literal["always", "never"] = setting(
        default="always",
        description="whether output files without secrets go to `results/<request_id>/`, 16 MiB a request at most",
    )


def _named_uids(value: dict[str, str]) -> None:
    for uid, name in value.items():
        if not re.fullmatch(r"[0-9]{1,10}", uid) or not name:
            raise ValueError('each line is "uid" = "name"')


SENSITIVITIES: Final = ("public", "internal", "confidential")
"""From the least on."""


def _named_folders(value: dict[str, str]) -> None:
    for folder, sensitivity in value.items():
        if not folder.startswith("/") or os.path.normpath(folder) != folder:
            raise ValueError('each line is "/an/absolute/folder" = "confidential", without ., .. and a / at the end')
        if sensitivity not in SENSITIVITIES:
            raise ValueError(f"the sensitivity of a folder must be one of: {', '.join(SENSITIVITIES)}")


def _listed_plugins(value: tuple[str, ...]) -> None:
    for name in value:
        if plugin_named(name) is None:
            listed = ", ".join(plugin.name for plugin in PLUGINS) or "none"
            raise ValueError(f"there is no plugin {name[:40]!r}; the plugins are: {listed}")


class PluginsSettings(Table):
    """Which plugins are not used (docs/architecture.md, "Plugins")."""

    off: tuple[str, ...] = setting(
        default=(),
        description="plugins of which nothing new is done: their commands are gone and their sections do nothing",
        check=_listed_plugins,
    )


@dataclass(frozen=True, slots=True)
class Section:
    """A table that a plugin has in threegate.toml, under the name by which it offers it."""

    table: type[Table]
    decides: tuple[str, ...] = ()
    """Its names that are part of the policy digest, once they differ from their defaults."""
    bound: tuple[str, ...] = ()
    """Those of `decides` that are not in the digest of an approval: it is bound to them elsewhere, or does not depend
    on them.
    """
    addresses: tuple[str, ...] = ()
    """Its names whose values may contain a secret; only their scheme is printed."""
    not_for_daemons: Callable[[Any], Iterable[str]] = lambda table: ()
    """The secrets (`secrets.NAME`) that it names and a daemon never reads."""


SECTIONS: Final = Place[Section]("settings")

_BOUND_ELSEWHERE: Final = (
    "request.max_cpu",
    "request.max_memory_mb",
    "request.max_time_sec",
    "request.programs",
    "requesters",
    "approval.ttl",
    "approval.passkey_origin",
    "approval.quorum",
    "runners.era.engine",
    "runners.era.require_readback",
    "secrets",
)
"""The core's deciding settings to which an approval is bound in another way; docs/spec/2-approval.md has each way."""


class UnreadSection(Table):
    """The section of an absent plugin: it is there, and nothing of it is known."""


def _read_sections(values: dict[str, object]) -> dict[str, Table]:
    """The sections of plugins, from the tables that no setting of the core has. Raises WrongValueError."""
    read: dict[str, Table] = {}
    for name, given in values.items():
        plugin = SECTIONS.listed().get(name)
        if plugin is None:
            raise WrongValueError((name,), "unknown key", unknown_key=True)
        if given == {}:  # as `init` writes it: every setting is a comment
            continue
        if plugin.why_absent() is not None:
            read[name] = UnreadSection()
            continue
        kind = SECTIONS.named(name).table
        if (table := read_table(kind, given, (name,))) != kind():
            read[name] = table
    return read


class Settings(Table):
    """All settings of a workspace."""

    workspace: WorkspaceSettings = WorkspaceSettings()
    request: RequestSettings = RequestSettings()
    approval: ApprovalSettings = ApprovalSettings()
    requesters: dict[str, str] = setting(
        default={},
        description="uid of a draft's owner = name of the requester",
        check=_named_uids,
        example='"1000" = "core"',
    )
    principals: dict[str, dict[str, str | int | float | bool]] = setting(
        default={},
        description="requester name = attributes that contracts may ask for",
        example='core = { tier = "L2" }',
    )
    folders: dict[str, str] = setting(
        default={},
        description="path of a folder = least data sensitivity of drafts that `threegate draft --input FILE` and the "
        "tools of agents make with files from it",
        check=_named_folders,
        example='"/home/anna/payroll" = "confidential"',
    )
    aana: AanaSettings = AanaSettings()
    contracts: ContractSettings = ContractSettings()
    runners: RunnersSettings = RunnersSettings()
    audit: AuditSettings = AuditSettings()
    secrets: dict[str, SecretReference] = setting(
        default={}, description="operator-side secrets, by name", example='github = { env = "GITHUB_TOKEN" }'
    )
    results: ResultsSettings = ResultsSettings()
    plugins: PluginsSettings = PluginsSettings()
    sections: dict[str, Table] = setting(
        default={}, description="what the sections of plugins change of their defaults", parse=_read_sections, rest=True
    )

    def section(self, table: type[_AnyTable]) -> _AnyTable:
        """A plugin's own section; its defaults if it is not in the file."""
        return next((given for given in self.sections.values() if isinstance(given, table)), table())

    def least_sensitivity(self, files: Iterable[Path]) -> str:
        """The highest sensitivity of the folders that the files are in, where a link is and where it leads; that of
        nothing is public.
        """
        places = [place for file in files for place in (_real(file.parent) / file.name, _real(file))]
        found = [
            sensitivity
            for folder, sensitivity in self.folders.items()
            if any(place.is_relative_to(_real(Path(folder))) for place in places)
        ]
        return max(found, default=SENSITIVITIES[0], key=SENSITIVITIES.index)

    def unread(self) -> dict[str, Plugin]:
        """The sections that are in the file and say nothing, with their plugins, which are absent and not off."""
        listed = SECTIONS.listed()
        return {
            name: listed[name]
            for name, table in self.sections.items()
            if isinstance(table, UnreadSection) and listed[name].name not in self.plugins.off
        }

    def to_json(self) -> dict[str, Any]:
        """All settings as a JSON value, with those of the plugins that are there."""
        sections = {name: self.section(section.table).to_json() for name, section in SECTIONS.all_named().items()}
        return self._core() | sections

    def deciding(self) -> dict[str, Any]:
        """The settings that decide what may run, as a JSON value for the policy digest. Cosmetic ones are left out, and
        a plugin that is off or absent has none.
        """
        whole = self._core()
        for name in ("audit", "plugins", "folders"):  # what the folders raise is in the request itself
            del whole[name]
        whole |= self._deciding_sections()
        del whole["approval"]["draft_ttl"]  # it stops what was not approved
        runners = whole["runners"]
        whole["runners"] = {
            # Image, runtime and root are in each Job that they matter to.
            "era": {key: runners["era"][key] for key in ("engine", "require_readback")},
        }
        return _numbers(whole)  # type: ignore[no-any-return]

    def unbound(self) -> dict[str, Any]:
        """The part of `deciding` that is in nothing else that an approval signs, and that no launch checks with today's
        value.
        """
        whole = self.deciding()
        sections = {name: SECTIONS.named(name).bound for name in self.sections if name in whole}
        bound = [f"{name}.{key}" for name, keys in sections.items() for key in keys]
        for *above, last in (name.split(".") for name in (*_BOUND_ELSEWHERE, *bound)):
            table = whole
            for name in above:
                table = table[name]
            table.pop(last, None)
        return {name: value for name, value in whole.items() if value}

    def _core(self) -> dict[str, Any]:
        """All settings of the core as a JSON value."""
        return super(Settings, self.but(sections={})).to_json()

    def _deciding_sections(self) -> dict[str, Any]:
        found = {}
        listed = SECTIONS.listed()
        for name, table in self.sections.items():
            if listed[name].name in self.plugins.off or isinstance(table, UnreadSection):
                continue
            defaults, values = type(table)().to_json(), table.to_json()
            decides = {key: values[key] for key in SECTIONS.named(name).decides if values[key] != defaults[key]}
            if decides:
                found[name] = decides
        return found


def _real(path: Path) -> Path:
    """Where a path leads; `Path.resolve` raises for links in a circle."""
    return Path(os.path.realpath(path))


def _numbers(value: Any) -> Any:
    """Floats as their shortest text, so that the digest does not depend on a number's rendering."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return value


def parse_settings(data: bytes, path: Path | str = SETTINGS_FILE) -> Settings:
    """Read a settings file's bytes. Raises InvalidInput with file, line and key of the first mistake."""
    if len(data) > limits.SETTINGS_BYTES:
        raise InvalidInput(f"{path}: more than {limits.SETTINGS_BYTES} bytes; make it smaller")
    try:
        text = data.decode("utf-8")
        values = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from None
    except (ValueError, RecursionError) as error:  # ValueError: TOMLDecodeError, or a number of thousands of digits
        raise InvalidInput(f"{path}{_toml_mistake(str(error))}") from None
    try:
        return read_table(Settings, values)
    except WrongValueError as error:
        name, what = ".".join(map(str, error.place)), str(error)
        if error.unknown_key:
            known = [row for row, *_ in setting_rows()]
            what = f"unknown key; remove it or fix its spelling{_nearest_setting(name, known)}"
        raise InvalidInput(f"{path}:{_line_of(text, error.place)}: {name}: {what}") from None


def setting_rows() -> list[tuple[str, Any, Rule]]:
    """Every setting by its path, with its type and its rule, in the order of the file: those of plugins are last."""
    rows = list(_rows(Settings, ""))
    for name, section in SECTIONS.all_named().items():
        rows += _rows(section.table, f"{name}.")
    return rows


def _rows(table: type[Table], prefix: str) -> Iterator[tuple[str, Any, Rule]]:
    kinds = kinds_of(table)
    for name, rule in table.rules.items():
        if is_table(kinds[name]):
            yield from _rows(kinds[name], f"{prefix}{name}.")
        elif rule.rest:
            if prefix:  # at the top: the sections of plugins
                yield prefix.removesuffix("."), kinds[name], rule
        else:
            yield f"{prefix}{name}", kinds[name], rule


def _toml_mistake(said: str) -> str:
    """What the TOML reader says as `:line: what; fix`."""
    match = re.fullmatch(r"(.*) \(at line ([0-9]+), column [0-9]+\)", said)
    what, line = (match[1], f":{match[2]}") if match else (said, "")
    twice = re.fullmatch(r"Cannot declare \((.*?),?\) twice", what)
    if twice is not None:
        table = ".".join(re.findall(r"'([^']*)'", twice[1]))
        return f"{line}: the table [{table}] occurs twice; put all of its keys below the first one"
    return f"{line}: no TOML: {what}; fix this line"


def _nearest_setting(key: str, known: Sequence[str]) -> str:
    """The setting that was probably meant: a table nearly of this name, nearly the same path, or the same word."""
    tables = difflib.get_close_matches(key, {name.partition(".")[0] for name in known}, 1, 0.75)
    close = difflib.get_close_matches(key, known, 1, 0.75)
    word = key.rpartition(".")[2]
    elsewhere = [name for name in known if difflib.get_close_matches(word, [name.rpartition(".")[2]], 1, 0.75)]
    found = (*tables, *close, *elsewhere)
    return f"; did you mean {found[0]}?" if found else ""


def _line_of(text: str, location: tuple[int | str, ...]) -> int:
    """Line of a key, by its last name (a search, good enough for a message)."""
    for name in reversed([str(part) for part in location]):
        pattern = re.compile(rf"^\s*(\[.*\b{re.escape(name)}\b.*\]|[\"']?{re.escape(name)}[\"']?\s*=)")
        for number, line in enumerate(text.splitlines(), start=1):
            if pattern.match(line):
                return number
    return 1
