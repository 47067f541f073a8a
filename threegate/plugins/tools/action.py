"""The action of an mcp request: a tool of a server is called. First as the request says it, then with what the pinned
manifest says of the server.

Invariant: a Job has the second form only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from threegate.core import canonical, limits
from threegate.core.screen_parts import LIMIT, Fact, Field, Item, Note, Quote
from threegate.request.action import NO_CODE, Action, ActionText, Category, Risk, fenced, sha256_of
from threegate.request.exposure import NETWORK_REACHED, SECRETS_REACHED, Exposure, Input

CALLERS_REACH: Final = "whatever the program may that asks for the call: the function runs in that process"
"""What a function of a caller reaches."""


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """A call that the process of a stateful server was sent before."""

    request_id: str
    tool: str
    """Its name at the server."""
    arguments: str
    """In canonical form, shortened."""
    status: str
    """How the request ended; ``running`` while it does."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """What the process of a stateful server has done for the requester. All empty: the call starts a new one."""

    process: str = ""
    """A random name that no other process has."""
    count: int = 0
    """Calls since it started."""
    calls: tuple[EarlierCall, ...] = ()
    """The newest of them, at most TOOLS_EARLIER_CALLS, in their order."""

    def to_json(self) -> dict[str, Any]:
        """As the Job and the daemon's list of processes have it."""
        calls = [{name: getattr(call, name) for name in EarlierCall.__slots__} for call in self.calls]
        return {"process": self.process, "count": self.count, "calls": calls}


@dataclass(frozen=True, slots=True)
class JobServer:
    """Where an mcp request's server runs and what it can reach there, as its manifest says; in words for a screen."""

    place: str
    """``jail``, ``era``, ``host`` or ``remote``; ``caller``: its tools are functions of the program that asks."""
    argv: tuple[str, ...]
    hosts: tuple[str, ...]
    binds: tuple[str, ...]
    """Folders of the machine, each as ``/path (read-only)`` or ``/path (may be written)``."""
    secrets: tuple[str, ...]
    """Names of the secrets that it is given."""
    account: str = ""
    """The account that it runs as; empty: the daemon's own."""
    state: ServerState | None = None
    """What earlier calls may have left in its process; None for a server that has a fresh process for each call."""
    image: str = ""
    """The image of a server in a container, by its digest."""
    url: str = ""
    """Of a server elsewhere."""

    def reach(self) -> Iterator[str]:
        """What it reaches, in the words of a card."""
        yield from (f"{NETWORK_REACHED}{host} (the server)" for host in self.hosts)
        yield from (f"folder {item}" for item in self.binds)
        yield from (f"{SECRETS_REACHED}{name}" for name in self.secrets)
        if self.place == "caller":
            yield CALLERS_REACH
        if self.url:
            yield f"code at {self.url}, which can change unseen"
        if self.place == "host":
            yield "whatever its account may on this machine: the server runs in no sandbox"

    def meaning(self) -> dict[str, Any]:
        """As the Job has it."""
        lists = {name: list(getattr(self, name)) for name in ("argv", "hosts", "binds", "secrets")}
        state = {} if self.state is None else {"state": self.state.to_json()}
        image = {"image": self.image} if self.image else {}
        url = {"url": self.url} if self.url else {}
        return {"place": self.place, "account": self.account, **lists, **state, **image, **url}


@dataclass(frozen=True, slots=True)
class ToolCall(Action):
    """One tool of one server is called as it was pinned, with the arguments as canonical JSON. What each member is for
    is said in `request/action.py`.
    """

    runs_code: ClassVar[bool] = False
    grouped: ClassVar[bool] = True
    never_granted: ClassVar[str] = ""
    least_category: ClassVar[Category] = "private_read"
    own_tool: ClassVar[bool] = True
    open_part: ClassVar[str] = "arguments"
    never_replayed: ClassVar[str] = "called a tool; calls are not repeated for comparison"
    server: str
    tool: str
    """Its name at the server."""
    manifest_sha256: str
    """The digest of the manifest under which the caller saw the tool."""
    arguments_json: str
    """One object, in the form of RFC 8785."""

    @property
    def name(self) -> str:
        """The tool as contracts name it."""
        return f"{self.server}.{self.tool}"

    @property
    def does(self) -> str:
        return f"calls {self.name}"

    @property
    def called(self) -> str:
        """The tool, and whose it is, in words."""
        return f"{self.tool} of the server {self.server}"

    def arguments(self) -> dict[str, Any]:
        """The arguments as the server gets them."""
        value: dict[str, Any] = canonical.loads_strict(
            self.arguments_json.encode(), max_bytes=limits.TOOL_ARGUMENTS_BYTES
        )
        return value

    def values(self) -> Iterator[tuple[tuple[str | int, ...], Any]]:
        """Each leaf; an empty object or list is one."""
        return _leaves(self.arguments())

    def parts(self) -> Mapping[str, Any]:
        return {"call": self}

    def keys(self) -> Mapping[str, str]:
        return {"server": self.server, "manifest_sha256": self.manifest_sha256}

    def tool_key(self, tool: str | None) -> str:
        return self.tool

    def tool_named(self, tool: str | None) -> str:
        return self.name

    def risks(self) -> tuple[tuple[Risk, bool, str], ...]:
        """A server is always foreign."""
        return (("medium", True, "it calls a program that is not in the request"),)

    def without_open(self) -> ToolCall:
        return replace(self, arguments_json="")

    def texts(self) -> tuple[ActionText, ...]:
        return (ActionText("call", self.arguments_json),)

    def body(self, inputs: Sequence[Input]) -> Iterator[str]:
        yield from ("## Arguments (JSON)", "", *fenced(self.arguments_json, "json"))

    def exposure(self, workdir: str, inputs: Sequence[Input]) -> Exposure:
        why = "the call is on the screen; its server is one that was added"
        return Exposure("transparent", why, (), (f"the tool {self.called}",))

    def meaning(self) -> dict[str, Any]:
        facts = {name: getattr(self, name) for name in ("server", "tool", "manifest_sha256")}
        return {**NO_CODE, "call": {**facts, "arguments_sha256": sha256_of(self.arguments_json)}}

    def gate_arguments(self, workdir: str, shared: Mapping[str, Any]) -> dict[str, Any]:
        return self.arguments()

    def names(self) -> Iterator[Item]:
        """The call with its full arguments, as they are sent, laid out for reading."""
        yield Field("calls", self.called)
        if self.arguments_json == "{}":
            yield Note("without arguments")
        else:
            laid_out = json.dumps(json.loads(self.arguments_json), indent=2, ensure_ascii=False)
            head = f"the arguments, {len(self.arguments_json)} characters:"
            yield Quote(laid_out, head, None, "the arguments")

    def may_change(self, project: str | None) -> bool:
        return True

    @property
    def stateful(self) -> bool:
        """Only `BoundCall` knows its server's state."""
        return False

    def digests(self) -> Iterator[Item]:
        yield Field("manifest", self.manifest_sha256)

    @property
    def sends_out(self) -> bool:
        """As long as nothing is known of its server."""
        return True

    def bound(self, host: JobServer) -> BoundCall:
        """The same with what the manifest says of the server."""
        return BoundCall(self.server, self.tool, self.manifest_sha256, self.arguments_json, host)


@dataclass(frozen=True, slots=True)
class BoundCall(ToolCall):
    """A call, and what makes it."""

    host: JobServer

    @property
    def called(self) -> str:
        owner = f"the program that asks ({self.server})" if self.by_caller else f"the server {self.server}"
        return f"{self.tool} of {owner}"

    def names(self) -> Iterator[Item]:
        yield from ToolCall.names(self)
        if self.host.state is not None:
            yield from _state_items(self.host.state)

    def walls(self) -> Iterator[Item]:
        host = self.host
        if self.by_caller:
            yield Fact("called by", "the program that asks for it, in its own process; its code is not pinned")
            return
        if host.url:
            yield Field("server at", host.url, LIMIT)
            return
        yield Fact("server in", host.place)
        if host.image:
            yield Fact("server image", host.image)
        account = "nobody, in its container" if host.image else host.account or "the daemon's own account"
        yield Field("server as", account)
        yield Field("server", "\n".join(host.argv), LIMIT)

    @property
    def in_container(self) -> bool:
        return bool(self.host.image)

    @property
    def by_caller(self) -> bool:
        """Whether the program that asks for the call makes it."""
        return self.host.place == "caller"

    @property
    def stateful(self) -> bool:
        """Whether earlier calls may have left something in the server's process."""
        return self.host.state is not None

    @property
    def sends_out(self) -> bool:
        """Whether its server could send data anywhere: it has hosts, or no sandbox."""
        return bool(self.host.hosts) or self.host.place not in ("jail", "era")

    def exposure(self, workdir: str, inputs: Sequence[Input]) -> Exposure:
        found = ToolCall.exposure(self, workdir, inputs)
        if self.by_caller:
            why = "the call is on the screen; the function is its program's own, and its code is not pinned"
            found = replace(found, why=why, reach=(f"the function {self.called}",))
        return found.reaching(self.host.reach())

    def meaning(self) -> dict[str, Any]:
        return {**ToolCall.meaning(self), "server": self.host.meaning()}

    def why_other(self) -> tuple[str, str]:
        """Bytes and policy are the signed ones, and so is the manifest, which the bytes name: the state is left."""
        if not self.stateful:
            return ToolCall.why_other(self)
        return (
            "state_changed",
            "its server was called, or its process ended, since it was signed; ask for the call again",
        )

    def without_state(self, meaning: dict[str, Any]) -> dict[str, Any]:
        """That the server is stateful stays."""
        return {**meaning, "server": {**meaning["server"], "state": None}} if self.stateful else meaning


def _state_items(state: ServerState) -> Iterator[Item]:
    """The state a call will find: what the server's process was called with before, by the same requester."""
    if not state.count:
        yield Fact("state", "none: this call starts a fresh process of the server")
        return
    calls = "1 call" if state.count == 1 else f"{state.count} calls"
    last = f", the last {len(state.calls)}" if state.count > len(state.calls) else ""
    yield Fact("state", f"what {calls} left in the process {state.process}{last}:")
    for call in state.calls:
        yield Field("before", f"{call.tool} {call.arguments}\n{call.status}, {call.request_id}")


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The values that are not a non-empty object or list, with the names and indexes that lead to them."""
    if not value or not isinstance(value, (dict, list)):
        yield path, value
        return
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _leaves(item, (*path, name))
