"""What is pinned about a tool server: `tool-exec/tools/NAME.json`, whose digest an operator signed and the
trail recorded.

Invariant: the file's bytes are the canonical JSON of the manifest, so its digest is the file's;
`read_manifest` returns only the manifest that the trail recorded last. A server's own words (descriptions,
instructions, annotations) are data in it. Source: docs/tools.md, "Add one in five lines".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from threegate.core import canonical, durable, limits
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.core.record import first_problem
from threegate.core.workspace import Workspace
from threegate.plugins.tools.kinds import manifest_path
from threegate.plugins.tools.remote_login import OAuthLogin, RemoteLogin
from threegate.trail.index import TrailIndex

Place = Literal["jail", "era", "host", "remote", "caller"]
"""Where a server's process runs. ``remote``: elsewhere, behind a URL. ``caller``: there is no server; the tools are
functions of the program that asks for their calls, and it makes a call itself (docs/decisions.md).
"""
SERVER_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""A name that every client and the door accept; a server with any other tool name is refused entirely."""
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")
_SHORTENED: Final = re.compile(rf"_[0-9a-f]{{{limits.DOOR_NAME_DIGEST_CHARS}}}$")
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
IMAGE: Final = re.compile(r"sha256:[0-9a-f]{64}")
"""An image by the digest that the engine uses."""
_INITIALIZE: Final = {"protocolVersion", "capabilities", "serverInfo", "instructions"}
_ONLY_IF_SET: Final = {"stateful", "image", "data", "url", "login"}
_CONFIG: Final = ConfigDict(extra="forbid", hide_input_in_errors=True)
_Absolute = Annotated[str, Field(pattern="^/")]
_T = TypeVar("_T")
_SUFFIX: Final = ".json"
_AGAIN: Final = "restore it, or: threegate tools remove {}, then add the server again"


@dataclass(frozen=True, slots=True)
class PinnedTool:
    """One tool as its server described it; only `name` and the schemas have an effect, the rest is shown."""

    __pydantic_config__ = _CONFIG

    name: Annotated[str, Field(pattern=rf"^{TOOL_NAME.pattern}$")]
    title: str | None
    description: str | None
    input_schema: Mapping[str, Any]
    """JSON Schema of the arguments."""
    output_schema: Mapping[str, Any] | None
    annotations: Mapping[str, Any] | None
    """What the server claims about itself (`readOnlyHint` …): never trusted."""

    def to_data(self) -> dict[str, Any]:
        """As in the manifest; every key is present."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def parse(cls, data: object) -> PinnedTool:
        """Raises ValueError for anything that `to_data` does not produce."""
        return _read(_TOOL, data)


@dataclass(frozen=True, slots=True)
class ServerFolder:
    """A folder of this machine that the server sees at the same path."""

    __pydantic_config__ = _CONFIG

    path: _Absolute
    """Absolute and real."""
    writable: bool = False


@dataclass(frozen=True)
class Manifest:
    """A server, how it is started, and everything it reported about itself when the operator signed."""

    __pydantic_config__ = _CONFIG

    server: Annotated[str, Field(pattern=rf"^{SERVER_NAME.pattern}$")]
    argv: tuple[str, ...]
    """The command line; its first word is an absolute path. Empty for a server at a URL and for functions alone."""
    place: Place
    account: str
    """The account it runs as; if empty, the daemon's own, which is never root."""
    allow: tuple[str, ...]
    """Hosts that it may send anything to (port 443); with `host`, nothing restricts it to these."""
    binds: tuple[ServerFolder, ...]
    env: Mapping[str, str]
    secrets: tuple[str, ...]
    """Variables whose value is the operator's secret of the same name (`secrets.NAME`); never in the manifest."""
    initialize: Mapping[str, Any]
    """From its answer to `initialize`: protocolVersion, capabilities, serverInfo, instructions (None if absent)."""
    tools: tuple[PinnedTool, ...]
    """All pages of its list, in its order."""
    program: Mapping[str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]]
    """Digest of each file or folder that the command line reaches, by real path (`program_tree.program_digests`)."""
    stateful: bool = False
    """One process for each requester, which keeps what calls leave in it; otherwise a new process for each call."""
    image: str = ""
    """For a server in a container, the image by its digest (``sha256:…``): it contains the program; besides it only
    code in the folders of this machine is pinned.
    """
    data: tuple[_Absolute, ...] = ()
    """Files and folders that the command line or the program's folder has and that are not pinned (`--data`), by
    their real path.
    """
    url: str = ""
    """Of a server elsewhere: an https URL, which is reached with the certificate of its host. Nothing of this machine
    belongs to it, and its program cannot be pinned.
    """
    login: RemoteLogin | None = None
    """How a server elsewhere learns who asks; None if it does not."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Where what it is given may go."""
        return (urlsplit(self.url).hostname or "",) if self.url else self.allow

    @property
    def oauth(self) -> OAuthLogin | None:
        """The login by a browser that it wants; None if it wants none."""
        return self.login.oauth if self.login is not None else None

    @cached_property
    def digest(self) -> str:
        """sha256 of the canonical JSON, which is the content of the file."""
        return canonical.sha256_hex(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The file's bytes. Raises ValueError if a server reported something without a canonical form."""
        return canonical.canonical_bytes(self.to_data())

    def tool(self, name: str) -> PinnedTool | None:
        """The tool of this name."""
        return next((tool for tool in self.tools if tool.name == name), None)

    def to_data(self) -> dict[str, Any]:
        """As a JSON value; every key is present, but those of `_ONLY_IF_SET` only if they are set."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values |= {"binds": [asdict(item) for item in self.binds], "tools": [tool.to_data() for tool in self.tools]}
        values["login"] = self.login and self.login.to_data()
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value or name not in _ONLY_IF_SET
        }

    @classmethod
    def parse(cls, data: object) -> Manifest:
        """Raises ValueError for what is not a manifest; whether its form is `to_data`'s shows in its bytes."""
        found = _read(_MANIFEST, data)
        if found.place == "remote":
            _refuse_local(found)
        elif found.place == "caller":
            if found != functions_manifest(found.server, found.tools):
                raise ValueError("functions of a caller have a name, a description and schemas, and nothing else")
        elif found.url or found.login or not found.argv or not found.argv[0].startswith("/"):
            raise ValueError("argv does not start with an absolute path, or there is a URL or a login as well")
        if (found.place == "era") != bool(IMAGE.fullmatch(found.image)):
            raise ValueError("an image must be given by its digest, for a server in a container and for no other")
        if len({tool.name for tool in found.tools}) != len(found.tools):
            raise ValueError("two tools have the same name")
        if found.initialize.keys() != _INITIALIZE:
            raise ValueError(f"the keys of initialize are not {', '.join(sorted(_INITIALIZE))}")
        return found


def _refuse_local(manifest: Manifest) -> None:
    """A server at a URL has nothing of this machine. Raises ValueError."""
    kept = asdict(replace(manifest, tools=()))
    here = ("argv", "account", "allow", "binds", "env", "secrets", "program", "stateful", "data")
    if not manifest.url.startswith("https://") or any(kept[name] for name in here):
        raise ValueError("a server elsewhere has an https URL, and nothing of this machine")


_TOOL: Final = TypeAdapter(PinnedTool)
_MANIFEST: Final = TypeAdapter(Manifest)


def functions_manifest(server: str, tools: tuple[PinnedTool, ...]) -> Manifest:
    """The manifest of functions of a caller: no process, so nothing that one has or reaches."""
    return Manifest(
        server=server,
        argv=(),
        place="caller",
        account="",
        allow=(),
        binds=(),
        env={},
        secrets=(),
        initialize=dict.fromkeys(_INITIALIZE),
        tools=tools,
        program={},
    )


def read_functions(file: Path) -> tuple[PinnedTool, ...]:
    """The tools in a file with functions, in the form of MCP's `tools/list`. Raises InvalidInput."""
    try:
        found = canonical.loads_strict(
            durable.read_named(file, max_bytes=limits.TOOLS_MANIFEST_BYTES), max_bytes=limits.TOOLS_MANIFEST_BYTES
        )
        rows = found.get("tools") if isinstance(found, dict) else found
        if not isinstance(rows, list) or not rows:
            raise ValueError("not a list of tools")
        if len(rows) > limits.TOOLS_PINNED:
            raise ValueError(f"more than {limits.TOOLS_PINNED} tools")
        return tuple(tool_of_list(row) for row in rows)
    except ValueError as error:
        raise InvalidInput(
            f'{file}: {error}; write [{{"name": "…", "description": "…", "inputSchema": {{…}}}}]'
        ) from None


def tool_of_list(row: object) -> PinnedTool:
    """An entry of MCP's `tools/list`. Raises ValueError if it cannot be pinned."""
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        raise ValueError("an entry is not a tool")
    if not TOOL_NAME.fullmatch(row["name"]):
        raise ValueError(f"{row['name'][: limits.TOOLS_WORDS_CHARS]!r} is not a usable name")
    named = {"input_schema": row.get("inputSchema"), "output_schema": row.get("outputSchema")}
    return PinnedTool.parse({name: row.get(name) for name in ("name", "title", "description", "annotations")} | named)


def door_name(server: str, tool: str) -> str:
    """The name of a server's tool at the door: `NAME__tool` in at most DOOR_NAME_CHARS of A-Z a-z 0-9 _ -, which every
    client accepts; other tools with the same one are not offered (`offered_tools`).
    """
    # A plain name is one tool's: its first "__" ends the server's name, and it does not end as a shortened one does.
    plain = f"{server}__{tool}"
    is_split = "__" not in server and not server.endswith("_")
    if is_split and len(plain) <= limits.DOOR_NAME_CHARS and not _ODD.search(tool) and not _SHORTENED.search(tool):
        return plain
    digest = canonical.digest([server, tool])[: limits.DOOR_NAME_DIGEST_CHARS]
    start = f"{server[: limits.DOOR_NAME_SERVER_CHARS]}__{_ODD.sub('_', tool)}"
    return f"{start[: limits.DOOR_NAME_CHARS - limits.DOOR_NAME_DIGEST_CHARS - 1]}_{digest}"


def manifest_name(server: str) -> str:
    """The file's name in tool-exec/tools/."""
    return f"{server}{_SUFFIX}"


def announced_manifests(index: TrailIndex) -> dict[str, str]:
    """The digest of the manifest of each added server, by its name, as the trail announced it last."""
    files = index.files_in("tools").items()
    return {file.removesuffix(_SUFFIX): digest for file, digest in files if file.endswith(_SUFFIX)}


def server_names(index: TrailIndex) -> tuple[str, ...]:
    """The currently added servers, sorted."""
    return tuple(sorted(announced_manifests(index)))


def read_manifest(workspace: Workspace, index: TrailIndex, name: str) -> Manifest:
    """The pinned manifest of an added server; `index` is of the locked trail.

    Raises Refused `tools_unknown` for a server that is not added, `tools_changed` for a file that differs
    from what the trail recorded last; Unavailable if it cannot be read.
    """
    announced = index.files.get(manifest_path(name))
    if announced is None:
        raise Refused("tools_unknown", f"{name}: no such server; see: threegate tools list")
    data = manifest_bytes(workspace, name)
    if data is None or canonical.sha256_hex(data) != announced:
        what = "missing" if data is None else "differs from what the trail recorded"
        raise Refused("tools_changed", f"tools/{manifest_name(name)}: {what}; {_AGAIN.format(name)}")
    return parse_manifest(data)


def manifest_bytes(workspace: Workspace, name: str) -> bytes | None:
    """The file of a server; None if there is none. Raises Unavailable if it cannot be read."""
    file = manifest_name(name)
    try:
        with workspace.hold(workspace.tools) as folder:
            return folder.read(file, max_bytes=limits.TOOLS_MANIFEST_BYTES)[0]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"tools/{file}: cannot be read ({error.strerror or error})") from None


def parse_manifest(data: bytes) -> Manifest:
    """The manifest in a file's bytes. Raises InvalidInput if it is not one, or not in canonical form."""
    try:
        found = Manifest.parse(canonical.loads_strict(data, max_bytes=limits.TOOLS_MANIFEST_BYTES))
        if found.to_bytes() != data:
            raise ValueError("not in canonical form")
    except ValueError as error:
        raise InvalidInput(f"not a manifest of tools: {error}") from None
    return found


def _read(reader: TypeAdapter[_T], data: object) -> _T:
    try:
        return reader.validate_python(data)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. The texts are a server's own: show them as data."""

    what: str
    """`tool NAME`, `tool NAME: description`, `instructions`, `program PATH` and the like."""
    before: str | None
    """JSON; None if it is new."""
    after: str | None
    """JSON; None if it was removed."""


def differences(
    manifest: Manifest,
    *,
    initialize: Mapping[str, Any] | None = None,
    tools: Sequence[PinnedTool] | None = None,
    program: Mapping[str, str] | None = None,
) -> list[Difference]:
    """The differences in the given parts; empty if all are as pinned: nothing pinned is left out but the order of the
    tools. Many servers list them in another one at each start, and the door lists them by name.
    """
    found: list[Difference] = []
    if initialize is not None:
        found += _of(manifest.initialize, initialize, "")
    if tools is not None:
        before = {tool.name: tool.to_data() for tool in manifest.tools}
        after = {tool.name: tool.to_data() for tool in tools}
        for name in dict.fromkeys((*before, *after)):
            if name in before and name in after:
                found += _of(before[name], after[name], f"tool {name}: ")
            else:
                found += _of(
                    {k: v for k, v in before.items() if k == name},
                    {k: v for k, v in after.items() if k == name},
                    "tool ",
                )
    if program is not None:
        found += _of(manifest.program, program, "program ")
    return found


def _of(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str) -> list[Difference]:
    form = canonical.canonical_bytes
    return [
        Difference(
            f"{prefix}{key}", _text(before[key]) if key in before else None, _text(after[key]) if key in after else None
        )
        for key in dict.fromkeys((*before, *after))
        if (key in before) != (key in after) or form(before[key]) != form(after[key])
    ]


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
