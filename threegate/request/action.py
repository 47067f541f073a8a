"""What a request asks for: one action, of one of four kinds. Each kind answers here what differs between them.

Invariant: the fields of an action are exactly what its kind of request has, so no field is empty because another
kind has it. What an action says of itself to the gates, the Job and a grant is decided by its fields alone.
"""

from __future__ import annotations

import json
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Final, Literal, Protocol, Self

from threegate.core import canonical, limits
from threegate.request.exposure import Exposure, Input, command_exposure

Risk = Literal["low", "medium", "high"]
Category = Literal["public_read", "private_read", "write"]

CHANGE_KINDS: Final = ("add", "modify", "delete", "mode", "type")
"""The kinds of changes, in the order in which they are counted."""

_NO_CODE: Final[Mapping[str, None]] = {"argv": None, "code_sha256": None, "vars_sha256": None}
"""Every Job names these three."""
_TICKS: Final = re.compile(r"`+")


class ComputedChange(Protocol):
    """What the bytes of a change set say about its risk."""

    @property
    def deletions(self) -> int: ...
    @property
    def run_later(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ActionText:
    """A text of an action that a person reads whole: what it is, the line above it, and whether its lines count."""

    label: str
    text: str
    head: str = ""
    """Empty where it is laid out in another way."""
    listing: bool = True

    @property
    def name(self) -> str:
        """As the screen's links name it."""
        return f"the {self.label}"


@dataclass(frozen=True, slots=True)
class Action(ABC):
    """What a request asks for. What is not abstract here is so for code that runs in a sandbox."""

    runs_code: ClassVar[bool] = True
    """Whether the request's own code runs, with its own cores and memory."""
    grouped: ClassVar[bool] = True
    """Whether several can be approved together."""
    least_category: ClassVar[Category] = "public_read"
    """The lowest category in which AANA sees it."""
    own_tool: ClassVar[bool] = False
    """Whether only the contracts of its own tool apply to it: then a tool that has none counts as one that writes,
    and only a setting lets a grant cover that."""
    open_part: ClassVar[str] = ""
    """Its part that a grant may leave open in places."""
    never_granted: ClassVar[str] = ""
    """What a grant never covers, if that is all of this kind."""
    never_replayed: ClassVar[str] = ""
    """Why what it did is not repeated."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the command."""
        return ()

    @property
    def program(self) -> str:
        """The program that the command starts."""
        return ""

    @property
    def variables(self) -> str:
        """The Inputs (JSON), as they are in the file."""
        return ""

    @property
    def source(self) -> str | None:
        """The Python code of the request, if its kind has such."""
        return None

    @property
    def does(self) -> str:
        """What it does where no code of the request's runs, in a few words."""
        return ""

    def arguments(self) -> dict[str, Any]:
        """The arguments of the tool that it calls."""
        return {}

    def values(self) -> Iterator[tuple[tuple[str | int, ...], Any]]:
        """Each value of its Inputs (JSON) or leaf of its arguments, after the names and indexes that lead to it."""
        return iter(())

    def parts(self) -> Mapping[str, Any]:
        """What two requests of the kind are compared by, by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def keys(self) -> Mapping[str, str]:
        """Its front matter keys, after the backend."""
        return {}

    def tool_key(self, tool: str | None) -> str | None:
        """The front matter's `tool` where contracts see `tool`."""
        return tool

    def tool_named(self, tool: str | None) -> str | None:
        """The tool that contracts see where the front matter's `tool` is `tool`."""
        return tool

    def may_change(self, project: str | None) -> bool:
        """Whether an agent's run with a copy of this project may ask for it."""
        return True

    def risks(self, change: ComputedChange | None) -> tuple[tuple[Risk, bool, str], ...]:
        """What raises the risk: the level, whether it holds, and why. `change` is None before the bytes were read."""
        return ()

    def python(self) -> tuple[str, Callable[[str], Action]] | None:
        """The Python code that it runs, if it is in the request, and the action with other code in its place."""
        return None

    def changed(self, **values: Any) -> Self:
        """The same with other values in some fields."""
        return replace(self, **values)

    def replaced(self, old: str, new: str) -> Self:
        """The same with another text in the place of one, wherever the code or command has it."""
        return self

    def aana_arguments(self, workdir: str, shared: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as AANA gets them: what contracts get, but no foreign text that can be long."""
        return self.gate_arguments(workdir, shared)

    @abstractmethod
    def without_open(self) -> Action:
        """The part that is the same in all requests of one shape."""

    @abstractmethod
    def texts(self) -> tuple[ActionText, ...]:
        """What a person reads whole."""

    @abstractmethod
    def body(self, inputs: Sequence[Input]) -> Iterator[str]:
        """The sections of the request's body that are its own, as lines."""

    @abstractmethod
    def exposure(self, workdir: str, inputs: Sequence[Input]) -> Exposure:
        """Whether all of its code is on the screen, and what it reaches besides the request's network."""

    @abstractmethod
    def meaning(self) -> dict[str, Any]:
        """Its part of the Job (docs/spec/2-approval.md)."""

    @abstractmethod
    def gate_arguments(self, workdir: str, shared: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments that contracts see (docs/spec/4-contracts.md). `shared` are those of every run in a sandbox."""


@dataclass(frozen=True, slots=True)
class Command(Action):
    """A command runs in a container, without a shell."""

    open_part: ClassVar[str] = "argv"
    argv: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the command."""
        return self.argv

    @property
    def program(self) -> str:
        """The first word."""
        return self.argv[0]

    def without_open(self) -> Command:
        """All of its words are compared one by one."""
        return Command(())

    def python(self) -> tuple[str, Callable[[str], Action]] | None:
        """The code after ``python3 -c``."""
        words = self.argv
        if len(words) > 2 and words[0] in ("python", "python3") and words[1] == "-c":
            return words[2], lambda code: Command((*words[:2], code, *words[3:]))
        return None

    def replaced(self, old: str, new: str) -> Command:
        """The same with a text replaced in every word."""
        return Command(tuple(word.replace(old, new) for word in self.argv))

    def texts(self) -> tuple[ActionText, ...]:
        """The words, one a line."""
        head = f"the command, {len(self.argv)} words, run without a shell:"
        return (ActionText("command", "\n".join(self.argv), head),)

    def body(self, inputs: Sequence[Input]) -> Iterator[str]:
        """Command and Input Files."""
        yield from ("## Command", "", shlex.join(self.argv), "", "## Input Files", "")
        yield from [f"- /in/{item.name} sha256:{item.sha256}" for item in inputs] or ["none"]

    def exposure(self, workdir: str, inputs: Sequence[Input]) -> Exposure:
        """As the table of programs says."""
        return command_exposure(self.argv, workdir, inputs)

    def meaning(self) -> dict[str, Any]:
        """The words as they are."""
        return {**_NO_CODE, "argv": list(self.argv)}

    def gate_arguments(self, workdir: str, shared: Mapping[str, Any]) -> dict[str, Any]:
        """The words, and the folder in which they run."""
        return {"argv": list(self.argv), "workdir": workdir, **shared}


@dataclass(frozen=True, slots=True)
class Script(Action):
    """Python code runs in Monty."""

    open_part: ClassVar[str] = "vars"
    code: str
    """The text of the code block, ending with a newline."""
    vars_json: str | None = None
    """The text of the Inputs (JSON) block as it is in the file, if there is one."""

    @property
    def source(self) -> str:
        """The text of the code block."""
        return self.code

    @property
    def variables(self) -> str:
        """The text of the Inputs (JSON) block."""
        return self.vars_json or ""

    def values(self) -> Iterator[tuple[tuple[str | int, ...], Any]]:
        """Each value of the Inputs (JSON)."""
        return (((name,), value) for name, value in json.loads(self.variables or "{}").items())

    def without_open(self) -> Script:
        """The code."""
        return Script(self.code)

    def python(self) -> tuple[str, Callable[[str], Action]]:
        """The code block."""
        return self.code, lambda code: Script(code, self.vars_json)

    def replaced(self, old: str, new: str) -> Script:
        """The same with a text replaced in the code."""
        return Script(self.code.replace(old, new), self.vars_json)

    def texts(self) -> tuple[ActionText, ...]:
        """The code, and the Inputs (JSON)."""
        lines = self.code.removesuffix("\n").count("\n") + 1
        code = ActionText("code", self.code, f"the code, {lines} lines:")
        if self.vars_json is None:
            return (code,)
        head = f"the Inputs (JSON), {len(self.vars_json)} characters:"
        return code, ActionText("Inputs", self.vars_json, head, listing=False)

    def body(self, inputs: Sequence[Input]) -> Iterator[str]:
        """Code and Inputs (JSON)."""
        yield from ("## Code", "", *_fenced(self.code, "python"))
        if self.vars_json is not None:
            yield from ("", "## Inputs (JSON)", "", *_fenced(self.vars_json, "json"))

    def exposure(self, workdir: str, inputs: Sequence[Input]) -> Exposure:
        """All of it is on the screen."""
        return Exposure("transparent", "the code is in the request")

    def meaning(self) -> dict[str, Any]:
        """Both texts by their sha256."""
        return {**_NO_CODE, "code_sha256": _sha256(self.code), **self._vars_sha256()}

    def gate_arguments(self, workdir: str, shared: Mapping[str, Any]) -> dict[str, Any]:
        """The code's digest, and the object of the Inputs (JSON), {} if there is none."""
        text = self.variables.encode() or b"{}"
        variables = canonical.loads_strict(text, max_bytes=limits.REQUEST_BYTES)
        return {"code_sha256": _sha256(self.code), "vars": variables, **shared}

    def aana_arguments(self, workdir: str, shared: Mapping[str, Any]) -> dict[str, Any]:
        """Both texts by their digest."""
        return {"code_sha256": _sha256(self.code), **shared, **self._vars_sha256()}

    def _vars_sha256(self) -> dict[str, str]:
        return {} if self.vars_json is None else {"vars_sha256": _sha256(self.vars_json)}


@dataclass(frozen=True, slots=True)
class Changes:
    """An apply request's claims about its change set: the digest of the table, how many of each kind, some of
    the paths.
    """

    sha256: str
    add: int
    modify: int
    delete: int
    mode: int
    type: int
    rows: tuple[tuple[str, str], ...] = ()
    """(kind, path)"""

    def lines(self) -> Iterator[str]:
        """The Changes section's text, without its heading: what `read_changes` reads."""
        yield f"- digest: sha256:{self.sha256}"
        for kind in CHANGE_KINDS:
            yield f"- {kind}: {getattr(self, kind)}"
        if self.rows:
            yield from ("", "```", *(f"{kind:6} {path}" for kind, path in self.rows), "```")


@dataclass(frozen=True, slots=True)
class ProjectChange(Action):
    """A project is changed by the change set in the first input; here are the request's claims about it."""

    runs_code: ClassVar[bool] = False
    grouped: ClassVar[bool] = False
    least_category: ClassVar[Category] = "write"
    never_granted: ClassVar[str] = "a change of a project"
    never_replayed: ClassVar[str] = "changed a project; changes are not repeated for comparison"
    project: str
    """The registered name of the project."""
    changes: Changes

    @property
    def does(self) -> str:
        """Which project is changed."""
        return f"changes the project {self.project}"

    def keys(self) -> Mapping[str, str]:
        """The project's name."""
        return {"project": self.project}

    def tool_named(self, tool: str | None) -> str | None:
        """The tool that contracts see where the front matter's `tool` is `tool`."""
        return tool

    def without_open(self) -> ProjectChange:
        """All of it."""
        return self

    def may_change(self, project: str | None) -> bool:
        """Only the project that the run has a copy of."""
        return self.project == project

    def risks(self, change: ComputedChange | None) -> tuple[tuple[Risk, bool, str], ...]:
        """By the bytes of the change set; before they were read, the request's own claims count."""
        deletes = change.deletions if change else self.changes.delete + self.changes.type
        return (
            ("high", bool(deletes), "it deletes or replaces what is in the project"),
            ("high", bool(change and change.run_later), "it changes files that run later by themselves"),
            ("medium", True, "it changes a project"),
        )

    def texts(self) -> tuple[ActionText, ...]:
        """None of the request's own: the screen shows the files."""
        return ()

    def body(self, inputs: Sequence[Input]) -> Iterator[str]:
        """Changes."""
        yield from ("## Changes", "", *self.changes.lines())

    def exposure(self, workdir: str, inputs: Sequence[Input]) -> Exposure:
        """The files of the project."""
        reach = (f"the files of the project {self.project}",)
        return Exposure("transparent", "a change of files; what of them runs later is counted on the card", (), reach)

    def meaning(self) -> dict[str, Any]:
        """The project's name; what its bytes and the project are is the Job's."""
        return {**_NO_CODE, "project": self.project}

    def gate_arguments(self, workdir: str, shared: Mapping[str, Any]) -> dict[str, Any]:
        """The project's name."""
        return {"project": self.project, **shared}


@dataclass(frozen=True, slots=True)
class ToolCall(Action):
    """One tool of one server is called as it was pinned, with the arguments as canonical JSON."""

    runs_code: ClassVar[bool] = False
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
        """What is called."""
        return f"calls {self.name}"

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
        """The whole call."""
        return {"call": self}

    def keys(self) -> Mapping[str, str]:
        """The server, and its manifest."""
        return {"server": self.server, "manifest_sha256": self.manifest_sha256}

    def tool_key(self, tool: str | None) -> str:
        """The tool's name at the server."""
        return self.tool

    def tool_named(self, tool: str | None) -> str:
        """The tool, with its server."""
        return self.name

    def risks(self, change: ComputedChange | None) -> tuple[tuple[Risk, bool, str], ...]:
        """A server is always foreign."""
        return (("medium", True, "it calls a program that is not in the request"),)

    def without_open(self) -> ToolCall:
        """Which tool of which server, as pinned."""
        return replace(self, arguments_json="")

    def texts(self) -> tuple[ActionText, ...]:
        """The arguments."""
        return (ActionText("call", self.arguments_json),)

    def body(self, inputs: Sequence[Input]) -> Iterator[str]:
        """Arguments (JSON)."""
        yield from ("## Arguments (JSON)", "", *_fenced(self.arguments_json, "json"))

    def exposure(self, workdir: str, inputs: Sequence[Input]) -> Exposure:
        """The tool."""
        reach = (f"the tool {self.tool} of the server {self.server}",)
        return Exposure("transparent", "the call is on the screen; its server is one that was added", (), reach)

    def meaning(self) -> dict[str, Any]:
        """The call with the digest of its arguments."""
        facts = {name: getattr(self, name) for name in ("server", "tool", "manifest_sha256")}
        return {**_NO_CODE, "call": {**facts, "arguments_sha256": _sha256(self.arguments_json)}}

    def gate_arguments(self, workdir: str, shared: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, and nothing besides."""
        return self.arguments()


def _sha256(text: str) -> str:
    return canonical.sha256_hex(text.encode())


def _fenced(text: str, info: str) -> Iterator[str]:
    """A block in a fence that is longer than any row of backticks in it."""
    longest = max((len(row) for row in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"{fence}{info}", text.removesuffix("\n"), fence)


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The values that are not a non-empty object or list, with the names and indexes that lead to them."""
    if not value or not isinstance(value, (dict, list)):
        yield path, value
        return
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _leaves(item, (*path, name))
