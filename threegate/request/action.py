"""What a request asks for: one action, with everything that differs between the kinds. Two kinds are here, the others
in the folders of their plugins.

Invariant: the fields of an action are exactly what its kind of request has, so no field is empty because another
kind has it. What it says of itself to the gates, the Job and a grant depends on its fields alone, and each kind says
it itself: what a gate asks is abstract here, so that no new kind inherits an answer.
"""

from __future__ import annotations

import json
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from threegate.core import canonical, limits
from threegate.request.exposure import Exposure, Input, command_exposure

if TYPE_CHECKING:
    from threegate.core.screen_parts import Item

Risk = Literal["low", "medium", "high"]
Category = Literal["public_read", "private_read", "write"]

NO_CODE: Final[Mapping[str, None]] = {"argv": None, "code_sha256": None, "vars_sha256": None}
"""Every Job names these three."""
_TICKS: Final = re.compile(r"`+")


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


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Action(ABC):
    """What a request asks for."""

    __slots__ = ()
    runs_code: ClassVar[bool]
    """Whether the request's own code runs, with its own cores and memory."""
    grouped: ClassVar[bool]
    """Whether several can be approved together."""
    least_category: ClassVar[Category]
    """The lowest category in which AANA sees it."""
    own_tool: ClassVar[bool]
    """Whether only the contracts of its own tool apply to it: then a tool that has none counts as one that writes,
    and only a setting lets a grant cover that."""
    open_part: ClassVar[str]
    """Its part that a grant may leave open in places; empty for none."""
    never_granted: ClassVar[str]
    """What a grant never covers, if that is all of this kind; otherwise empty."""
    never_replayed: ClassVar[str]
    """Why what it did is not repeated; empty where it may be."""
    undone_by: ClassVar[str] = ""
    """The words of the command that takes its id and reverts what it did; empty if none does."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the command."""
        return ()

    @property
    def program(self) -> str:
        """The program that the command starts."""
        return self.words[0] if self.words else ""

    @property
    def variables(self) -> str:
        """The Inputs (JSON), as they are in the file."""
        return ""

    @property
    def source(self) -> str:
        """The Python code of the request, if its kind has such."""
        return ""

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

    @abstractmethod
    def may_change(self, project: str | None) -> bool:
        """Whether an agent's run with a copy of this project may ask for it."""

    @property
    def alone(self) -> Hashable:
        """What no other run may have before this one's end is recorded; None for nothing."""
        return None

    @property
    @abstractmethod
    def stateful(self) -> bool:
        """Whether what it does depends on what was done before it."""

    @property
    def in_container(self) -> bool:
        """Whether it needs the container engine although its request does not run in a container."""
        return False

    @property
    @abstractmethod
    def sends_out(self) -> bool:
        """Whether what it is given can get anywhere although the request has no network."""

    @abstractmethod
    def risks(self) -> tuple[tuple[Risk, bool, str], ...]:
        """What raises the risk: the level, whether it holds, and why."""

    def why_other(self) -> tuple[str, str]:
        """Code and words of the refusal where the Job is not the signed one although the request is."""
        return "job_changed", "the request means something else today than when it was signed"

    def without_state(self, meaning: dict[str, Any]) -> dict[str, Any]:
        """Its Job's meaning without what was done before it: a grant covers it whatever that was."""
        return meaning

    def names(self) -> Iterator[Item]:
        """What it is done with, if that has a name, as items of a screen."""
        return iter(())

    def card(self) -> Iterator[Item]:
        """What a card says of it."""
        return iter(())

    def walls(self) -> Iterator[Item]:
        """What it is done with, to the last detail."""
        return iter(())

    def digests(self) -> Iterator[Item]:
        """What is identified by a digest."""
        return iter(())

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


class _Code(Action):
    """The request's own code runs in a sandbox. What it does is on the screen, or its exposure says that it is not."""

    __slots__ = ()
    # Each run begins with nothing, in a sandbox that has the request's network only, and changes no project.
    runs_code: ClassVar[bool] = True
    grouped: ClassVar[bool] = True
    least_category: ClassVar[Category] = "public_read"
    own_tool: ClassVar[bool] = False
    never_granted: ClassVar[str] = ""
    never_replayed: ClassVar[str] = ""

    def may_change(self, project: str | None) -> bool:
        return True

    @property
    def stateful(self) -> bool:
        return False

    @property
    def sends_out(self) -> bool:
        return False

    def risks(self) -> tuple[tuple[Risk, bool, str], ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Command(_Code):
    """A command runs in a container, without a shell."""

    open_part: ClassVar[str] = "argv"
    argv: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        return self.argv

    def without_open(self) -> Command:
        """All of its words are compared one by one."""
        return Command(())

    def python(self) -> tuple[str, Callable[[str], Action]] | None:
        words = self.argv
        if len(words) > 2 and words[0] in ("python", "python3") and words[1] == "-c":
            return words[2], lambda code: Command((*words[:2], code, *words[3:]))
        return None

    def replaced(self, old: str, new: str) -> Command:
        return Command(tuple(word.replace(old, new) for word in self.argv))

    def texts(self) -> tuple[ActionText, ...]:
        """The words, one a line."""
        head = f"the command, {len(self.argv)} words, run without a shell:"
        return (ActionText("command", "\n".join(self.argv), head),)

    def body(self, inputs: Sequence[Input]) -> Iterator[str]:
        yield from ("## Command", "", shlex.join(self.argv), "", "## Input Files", "")
        yield from [f"- /in/{item.name} sha256:{item.sha256}" for item in inputs] or ["none"]

    def exposure(self, workdir: str, inputs: Sequence[Input]) -> Exposure:
        return command_exposure(self.argv, workdir, inputs)

    def meaning(self) -> dict[str, Any]:
        return {**NO_CODE, "argv": list(self.argv)}

    def gate_arguments(self, workdir: str, shared: Mapping[str, Any]) -> dict[str, Any]:
        """The words, and the folder in which they run."""
        return {"argv": list(self.argv), "workdir": workdir, **shared}


@dataclass(frozen=True, slots=True)
class Script(_Code):
    """Python code runs in Monty."""

    open_part: ClassVar[str] = "vars"
    code: str
    """The text of the code block, ending with a newline."""
    vars_json: str | None = None
    """The text of the Inputs (JSON) block as it is in the file, if there is one."""

    @property
    def source(self) -> str:
        return self.code

    @property
    def variables(self) -> str:
        return self.vars_json or ""

    def values(self) -> Iterator[tuple[tuple[str | int, ...], Any]]:
        return (((name,), value) for name, value in json.loads(self.variables or "{}").items())

    def without_open(self) -> Script:
        """The code."""
        return Script(self.code)

    def python(self) -> tuple[str, Callable[[str], Action]]:
        return self.code, lambda code: Script(code, self.vars_json)

    def replaced(self, old: str, new: str) -> Script:
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
        yield from ("## Code", "", *fenced(self.code, "python"))
        if self.vars_json is not None:
            yield from ("", "## Inputs (JSON)", "", *fenced(self.vars_json, "json"))

    def exposure(self, workdir: str, inputs: Sequence[Input]) -> Exposure:
        return Exposure("transparent", "the code is in the request")

    def meaning(self) -> dict[str, Any]:
        """Both texts by their sha256."""
        return {**NO_CODE, "code_sha256": sha256_of(self.code), **self._vars_sha256()}

    def gate_arguments(self, workdir: str, shared: Mapping[str, Any]) -> dict[str, Any]:
        """The code's digest, and the object of the Inputs (JSON), {} if there is none."""
        text = self.variables.encode() or b"{}"
        variables = canonical.loads_strict(text, max_bytes=limits.REQUEST_BYTES)
        return {"code_sha256": sha256_of(self.code), "vars": variables, **shared}

    def aana_arguments(self, workdir: str, shared: Mapping[str, Any]) -> dict[str, Any]:
        """Both texts by their digest."""
        return {"code_sha256": sha256_of(self.code), **shared, **self._vars_sha256()}

    def _vars_sha256(self) -> dict[str, str]:
        return {} if self.vars_json is None else {"vars_sha256": sha256_of(self.vars_json)}


def sha256_of(text: str) -> str:
    """The digest of a text as UTF-8."""
    return canonical.sha256_hex(text.encode())


def fenced(text: str, info: str) -> Iterator[str]:
    """A block in a fence that is longer than any row of backticks in it."""
    longest = max((len(row) for row in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"{fence}{info}", text.removesuffix("\n"), fence)
