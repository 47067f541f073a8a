"""The card of a tool server that a person reads before signing: how it runs, what it can reach, and everything it
reports.

Invariant: everything in the manifest is on the card. The server's words are quoted; none of them is taken as fact.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable

from threegate.core.screen_parts import LIMIT, Fact, Field, Item, Listing, Note, Quote, Section
from threegate.plugins.tools.action import CALLERS_REACH
from threegate.plugins.tools.login_card import login_section
from threegate.plugins.tools.manifest import Difference, Manifest, PinnedTool, door_name

CHANGES_UNSEEN = (
    "the code behind this URL can change unseen: the URL and what the server says of itself are signed, what it does "
    "is not"
)
DAEMON_RIGHTS = "runs with the daemon's rights: nothing keeps it from what this account may read, write and reach"


def server_sections(manifest: Manifest) -> list[Section]:
    """The card: first the process, then what it can reach, then the server's own words."""
    tools = [Section(f"TOOL {tool.name}", tuple(_tool(manifest, tool))) for tool in manifest.tools]
    if manifest.place == "caller":
        functions = (Field("name", manifest.server), Fact("runs", runs_where(manifest)))
        return [Section("THE FUNCTIONS", functions), reach_section(manifest), *tools]
    return [
        Section("THE SERVER", tuple(_process(manifest))),
        reach_section(manifest),
        *([login_section(manifest.login)] if manifest.login is not None else []),
        Section("WHAT IT SAYS OF ITSELF (not believed)", tuple(_words(manifest))),
        *tools,
    ]


def reach_section(manifest: Manifest) -> Section:
    """Hosts and folders, depending on the sandbox."""
    return Section("WHAT IT REACHES", tuple(_reach(manifest)))


def tool_claims(tool: PinnedTool, *, of_function: bool = False) -> Section:
    """What a server reports about its own tool, or the file with functions about one of them: foreign words that are
    not believed and decide nothing.
    """
    writer, what = ("its author", "THE FUNCTION") if of_function else ("the server", "ITS TOOL")
    items: list[Item] = [Note(f"written by {writer}; nothing here was checked, and nothing is decided by it")]
    if tool.title:
        items.append(Field("title", tool.title))
    if tool.description:
        items.append(Field("description", tool.description, LIMIT))
    for name, value in sorted((tool.annotations or {}).items()):
        items.append(Field("it claims", f"{name}: {json.dumps(value, ensure_ascii=False)}"))
    return Section(f"WHAT {writer.upper()} SAYS ABOUT {what}", tuple(items))


def difference_section(changed: Iterable[Difference]) -> Section:
    """Differences from what was signed: before, then now."""
    items: list[Item] = []
    for item in changed:
        items.append(Field("changed", item.what))
        items.append(Quote(item.before, "before") if item.before is not None else Note("before: nothing"))
        items.append(Quote(item.after, "now") if item.after is not None else Note("now: nothing"))
    return Section("WHAT CHANGED SINCE IT WAS SIGNED", tuple(items))


def process_kind(manifest: Manifest) -> str:
    """How many calls one process of the server answers."""
    if manifest.url:
        return "none here: each call has a session of its own, and the server may keep what it likes"
    if manifest.stateful:
        return "one for each run of an agent (or account): what a call leaves in it is there for the calls after it"
    return "a fresh one for each call"


def runs_where(manifest: Manifest) -> str:
    """One line on the sandbox of the server."""
    if manifest.url:
        return "elsewhere, behind a URL"
    if manifest.place == "jail":
        account = f" under the account {manifest.account}" if manifest.account else ""
        return f"a jail of its own{account}"
    if manifest.place == "era":
        return "a container of its own, as nobody, with a read-only root and without network"
    if manifest.place == "caller":
        return "in the program that asks for the call: ThreeGate neither starts it nor knows its code"
    if manifest.account:
        return f"on this machine without a jail, under the account {manifest.account}"
    return f"on this machine without a jail; it {DAEMON_RIGHTS}"


def _process(manifest: Manifest) -> Iterable[Item]:
    yield Field("name", manifest.server)
    yield Fact("runs", runs_where(manifest))
    yield Fact("process", process_kind(manifest))
    if manifest.url:
        yield Field("url", manifest.url)
        yield Field("certificate", f"one for {manifest.hosts[0]}, from an authority that this machine trusts")
        yield Field("not pinned", CHANGES_UNSEEN)
        return
    if manifest.image:
        yield Fact("image", manifest.image)
    yield Listing("command", shlex.join(manifest.argv), "the command")
    for name, value in manifest.env.items():
        yield Field("variable", f"{name}={value}")
    for name in manifest.secrets:
        yield Field("secret", f"{name}, from secrets.{name} of the settings")
    for path, digest in manifest.program.items():
        yield Field("program", f"{path} (sha256 {digest[:16]}…)")
    for path in manifest.data:
        yield Field("not pinned", f"{path}: data; what is there may change at any time")


def _reach(manifest: Manifest) -> Iterable[Item]:
    if manifest.place == "caller":
        yield Note(CALLERS_REACH)
        return
    if manifest.url:
        yield Field("host", f"{manifest.hosts[0]}: gets the arguments of each call, and may send them anywhere")
        yield Note("of this machine: nothing")
        return
    for host in manifest.allow:
        yield Field("host", f"{host}: it may send anything there")
    if manifest.place == "host":
        yield Note("network: everything that this machine reaches; --allow holds in a jail only")
    elif not manifest.allow:
        yield Note("network: none")
    for folder in manifest.binds:
        yield Field("folder", f"{folder.path} ({'reads and writes' if folder.writable else 'reads'})")
    if not manifest.binds and manifest.place == "era":
        yield Note("folders: none but its image, read-only, and an empty /tmp")
    if not manifest.binds and manifest.place == "jail":
        yield Note("folders: none but its program, read-only, and an empty /tmp")


def _words(manifest: Manifest) -> Iterable[Item]:
    said = manifest.initialize
    for key in ("serverInfo", "protocolVersion", "capabilities"):
        yield Field(key, _json(said.get(key)))
    if said.get("instructions") is not None:
        yield Quote(str(said["instructions"]), "instructions", None)


def _tool(manifest: Manifest, tool: PinnedTool) -> Iterable[Item]:
    if manifest.place != "caller":  # the door offers none of these
        yield Field("at the door", door_name(manifest.server, tool.name))
    if tool.title is not None:
        yield Field("title", tool.title)
    yield Quote(tool.description or "", "description", None)
    yield Field("arguments", _json(tool.input_schema))
    if tool.output_schema is not None:
        yield Field("result", _json(tool.output_schema))
    if tool.annotations is not None:
        yield Field("claims", _json(tool.annotations))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
